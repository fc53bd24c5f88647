// An index is a whole number of Python where the array has one dimension, or a slice.
#include "numpy/items.h"

#include <cstring>
#include <string_view>

#include "common/ref.h"
#include "numpy/library.h"

namespace pijit::numpy {
namespace {

bool is_native(const Array& array) noexcept {
  return array.descr->byteorder != '>' && (array.flags & kAligned) != 0;
}

// Where the element is; null: the index is none, or out of bounds.
char* element(const Array& array, PyObject* index) noexcept {
  if (array.nd != 1 || !PyLong_CheckExact(index)) return nullptr;
  Py_ssize_t at = PyLong_AsSsize_t(index);
  if (at == -1 && PyErr_Occurred() != nullptr) return PyErr_Clear(), nullptr;
  if (at < 0) at += array.sizes[0];
  return at < 0 || at >= array.sizes[0] ? nullptr : array.data + at * array.strides[0];
}

bool is_part(PyObject* part) noexcept {
  return part == Py_None || PyLong_CheckExact(part);
}

struct View {
  char* data;
  Py_ssize_t size, stride;
};

// What the slice takes of the first axis.
bool view_of(const Array& array, PyObject* index, View* out) noexcept {
  if (!PySlice_Check(index) || array.nd < 1) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(index);
  if (!is_part(slice->start) || !is_part(slice->stop) || !is_part(slice->step)) return false;
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(index, &start, &stop, &step) != 0) return PyErr_Clear(), false;
  out->size = PySlice_AdjustIndices(array.sizes[0], &start, &stop, step);
  if (out->size == 0) return false;
  out->data = array.data + start * array.strides[0];
  out->stride = array.strides[0] * step;
  return true;
}

}  // namespace

Items::Items(PyObject* callable, size_t operands) noexcept {
  if (!PyCFunction_CheckExact(callable)) return;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  if (module == nullptr || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "_operator") != 0)
    return;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (name == "getitem" && operands == 2) kind_ = Kind::kGet;
  if (name == "setitem" && operands == 3) kind_ = Kind::kSet;
}

PyObject* Items::get(PyObject* object, PyObject* index) const noexcept {
  if (!is_array(object)) return nullptr;
  const Library& numpy = *library();
  const Array& array = *as_array(object);
  auto* descr = reinterpret_cast<PyObject*>(array.descr);
  PyObject* made = nullptr;
  View view{};
  if (char* data = element(array, index)) {
    if (!is_native(array)) return nullptr;
    made = numpy.scalar(data, descr, object);
  } else if (view_of(array, index, &view)) {
    constexpr int kMost = 4;
    if (array.nd > kMost) return nullptr;
    Py_ssize_t sizes[kMost], strides[kMost];
    for (int i = 0; i < array.nd; ++i) {
      sizes[i] = i == 0 ? view.size : array.sizes[i];
      strides[i] = i == 0 ? view.stride : array.strides[i];
    }
    made = numpy.make(numpy.array, new_reference(descr), array.nd, sizes, strides, view.data,
                      array.flags & (kWriteable | kAligned), nullptr);
    if (made != nullptr && numpy.set_base(made, new_reference(object)) != 0) {
      drop_reference(made);
      made = nullptr;
    }
  }
  if (made == nullptr) PyErr_Clear();
  return made;
}

bool Items::set(PyObject* object, PyObject* index, PyObject* value) const noexcept {
  const Array& array = *as_array(object);
  if ((array.flags & kWriteable) == 0 || !is_native(array)) return false;
  if (char* data = element(array, index)) {
    if (array.descr->type_num != kDouble || !PyFloat_Check(value)) return false;
    if (!PyFloat_CheckExact(value) && !is_scalar(value)) return false;
    *reinterpret_cast<double*>(data) = PyFloat_AS_DOUBLE(value);
    return true;
  }
  View view{};
  if (array.nd != 1 || !is_array(value) || !view_of(array, index, &view)) return false;
  const Array& from = *as_array(value);
  if (from.nd != 1 || from.sizes[0] != view.size || from.descr != array.descr) return false;
  // `a[b] += c` puts the view back that it has written to.
  if (from.data == view.data && from.strides[0] == view.stride) return true;
  const auto width = static_cast<Py_ssize_t>(sizeof(double));
  if (array.descr->type_num != kDouble || view.stride != width || from.strides[0] != width) return false;
  std::memmove(view.data, from.data, static_cast<size_t>(view.size * width));
  return true;
}

}  // namespace pijit::numpy
