// Segments and plans for Python: what is offered, and what comes back.
#pragma once
#include <pybind11/pybind11.h>

#include "cache/root.h"

namespace pijit {

// What compiling may cost (pijit/compilers/pool.py).
struct CompileLimits {
  uint32_t workers = 1;    // compilations at a time
  uint32_t seconds = 120;  // for one of them
  uint32_t memory = 6144;  // megabytes that one process may hold; 0: any
};
CompileLimits& compile_limits() noexcept;

// Adds `Place` and what takes offers to the module.
void add_plans(pybind11::module_& m);
// A dict for each segment of the trace; see pijit/_core.pyi.
pybind11::list segments_view(const Trace& trace);
// How many of them have a plan.
size_t planned_segments(const Trace& trace) noexcept;

}  // namespace pijit
