// Objects become values of registers, and the other way round.
#include "scalar/value.h"

#include "cpython/iterators.h"

namespace pijit::scalar {

Value value_of(PyObject* object) noexcept {
  if (object == nullptr) return {};
  if (PyFloat_CheckExact(object)) return Value::of(PyFloat_AS_DOUBLE(object));
  if (PyBool_Check(object)) return Value::of(object == Py_True);
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return Value::of(static_cast<int64_t>(number));
  }
  if (PyComplex_CheckExact(object)) return Value::of(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
  Value value;
  value.object = new_reference(object);
  value.tag = Tag::kObject;
  return value;
}

Value value_of_iterator(PyObject* object) noexcept {
  if (object != nullptr && Py_REFCNT(object) == 1 && Py_IS_TYPE(object, &PyRangeIter_Type)) {
    const cpython::RangeProgress progress = cpython::range_progress(object);
    Value value = Value::of(static_cast<int64_t>(progress.next));
    value.step = progress.step;
    value.left = progress.left;
    value.tag = Tag::kRange;
    return value;
  }
  return value_of(object);
}

namespace {

// Its numbers fit, as they came from such an iterator, or range() has looked.
PyObject* range_iterator(const Value& value) noexcept {
  const auto stop = static_cast<int64_t>(static_cast<uint64_t>(value.integer) +
                                         static_cast<uint64_t>(value.step) * static_cast<uint64_t>(value.left));
  const Ref range = Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL",
                                                     static_cast<long long>(value.integer),
                                                     static_cast<long long>(stop), static_cast<long long>(value.step)));
  return range ? PyObject_GetIter(range.get()) : nullptr;
}

}  // namespace

PyObject* object_of(const Value& value) noexcept {
  switch (value.tag) {
    case Tag::kEmpty:
      return nullptr;
    case Tag::kInt:
      return PyLong_FromLongLong(value.integer);
    case Tag::kFloat:
      return PyFloat_FromDouble(value.number);
    case Tag::kBool:
      return new_reference(value.integer != 0 ? Py_True : Py_False);
    case Tag::kComplex:
      return PyComplex_FromDoubles(value.number, value.imaginary);
    case Tag::kRange:
      return range_iterator(value);
    case Tag::kItems: {
      PyObject* iterator = PyObject_GetIter(value.object);
      if (iterator != nullptr) cpython::set_next_index(iterator, static_cast<Py_ssize_t>(value.step));
      return iterator;
    }
    case Tag::kObject:
      return new_reference(value.object);
  }
  return nullptr;
}

}  // namespace pijit::scalar
