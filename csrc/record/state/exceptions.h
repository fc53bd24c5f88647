// Questions about classes of exceptions.
#pragma once
#include "record/recorder.h"

namespace pijit {

PyTypeObject* base_exception();
// A class of its own tp_new that makes no instance of another class of these arguments.
bool makes_itself(PyTypeObject* type, size_t args);
// An error of the system makes itself an object of the class for its number, and leaves the names of files out of its
// arguments.
bool decides_by_arguments(PyTypeObject* type, size_t args);
// A class of exception groups whose objects are made, and die, as those of CPython.
bool makes_group(PyTypeObject* type);
bool is_plain_exception(PyTypeObject* type);

}  // namespace pijit
