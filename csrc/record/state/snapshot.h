// Nodes, snapshots, and whether a snapshot can be rebuilt.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Nodes and snapshots (snapshot.cpp).
Node& emit_node(Recorder&, Op op);  // with a snapshot at the start of the current instruction when the op may leave
// A call of foreign code that only computes: the node, and the register with what it gives, of which the replay is left
// where the class is another one.
Val emit_pure(Recorder&, Val callable, const Vals& args, PyTypeObject* type, PyObject* observed);
size_t level_to_leave(Recorder&);
bool is_repeatable(Kernel&, ShadowFrame& frame);
uint32_t snapshot_of(Recorder&, size_t level);
uint32_t frame_state(Recorder&, size_t level, bool innermost);
uint32_t add_state(Recorder&, const ShadowFrame& frame, FrameState state, const char* unusable);
void suspend(Recorder&, std::unique_ptr<ShadowFrame> shadow);

// How a recording ends early.
void note_stop(Recorder&, Abort reason, const std::string& detail);
void end_here(Recorder&);
void emit_exit_point(Recorder&);

// Whether a replay can be left there (usable.cpp).
bool snapshot_usable(Recorder&, uint32_t index);
bool virtual_usable(Recorder&, uint32_t index, uint32_t time);

// At the start of the instruction under way.
inline uint32_t snapshot(Recorder& recorder) {
  return snapshot_of(recorder, recorder.frames.size() - 1);
}
// Where an exit goes, not who is running.
inline uint32_t exit_snapshot(Recorder& recorder) {
  return snapshot_of(recorder, level_to_leave(recorder));
}
inline bool may_leave(Recorder& recorder) {
  return snapshot_usable(recorder, exit_snapshot(recorder));
}

}  // namespace pijit
