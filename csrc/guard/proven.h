// Which of the objects that a trace names are alive, between calls: those that its guards prove now.
//
// A trace keeps few of its objects alive, so to name the others they must be found again, as a call would: from the
// function or object of the root, guard by guard. What is reached only through an argument is not found.
#pragma once
#include "ir/trace.h"

namespace pijit {

// `start` is the function or object that the trace belongs to. Runs no Python.
ObjectSet proven_objects(const Trace& trace, PyObject* start);

}  // namespace pijit
