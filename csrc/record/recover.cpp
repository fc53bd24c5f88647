// What becomes of a stop: an opaque call, frames that CPython runs, or the end of the recording.
//
//   stop() -> at the border of the event:  the instruction as an opaque call
//                                       -> the frames from some level inwards, run by CPython to that level's return
//                                       -> the trace ends in an exit here
//
// 1. A handler that called stop() sees a recording that is not live any more and leaves everything as it is.
// 2. Going back to the start of an instruction forgets what the trace did since: its nodes, and what was logged of
// virtual objects, and its guards. So facts are not to be trusted after it: an epoch begins, or the trace ends.
// 3. Only frames whose caller takes the result in a simple way can be left to CPython.
#include <algorithm>

#include "cpython/keys.h"
#include "ir/log.h"
#include "record/recorder.h"

namespace pijit {

void Recorder::request_stop(bool final) {
  const ShadowFrame& frame = top_frame();
  halt();
  stop_final = final;
  stop_changed = frame.changed;
}

// Takes the recording back to the start of the frame's instruction: each owner takes itself back, the trace comes last.
void Recorder::rollback(ShadowFrame& frame) {
  frame.sp = frame.sp_mark;
  frame.drive.reset();
  each_owner(*this, [&](auto& owner) { owner.undo(frame.mark); });
  Kernel::undo(frame.mark);
}

bool Recorder::resolve_stop() {
  stopping = false;
  ShadowFrame& frame = top_frame();
  const StopInfo why = trace_->stop;
  const bool intact = !stop_changed && !frame.changed;
  if (intact) {
    rollback(frame);
    frame.pending = Pending();
  }
  if (!stop_final && intact && (adapter_ == nullptr || adapter_->trouble() == nullptr)) {
    live_ = true;
    if (!raise_.unforeseen) {
      if (go_opaque(frame) && live_) {
        trace_->detours.push_back(why);
        trace_->stop = StopInfo();
        return true;
      }
    }
    // The innermost frames first: as little as possible is left to CPython.
    for (size_t top = frames_.size() - 1; top >= 1 && !stop_final; --top)
      for (size_t level = top; level >= 1; --level) {
        resume();
        if (!run_in_cpython(level, top) && (level != 1 || !call_opaquely(top - 1))) continue;
        trace_->detours.push_back(why);
        trace_->stop = StopInfo();
        raise_.unforeseen = raise_.event = raise_.foreseen = false;
        return true;
      }
    rollback(top_frame());  // what was tried may have gone further back than `frame` began
  }
  resume();
  trace_->stop = why;
  end_here();
  return false;
}

// The frames from `level` to the innermost can be rebuilt, and the caller of `level` takes what it returns simply.
bool Recorder::may_run(size_t level, size_t top) {
  for (size_t i = 0; i <= top; ++i)
    if ((i < level && !can_rebuild(*frames_[i])) || frames_[i]->generator != kNone) return false;
  const Pending& caller = frames_[level - 1]->pending;
  for (size_t i = level - 1; i < top; ++i)
    if (frames_[i]->drive) return false;
  return caller.active && caller.expects_frame && caller.generator == kNone &&
         ((caller.then == Then::kPush && caller.pushes != 2 && caller.finish == nullptr) ||
          caller.then == Then::kDrop || caller.then == Then::kInit || caller.then == Then::kReplace);
}

// What the frame handles can be built.
bool Recorder::can_rebuild(const ShadowFrame& frame) {
  ++snapshots_.visit;
  snapshots_.visited.resize(trace_->virtuals.size(), 0);
  for (Val exception : frame.handled)
    if (exception.is_virtual() && !virtual_usable(exception.index(), trace_->clock)) return false;
  return true;
}

// CPython runs the frames from `level` inwards, from the start of the instruction under way. A frame that handles an
// exception cannot be rebuilt, so it is run from where that was raised.
bool Recorder::run_in_cpython(size_t level, size_t top) {
  if (top >= frames_.size()) return false;
  for (size_t i = level; i <= top; ++i)
    if (!can_rebuild(*frames_[i])) {
      top = i;
      break;
    }
  if (!may_run(level, top)) return false;
  unfollow(top + 1);
  ShadowFrame &frame = *frames_[top], &outer = *frames_[level - 1];
  frame.pending = Pending();
  if (!can_rebuild(frame)) return_to_raise(frame);
  rollback(frame);
  frame.snapshot = kNone;
  if (top > 0 && frame.outer_state != kNone && snapshots_.unusable[frame.outer_state] != nullptr) return false;
  // What these frames can reach is real from now on, and the same object as in the frames outside.
  for (size_t i = level; i <= top && live_; ++i) {
    const ShadowFrame& inner = *frames_[i];
    const int count = inner.locals + inner.sp - (i == top ? 0 : inner.pending.popped());
    for (int k = 0; k < count && live_; ++k) materialize(inner.slots[static_cast<size_t>(k)]);
    if (live_ && inner.function.is_virtual()) materialize(inner.function);
    if (live_ && i < top) materialize(inner.pending.x);
    if (live_ && i < top) materialize(inner.pending.y);
  }
  if (!live_) return false;
  for (size_t i = 0; i <= top; ++i) frames_[i]->outer_state = kNone;
  frame.mark.time = trace_->clock;
  frame.snapshot = kNone;
  const uint32_t here = snapshot();
  if (!snapshot_usable(here)) return false;
  Snapshot raising{};
  raising.frame = frame_state(level - 1, false);
  trace_->frame_states[raising.frame].continuation = Continuation::kNone;
  trace_->frame_states[raising.frame].extra = Val();
  raising.time = trace_->clock;
  trace_->snapshots.push_back(raising);
  const auto raised = static_cast<uint32_t>(trace_->snapshots.size() - 1);
  const Val out = add_reg(Rep::kObject, nullptr, nullptr);
  Node& node = emit_node(Op::kRun);
  node.out = out.index();
  node.aux = static_cast<uint32_t>(level);
  node.imm = raised;
  foreign_.opaque_calls += 1;
  allow_gc();
  Pending& pending = outer.pending;
  pending.run = frames_[level]->frame;
  pending.run_out = out.index();
  pending.opaque = pending.ignores_frames = true;
  unfollow(level);
  step_aside();
  return true;
}

// The C code that the frame's instruction called, and what that called, as an opaque call.
bool Recorder::call_opaquely(size_t level) {
  if (level + 1 >= frames_.size()) return false;
  ShadowFrame& frame = *frames_[level];
  if (!frame.drive && frame.pending.generator == kNone) return false;
  resume();
  unfollow(level + 1);
  frame.pending = Pending();
  rollback(frame);
  return go_opaque(frame) && live_;
}

// The frames from `level` inwards are CPython's alone.
void Recorder::unfollow(size_t level) {
  for (size_t i = level; i < frames_.size(); ++i) {
    cpython::unfollow_events(frames_[i]->frame);
    frames_[i]->drive.reset();
    frames_.spare.push_back(std::move(frames_[i]));
  }
  frames_.resize(level);
}

// The frame as it was before the instruction that raised what it handles.
void Recorder::return_to_raise(ShadowFrame& frame) {
  const BeforeRaise& before = *frame.before_raise;
  frame.slots = before.slots;
  frame.sp_mark = before.sp;
  frame.instruction = before.instruction;
  frame.operation = before.operation;
  frame.call_start = before.call_start;
  frame.mark = before.mark;
  frame.pending = Pending();
  frame.handled.clear();
}

// The frame that CPython ran has returned to `outer`, or raised.
void Recorder::finish_run(ShadowFrame& outer, PyObject* result) {
  outer.pending.run = nullptr;
  pause_gc();
  if (result == nullptr) return is_handled() ? void() : raised_unforeseen();
  if (locals_were_seen()) return;
  const Val out = Val::reg(outer.pending.run_out);
  heap_.reg_objects[out.index()] = result;
  if (outer.pending.then == Then::kInit) foreign_.none_result = out;
  if (outer.pending.then == Then::kPush) foreign_.epoch_result = out;
  inner_returned(outer, out);
}

// An exception that nothing foresaw comes out of the innermost frame's instruction.
void Recorder::raised_unforeseen() {
  raise_.unforeseen = true;
  stop(Abort::kRaised, "");
}

}  // namespace pijit
