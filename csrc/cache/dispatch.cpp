// What arguments look like.
#include "cache/dispatch.h"

#include <cmath>

namespace pijit {
namespace {

constexpr size_t kMostPlaces = 4096;
constexpr Py_ssize_t kMostItems = 8;  // of a container
constexpr Py_ssize_t kMostMeasured = 1024;
constexpr int kDeepest = 2;  // containers in containers

uint64_t mix(uint64_t hash, uint64_t value) noexcept {
  return (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29);
}

uint64_t mix(uint64_t hash, const void* address) noexcept {
  return mix(hash, reinterpret_cast<uintptr_t>(address) >> 4);
}

uint64_t signature(uint64_t hash, PyObject* object, const Adapter* adapter, int depth) noexcept {
  if (object == nullptr) return hash;
  if (adapter != nullptr && adapter->is_tensor(object)) return mix(hash, adapter->tensor_kind(object));
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBytes_Type) {
    const Py_hash_t value = PyObject_Hash(object);  // of these it is C that cannot fail
    return mix(mix(hash, type), static_cast<uint64_t>(value));
  }
  if (type == &PyTuple_Type || type == &PyList_Type) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
    hash = mix(mix(hash, type), static_cast<uint64_t>(size));
    PyObject** items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; depth < kDeepest && i < size && i < kMostItems; ++i)
      hash = signature(hash, items[i], adapter, depth + 1);
    return hash;
  }
  if (type == &PyDict_Type) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    hash = mix(mix(hash, type), static_cast<uint64_t>(PyDict_GET_SIZE(object)));
    for (Py_ssize_t i = 0; depth < kDeepest && i < kMostItems && PyDict_Next(object, &position, &key, &value); ++i)
      hash = signature(signature(hash, key, adapter, depth + 1), value, adapter, depth + 1);
    return hash;
  }
  return mix(hash, object);
}

// Adds what the object holds.
void measure(CallForm* form, PyObject* object, const Adapter* adapter, int depth) noexcept {
  if (object == nullptr) return;
  double& lengths = form->amounts[1];
  if (adapter != nullptr && adapter->is_tensor(object)) {
    form->amounts[0] += static_cast<double>(adapter->tensor_elements(object));
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    lengths += overflow != 0 ? 0 : std::abs(static_cast<double>(value));
  } else if (PyUnicode_CheckExact(object)) {
    lengths += static_cast<double>(PyUnicode_GET_LENGTH(object));
  } else if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
    lengths += static_cast<double>(size);
    PyObject** items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; depth < kDeepest && i < size && i < kMostMeasured; ++i)
      measure(form, items[i], adapter, depth + 1);
  } else if (PyDict_CheckExact(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    lengths += static_cast<double>(PyDict_GET_SIZE(object));
    for (Py_ssize_t i = 0; depth < kDeepest && i < kMostMeasured && PyDict_Next(object, &position, &key, &value); ++i)
      measure(form, value, adapter, depth + 1);
  }
}

}  // namespace

uint64_t call_signature(cpython::Frame* frame, PyCodeObject* code, const Adapter* adapter) noexcept {
  uint64_t hash = 0;
  const int count = cpython::argument_slots(code);
  for (int i = 0; i < count; ++i) hash = signature(hash, cpython::slot(frame, i), adapter, 0);
  return hash;
}

CallForm call_form(cpython::Frame* frame, PyCodeObject* code, const Adapter* adapter) noexcept {
  CallForm form;
  const int count = cpython::argument_slots(code);
  for (int i = 0; i < count; ++i) measure(&form, cpython::slot(frame, i), adapter, 0);
  return form;
}

void Dispatch::taken(uint64_t signature, size_t place) {
  last_ = place;
  if (places_.size() >= kMostPlaces) places_.clear();
  places_[signature] = place;
}

}  // namespace pijit
