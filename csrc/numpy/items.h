// Items, views and stores of an array along its first axis, without what NumPy asks before.
#pragma once
#include <cstddef>

#include "common/python.h"

namespace pijit::numpy {

class Items {
 public:
  // What is called with so many operands and no names: a[b], or a[b] = c.
  Items(PyObject* callable, size_t operands) noexcept;
  bool reads() const noexcept { return kind_ == Kind::kGet; }
  bool writes() const noexcept { return kind_ == Kind::kSet; }
  // a[b] (new reference). Null without an error: NumPy is to be asked.
  PyObject* get(PyObject* array, PyObject* index) const noexcept;
  // a[b] = c. False: NumPy is to be asked, and nothing has changed.
  bool set(PyObject* array, PyObject* index, PyObject* value) const noexcept;

 private:
  enum class Kind : unsigned char { kNone, kGet, kSet };
  Kind kind_ = Kind::kNone;
};

}  // namespace pijit::numpy
