// The table of C callables whose meaning the recorder knows, and what their handlers share.
#pragma once
#include "record/step.h"

namespace pijit {

using Builtin = Invoke (*)(Recorder&, ShadowFrame&, Arguments&, int pops);

// Adds a row. The callable is found by name: a function of a module, a method or wrapper of a type ("dict.get"), or a
// type itself.
void add_builtin(const char* module, const char* name, Builtin handler);

void add_object_builtins();     // builtins_objects.cpp
void add_container_builtins();  // builtins_containers.cpp

bool is_plain_const(PyObject* object);
// Every argument is a plain constant: CPython's own result is taken as it is.
Invoke fold(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops);
Invoke give(Recorder& recorder, ShadowFrame& frame, int pops, Val result);
// The values of an iterable, now or (a generator) when `finish` runs with them in frame.collected.
Invoke consume(Recorder& recorder, ShadowFrame& frame, Val iterable, int pops, Finish finish);

}  // namespace pijit
