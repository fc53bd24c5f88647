// Containers that existed before, or that foreign code returned: the recorder loads what they hold.
#pragma once
#include "record/recorder.h"

namespace pijit {

bool adopt(Recorder&, Val reg, PyObject* object);  // the content of a container in a register becomes known
bool has_met(Recorder&, PyObject* object);
// The register is taken to hold this very object in every call, until a call has brought another one.
bool is_fixed(Recorder&, Val reg, PyObject* object);
void guard_found(Recorder&);
Val adopted(Recorder&, PyObject* object, Val source, int depth);
void note_container(Recorder&, PyObject* object, Val source);

}  // namespace pijit
