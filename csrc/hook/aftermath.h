// What is noted, and said to the user, after a call of a root.
#pragma once
#include <string>

#include "cache/root.h"
#include "exec/replay.h"
#include "record/reasons.h"

namespace pijit {

// A stop that is in no frame any more is in the root.
StopInfo placed(StopInfo stop, const Root& root);
// From now on the root's calls are CPython's, which the first of them says; not under stress.
void leave_alone(Root& root, const Reason& reason, const std::string& why, StopInfo cause = StopInfo());
// Says that CPython runs the calls of the root from now on, if that is still to be said.
void say_farewell(Root& root);

// A call that gave no trace; after a number of them in a row the root is left alone.
void note_abort(Root& root, StopInfo stop);
// A trace that contradicts itself, or memory is short.
void note_failure(Root& root, const char* what);
// A replay has ended, or was left.
void note_replay(Root& root, const Trace& trace, const Left& left);
// No trace takes the call. Where the reason is not used at once it is told for ever fewer calls: to find it takes longer
// than a call may, since a class that nothing has proven is looked for among all classes.
void note_miss(Root& root, cpython::Frame* frame, bool is_used);

}  // namespace pijit
