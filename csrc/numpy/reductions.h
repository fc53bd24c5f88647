// Sums, means and extremes of all elements of a small array, by the loop that NumPy's reduction calls.
#pragma once
#include "common/python.h"

namespace pijit::numpy {

class Reduction {
 public:
  // What is called with so many operands, the last of which have these names (null: none).
  Reduction(PyObject* callable, PyObject* names, size_t operands) noexcept;
  bool is_known() const noexcept { return kind_ != Kind::kNone; }
  // The result (new reference). Null without an error: NumPy is to be called.
  PyObject* run(PyObject* const* operands) const noexcept;

 private:
  enum class Kind : uint8_t { kNone, kReduce, kMean, kTruth };

  PyObject* axis_of(PyObject* const* operands) const noexcept;
  PyObject* mean(PyObject* array, PyObject* axis) const noexcept;

  Kind kind_ = Kind::kNone;
  PyObject* ufunc_ = nullptr;  // null: the first operand
  PyObject* names_;
  size_t first_ = 0, count_;  // of the operands: the array, and how many there are
};

}  // namespace pijit::numpy
