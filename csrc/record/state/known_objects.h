// Objects and types that are found by name once, and questions about plain objects.
#pragma once
#include <string_view>

#include "common/python.h"
#include "cpython/objects.h"

namespace pijit {

// An attribute of a module that lives as long as the process; nullptr: there is none. Imports: not while recording.
PyObject* find_object(const char* module, const char* name) noexcept;
inline PyTypeObject* find_type(const char* module, const char* name) noexcept {
  return reinterpret_cast<PyTypeObject*>(find_object(module, name));
}
bool has_name(PyObject* name, std::string_view text) noexcept;
bool is_plain_container(PyObject* object);  // a range, or a tuple of plain objects
// A scalar, a range, or a tuple of such.
inline bool is_plain_const(PyObject* object) {
  return cpython::is_scalar(object) || is_plain_container(object);
}
// Borrowed.
PyObject* method_of_list(const char* name);
PyTypeObject* deque_type() noexcept;
PyTypeObject* deque_iterator_type() noexcept;
PyTypeObject* namespace_type() noexcept;
// The code asks the finders of the import system for a module, or loads one: much Python that no program waits for.
bool finds_modules(const PyCodeObject* code) noexcept;

}  // namespace pijit
