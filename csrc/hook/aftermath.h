// Notes after a call of a root: counts, the reasons of aborts and misses, and messages for the user.
#pragma once
#include <string>

#include "cache/root.h"
#include "exec/replay.h"
#include "record/reasons.h"

namespace pijit {

// From now on CPython runs the calls of the root. The first of them tells the user. Not under stress.
void leave_alone(Root& root, const Reason& reason, const std::string& why, StopInfo cause = StopInfo());
// Says that CPython runs the calls of the root from now on, if that is still to be said.
void say_farewell(Root& root);

// A call that gave no trace; after a number of them in a row the root is left alone.
void note_abort(Root& root, StopInfo stop);
// A trace that contradicts itself, or memory is short.
void note_failure(Root& root, const char* what);
// A replay has ended, or was left.
void note_replay(Root& root, const Trace& trace, const Left& left);
// No trace takes the call. Where the reason is not used at once it is looked for in ever fewer calls: that takes longer
// than a call may, since a class that nothing has proven is looked for among all classes.
void note_miss(Root& root, cpython::Frame* frame, bool is_used);

}  // namespace pijit
