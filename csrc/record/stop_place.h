// Which line of the user's program is told as the place of a stop.
#pragma once
#include "record/state/frames.h"

namespace pijit {

// The innermost line of the user's that the frames stand at, else the one that called the root, else the innermost of
// all; what it leads to in a library is told besides.
void set_place(StopInfo* info, const FrameStack& frames);

}  // namespace pijit
