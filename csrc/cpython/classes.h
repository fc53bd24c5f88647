// Where the classes of instances keep things, and which classes live.
#pragma once
#include <unordered_set>

#include "common/python.h"
#include "common/ref.h"

namespace pijit::cpython {

// Not one of C that nobody may assign to.
inline bool may_change(const PyTypeObject* type) noexcept {
  return type != nullptr && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
}
// Where instances keep the pointer to their dict, in bytes from the object; 0: nowhere, or not at one place.
Py_ssize_t dict_offset(PyTypeObject* type) noexcept;
// The name of the attribute that instances keep at that byte (a slot), borrowed, or null.
PyObject* slot_name(PyTypeObject* type, Py_ssize_t offset) noexcept;
// The same of any member that is an object, which may read as None while it is unset: `step` of a slice.
PyObject* member_name(PyTypeObject* type, Py_ssize_t offset) noexcept;
// A module that lacks an attribute asks its `__spec__` for `has_location`, a property in Python.
inline constexpr bool kModulesAskTheirSpec = PY_VERSION_HEX >= 0x030d0000;
// The class of specs whose property only reads a field: importlib's. Null: there is none.
PyTypeObject* module_spec_type() noexcept;
// collections.defaultdict. Null: there is none. Imports at first.
PyTypeObject* default_dict_type() noexcept;
// functools.partial. Null: there is none. Imports at first.
PyTypeObject* partial_type() noexcept;
// The class of `int | str`. Imports at first.
PyTypeObject* union_type() noexcept;
// The union of the types in a tuple, as `|` makes it of them, or null, perhaps with an error. No class is asked.
Ref union_of(PyObject* types) noexcept;
// A class of dicts, and not one of the program's.
inline bool is_builtin_dict(PyTypeObject* type) noexcept {
  return type == &PyDict_Type || type == &PyODict_Type || type == default_dict_type();
}
// Of a class that pybind11 has made it is the metaclass: it gives methods as they are, and all else as `type` does.
bool is_of_pybind(const PyTypeObject* meta) noexcept;
// Takes out of a set of addresses those at which no class is.
void keep_classes(std::unordered_set<PyObject*>* addresses);

}  // namespace pijit::cpython
