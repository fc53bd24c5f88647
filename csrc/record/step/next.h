// FOR_ITER and SEND as opaque calls, and numbers out of the iterator of a range.
#pragma once
#include "record/recorder.h"

namespace pijit {

bool go_advance(Recorder&, ShadowFrame& frame);  // a loop takes a number out of the iterator of a range
bool go_opaque_next(Recorder&, ShadowFrame& frame);
void finish_next(Recorder&, ShadowFrame& frame);

}  // namespace pijit
