// Classes in which a program counts.
#pragma once
#include "record/recorder.h"

namespace pijit {

// The program counts in an attribute of the class, or of a base.
bool counts_in(const Varying* varying, const PyTypeObject* type);
// In place of the guard of its version.
void guard_counting_class(ReadSet&, Kernel&, PyTypeObject* type, PyObject* instance);
// An attribute of the class, or of a base, that is read anew in each call. False: it is none.
bool counted_attribute(Recorder&, PyTypeObject* type, PyObject* name, Val* value);
// Class.name = value by a node. False: it cannot be; the class may be one of those in the next recording.
bool count_in_class(Recorder&, Val object, PyObject* name, Val value);

}  // namespace pijit
