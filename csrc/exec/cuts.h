// Leaves a segment of a trace in pieces (plan/pieces.h).
#pragma once
#include "plan/segment.h"

namespace pijit {

// Puts pieces in the place of this one, which is among them: without the nodes that vary. False: it is better left
// whole.
bool cut_segments(const Trace& trace, const Segment& segment, const Vec<uint32_t>& varying, Segments* segments);

// Segments end at the calls that this one spans; the others stay.
void leave_sides(const Trace& trace, const Segment& segment, Segments* segments);

}  // namespace pijit
