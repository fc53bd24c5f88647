// Which traces a root has.
//
// A recording gives a new one, which takes the place of those that give way to it. If a trace is left often at one
// node, a later call is recorded, to become the side trace of the node. A trace that is of no use is forgotten.
#pragma once
#include <memory>

#include "cache/root.h"
#include "exec/replay.h"
#include "record/recorder.h"

namespace pijit {

// In a checked build: a trace that contradicts itself is a bug and stops the process.
void check_trace(const Trace& trace);
// The trace of a recording is kept. Until then, things that an object held once seem to be built with the object.
void finish(Trace& trace);
// The trace is about to be replayed for the first time.
void prepare(const Root& root, Trace& trace);
// The trace of a recording, null if there is none, is the next one of the root: the side trace that was wanted, if one
// was.
void install_trace(Root& root, std::unique_ptr<Trace> trace, const Recorder& recorder, const Wanted& wanted);
// The trace that another process has kept is the next one of the root, and ready for replays.
void install_kept(Root& root, std::unique_ptr<Trace> trace);
// The call is to be recorded: the numbers because of which it missed the root's traces are left open in the new one.
void learn_numbers(Root& root, cpython::Frame* frame);

// Counts of replays that were left at the node.
Leaving& leaving_at(const Trace& trace, uint32_t node);
// A replay was left: a later call may be recorded, to become a side trace, or in the place of the trace.
void go_on_from(Root& root, const Left& left);

}  // namespace pijit
