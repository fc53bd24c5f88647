// What an instruction waits for.
#pragma once
#include "record/state/shadow.h"

namespace pijit {

// The result is known and the instruction cannot fail any more.
void done(ShadowFrame& frame, int pops, Val result);
// The result is known, if the instruction does not raise.
void known(ShadowFrame& frame, int pops, Val result);
Pending& await(ShadowFrame& frame, int pops, int pushes);
void observe(ShadowFrame& frame, int pops, Finish finish);
// Guarded facts say that it raises: `exception`, or (Null) a new one.
void will_raise(Recorder&, ShadowFrame& frame, int pops, Val exception = Val(), bool again = false);

}  // namespace pijit
