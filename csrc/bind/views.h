// Traces, counters and tables as plain Python dicts.
#pragma once
#include <pybind11/pybind11.h>

#include "cache/root.h"

namespace pijit {

inline pybind11::object object_of(PyObject* object) {
  return pybind11::reinterpret_borrow<pybind11::object>(object);
}

pybind11::dict root_report(const Root& root);
// State and reason.
pybind11::tuple root_status(const Root& root);
pybind11::list root_traces(const Root& root);
// The report of each root: those that died, then those that live, in the order in which they were made.
pybind11::list roots_view();
// The report of each entry, with the `instruction` of its function where it begins.
pybind11::list entries_view();
// Functions that enable() has watched and not recorded, and how many calls it did not look at because of a tracer.
pybind11::dict outermost_view();
// What happened to roots, in the order in which it ended: (time, seconds, what, root), and how many more there were.
pybind11::dict events_view();
pybind11::dict stats_view();
pybind11::dict tables_view();

// Where the root was written ("file", "line"), and how its trace ends: "opaque_calls", "ends", "stop".
void add_end(const Root& root, const Trace& trace, pybind11::dict* view);

}  // namespace pijit
