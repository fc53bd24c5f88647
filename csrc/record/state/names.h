// What the recorder looks up by name, and functions that stand for instructions where these become calls.
#pragma once
#include "adapter.h"
#include "common/python.h"

namespace pijit {

// Interned names that the recorder looks up.
struct Names {
  PyObject *getattr, *getattribute, *setattr, *delattr, *call, *init, *new_, *bool_, *len, *iter, *next, *contains,
      *getitem, *setitem, *delitem, *get, *set, *delete_, *dict, *class_, *enter, *exit, *hash, *eq, *code, *name,
      *module, *mro, *missing, *classcell, *class_getitem;
};
const Names& names() noexcept;

// Functions of the `operator` module, and those that make strings: 0 format, 1 str, 2 repr, 3 ascii, -1 "".join.
PyObject* operator_function(SiteKind kind, int oparg);
PyObject* string_function(int conversion);
PyObject* identity_function(bool invert);
PyObject* getattr_function();
PyObject* context_function();   // (exception, object, name): what it was that lacks the attribute
PyObject* import_function();    // builtins.__import__ as it was at first
PyObject* finalize_function();  // what becomes of an object when it dies

}  // namespace pijit
