// Where replays are left before the end of their trace, and what becomes of the trace.
#pragma once
#include "cache/root.h"
#include "exec/replay.h"

namespace pijit {

// What is known of the node, at which replays were left.
Leaving& leaving_at(const Trace& trace, uint32_t node);
// A replay was left: a later call may be recorded, to become a side trace, or in the place of the trace.
void go_on_from(Root& root, const Left& left);

}  // namespace pijit
