// A trace as plain Python data, for what is made of it: graphs, formats, files.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "cache/root.h"

namespace pijit {

// The root of this number; an error of Python: there is none.
std::shared_ptr<Root> root_or_raise(int id);
// For the keys of the dict see pijit/_core.pyi.
pybind11::dict trace_data(const Root& root, const Trace& trace);
// The text form; see ir/text.h.
std::string text_of_trace(const Root& root, const Trace& trace);
// Adds ParsedTrace and parse_trace to the module.
void bind_text(pybind11::module_& module);
// Traces that outlive the process.
void bind_kept(pybind11::module_& module);
// The class Ledger.
void bind_ledger(pybind11::module_& module);

}  // namespace pijit
