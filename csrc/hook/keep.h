// Which traces a root has.
//
// A recording gives a new one, which takes the place of those that give way to it. A trace that is left often at one
// node has a later call recorded, to become the side trace of the node. A trace that is of no use any more is forgotten.
#pragma once
#include <memory>

#include "cache/root.h"
#include "exec/replay.h"
#include "record/recorder.h"

namespace pijit {

// In a checked build: a trace that contradicts itself is a bug and stops the process.
void check_trace(const Trace& trace);
// What a recording gave is kept. Before it is finished, what an object held once seems to be built with the object.
void finish(Trace& trace);
// The trace is about to be replayed for the first time.
void prepare(const Root& root, Trace& trace);
// What a recording gave, null for nothing, becomes a trace of the root: the side trace that was wanted, if one was.
void install_trace(Root& root, std::unique_ptr<Trace> trace, const Recorder& recorder, const Wanted& wanted);
// The call is to be recorded: the numbers because of which it missed the root's traces are left open in the new one.
void learn_numbers(Root& root, cpython::Frame* frame);

// What is known of the node, at which replays were left.
Leaving& leaving_at(const Trace& trace, uint32_t node);
// A replay was left: a later call may be recorded, to become a side trace, or in the place of the trace.
void go_on_from(Root& root, const Left& left);

}  // namespace pijit
