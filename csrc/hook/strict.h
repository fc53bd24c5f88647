// strict=True: what is raised where a call leaves native replay, and when.
//
// 1. A call that CPython would have to run from its start (a function that was given up, a tracer, a mode) raises
//    before it has begun: nothing has changed.
// 2. A call that was begun is completed by CPython, and raises instead of returning: what it did is what it does under
//    plain Python. An exception of its own goes first.
// 3. What only puts a replay off (a signal, another thread that wants the GIL, the end of the stack) is no reason.
#pragma once
#include "cache/root.h"
#include "exec/replay.h"

namespace pijit {

// StrictError: what, where, and what to try. Null, for the call to return.
PyObject* raise_strict(const StopInfo& stop);
PyObject* raise_strict(const std::string& text);

// Why CPython ran some of the call that was recorded last; no code: it did not.
StopInfo left_in_recording(const Root& root);
// Why CPython ran some of the call that was replayed last; no code: it did not.
StopInfo left_in_replay(const Root& root, const Trace& trace, const Left& left);
// Raises for it, unless the call raised anyway: what it returned is dropped.
void raise_instead(const StopInfo& stop, PyObject** result);

}  // namespace pijit
