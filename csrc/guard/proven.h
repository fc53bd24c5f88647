// Which of the objects that a trace names are alive, between calls: those that its guards prove now.
//
// A trace keeps few of its objects alive, so to name the others they must be found again, as a call would: from the
// function or object of the root, guard by guard. An argument is found where its guard says which object it is, and the
// caller says that a call has just passed the guard.
#pragma once
#include "common/ref.h"
#include "ir/origin.h"
#include "ir/trace.h"

namespace pijit {

// Behind a call that the trace has answered: a list of weak references to arguments that have to be one object each, and
// that `start` does not lead to. The caller of that call may have let them go, so what is at their address now is looked
// for among all containers. The next call takes it for the argument as well. Null: an error, which is cleared.
Ref living_arguments(const Trace& trace, PyObject* start) noexcept;

// `start` is the function or object that the trace belongs to; `arguments`: of living_arguments(), or null. Runs no
// Python.
ObjectSet proven_objects(const Trace& trace, PyObject* start, PyObject* arguments = nullptr);
// The same objects, those that their classes have, and how each was found.
Origins origins_of(const Trace& trace, PyObject* start, PyObject* arguments = nullptr);

}  // namespace pijit
