// Floating point errors while a replay calls NumPy.
//
// What becomes of one, the program says (numpy.errstate): mostly a warning, which names the line that stands. In the
// middle of a replay no line does. So what would be told of is raised there, and nobody sees that: CPython does the
// instruction again. What is ignored is ignored.
#pragma once
#include "common/python.h"

namespace pijit::numpy {

// For its life.
class StrictErrors {
 public:
  StrictErrors() noexcept;
  ~StrictErrors();
  StrictErrors(const StrictErrors&) = delete;
  StrictErrors& operator=(const StrictErrors&) = delete;
  bool failed() const noexcept { return failed_; }

 private:
  PyObject* token_ = nullptr;
  bool failed_ = false;
};

// For its life nobody hears of any.
class NoErrors {
 public:
  NoErrors() noexcept;
  ~NoErrors();
  NoErrors(const NoErrors&) = delete;
  NoErrors& operator=(const NoErrors&) = delete;
  bool failed() const noexcept { return token_ == nullptr; }

 private:
  PyObject* token_ = nullptr;
};

// The loops of NumPy have left these flags of the processor, of which some are told of. `flags`: as fetestexcept has
// them.
bool tells_of(int flags) noexcept;

// The program has one raise, or asks to be called or told elsewhere than by a warning.
bool answers_errors() noexcept;

}  // namespace pijit::numpy
