// Frames that are left to CPython, and those that return to one that is followed.
#pragma once
#include "record/recorder.h"

namespace pijit {

// The instruction of a followed frame takes what the frame inside it returned (frames.cpp).
void inner_returned(Recorder&, ShadowFrame& outer, Val value);

// CPython runs the frames from `level` inwards, from the start of the instruction under way. False: it cannot.
bool run_in_cpython(Recorder&, size_t level, size_t top);
// The innermost frame is about to return None, or a boolean. No operator of the framework ran in it, and a replay would call CPython
// again and again: a progress bar that is drawn, a line of a log. One opaque call does all of it.
bool is_all_opaque(Recorder&, ShadowFrame& frame, Instruction now);
// The call of the innermost frame is opaque.
void call_whole(Recorder&);
// They are done.
void finish_run(Recorder&, ShadowFrame& outer, PyObject* result);
// An exception that nothing foresaw comes out of the innermost frame's instruction.
void raised_unforeseen(Recorder&);

}  // namespace pijit
