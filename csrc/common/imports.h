// Modules that the engine asks for while a program runs.
#pragma once
#include "common/ref.h"

namespace pijit {

// The module that was imported under this name, else one that is imported now; null with an error set.
//
// An import is a call of builtins.__import__, which may be the program's: it would see calls that it has not made, and
// could refuse them.
inline Ref import_module(const char* name) noexcept {
  const Ref key = Ref::steal(PyUnicode_FromString(name));
  Ref found = key ? Ref::steal(PyImport_GetModule(key.get())) : Ref();
  if (found || PyErr_Occurred() != nullptr) return found;
  // What this gives is the package that a submodule is in.
  const Ref outermost = Ref::steal(PyImport_ImportModuleLevelObject(key.get(), nullptr, nullptr, nullptr, 0));
  return outermost ? Ref::steal(PyImport_GetModule(key.get())) : Ref();
}

// The module, if it was imported under this name; else null.
inline Ref loaded_module(const char* name) noexcept {
  const Ref key = Ref::steal(PyUnicode_FromString(name));
  return key ? Ref::steal(PyImport_GetModule(key.get())) : Ref();
}

// What is there under a name; null, without an error: nothing is, or there is no object.
inline Ref attribute_of(const Ref& object, const char* name) noexcept {
  Ref found = Ref::steal(object ? PyObject_GetAttrString(object.get(), name) : nullptr);
  if (!found) PyErr_Clear();
  return found;
}

// A module is being imported still.
inline bool is_being_imported(const Ref& module) noexcept {
  const Ref state = attribute_of(attribute_of(module, "__spec__"), "_initializing");
  return state && PyObject_IsTrue(state.get()) > 0;
}

}  // namespace pijit
