// Why calls are CPython's for the time being, whatever was recorded: what is on, in words for people.
#pragma once
#include "cache/root.h"

namespace pijit {

// A tracer, a profiler, a mode of the framework; no code: nothing of the kind.
StopInfo why_aside(const Root& root, PyThreadState* ts);

}  // namespace pijit
