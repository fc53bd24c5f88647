// The guards of a trace as plain Python data.
#pragma once
#include <pybind11/pybind11.h>

#include "cache/root.h"

namespace pijit {

// For the keys of the dict see pijit/_core.pyi.
pybind11::dict guard_data(const Root& root, const Trace& trace);

}  // namespace pijit
