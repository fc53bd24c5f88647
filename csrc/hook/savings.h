// What calls save, for `python -m pijit --report`: what those took that were replayed or recorded, and what CPython
// takes.
//
// 1. A call counts in full, from the first guard that is tried: traces that do not take it, learning, recording and
//    preparing included. One that CPython runs in the end does not count.
// 2. A call within one that counts does not count again: CPython would have run the whole outer call.
// 3. What CPython takes is known from the plain calls of the ledger's rounds (cache/ledger.h), by the wall clock, since
//    that is what a stopwatch shows. They run without the hook, as in a process without pijit.
#pragma once
#include "cache/root.h"
#include "common/clock.h"
#include "cpython/frame.h"

namespace pijit {

// From now on the calls of roots are timed.
void measure_savings() noexcept;
bool measures_savings() noexcept;

// A call of a root, from its beginning.
class Served {
 public:
  explicit Served(Root& root) noexcept;
  // The call was recorded, or replayed, and counts.
  void ends_recorded() const noexcept;
  void ends_replayed() const noexcept;

 private:
  Root& root_;
  const double start_;  // 0: it is not timed
};

// While it lives, calls of this thread are within one that counts.
class WithinServed {
 public:
  WithinServed() noexcept;
  ~WithinServed();
  WithinServed(const WithinServed&) = delete;
  WithinServed& operator=(const WithinServed&) = delete;

 private:
  const bool outer_;
};

// CPython runs a call of the ledger's rounds.
PyObject* run_compared(Root& root, PyThreadState* ts, cpython::Frame* frame);

}  // namespace pijit
