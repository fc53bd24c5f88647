// Calls of NumPy, and of pandas, that only compute: nodes instead of opaque calls.
#pragma once
#include "record/recorder.h"
#include "record/step/opaque.h"

namespace pijit {

// The instruction that was stopped, and that CPython has not begun, as such a call. False: it is none.
bool compute_arrays(Recorder& recorder, ShadowFrame& frame);
// f(*args, **keywords) as a call with names. False: they are not known.
bool unfold_call(Recorder& recorder, Request* wanted);
// A tuple or list that such a call has made: so many items, each in a register of its own, of which `known` finds out what
// the recorder knows. Null: stopped.
Val items_of_result(Recorder& recorder, Val value, PyObject* object, Val (*known)(Recorder&, Val, PyObject*));
// The result of such a call, a `finish`.
void take_array(Recorder& recorder, ShadowFrame& frame, PyObject* result);

}  // namespace pijit
