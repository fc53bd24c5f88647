// Objects and types that are found by name once, and questions about plain objects.
#include "record/state/known_objects.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/imports.h"
#include "cpython/frame.h"
#include "cpython/keys.h"

namespace pijit {

PyObject* find_object(const char* module, const char* name) noexcept {
  const SavedError error;  // the first to ask may stand where an exception is under way
  const Ref space = import_module(module);
  PyObject* found = space ? PyObject_GetAttrString(space.get(), name) : nullptr;
  if (found == nullptr) PyErr_Clear();
  return found;
}

bool has_name(PyObject* name, std::string_view text) noexcept {
  return PyUnicode_IS_COMPACT_ASCII(name) && PyUnicode_GET_LENGTH(name) == static_cast<Py_ssize_t>(text.size()) &&
         std::memcmp(PyUnicode_1BYTE_DATA(name), text.data(), text.size()) == 0;
}

bool is_plain_container(PyObject* object) {
  if (PyRange_Check(object)) return true;
  if (!PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_plain_const(PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

PyObject* method_of_list(const char* name) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return cpython::lookup_type(&PyList_Type, key.get());
}

PyTypeObject* deque_type() noexcept {
  static PyTypeObject* const type = find_type("_collections", "deque");
  return type;
}

PyTypeObject* deque_iterator_type() noexcept {
  static PyTypeObject* const type = find_type("_collections", "_deque_iterator");
  return type;
}

bool finds_modules(const PyCodeObject* code) noexcept {
  static const auto codes = [] {
    const SavedError error;
    std::array<PyObject*, 2> found{};
    const Ref module = import_module("_frozen_importlib");
    for (size_t i = 0; module && i < found.size(); ++i) {
      Ref function =
          Ref::steal(PyObject_GetAttrString(module.get(), i == 0 ? "_find_spec" : "_find_and_load_unlocked"));
      if (function && PyFunction_Check(function.get())) found[i] = PyFunction_GET_CODE(function.release());
      PyErr_Clear();
    }
    PyErr_Clear();
    return found;
  }();
  return std::find(codes.begin(), codes.end(), reinterpret_cast<const PyObject*>(code)) != codes.end();
}

PyTypeObject* namespace_type() noexcept {
  static PyTypeObject* const type = find_type("types", "SimpleNamespace");
  return type;
}

}  // namespace pijit
