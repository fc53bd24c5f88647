// Calls of NumPy that only compute, as a replay makes them.
#pragma once
#include "ir/trace.h"

namespace pijit::numpy {

// Gives each call of NumPy among the nodes that only compute what makes it; to be asked once for a trace.
void attach_operations(Trace& trace);

// The same of one that writes, as soon as it is recorded: it must not be run twice.
void attach_write(Trace& trace, Node& node);

}  // namespace pijit::numpy
