// The second half of an instruction: the shadow takes its result.
#pragma once
#include "record/recorder.h"

namespace pijit {

void complete(Recorder&, ShadowFrame& frame);

}  // namespace pijit
