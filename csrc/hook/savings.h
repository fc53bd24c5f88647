// What calls save, for `python -m pijit --report`: how much less those took that were replayed than they would have in
// CPython, what recordings cost, and what was left to CPython.
//
// 1. A call counts in full, from the first guard that is tried: traces that do not take it, and learning, included.
// 2. A call within one that counts does not count again: CPython would have run the whole outer call. What is replayed
//    within a call that is left to CPython counts for itself, and not for that call.
// 3. All times are the thread's own. What a replayed call would have taken is known from the ledger, which compares
//    like with like (cache/ledger.h): a call's time is multiplied, so that sizes may differ from call to call. The plain
//    calls run without the hook, as in a process without pijit.
// 4. Of a recording that counts which the recorder took beside the call (record/pace.h), and what it did when the call
//    had ended. A first call takes more than others in CPython, too.
// 5. The first kAllTimed calls of a root that are left to CPython are timed; later ones now and then, each for kSome. So
//    are replayed ones that are short: to ask for the time of the thread takes about a microsecond.
#pragma once
#include "cache/root.h"
#include "common/clock.h"
#include "cpython/frame.h"

namespace pijit {

inline constexpr uint64_t kAllTimed = 1024;  // calls of a root

// From now on the calls of roots are timed.
void measure_savings() noexcept;
bool measures_savings() noexcept;

// Seconds that recordings took on this thread so far, beyond what CPython took for the same calls.
void note_recording_cost(double seconds) noexcept;

// A call of a root, from its beginning.
class Served {
 public:
  explicit Served(Root& root) noexcept;
  // The call was recorded, or replayed, and counts.
  void ends_recorded() const noexcept;
  void ends_replayed() const noexcept;

 private:
  static constexpr uint64_t kSome = 13;
  static constexpr double kLong = 1e-4;  // seconds

  Root& root_;
  const bool counts_;
  bool is_timed_ = false;
  uint64_t weight_ = 1;
  double start_ = 0, recording_ = 0;
};

// While it lives, a call that counts is under way on this thread: a call within it does not count again (rule 2).
class WithinServed {
 public:
  WithinServed() noexcept;
  ~WithinServed();
  WithinServed(const WithinServed&) = delete;
  WithinServed& operator=(const WithinServed&) = delete;

 private:
  const bool outer_;
};
// A call that counts is under way on this thread.
bool is_within_served() noexcept;

// A call of a root that is left to CPython, while it lives.
class LeftAlone {
 public:
  explicit LeftAlone(Root& root) noexcept;
  ~LeftAlone();
  LeftAlone(const LeftAlone&) = delete;
  LeftAlone& operator=(const LeftAlone&) = delete;

 private:
  static constexpr uint64_t kSome = 16;

  Root& root_;
  const bool counts_, outer_;
  bool timed_ = false;
  double weight_ = 1, start_ = 0, counted_ = 0;
};

// CPython runs a call of the ledger's rounds.
PyObject* run_compared(Root& root, PyThreadState* ts, cpython::Frame* frame);

}  // namespace pijit
