// Checks that a trace is well formed: the rules of trace.h, as far as they can be seen from the data.
#pragma once
#include <string>

#include "ir/trace.h"

namespace pijit {

// What is wrong, or empty. Looks into no object that the trace names.
std::string verify_trace(const Trace& trace);

}  // namespace pijit
