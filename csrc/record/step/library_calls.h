// Calls of MindSpore's operators: nodes instead of opaque calls.
#pragma once
#include "record/recorder.h"

namespace pijit {

// The instruction that was stopped, and that CPython has not begun, as such a call. False: it is none.
bool call_library(Recorder& recorder, ShadowFrame& frame);
// The result of such a call, where the next instruction begins: its class, and the items of a tuple or list.
void take_library_result(Recorder& recorder);

}  // namespace pijit
