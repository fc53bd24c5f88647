// Calls of NumPy, and of pandas, that only compute: nodes instead of opaque calls.
#pragma once
#include "record/recorder.h"
#include "record/step/opaque.h"

namespace pijit {

// The instruction that was stopped, and that CPython has not begun, as such a call. False: it is none.
bool compute_arrays(Recorder& recorder, ShadowFrame& frame);
// f(*args, **keywords) as a call with names. False: they are not known.
bool unfold_call(Recorder& recorder, Request* wanted);
// The result of such a call, a `finish`.
void take_array(Recorder& recorder, ShadowFrame& frame, PyObject* result);

}  // namespace pijit
