// Segments and plans for Python: what is offered, and what comes back.
#pragma once
#include <pybind11/pybind11.h>

#include "cache/root.h"

namespace pijit {

// Adds `Place` and what takes offers to the module.
void add_plans(pybind11::module_& m);
// A dict for each segment of the trace; see pijit/_core.pyi.
pybind11::list segments_view(const Trace& trace);
// How many of them have a plan.
size_t planned_segments(const Trace& trace) noexcept;

}  // namespace pijit
