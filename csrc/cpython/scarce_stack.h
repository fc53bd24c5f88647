// How many calls of C that call Python again are allowed where little is left of the C stack.
#pragma once
#include <algorithm>

#include "cpython/internals.h"

namespace pijit::cpython {

// On 3.12 and 3.13 CPython counts such calls, and expects of the C stack that it takes as many as the count. What pijit
// has put on it is not counted, so near its end only as many are allowed as fit. Must nest like C scopes.
class ScarceStack {
 public:
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030e0000
  explicit ScarceStack(PyThreadState* ts) noexcept
      : ts_(ts), withheld_(std::max(0, ts->c_recursion_remaining - kAllowed)) {
    ts->c_recursion_remaining -= withheld_;
  }
  ~ScarceStack() { ts_->c_recursion_remaining += withheld_; }
  ScarceStack(const ScarceStack&) = delete;
  ScarceStack& operator=(const ScarceStack&) = delete;

 private:
  static constexpr int kAllowed = 300;  // an evaluator counts as two, and with the calls around it takes a few KB
  PyThreadState* ts_;
  int withheld_;
#else
  explicit ScarceStack(PyThreadState*) noexcept {}
#endif
};

}  // namespace pijit::cpython
