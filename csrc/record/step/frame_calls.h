// Calls of pandas: one call each, and a node where it only computes.
#pragma once
#include "record/recorder.h"
#include "record/step/opaque.h"

namespace pijit {

// True: the instruction hands objects to pandas, and is stopped, so that it becomes one call.
bool leave_to_pandas(Recorder& recorder, ShadowFrame& frame, Instruction now);
// What an instruction calls, as a node that computes. False: it is no such call of pandas.
bool start_frame_call(Recorder& recorder, ShadowFrame& frame, Request wanted);
// pandas counts the references to an object that it writes to, and warns where only the stack holds it. False: the call
// cannot be made with as many.
bool keep_frame_references(Recorder& recorder, Request* wanted);

}  // namespace pijit
