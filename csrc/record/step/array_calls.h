// Calls of NumPy that only compute: nodes instead of opaque calls.
#pragma once
#include "record/recorder.h"

namespace pijit {

// The instruction that was stopped, and that CPython has not begun, as such a call. False: it is none.
bool compute_arrays(Recorder& recorder, ShadowFrame& frame);

}  // namespace pijit
