// Nodes, snapshots, and how a recording ends early.
//
// A snapshot copies the shadow of the innermost frame; the outer frames are waiting in a call and are copied once per
// call. A frame whose C caller takes the result in a way that no continuation describes (see Continuation) makes the
// snapshots inside it unusable: the trace is then cut at the last one that is usable.
#include "record/state/snapshot.h"

#include "cpython/keys.h"
#include "record/limits.h"
#include "record/reasons.h"
#include "record/recorder.h"
#include "record/state/epoch.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/writes.h"
#include "record/stop_place.h"

namespace pijit {
namespace {

// The continuation that rebuilds an outer frame, or false.
bool continuation_of(const Pending& pending, Continuation* out) {
  if (pending.then > Then::kAgain || pending.pushes == 2) return false;
  *out = pending.pushes == 3 ? Continuation::kEnter : static_cast<Continuation>(pending.then);
  return true;
}

// What C code does that no continuation describes.
const char* waits_for(const ShadowFrame& frame) {
  if (frame.drive) return "a frame that C code called";
  switch (frame.pending.then) {
    case Then::kPush:
      return "the lookup of a method";
    case Then::kGetAttribute:
      return "__getattribute__";
    case Then::kNext:
    case Then::kSend:
      return "a loop over what __next__ returns";
    default:
      return "a frame that C code called";
  }
}

// If such an operation cannot be done at a replay, the trace leaves and CPython does it again. It runs no code of the
// user, so nothing can look at the frames meanwhile, and the snapshot need not be able to show them.
bool computes(Op op) {
  return op == Op::kAdapter || (!writes(op) && op != Op::kEpoch);
}

uint32_t site(Recorder& recorder) {
  ShadowFrame& frame = recorder.frames.top();
  if (!recorder.trace().sites.empty()) {
    const Site& last = recorder.trace().sites.back();
    if (last.frame == frame.followed && last.instruction == frame.operation)
      return static_cast<uint32_t>(recorder.trace().sites.size() - 1);
  }
  recorder.trace().sites.push_back({frame.code, frame.operation, frame.followed});
  return static_cast<uint32_t>(recorder.trace().sites.size() - 1);
}

void replace_slot(const Kernel& recording, uint32_t state, int slot, Val by) {
  recording.trace().slots[recording.trace().frame_states[state].first + static_cast<uint32_t>(slot)] = by;
}

}  // namespace

uint32_t frame_state(Recorder& recorder, size_t level, bool innermost) {
  ShadowFrame& frame = *recorder.frames[level];
  if (level > 0 && frame.outer_state == kNone) frame.outer_state = frame_state(recorder, level - 1, false);
  FrameState state{};
  state.parent = level > 0 ? frame.outer_state : kNone;
  state.code = frame.code;
  state.function = frame.function;
  state.call = frame.operation;
  state.locals = static_cast<uint32_t>(frame.locals);
  if (frame.generator != kNone) state.generator = Val::virtual_object(frame.generator);
  if (!frame.handled.empty()) state.handled = frame.handled.back();
  if (!frame.self.is_null()) state.self = frame.self.index();
  const char* unusable = nullptr;
  if (innermost || frame.pending.runs_again()) {
    state.resume = frame.call_start >= 0 ? frame.call_start : frame.instruction;
    state.stack = static_cast<uint32_t>(frame.sp);
    if (!innermost) state.continuation = Continuation::kAgain;
    if (innermost && frame.loads.at == frame.instruction && state.resume == frame.instruction) {
      state.resume = frame.loads.start;
      state.stack = static_cast<uint32_t>(frame.loads.sp);
    }
  } else {
    const bool described = !frame.drive && continuation_of(frame.pending, &state.continuation);
    if (!described) unusable = waits_for(frame);
    if (state.continuation == Continuation::kInit || state.continuation == Continuation::kReplace)
      state.extra = frame.pending.x;
    if (state.continuation == Continuation::kEnter) state.extra = frame.pending.y;
    if (state.continuation == Continuation::kPush && !frame.pending.sought.is_null()) {
      state.continuation = Continuation::kAttribute;
      state.extra = frame.pending.sought;
    }
    state.resume = cpython::next_index(frame.code, frame.operation);
    state.stack = static_cast<uint32_t>(frame.sp - frame.pending.popped());
  }
  if (level > 0 && recorder.snapshots.unusable[state.parent] != nullptr)
    unusable = recorder.snapshots.unusable[state.parent];
  const uint32_t made = add_state(recorder, frame, state, unusable);
  if (!innermost && frame.pending.restarts())
    replace_slot(recorder, made, frame.pending.resuming()->operand, frame.pending.resuming()->instead);
  return made;
}

uint32_t add_state(Recorder& recorder, const ShadowFrame& frame, FrameState state, const char* unusable) {
  state.first = static_cast<uint32_t>(recorder.trace().slots.size());
  auto begin = frame.slots.begin();
  recorder.trace().slots.insert(recorder.trace().slots.end(), begin, begin + state.locals + state.stack);
  recorder.trace().frame_states.push_back(state);
  recorder.snapshots.unusable.push_back(unusable);
  return static_cast<uint32_t>(recorder.trace().frame_states.size() - 1);
}

// A generator that has begun or yielded: from now on it is what its slots hold.
void suspend(Recorder& recorder, std::unique_ptr<ShadowFrame> shadow) {
  FrameState state{};
  state.code = shadow->code;
  state.function = shadow->function;
  state.call = cpython::instruction_index(shadow->frame);
  state.resume = cpython::resume_index(shadow->frame);
  state.locals = static_cast<uint32_t>(shadow->locals);
  state.stack = static_cast<uint32_t>(shadow->sp);
  if (!shadow->handled.empty()) state.handled = shadow->handled.back();
  const uint32_t at = add_state(recorder, *shadow, state, nullptr);
  const Val generator = Val::virtual_object(shadow->generator);
  if (!shadow->yielded) recorder.frames.generators[shadow->frame] = shadow->generator;
  recorder.heap.model(generator).get<family::Generator>().suspended = std::move(shadow);
  note_suspended(recorder.heap, generator.index());
  log(recorder, generator, LogOp::kFrame, Val(), Val(), at);
}

// Whether all nodes since the instruction of that frame began may run once more.
bool is_repeatable(Kernel& recording, ShadowFrame& frame) {
  const auto& nodes = recording.trace().nodes;
  frame.repeatable = std::max(frame.repeatable, frame.mark.nodes);
  while (frame.repeatable < nodes.size() && pijit::is_repeatable(nodes[frame.repeatable])) frame.repeatable += 1;
  return frame.repeatable >= nodes.size();
}

// The frame that would be the innermost one after an exit. What C code called may have no place to go back to: its
// caller executes the instruction once more, if nobody notices that.
size_t level_to_leave(Recorder& recorder) {
  for (size_t level = 0; level + 1 < recorder.frames.size(); ++level) {
    ShadowFrame& frame = *recorder.frames[level];
    Continuation simple;
    if ((frame.pending.runs_again() && !frame.pending.restarts()) ||
        (!frame.drive && continuation_of(frame.pending, &simple)))
      continue;
    if (is_repeatable(recorder, frame)) return level;
  }
  return recorder.frames.size() - 1;
}

uint32_t snapshot_of(Recorder& recorder, size_t level) {
  ShadowFrame& frame = *recorder.frames[level];
  const bool again = (!frame.drive && !frame.pending.entered) || is_repeatable(recorder, frame);
  if (again && frame.snapshot != kNone) return frame.snapshot;
  Snapshot taken{};
  taken.frame = frame_state(recorder, level, true);
  const bool drawn = !again && frame.drive && frame.drawn.operand >= 0;
  taken.time = drawn ? frame.drawn.time : frame.mark.time;
  if (drawn)
    replace_slot(recorder, taken.frame, frame.drawn.operand, frame.drawn.instead);
  else if (!again && recorder.snapshots.unusable[taken.frame] == nullptr)
    recorder.snapshots.unusable[taken.frame] = "C code that called what has effects";
  recorder.trace().snapshots.push_back(taken);
  const auto made = static_cast<uint32_t>(recorder.trace().snapshots.size() - 1);
  if (again) frame.snapshot = made;
  return made;
}

Node& emit_node(Recorder& recorder, Op op) {
  if (!recorder.heap.fillings.empty() && (op == Op::kEpoch || (writes(op) && op != Op::kAdapter)))
    flush_fillings(recorder.heap);
  const uint32_t taken = !leaves(op) ? kNone : computes(op) ? exit_snapshot(recorder) : snapshot(recorder);
  Node node{};
  node.op = op;
  node.snapshot = taken;
  node.time = recorder.trace().clock;
  node.site = site(recorder);
  recorder.trace().nodes.push_back(node);
  return recorder.trace().nodes.back();
}

Val emit_pure(Recorder& recorder, Val callable, const Vals& args, PyTypeObject* type, PyObject* observed) {
  const Val out = add_reg(recorder, Rep::kObject, type, observed);
  Node& node = emit_node(recorder, Op::kPure);
  node.a = callable;
  node.imm = reinterpret_cast<uintptr_t>(type);
  node.out = out.index();
  node.first = static_cast<uint32_t>(recorder.trace().operands.size());
  node.count = static_cast<uint32_t>(args.size());
  recorder.trace().operands.insert(recorder.trace().operands.end(), args.begin(), args.end());
  return out;
}

// Where it cannot be rebuilt, the frame is not left.
void emit_exit_point(Recorder& recorder) {
  const uint32_t number = recorder.trace().exit_points++;
  if (may_leave(recorder)) {
    emit_node(recorder, Op::kExitPoint).imm = number;
  } else {
    recorder.trace().no_exits.push_back(recorder.snapshots.unusable_reason);
  }
  recorder.frames.top().mark = recorder.here();
}

void Recorder::emit(std::unique_ptr<AdapterOp> op, const Vals& inputs, const Vals& outputs, bool check_only) {
  if (!heap.fillings.empty() && !are_scalars(*this, inputs)) flush_fillings(heap);
  Node& node = emit_node(*this, check_only ? Op::kCheck : Op::kAdapter);
  node.adapter_op = op.get();
  trace_->adapter_ops.push_back(std::move(op));
  node.first = static_cast<uint32_t>(trace_->operands.size());
  node.count = static_cast<uint32_t>(inputs.size());
  trace_->operands.insert(trace_->operands.end(), inputs.begin(), inputs.end());
  node.outs_first = static_cast<uint32_t>(trace_->outs.size());
  node.outs_count = static_cast<uint32_t>(outputs.size());
  for (Val output : outputs) trace_->outs.push_back(output.index());
}

void note_stop(Recorder& recorder, Abort reason, const std::string& detail) {
  StopInfo& info = recorder.trace().stop;
  const Reason& row = kAborts[static_cast<size_t>(reason)];
  info.code = row.code;
  info.reason = detail.empty() ? row.text : std::string(row.text) + ": " + detail;
  if (!recorder.frames.empty()) set_place(&info, recorder.frames);
}

void Recorder::stop(const char* code, std::string reason) {
  if (!live_) return;
  note_stop(*this, Abort::kAdapter, reason);
  trace_->stop.code = code;
  request_stop(false);
}

void Recorder::stop(Abort reason, std::string detail) {
  if (!live_) return;
  note_stop(*this, reason, detail);
  if (frames.empty()) return end_here(*this);
  request_stop(reason == Abort::kTooLong || reason == Abort::kOverBudget || reason == Abort::kForeign);
}

// The trace ends at the start of the instruction under way, if its shadow is intact and usable; else at the last usable
// snapshot.
void end_here(Recorder& recorder) {
  ShadowFrame& frame = recorder.frames.top();
  bool intact = !frame.changed && !recorder.stop_changed && !(frame.pending.active && frame.pending.entered);
  if (intact) {
    uint32_t here = exit_snapshot(recorder);
    recorder.trace().nodes.resize(frame.mark.nodes);
    if (snapshot_usable(recorder, here)) return recorder.end_with_exit(here);
  }
  recorder.cut_at_last_snapshot();
}

void Recorder::end_with_exit(uint32_t snapshot) {
  Node node{};
  node.op = Op::kExit;
  node.snapshot = snapshot;
  node.time = trace_->snapshots[snapshot].time;
  trace_->nodes.push_back(node);
  finished_ = true;
  check_snapshots();
  end_events();
}

void Recorder::cut_at_last_snapshot() {
  while (!trace_->nodes.empty()) {
    Node last = trace_->nodes.back();
    trace_->nodes.pop_back();
    if (last.snapshot != kNone && snapshot_usable(*this, last.snapshot)) {
      // Drop whatever else the same instruction emitted.
      while (!trace_->nodes.empty() && trace_->nodes.back().snapshot == last.snapshot) trace_->nodes.pop_back();
      return end_with_exit(last.snapshot);
    }
  }
  if (trace_->stop.code == nullptr) note_stop(*this, Abort::kUnbuildable, snapshots.unusable_reason);
  abandoned_ = true;
  end_events();
}

namespace {

// Which snapshots must be looked at one by one: those with virtual objects that cannot be built at some time, or that
// ever held one of these.
class Doubts {
 public:
  Doubts(const Trace& trace, std::vector<uint32_t> unbuildable)
      : trace_(trace), objects_(trace.virtuals.size(), false), states_(trace.frame_states.size(), kUnknown) {
    if (!unbuildable.empty()) spread(std::move(unbuildable));
  }

  bool about(const Snapshot& taken) {
    for (uint32_t at = taken.frame; at != kNone; at = trace_.frame_states[at].parent)
      if (about_state(at)) return true;
    return false;
  }

 private:
  enum : uint8_t { kUnknown, kNo, kYes };

  void spread(std::vector<uint32_t> found) {
    struct Holder {
      uint32_t object, next;
    };
    std::vector<Holder> holders;
    std::vector<uint32_t> first(trace_.virtuals.size(), kNone);
    for (uint32_t i = 0; i < trace_.virtuals.size(); ++i) {
      const auto holds = [&](Val part) {
        if (!part.is_virtual()) return;
        holders.push_back({i, first[part.index()]});
        first[part.index()] = static_cast<uint32_t>(holders.size() - 1);
      };
      for (uint32_t at = trace_.virtuals[i].head; at != kNone; at = trace_.log[at].next) {
        const LogEntry& entry = trace_.log[at];
        holds(entry.value);
        holds(entry.key);
        if (entry.op != LogOp::kFrame || entry.index == kNone) continue;
        const FrameState& state = trace_.frame_states[entry.index];
        holds(state.handled);
        for (uint32_t k = 0; k < state.locals + state.stack; ++k) holds(trace_.slots[state.first + k]);
      }
    }
    while (!found.empty()) {
      const uint32_t object = found.back();
      found.pop_back();
      if (objects_[object]) continue;
      objects_[object] = true;
      for (uint32_t at = first[object]; at != kNone; at = holders[at].next) found.push_back(holders[at].object);
    }
  }

  bool about_state(uint32_t index) {
    if (states_[index] != kUnknown) return states_[index] == kYes;
    const FrameState& state = trace_.frame_states[index];
    bool found =
        doubtful(state.function) || doubtful(state.generator) || doubtful(state.extra) || doubtful(state.handled);
    for (uint32_t i = 0; !found && i < state.locals + state.stack; ++i) found = doubtful(trace_.slots[state.first + i]);
    states_[index] = found ? kYes : kNo;
    return found;
  }
  bool doubtful(Val value) const { return value.is_virtual() && objects_[value.index()]; }

  const Trace& trace_;
  std::vector<bool> objects_;
  std::vector<uint8_t> states_;
};

}  // namespace

// Every node that may leave needs a snapshot that can be rebuilt: the trace ends before the first one that has none.
void Recorder::check_snapshots() {
  std::vector<uint32_t> unbuildable;
  for (uint32_t i = 0; i < trace_->virtuals.size(); ++i)
    if (!can_build(heap, i, trace_->clock)) unbuildable.push_back(i);
  Doubts doubts(*trace_, std::move(unbuildable));
  uint32_t last_good = kNone, checked = kNone;
  snapshots.usable.restart();  // from the beginning, in the order of time
  for (size_t i = 0; i < trace_->nodes.size(); ++i) {
    uint32_t taken = trace_->nodes[i].snapshot;
    if (taken == kNone || taken == checked) continue;
    const Snapshot& snapshot = trace_->snapshots[taken];
    if ((snapshots.unusable[snapshot.frame] == nullptr && !doubts.about(snapshot)) || snapshot_usable(*this, taken)) {
      checked = last_good = taken;
      continue;
    }
    if (trace_->stop.code == nullptr) {
      trace_->stop.code = kAborts[static_cast<size_t>(Abort::kUnbuildable)].code;
      trace_->stop.reason = kAborts[static_cast<size_t>(Abort::kUnbuildable)].text;
      trace_->stop.reason.append(": ").append(snapshots.unusable_reason);
      const FrameState& state = trace_->frame_states[trace_->snapshots[taken].frame];
      const char* file = PyUnicode_AsUTF8(state.code->co_filename);
      const char* function = PyUnicode_AsUTF8(state.code->co_qualname);
      if (file == nullptr || function == nullptr) PyErr_Clear();
      trace_->stop.file = file == nullptr ? "?" : file;
      trace_->stop.function = function == nullptr ? "?" : function;
      trace_->stop.line = cpython::line_of(state.code, state.call);
    }
    if (last_good == kNone) {
      finished_ = false;
      abandoned_ = true;
      return;
    }
    trace_->nodes.resize(i);
    while (!trace_->nodes.empty() && trace_->nodes.back().snapshot != last_good) trace_->nodes.pop_back();
    while (!trace_->nodes.empty() && trace_->nodes.back().snapshot == last_good) trace_->nodes.pop_back();
    Node node{};
    node.op = Op::kExit;
    node.snapshot = last_good;
    node.time = trace_->snapshots[last_good].time;
    trace_->nodes.push_back(node);
    return;
  }
}

}  // namespace pijit
