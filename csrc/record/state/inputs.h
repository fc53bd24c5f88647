// What comes in: arguments, and what frames hold where a recording begins.
#pragma once
#include "record/recorder.h"

namespace pijit {

Val own(Recorder&, Val container);  // nothing but the trace reaches it, until foreign code is given it
bool bind_root(Recorder&);
bool bind_entry(Recorder&);
Val entry_input(Recorder&, cpython::Frame* frame, int slot, Val source);
Val by_type(Kernel&, PyObject* object, Val source);
using Take = Val (*)(Recorder&, PyObject*, Val, int);           // what becomes of what was loaded
Val input(Recorder&, PyObject* object, Val source, int depth);  // classifies an argument
Val input_dict(Recorder&, PyObject* object, Val source, int depth, bool fresh, Take take = input);
// `adopts`: the instances that it has are loaded, too, and not taken to be these very objects.
Val input_instance(Recorder&, PyObject* object, Val source, int depth, Take take = input, bool adopts = true);

// Inputs that guards load, and the containers that they come from.
Val load_input(Recorder&, GuardOp op, Val source, Py_ssize_t index, PyObject* object);
Val load_input(Recorder&, Guard guard, PyObject* object);
uint64_t way_of(Recorder&, Val source);  // argument_way, found at once where many are asked for
Val real_container(Recorder&, Val object, Val source);
Val known_container(Recorder&, PyObject* object, Val source);
Guard& input_guard(Kernel&, GuardOp op, Val source);
bool guard_tuple_class(Recorder&, PyObject* tuple);

// Generators and enumerations that a frame holds (suspended.cpp).
Val entry_generator(Recorder&, PyObject* generator, Val source);
Val entry_enumerate(Recorder&, PyObject* enumerate, Val source);

}  // namespace pijit
