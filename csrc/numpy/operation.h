// Calls of NumPy that only compute, as a replay makes them.
#pragma once
#include "ir/trace.h"

namespace pijit::numpy {

// Gives each call of NumPy among the nodes that only compute what makes it; to be asked once for a trace.
void attach_operations(Trace& trace);

}  // namespace pijit::numpy
