// Calls of pandas that only compute, as a replay makes them.
#pragma once
#include "ir/trace.h"

namespace pijit::pandas {

// Gives each call of pandas among the nodes that only compute what makes it; to be asked once for a trace, before NumPy is.
void attach_operations(Trace& trace);

}  // namespace pijit::pandas
