// Attributes of instances that existed before, and places that the trace has written.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Class and dict pointer; *dict null: there is none, or inline values, or it was made here.
bool guard_instance(Recorder&, PyObject* object, PyObject** dict);
void guard_own_dict(Recorder&, PyObject* object);
bool guard_no_dict(Recorder&, PyObject* object);
bool overlay_find(Recorder&, PyObject* container, PyObject* key, Val* value);
void overlay_set(Recorder&, PyObject* container, PyObject* key, Val value);

}  // namespace pijit
