// A ufunc on numbers and contiguous arrays of one dtype: its loop is called without what NumPy does around it.
#pragma once
#include "numpy/library.h"

namespace pijit::numpy {

class Elementwise {
 public:
  // What the callable computes; a null ufunc: it is none that has loops for one dtype.
  explicit Elementwise(PyObject* callable) noexcept;
  bool is_known() const noexcept { return ufunc_ != nullptr; }
  size_t inputs() const noexcept { return static_cast<size_t>(ufunc_->inputs); }
  // The result (new reference). Null without an error: NumPy is to be called.
  PyObject* run(PyObject* const* operands) const noexcept;

 private:
  const Ufunc* ufunc_ = nullptr;
};

// What such a loop has made becomes the content of an array that was there before; false: that has another form.
bool take_content(PyObject* into, PyObject* made) noexcept;

}  // namespace pijit::numpy
