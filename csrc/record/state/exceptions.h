// Exceptions: their classes, the one under way, and what is being handled.
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

// Values of exceptions.
Val stop_value(const Recorder&);             // of the StopIteration under way; Null: not known
Val stop_value(const Heap&, Val exception);  // of one that is virtual
Val saved_exception(Recorder&);              // what PUSH_EXC_INFO puts away
Val traceback_of(Recorder&, Val exception);  // as it is now
bool exc_info(Recorder&, Vals* out);         // type, value and traceback of what is handled; false: not known
bool nothing_handled_at_entry(Recorder&);    // guarded; false: something was (or stopped)
bool is_taken(const Heap&, Val exception);   // foreign code raised it

// An exception is under way.
void begin_raise(Recorder&, ShadowFrame& frame, int pops, Val exception, bool again);
void raise_at_yield(Recorder&, ShadowFrame& frame, Val exception);
void begin_taken(Recorder&, PyObject* object, Val taken);
void pass_frame(Recorder&);
Val raised_exception(Recorder&, PyObject* object);
Val new_exception(Recorder&, PyObject* object);
void end_frame(Recorder&, ShadowFrame& frame);
void materialize_frame(Recorder&, Val frame);
bool holds_raised(Recorder&, Val value);

inline bool is_foreign(const Heap& heap, Val exception) {
  return heap.is_built(exception) || is_taken(heap, exception);
}

}  // namespace pijit
