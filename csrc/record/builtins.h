// The table of C callables whose meaning the recorder knows, and what their handlers share.
#pragma once
#include "record/abstract.h"
#include "record/step.h"

namespace pijit {

using Builtin = Invoke (*)(Recorder&, ShadowFrame&, Arguments&, int pops);

// Adds a row. The callable is found by name: a function of a module, a method or wrapper of a type ("dict.get"), or a
// type itself.
void add_builtin(const char* module, const char* name, Builtin handler);

// The same for a callable that may call Python.
void add_driven(const char* module, const char* name, Driven function);

void add_object_builtins();     // builtins_objects.cpp
void add_container_builtins();  // builtins_containers.cpp
void add_iteration_builtins();  // builtins_iteration.cpp

bool is_plain_const(PyObject* object);
// Every argument is a plain constant: CPython's own result is taken as it is.
Invoke fold(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops);
Invoke give(Recorder& recorder, ShadowFrame& frame, int pops, Val result);
// A C callable that only computes, when all it sees is plain.
bool only_computes(PyObject* callable);

// dict(pairs, **more)
Invoke dict_of_pairs(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, const Arguments& args, int pops);
// list.sort: the items in their new order.
Task<std::vector<Val>> sort_items(Drive& drive, std::vector<Val> items, Val key, bool reverse);

// Sets of native keys. False or Null: not known.
bool set_keys(Recorder& recorder, Val set, std::vector<PyObject*>* keys);
Val new_set(Recorder& recorder, PyTypeObject* type, const std::vector<PyObject*>& keys);
Val combine_containers(Recorder& recorder, int op, Val left, Val right);
Val compare_sets(Recorder& recorder, int op, Val left, Val right);

}  // namespace pijit
