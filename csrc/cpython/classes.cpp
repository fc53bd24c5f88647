// Slots of classes, and the tree of all classes.
#include "cpython/classes.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <unordered_map>
#include <vector>

#include "common/imports.h"
#include "cpython/members.h"
#include "cpython/objects.h"

namespace pijit::cpython {

Py_ssize_t dict_offset(PyTypeObject* type) noexcept {
  if (has_managed_dict(type)) return -3 * static_cast<Py_ssize_t>(sizeof(PyObject*));
  return type->tp_dictoffset > 0 ? type->tp_dictoffset : 0;
}

namespace {

// Classes that were found alive, by address, with weak references: a walk over all classes takes milliseconds.
// Immortal.
std::unordered_map<PyObject*, Ref>& known_classes() {
  static auto* known = new std::unordered_map<PyObject*, Ref>();
  return *known;
}

// The member of the type or of a base that lies at the offset and is of one of these kinds.
PyObject* name_at(PyTypeObject* type, Py_ssize_t offset, std::initializer_list<int> kinds) noexcept {
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* dict = type_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; dict != nullptr && PyDict_Next(dict, &at, &name, &value) != 0;) {
      if (Py_TYPE(value) != &PyMemberDescr_Type) continue;
      const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(value)->d_member;
      if (member->offset == offset && std::find(kinds.begin(), kinds.end(), member->type) != kinds.end()) return name;
    }
  }
  return nullptr;
}

}  // namespace

PyObject* slot_name(PyTypeObject* type, Py_ssize_t offset) noexcept {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  static PyObject* const qualname = PyUnicode_InternFromString("__qualname__");
  if (type == &PyFunction_Type && offset == offsetof(PyFunctionObject, func_name)) return name;
  if (type == &PyFunction_Type && offset == offsetof(PyFunctionObject, func_qualname)) return qualname;
  return name_at(type, offset, {T_OBJECT_EX});
}

PyObject* member_name(PyTypeObject* type, Py_ssize_t offset) noexcept {
  PyObject* slot = slot_name(type, offset);
  return slot != nullptr ? slot : name_at(type, offset, {T_OBJECT});
}

PyTypeObject* module_spec_type() noexcept {
  static PyObject* const type = [] {
    Ref module = import_module("importlib.machinery");
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "ModuleSpec") : nullptr;
    PyErr_Clear();
    return found != nullptr && PyType_Check(found) ? found : nullptr;
  }();
  return reinterpret_cast<PyTypeObject*>(type);
}

namespace {

PyTypeObject* type_of(const char* module_name, const char* name) noexcept {
  const SavedError error;  // the first to ask may stand where an exception is under way
  const Ref module = import_module(module_name);
  PyObject* found = module ? PyObject_GetAttrString(module.get(), name) : nullptr;
  PyErr_Clear();
  return found != nullptr && PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found) : nullptr;
}

}  // namespace

PyTypeObject* default_dict_type() noexcept {
  static PyTypeObject* const type = type_of("_collections", "defaultdict");
  return type;
}

PyTypeObject* partial_type() noexcept {
  static PyTypeObject* const type = type_of("functools", "partial");
  return type;
}

PyTypeObject* union_type() noexcept {
  static PyTypeObject* const type = type_of("types", "UnionType");
  return type;
}

Ref union_of(PyObject* types) noexcept {
  if (PyTuple_GET_SIZE(types) < 2) return Ref();
  Ref made = Ref::borrow(PyTuple_GET_ITEM(types, 0));
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(types); ++i) {
    made = Ref::steal(PyType_Type.tp_as_number->nb_or(made.get(), PyTuple_GET_ITEM(types, i)));
    if (!made || Py_TYPE(made.get()) != union_type()) return Ref();
  }
  return made;
}

void keep_classes(std::unordered_set<PyObject*>* addresses) {
  std::unordered_set<PyObject*> living, seen;
  for (PyObject* address : *addresses) {
    const auto found = known_classes().find(address);
    if (found != known_classes().end() && PyWeakref_GET_OBJECT(found->second.get()) == address) living.insert(address);
  }
  if (living.size() == addresses->size()) return;
  std::vector<PyTypeObject*> open{&PyBaseObject_Type};
  while (!open.empty()) {
    PyTypeObject* type = open.back();
    open.pop_back();
    auto* object = reinterpret_cast<PyObject*>(type);
    if (!seen.insert(object).second) continue;
    if (addresses->count(object) != 0) living.insert(object);
#if PY_VERSION_HEX >= 0x030c0000
    static PyObject* const list_of = PyDict_GetItemString(type_dict(&PyType_Type), "__subclasses__");
    const Ref found = Ref::steal(PyObject_CallOneArg(list_of, object));
    if (!found) PyErr_Clear();
    for (Py_ssize_t at = 0; found && at < PyList_GET_SIZE(found.get()); ++at)
      open.push_back(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(found.get(), at)));
#else
    PyObject *key = nullptr, *reference = nullptr;
    for (Py_ssize_t at = 0; type->tp_subclasses != nullptr && PyDict_Next(type->tp_subclasses, &at, &key, &reference);)
      if (PyObject* derived = PyWeakref_GET_OBJECT(reference); PyType_Check(derived))
        open.push_back(reinterpret_cast<PyTypeObject*>(derived));
#endif
  }
  for (PyObject* object : living)
    if (Ref weak = Ref::steal(PyWeakref_NewRef(object, nullptr))) known_classes()[object] = std::move(weak);
  PyErr_Clear();
  *addresses = std::move(living);
}

bool is_of_pybind(const PyTypeObject* meta) noexcept {
  return std::strcmp(meta->tp_name, "pybind11_type") == 0;
}

}  // namespace pijit::cpython
