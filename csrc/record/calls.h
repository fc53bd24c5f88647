// Calls and attributes, for instructions and for C code: step/ says what they mean.
//
// The operands are still on the shadow stack; `pops` says how many.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Attributes (attributes.cpp). *missing: there is none.
Invoke get_attribute(Recorder&, ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result, bool* missing);
Invoke get_generic_attribute(Recorder&, ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result,
                             bool* missing);
// Descriptors of this class are read and written as properties are: it is property, or derives from it.
bool is_read_as_property(Recorder&, PyTypeObject* kind);

// Calls (calls.cpp).
Invoke invoke(Recorder&, ShadowFrame& frame, Val callable, Arguments& args, int pops);
Invoke invoke_function(Recorder&, ShadowFrame& frame, Val function, Arguments& args, Then then, int pops);
Invoke invoke_body(Recorder&, ShadowFrame& frame, Val function, Val names);  // of a class statement
// Type.__call__ goes on: __init__.
Invoke after_new(Recorder&, ShadowFrame& frame, Val instance, Arguments& args, int pops);
// It is to be resumed: `sent` (Null: None) is sent to it. The pending result may be changed to throw.
Pending& expect_generator(ShadowFrame& frame, Val generator, Then then, int pops, Val sent = Val());

Val made_of(const Trace&, Val reference);  // what the trace has made that weak reference of; Null: not known

// callable(*args) on scalars, which only computes: a node instead of a constant.
Invoke compute(Recorder&, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops,
               PyObject* names = nullptr);

}  // namespace pijit
