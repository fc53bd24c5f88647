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
#include "record/recover.h"

#include <algorithm>
#include <utility>

#include "cpython/keys.h"
#include "ir/log.h"
#include "record/pace.h"
#include "record/recorder.h"
#include "record/state/epoch.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/opaque.h"
#include "record/step/raised.h"

namespace pijit {

void Recorder::request_stop(bool final) {
  const ShadowFrame& frame = frames.top();
  halt();
  stop_final = final;
  stop_changed = frame.changed;
}

// Takes the recording back to the start of the frame's instruction: each owner takes itself back, the trace comes last.
void Recorder::rollback(ShadowFrame& frame) {
  frame.sp = frame.sp_mark;
  frame.drive.reset();
  if (adapter_ != nullptr) adapter_->forget_computed();
  each_owner(*this, [&](auto& owner) { owner.undo(frame.mark); });
  Kernel::undo(frame.mark);
}

namespace {

// The frames from `level` inwards are CPython's alone.
void unfollow(FrameStack& frames, size_t level) {
  for (size_t i = level; i < frames.size(); ++i) {
    cpython::unfollow_events(frames[i]->frame);
    frames[i]->drive.reset();
    frames.spare.push_back(std::move(frames[i]));
  }
  frames.resize(level);
}

// The C code that the frame's instruction called, and what that called, as an opaque call.
bool call_opaquely(Recorder& recorder, size_t level) {
  if (level + 1 >= recorder.frames.size()) return false;
  ShadowFrame& frame = *recorder.frames[level];
  if (!frame.drive && !frame.pending.is<Resuming>()) return false;
  recorder.resume();
  unfollow(recorder.frames, level + 1);
  frame.pending = Pending();
  recorder.rollback(frame);
  return go_opaque(recorder, frame) && recorder.live();
}

}  // namespace

bool Recorder::resolve_stop() {
  stopping = false;
  ShadowFrame& frame = frames.top();
  const StopInfo why = trace_->stop;
  const bool intact = !stop_changed && !frame.changed;
  if (intact) {
    rollback(frame);
    frame.pending = Pending();
  }
  if (!stop_final && intact && (adapter_ == nullptr || adapter_->trouble() == nullptr)) {
    live_ = true;
    if (!raise.unforeseen && !std::exchange(numbers.leave_frame, false)) {
      if (go_opaque(*this, frame) && live_) {
        trace_->detours.push_back(why);
        trace_->stop = StopInfo();
        return true;
      }
    }
    // The innermost frames first: as little as possible is left to CPython.
    for (size_t top = frames.size() - 1; top >= 1 && !stop_final; --top)
      for (size_t level = top; level >= 1; --level) {
        resume();
        if (!run_in_cpython(*this, level, top) && (level != 1 || !call_opaquely(*this, top - 1))) continue;
        trace_->detours.push_back(why);
        trace_->stop = StopInfo();
        raise.unforeseen = raise.event = raise.foreseen = false;
        return true;
      }
    rollback(frames.top());  // what was tried may have gone further back than `frame` began
  }
  resume();
  trace_->stop = why;
  end_here(*this);
  return false;
}

namespace {

// What the frame handles can be built.
bool can_rebuild(Recorder& recorder, const ShadowFrame& frame) {
  ++recorder.snapshots.visit;
  recorder.snapshots.visited.resize(recorder.trace().virtuals.size(), 0);
  for (Val exception : frame.handled)
    if (exception.is_virtual() && !virtual_usable(recorder, exception.index(), recorder.trace().clock)) return false;
  return true;
}

// The frames from `level` to the innermost can be rebuilt, and the caller of `level` takes what it returns simply.
bool may_run(Recorder& recorder, size_t level, size_t top) {
  for (size_t i = 0; i <= top; ++i)
    if ((i < level && !can_rebuild(recorder, *recorder.frames[i])) || recorder.frames[i]->generator != kNone)
      return false;
  const Pending& caller = recorder.frames[level - 1]->pending;
  for (size_t i = level - 1; i < top; ++i)
    if (recorder.frames[i]->drive) return false;
  return caller.active && caller.is<Entering>() &&
         ((caller.then == Then::kPush && caller.pushes != 2 && caller.finish == nullptr) ||
          caller.then == Then::kDrop || caller.then == Then::kInit || caller.then == Then::kReplace);
}

// The frame as it was before the instruction that raised what it handles.
void return_to_raise(ShadowFrame& frame) {
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

}  // namespace

// CPython runs the frames from `level` inwards, from the start of the instruction under way. A frame that handles an
// exception cannot be rebuilt, so it is run from where that was raised.
bool run_in_cpython(Recorder& recorder, size_t level, size_t top) {
  if (top >= recorder.frames.size()) return false;
  for (size_t i = level; i <= top; ++i)
    if (!can_rebuild(recorder, *recorder.frames[i])) {
      top = i;
      break;
    }
  if (!may_run(recorder, level, top)) return false;
  unfollow(recorder.frames, top + 1);
  ShadowFrame &frame = *recorder.frames[top], &outer = *recorder.frames[level - 1];
  frame.pending = Pending();
  if (!can_rebuild(recorder, frame)) return_to_raise(frame);
  recorder.rollback(frame);
  frame.snapshot = kNone;
  if (top > 0 && frame.outer_state != kNone && recorder.snapshots.unusable[frame.outer_state] != nullptr) return false;
  // What these frames can reach is real from now on, and the same object as in the frames outside.
  for (size_t i = level; i <= top && recorder.live(); ++i) {
    const ShadowFrame& inner = *recorder.frames[i];
    const int count = inner.locals + inner.sp - (i == top ? 0 : inner.pending.popped());
    for (int k = 0; k < count && recorder.live(); ++k) materialize(recorder, inner.slots[static_cast<size_t>(k)]);
    if (recorder.live() && inner.function.is_virtual()) materialize(recorder, inner.function);
    if (recorder.live() && i < top) materialize(recorder, inner.pending.x);
    if (recorder.live() && i < top) materialize(recorder, inner.pending.y);
  }
  if (!recorder.live()) return false;
  for (size_t i = 0; i <= top; ++i) recorder.frames[i]->outer_state = kNone;
  frame.mark.time = recorder.trace().clock;
  frame.snapshot = kNone;
  const uint32_t here = snapshot(recorder);
  if (!snapshot_usable(recorder, here)) return false;
  Snapshot raising{};
  raising.frame = frame_state(recorder, level - 1, false);
  recorder.trace().frame_states[raising.frame].continuation = Continuation::kNone;
  recorder.trace().frame_states[raising.frame].extra = Val();
  raising.time = recorder.trace().clock;
  recorder.trace().snapshots.push_back(raising);
  const auto raised = static_cast<uint32_t>(recorder.trace().snapshots.size() - 1);
  const Val out = add_reg(recorder, Rep::kObject, nullptr, nullptr);
  Node& node = emit_node(recorder, Op::kRun);
  node.out = out.index();
  node.aux = static_cast<uint32_t>(level);
  node.imm = raised;
  recorder.foreign.opaque_calls += 1;
  recorder.foreign.only_tensors = false;
  recorder.allow_gc();
  Pending& pending = outer.pending;
  pending.awaited = Opaque{out.index(), recorder.frames[level]->frame};
  pending.ignores_frames = true;
  unfollow(recorder.frames, level);
  recorder.step_aside();
  return true;
}

bool is_all_opaque(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  constexpr int kMany = 4;
  PyObject* result = nullptr;
  if (now.is(Operation::kReturn) && frame.top().is_const()) result = frame.top().object();
  if (now.is(Operation::kReturnConst)) result = PyTuple_GET_ITEM(frame.code->co_consts, now.argument);
  if ((result != Py_None && result != Py_True && result != Py_False) || keeps_inputs() || recorder.frames.size() < 2 ||
      frame.generator != kNone || !frame.handled.empty())
    return false;
  ShadowFrame& outer = *recorder.frames[recorder.frames.size() - 2];
  const Pending& caller = outer.pending;
  const bool is_call = outer.does(Operation::kCall) || outer.does(Operation::kCallNames);
  if (!is_call || outer.drive || !caller.active || !caller.is<Entering>() || caller.then != Then::kPush ||
      caller.pushes == 2 || caller.finish != nullptr || !can_rebuild(recorder, outer))
    return false;
  int opaque = 0;
  const auto& nodes = recorder.trace().nodes;
  for (size_t i = outer.mark.nodes; i < nodes.size(); ++i) {
    if (nodes[i].op == Op::kAdapter) return false;
    opaque += is_opaque(nodes[i].op);
  }
  return opaque >= kMany;
}

void call_whole(Recorder& recorder) {
  const size_t level = recorder.frames.size() - 2;
  unfollow(recorder.frames, level + 1);
  ShadowFrame& outer = *recorder.frames[level];
  outer.pending = Pending();
  recorder.rollback(outer);
  outer.snapshot = kNone;
  if (go_opaque(recorder, outer) && recorder.live()) return;
  recorder.resume();
  recorder.rollback(outer);
  recorder.trace().stop = StopInfo();
  end_here(recorder);
}

// The frame that CPython ran has returned to `outer`, or raised.
void finish_run(Recorder& recorder, ShadowFrame& outer, PyObject* result) {
  auto& opaque = std::get<Opaque>(outer.pending.awaited);
  opaque.run = nullptr;
  recorder.pause_gc();
  if (result == nullptr) return is_handled(recorder.frames) ? void() : raised_unforeseen(recorder);
  if (locals_were_seen(recorder)) return;
  const Val out = Val::reg(opaque.out);
  recorder.heap.reg_objects[out.index()] = result;
  if (outer.pending.then == Then::kInit) recorder.foreign.none_result = out;
  if (outer.pending.then == Then::kPush) recorder.foreign.epoch_result = out;
  inner_returned(recorder, outer, out);
}

// An exception that nothing foresaw comes out of the innermost frame's instruction.
void raised_unforeseen(Recorder& recorder) {
  recorder.raise.unforeseen = true;
  recorder.stop(Abort::kRaised, "");
}

}  // namespace pijit
