// How much was done, in steps that do not depend on the machine: for tests of what a recording costs.
//
// What walks over things that there may be many of says how many it looked at; the pool adds what it hands out, so that
// copies of long vectors count. It is cheap enough to stay in every build. Rejected: counting each straight piece of
// code (the compilers' coverage), which needs a build of its own.
//
// The work on one event of a recording has a limit, so that no walk can hold up the program: neither the budget of the
// recording nor Ctrl-C comes in before the event is over. What walks says do_work(), which throws over the limit.
#pragma once
#include <cstdint>
#include <exception>
#include <utility>

namespace pijit {

inline uint64_t work_done = 0;  // of all threads; none of them needs it to be exact

inline void note_work(uint64_t steps = 1) noexcept {
  work_done += steps;
}

// Of `work_done`. Only a thread that holds the GIL has a limit, and does not let go of the GIL meanwhile.
inline uint64_t work_limit = UINT64_MAX;

// What one event of a recording may take: about as long as a whole recording may beside the program (record/pace.h).
inline uint64_t most_work_of_event = uint64_t{1} << 26;

struct TooMuchWork final : std::exception {
  const char* what() const noexcept override { return "an event takes too many steps"; }
};

inline void do_work(uint64_t steps = 1) {
  note_work(steps);
  if (work_done > work_limit) [[unlikely]]
    throw TooMuchWork();
}

// While it lives, so many steps may be done from here on.
class WorkLimit {
 public:
  explicit WorkLimit(uint64_t steps) noexcept : outer_(std::exchange(work_limit, work_done + steps)) {}
  ~WorkLimit() { work_limit = outer_; }
  WorkLimit(const WorkLimit&) = delete;
  WorkLimit& operator=(const WorkLimit&) = delete;

 private:
  uint64_t outer_;
};

}  // namespace pijit
