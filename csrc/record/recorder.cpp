// The recorder's life: start, events, frames entered and left, the outcome.
#include "record/recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "common/clock.h"
#include "cpython/keys.h"
#include "ir/adapter_slot.h"
#include "ir/checked.h"
#include "record/captures.h"
#include "record/guarded.h"
#include "record/limits.h"
#include "record/mirror/builtins.h"
#include "record/pace.h"
#include "record/put_aside.h"
#include "record/recover.h"
#include "record/state/epoch.h"
#include "record/state/exceptions.h"
#include "record/state/generators.h"
#include "record/state/inputs.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"
#include "record/step/array_calls.h"
#include "record/step/completion.h"
#include "record/step/heads.h"
#include "record/step/library_calls.h"
#include "record/step/loops.h"
#include "record/step/opaque.h"
#include "record/step/raised.h"
#include "record/step/step.h"

namespace pijit {
namespace {

// What cpython/events.h hears.
struct Listener {
  static bool listens() { return t_active != nullptr && t_active->live(); }
  static void instruction(cpython::Frame* frame) { t_active->on_instruction(frame); }
  static void exception(cpython::Frame* frame, PyObject* exception) { t_active->on_exception(frame, exception); }
};
constexpr cpython::EventFunction on_event = cpython::event_function<Listener>;

// While a thread is traced CPython binds a C method to its object before it calls it. Garbage that this allocation
// collected would have its finalizers run between the evaluation of the arguments and the call. The frame is that of a
// trace event: a running one keeps its stack to itself.
bool binds_method(const ShadowFrame& frame) {
  const Instruction now = frame.current();
  PyObject* callable = nullptr;
  if (now.is(Operation::kCallSpread))
    callable = cpython::callee(frame.frame, 1 + now.flag);
  else if (now.is(Operation::kCall) || now.is(Operation::kCallNames))
    callable = cpython::callee(frame.frame, now.argument + (now.is(Operation::kCallNames) ? 1 : 0));
  return callable != nullptr && Py_IS_TYPE(callable, &PyMethodDescr_Type);
}

}  // namespace

constinit thread_local Recorder* t_active = nullptr;

PutAside::PutAside()
    : recorder_(std::exchange(t_active, nullptr)),
      adapter_(recorder_ != nullptr && current_adapter() != nullptr ? current_adapter()->put_aside() : nullptr),
      pace_(std::move(recording_pace())) {}

PutAside::~PutAside() {
  t_active = recorder_;
  recording_pace() = std::move(pace_);
}

Recorder::Recorder(PyThreadState* thread, cpython::Frame* root, Adapter* adapter, Varying* varying)
    : Kernel(thread, adapter, varying), Owners(*this, root), limit_(record_limits().operations) {}

void Recorder::mark_loops() {
  heads_ = std::make_unique<Heads>();
}

Recorder::~Recorder() {
  end_events();
  for (auto& frame : frames.spare) frame.reset();
  if (adapter_ != nullptr) adapter_->forget_recording();
  heap.models.clear();  // frames of generators go before those that may run them
}

void throw_wrong_shadow() {
  throw std::out_of_range("a place that the shadow does not have");
}

void Recorder::fail(const char* what) noexcept {
  if (kChecked) {
    std::fprintf(stderr, "pijit: the recorder failed: %s\n", what);
    std::abort();
  }
  give_up(Abort::kFailed, what);
}

void Recorder::give_up(Abort reason, const char* detail) noexcept {
  const bool first = !std::exchange(abandoned_, true);
  live_ = stopping = false;
  try {
    if (first) note_stop(*this, reason, detail);
    end_events();
  } catch (...) {  // without memory there is no text
  }
}

namespace {

// Under stress: one of the things that must not happen, at one instruction or another.
void inject_fault(ShadowFrame& frame) {
  constexpr uint32_t kEvery = 7, kKinds = 4;
  static uint32_t count = 0;
  if (++count % kEvery != 0) return;
  switch (count / kEvery % kKinds) {
    case 0:
      frame.sp += 1;
      break;
    case 1:
      frame.slots.resize(static_cast<size_t>(frame.locals + frame.sp));
      break;
    case 2:
      frame.sp = -frame.locals - 1;
      break;
    default:
      throw std::bad_alloc();
  }
}

}  // namespace

bool Recorder::start() noexcept {
  return guarded(false, [&] { return begin_recording(); });
}

std::unique_ptr<Trace> Recorder::finish() noexcept {
  return guarded(false, [&] { return end_recording(); });
}

TraceMark Recorder::here() const {
  return {mark(), reads.mark(), heap.mark()};
}

bool Recorder::begin_recording() {
  started_ = now();
  foreign.switches = cpython::thread_switches(thread_);
  make_room(&trace_->log, 2);
  make_room(&trace_->virtuals, 1);
  make_room(&trace_->nodes, 1);
  make_room(&trace_->slots, 1);
  make_room(&trace_->frame_states, 1);
  raise.entry_exception = cpython::topmost_exception(thread_);
  trace_->code = Ref::borrow(reinterpret_cast<PyObject*>(cpython::code(frames.root)));
  trace_->owned.push_back(Ref::borrow(trace_->code.get()));
  if (adapter_ != nullptr) {
    if (adapter_->must_step_aside() != nullptr) return false;
    trace_->state = adapter_->capture_state();
    trace_->tensors = adapter_->new_inputs();
  }
  gc_ = std::make_unique<cpython::GcPause>();
  live_ = true;
  adapter_on_ = adapter_ != nullptr && adapter_->begin_recording(*this);  // which notes what is known of the inputs
  if (adapter_on_ != (adapter_ != nullptr) || !(frames.in_the_middle ? bind_entry(*this) : bind_root(*this))) {
    end_events();
    return false;
  }
  t_active = this;
  observing_ = cpython::start_events(thread_, on_event);
  for (const auto& shadow : frames)
    if (!observing_ || !(frames.in_the_middle ? cpython::follow_events_from_here(shadow->frame)
                                              : cpython::follow_events(shadow->frame))) {
      end_events();
      return false;
    }
  return true;
}

// Somebody else traces or profiles the thread by now: it is theirs. Or the innermost frame may have run unseen.
bool Recorder::lost_events() {
  if (!observing_) return false;
  if (!cpython::only_events_are(thread_, aside_ > 0 ? nullptr : on_event)) {
    abandon("a tracer or profiler was switched on");
  } else if (!frames.empty() && !cpython::has_events(frames.top().code)) {
    abandon("CPython lost the events of its code to another tool");
  }
  return abandoned_;
}

void Recorder::step_aside() noexcept {
  if (aside_++ > 0) return;
  cpython::detach_events(thread_);
  if (adapter_on_) adapter_->pause_call(true);
}

void Recorder::come_back() noexcept {
  if (lost_events()) return;
  if (--aside_ > 0) return;
  cpython::attach_events(thread_, on_event);
  if (adapter_on_) adapter_->pause_call(false);
}

// Gives the thread back as it was; idempotent.
void Recorder::end_events() {
  live_ = false;
  if (observing_) {
    observing_ = false;
    if (cpython::events_are(thread_, aside_ > 0 ? nullptr : on_event)) cpython::stop_events(thread_);
    for (auto& shadow : frames) cpython::unfollow_events(shadow->frame);
  }
  if (adapter_on_) {
    adapter_on_ = false;
    adapter_->end_recording();
  }
  if (t_active == this) t_active = nullptr;
  gc_.reset();
}

void Recorder::abandon(const char* why) {
  if (abandoned_) return;
  abandoned_ = true;
  trace_->stop.reason = why;
  end_events();
}

std::unique_ptr<Trace> Recorder::end_recording() {
  if (adapter_on_ && adapter_->trouble() != nullptr) abandon(adapter_->trouble());
  end_events();
  const bool learned = learn_places(*this);
  if (abandoned_ || !finished_ || forgets_coroutine(*this)) return nullptr;
  trace_->gives_way = learned;
  if (!trace_->epochs.empty())
    trace_->epochs.back().count = static_cast<uint32_t>(trace_->guards.size()) - trace_->epochs.back().first;
  reads.close_dict_guards();
  reads.close_abc_guards();
  trace_->record_seconds = now() - started_;
  trace_->operations = record_limits().operations - limit_;
  give_back_room(&trace_->log);
  give_back_room(&trace_->virtuals);
  give_back_room(&trace_->nodes);
  give_back_room(&trace_->slots);
  give_back_room(&trace_->frame_states);
  give_back_room(&trace_->followed);
  return std::move(trace_);
}

namespace {

// Nodes of the frame say by this where they came from. A generator that is resumed has its first argument from before.
void note_followed(Recorder& recorder, ShadowFrame& shadow) {
  Followed made{shadow.code, kNone, 0, Val()};
  if (!recorder.frames.empty()) {
    made.caller = recorder.frames.top().followed;
    made.instruction = recorder.frames.top().operation;
  }
  if (shadow.followed != kNone)
    made.first = recorder.trace().followed[shadow.followed].first;
  else if (cpython::argument_slots(shadow.code) > 0)
    made.first = shadow.local(0);
  shadow.followed = static_cast<uint32_t>(recorder.trace().followed.size());
  recorder.trace().followed.push_back(made);
  if (keeps_inputs() && made.first.object() != nullptr)
    recorder.trace().owned.push_back(Ref::borrow(made.first.object()));
}

}  // namespace

void Recorder::push_frame(std::unique_ptr<ShadowFrame> shadow) {
  reads.owned(reinterpret_cast<PyObject*>(shadow->code));  // snapshots and sites name it
  if (observing_ && !cpython::follow_events(shadow->frame)) stop(Abort::kFailed, "its code cannot have events");
  pace_.follow(shadow->code);
  if (heads_) shadow->decisions = heads_->decisions;
  note_followed(*this, *shadow);
  frames.push_back(std::move(shadow));
  if (frames.size() > trace_->depth) trace_->depth = static_cast<uint32_t>(frames.size());
}

void Recorder::on_exception(cpython::Frame* frame, PyObject* exception) noexcept {
  guarded(false, [&] { observe_exception(frame, exception); });
}

void Recorder::observe_exception(cpython::Frame* frame, PyObject* object) {
  if (frames.empty() || frames.top().frame != frame) return;
  if (lost_events()) return;  // what a tracer raises is not the instruction's
  Pending& pending = frames.top().pending;
  const bool iterates = pending.active && (pending.then == Then::kNext || pending.then == Then::kSend);
  if (iterates && PyErr_GivenExceptionMatches(object, PyExc_StopIteration) != 0) return;  // tracers are told of it
  raise.event = true;
  if (pending.active && pending.folds && !raise.foreseen) begin_raise(*this, frames.top(), pending.pops, Val(), false);
  if (pending.active && (pending.raises || pending.folds)) raise.foreseen = true;
  if (!raise.foreseen) {
    raise.foreseen = take_raised(*this, object);
  } else if (pending.raises && raise.value.is_null()) {
    const Val made = new_exception(*this, object);
    if (trace_->virtuals[made.index()].buildable) {
      raise.value = made;
    } else if (!take_raised(*this, object)) {
      raise.foreseen = pending.active;  // else the instruction was taken back
    }
  }
  if (stopping) resolve_stop();
}

namespace {

// The previous instruction raised and CPython went to a handler of this frame.
bool unwind(Recorder& recorder, ShadowFrame& frame) {
  recorder.raise.event = false;
  if (!recorder.raise.foreseen) {
    raised_unforeseen(recorder);
    return false;
  }
  recorder.raise.foreseen = false;
  cpython::Handler handler;
  if (!cpython::find_handler(frame.code, frame.operation, &handler) ||
      handler.target != cpython::instruction_index(frame.frame)) {
    recorder.abandon("an exception was foreseen that was not raised");
    return false;
  }
  refresh_written(recorder);
  const auto stack = [&](int depth) { return cpython::slot(frame.frame, frame.locals + handler.depth + depth); };
  const Val exception = raised_exception(recorder, stack(handler.push_lasti ? 1 : 0));
  if (exception.is_null() ||
      (is_taken(recorder.heap, exception) && !recorder.trace().virtuals[exception.index()].buildable)) {
    raised_unforeseen(recorder);
    return false;
  }
  recorder.raise.snapshot = kNone;
  if (frame.handled.empty())
    frame.before_raise = std::make_unique<BeforeRaise>(
        BeforeRaise{frame.slots, frame.sp, frame.instruction, frame.operation, frame.call_start, frame.mark});
  frame.pending = kNothingPending;
  frame.sp = handler.depth;
  if (handler.push_lasti) frame.push(recorder.reads.owned(stack(0)));
  frame.push(exception);
  return true;
}

// The operands whose types the instruction looks at.
void learn_operands(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const cpython::Looks looks = cpython::looks_of(now);
  if (now.is(Operation::kReturn)) {  // NotImplemented is no result of an operator, and a length is an int
    const Then then =
        recorder.frames.size() < 2 ? Then::kPush : recorder.frames[recorder.frames.size() - 2]->pending.then;
    if (then != Then::kBinary && then != Then::kLength) return;
  }
  // A function of Python looks itself into what it is called with, and most other callables are opaque.
  const bool call = now.is(Operation::kCall) || now.is(Operation::kCallNames);
  PyObject* callable = call ? frame.top(looks.last).object() : nullptr;
  const bool known = call && callable != nullptr && is_known_builtin(callable);
  const bool passes = looks.passes || (call && !known);
  const bool tensors = known || now.is(Operation::kLoadAttribute);
  for (int at = looks.first, last = std::min(looks.last, frame.sp); at <= last; ++at)
    learn(recorder, frame, at, tensors, !passes || (call && at == last));
}

}  // namespace

// An exception came to a handler of the innermost frame, and CPython has told nobody.
void Recorder::notice_exception(cpython::Frame* frame) {
  const ShadowFrame& top = frames.top();
  cpython::Handler handler;
  if (top.raises_again() || !cpython::find_handler(top.code, top.operation, &handler) ||
      handler.target != cpython::instruction_index(frame))
    return;
  observe_exception(frame, cpython::peek(frame, 1));
}

void Recorder::on_instruction(cpython::Frame* object) noexcept {
  guarded(false, [&] {
    if (frames.empty() || frames.top().frame != object) return;
    if (cpython::kExceptionsAreSilent && cpython::stands_in_handler(object)) {
      notice_exception(object);
      if (!live_ || frames.empty() || frames.top().frame != object) return;
    }
    pace_.enter_instruction();
    observe_instruction(frames.top());
    if (stopping) resolve_stop();
    const bool look = pace_.leave_instruction();
    if (live_ && !frames.empty() && frames.top().frame == object && frames.top().pending.is<Opaque>() &&
        binds_method(frames.top()))
      cpython::postpone_collection();
    if (!look) return;
    for (const auto& frame : frames) pace_.look(frame->code);
    pace_.looked();
  });
}

namespace {

// Where C code called what has effects, and cannot be gone back to, a replay could not be left at a node: the call of
// the C code is an opaque call then. Else the trace would end before it.
void stop_without_way_back(Recorder& recorder) {
  const Trace& trace = recorder.trace();
  if (is_only_read() || trace.nodes.empty() || trace.nodes.back().snapshot == kNone) return;
  const uint32_t frame = trace.snapshots[trace.nodes.back().snapshot].frame;
  if (const char* why = recorder.snapshots.unusable[frame];
      why != nullptr && std::any_of(recorder.frames.begin(), recorder.frames.end(),
                                    [](const auto& each) { return static_cast<bool>(each->drive); }))
    recorder.stop(Abort::kUnbuildable, why);
}

}  // namespace

// What the previous instruction did. False: the recording ended, or the frame is not followed any more.
bool Recorder::finish_instruction(ShadowFrame& frame) {
  cpython::Frame* object = frame.frame;
  const bool raised = frame.pending.active && frame.pending.raises;  // nobody is told where it is raised again
  raise.foreseen = raise.foreseen || raised;
  if (raise.event || raised) {
    unwind(*this, frame);
  } else if (frame.pending.active) {
    complete(*this, frame);
  }
  if (live_ && !stopping) stop_without_way_back(*this);
  if (stopping) {
    if (!resolve_stop() || frames.empty() || frames.top().frame != object) return false;
    if (frame.pending.active) complete(*this, frame);
    if (stopping) {
      stop_final = true;
      resolve_stop();
    }
  }
  return live_;
}

namespace {

// Nobody takes what foreign code returned: it dies, and its finalizer runs, before the epoch begins.
bool drop_result(Recorder& recorder, ShadowFrame& frame) {
  const Val result = frame.top();
  if (!result.is_reg() || recorder.trace().nodes.empty()) return false;
  const Node& last = recorder.trace().nodes.back();
  if (!is_opaque(last.op) || last.out != result.index()) return false;
  if (recorder.foreign.epoch_result == result) recorder.foreign.epoch_result = Val();
  frame.sp -= 1;
  return true;
}

void note_loads(ShadowFrame& frame) {
  Loads& loads = frame.loads;
  if (loads.end != frame.instruction) loads = {-1, frame.instruction, frame.sp, -1};
  loads.at = frame.instruction;
  loads.end = cpython::borrows(frame.code, frame.operation) ? cpython::next_index(frame.code, frame.operation) : -1;
}

}  // namespace

void Recorder::observe_instruction(ShadowFrame& frame) {
  const bool waits = frame.pending.active || raise.event || stopping;
  if (waits && !finish_instruction(frame)) return;
  const int before = frame.instruction;
  frame.instruction = frame.operation = cpython::instruction_index(frame.frame);
  const Instruction now = cpython::decode(frame.code, &frame.operation);
  frame.snapshot = kNone;
  if (cpython::kLoadsBorrow) note_loads(frame);
  const bool goes_on = now.is(Operation::kCall) ? cpython::kPreparesCalls || frame.kwnames != nullptr
                                                : now.is(Operation::kPrepareCall) && frame.kwnames != nullptr;
  if (!goes_on) frame.call_start = -1;
  if (kChecked) check_shadow(*this, frame);
  if (faults_) inject_fault(frame);
  if (cpython::stack_depth(frame.frame) != frame.sp) return fail("the shadow has another stack depth than the frame");
  // The mark is then that of an earlier instruction; `changed` says that nobody may go back to it.
  const bool back = frame.instruction < before;
  const bool turns = heads_ && heads_->any_at(frame.code, frame.instruction);
  if (limit_ != 0 && !foreign.is_any_due() && !exit_points_ && !back && !turns && step_move(frame, now)) {
    limit_ -= 1;
    frame.changed = true;
    return;
  }
  if (foreign.epoch_due && now.is(Operation::kPop) && drop_result(*this, frame)) {
    limit_ -= limit_ != 0;
    frame.changed = true;
    return;
  }
  frame.mark = here();
  frame.sp_mark = frame.sp;
  frame.changed = false;
  if (limit_-- == 0 || frame.mark.nodes > record_limits().nodes) return stop(Abort::kTooLong, "");
  if (pace_.is_over()) return stop(Abort::kOverBudget, "");
  if (foreign.epoch_due) {
    foreign.epoch_due = false;
    begin_epoch(*this);
    if (!live_) return;
  }
  if (!foreign.library_result.is_null()) {
    take_library_result(*this);
    if (!live_) return;
    frame.mark = here();
    frame.snapshot = kNone;
  }
  const bool last = frames.in_the_middle && frames.size() == 1 && cpython::gives_back(now);
  if ((back && leaves_loop(*this, frame)) || (last && cpython::is_generator_frame(frames.root)))
    return leave_loop(*this);
  if (cpython::gives_back(now) && is_all_opaque(*this, frame, now)) return call_whole(*this);
  if (turns) begin_turns(*this, frame, before);
  // Without foreign code only the class of a tensor may be unknown: an operator may hand its operand back.
  const bool attribute = now.is(Operation::kLoadAttribute) && touches_tensor(*this, frame.top());
  if (!trace_->epochs.empty() || attribute || now.is(Operation::kCall)) {
    learn_operands(*this, frame, now);
    if (!live_) return;
    frame.mark = here();
  }
  if (exit_points_) emit_exit_point(*this);
  const size_t fixed = numbers.fixed.size();
  numbers.stay_open = numbers.leave_frame = false;
  step(*this, frame, now);
  if (stopping) {
    const auto mark = frame.mark;
    const Vals slots = frame.slots;
    if (!compute_arrays(*this, frame) && !call_library(*this, frame) && !numbers.stay_open &&
        fix_operands(*this, frame))
      step(*this, frame, now);
    if (stopping && !stop_final && !stop_changed && heap.lasting == mark.lasting) {  // it did not help: they stay open
      rollback(frame);
      frame.mark = mark;
      rollback(frame);
      open_again(*this, fixed);
      frame.slots = slots;
      frame.snapshot = kNone;
    }
  }
  if (live_) frame.changed = !frame.pending.active;
}

}  // namespace pijit
