// Frames entered and left while recording: what the outer frame's instruction does with the result of the inner one.
#include "cpython/keys.h"
#include "record/calls.h"
#include "record/guarded.h"
#include "record/mirror/restart.h"
#include "record/pace.h"
#include "record/recover.h"
#include "record/state/exceptions.h"
#include "record/state/generators.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"
#include "record/step/closing.h"
#include "record/step/step.h"

namespace pijit {
namespace {

constexpr const char* kUnseen = "it returned by an instruction that was not seen";

// The value of closure cell `index` of a function shadow.
Val closure_cell(Heap& heap, Val function, Py_ssize_t index) {
  if (function.is_virtual()) {
    Val closure = heap.virtual_field(function, function_field::kClosure);
    if (closure.is_virtual()) return heap.model(closure).items[index];
    return Val::constant(PyTuple_GET_ITEM(closure.object(), index));
  }
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(function.object())->func_closure;
  return Val::constant(PyTuple_GET_ITEM(closure, index));
}

}  // namespace

void make_cell(Recorder& recorder, ShadowFrame& shadow, int slot) {
  const Val content = shadow.local(slot);
  const Val cell = new_virtual(recorder, VirtualKind::kCell, &PyCell_Type);
  recorder.heap.model(cell).items.resize(1);
  set_field(recorder, cell, field::kCell::kContent, content);
  shadow.local(slot) = cell;
}

// The instructions before the first event make cells and copy free variables; CPython runs them silently.
void run_prologue(Recorder& recorder, ShadowFrame& shadow) {
  PyCodeObject* code = shadow.code;
  for (int i = 0; i < cpython::first_traceable(code); i = cpython::next_index(code, i)) {
    const Instruction now = cpython::decode(code, &i);
    if (now.is(Operation::kMakeCell)) {
      make_cell(recorder, shadow, now.argument);
    } else if (now.is(Operation::kCopyFreeVars)) {
      for (int k = 0; k < now.argument; ++k)
        shadow.local(shadow.locals - now.argument + k) = closure_cell(recorder.heap, shadow.function, k);
    }
  }
}

bool Recorder::enter_frame(cpython::Frame* frame, int throwflag) noexcept {
  return guarded(throwflag != 0, [&] {
    if (!live_ || frames.empty() || lost_events()) return false;
    pace_.enter();
    const bool followed = try_follow(frame, throwflag);
    if (stopping) resolve_stop();
    pace_.leave();
    return followed;
  });
}

// C code resumes a generator: CPython may execute the instruction again, or not.
static void note_restart(ShadowFrame& outer) {
  const Restart* restart = outer.drive ? outer.drive->restart() : nullptr;
  if (restart == nullptr || !restart->is_possible()) return;
  auto& resuming = std::get<Resuming>(outer.pending.awaited);
  resuming.again = resuming.restarts = true;
  resuming.operand = restart->operand();
  resuming.instead = restart->instead();
}

static bool is_expected(const Pending& pending, cpython::Frame* frame) {
  return cpython::function(frame) == reinterpret_cast<PyObject*>(std::get<Entering>(pending.awaited).function);
}

bool Recorder::try_follow(cpython::Frame* frame, int throwflag) {
  ShadowFrame& outer = frames.top();
  Pending& pending = outer.pending;
  bool expected = aside_ == 0 && pending.active && pending.expects_frame();
  auto* resuming = std::get_if<Resuming>(&pending.awaited);
  const bool throws = resuming != nullptr && resuming->throws;
  if (throwflag != 0 && !(expected && throws && is_suspended(heap, resuming->generator, frame))) {
    const bool within = pending.is<Opaque>() || (pending.is<Computing>() && pending.ignores_frames);
    if (!pending.active || !within || is_ours(*this, frame)) drop_generator(*this, frame);
    return false;
  }
  if (expected && !reads.written.empty()) refresh_written(*this);  // C code has done what precedes this call
  if (expected && resuming != nullptr) {
    auto& generator = heap.model(resuming->generator).get<family::Generator>();
    if (!is_suspended(heap, resuming->generator, frame)) expected = false;
    if (expected) {
      pending.entered = true;
      push_frame(std::move(generator.suspended));
      resuming->again = resuming->again || (trace_->clock == outer.mark.time && is_repeatable(*this, outer));
      if (!resuming->again) note_restart(outer);
      log(*this, Val::virtual_object(resuming->generator), LogOp::kFrame, Val(), Val(), kNone);
      ShadowFrame& shadow = frames.top();
      const Val sent = pending.x;
      if (shadow.yielded && !throws) shadow.push(sent.is_null() ? Val::constant(Py_None) : sent);
      shadow.yielded = false;
      shadow.arrivals.clear();
      shadow.outer_state = kNone;
      shadow.mark = here();
      shadow.changed = true;
      if (throws) raise_at_yield(*this, shadow, sent);
      return true;
    }
  } else if (expected && is_expected(pending, frame)) {
    const Entering& entering = std::get<Entering>(pending.awaited);
    pending.entered = true;
    std::unique_ptr<ShadowFrame> shadow;
    if (frames.spare.empty()) {
      shadow = std::make_unique<ShadowFrame>();
    } else {
      shadow = std::move(frames.spare.back());
      frames.spare.pop_back();
    }
    shadow->frame = frame;
    shadow->code = cpython::code(frame);
    shadow->function = entering.shadow;
    shadow->names = entering.names;
    if (!shadow->names.is_null()) heap.model(shadow->names).real = cpython::locals_mapping(frame);
    shadow->locals = shadow->code->co_nlocalsplus;
    shadow->sp = 0;
    shadow->instruction = 0;
    shadow->slots.assign(static_cast<size_t>(shadow->locals + shadow->code->co_stacksize + 1), Val());
    for (size_t i = 0; i < frames.bound.size(); ++i) {
      shadow->slots[i] = frames.bound[i];
      if (frames.bound[i].is_virtual() && heap.model(frames.bound[i]).real == nullptr)
        heap.model(frames.bound[i]).real = cpython::slot(frame, static_cast<int>(i));
    }
    shadow->pending = Pending();
    shadow->result = Val();
    shadow->yielded = false;
    shadow->kwnames = nullptr;
    shadow->generator = kNone;
    shadow->outer_state = kNone;
    shadow->self = Val();
    shadow->followed = kNone;
    shadow->handled.clear();
    shadow->loose.clear();
    shadow->mark = here();
    shadow->sp_mark = 0;
    shadow->loads = Loads();
    shadow->arrivals.clear();
    shadow->changed = false;
    push_frame(std::move(shadow));
    run_prologue(*this, frames.top());
    return true;
  }
  const bool hashes = adapter_ != nullptr && reinterpret_cast<PyObject*>(cpython::code(frame)) == adapter_->hash_code();
  if (!hashes && !(pending.active && (pending.ignores_frames || pending.is<Asking>()))) note_foreign(*this, frame);
  return false;
}

void Recorder::leave_frame(cpython::Frame* frame, PyObject* result) noexcept {
  guarded(result == nullptr, [&] {
    if (!live_ || frames.empty() || lost_events()) return;
    pace_.enter();
    if (const auto* opaque = std::get_if<Opaque>(&frames.top().pending.awaited); opaque && opaque->run == frame) {
      SavedError error;
      come_back();
      finish_run(*this, frames.top(), result);
    } else if (frames.top().frame == frame) {
      if (cpython::kExceptionsAreSilent && result == nullptr && !frames.top().raises_again()) observe_left(frame);
      if (live_ && !frames.empty() && frames.top().frame == frame) left_frame(frame, result);
    }
    if (stopping) resolve_stop();
    pace_.leave();
  });
}

// The error that is set leaves the frame, and CPython has told nobody.
void Recorder::observe_left(cpython::Frame* frame) {
  PyObject* raised = cpython::error_object(thread_);
  const SavedError error;
  if (raised != nullptr) observe_exception(frame, raised);
}

namespace {

// Only __getattr__ takes what a frame raised; all else hands it on.
void inner_raised(Recorder& recorder, ShadowFrame& outer) {
  const Pending pending = outer.pending;
  if (!recorder.raise.is_of(PyExc_AttributeError)) return;
  recorder.raise.note_sought(pending);
  if (pending.then != Then::kGetAttribute) return;
  PyObject* fallback = recorder.reads.lookup_type(recorder.heap.type_of(pending.x), names().getattr);
  if (fallback == nullptr) return;
  Arguments args;
  args.values = {pending.x, pending.y};
  recorder.raise.foreseen = recorder.raise.event = false;
  if (invoke_function(recorder, outer, Val::constant(fallback), args, Then::kPush, pending.pops) != Invoke::kStarted)
    return recorder.stop(Abort::kUnknownAttribute, "__getattr__");
  outer.pending.sought = pending.sought;
  outer.pending.pushes = pending.pushes;
}

// C code that waited for the frame goes on.
void go_on(Recorder& recorder, ShadowFrame& outer) {
  if (recorder.live() && outer.drive) outer.drive->go_on();
}

}  // namespace

void Recorder::left_frame(cpython::Frame*, PyObject* result) {
  PyObject* raised = result == nullptr ? PyErr_Occurred() : nullptr;
  raise.type = raised != nullptr && PyType_Check(raised) ? reinterpret_cast<PyTypeObject*>(raised) : nullptr;
  SavedError error;
  const bool foreseen = raise.foreseen || (frames.top().pending.active && frames.top().pending.raises);
  if (result == nullptr && foreseen && frames.size() > 1) pass_frame(*this);
  std::unique_ptr<ShadowFrame> shadow = std::move(frames.back());
  frames.pop_back();
  if (!shadow->yielded) end_frame(*this, *shadow);
  if (frames.empty()) {
    leave_root(*shadow, result);
    return;
  }
  ShadowFrame& outer = frames.top();
  if (result == nullptr) {
    raise.foreseen = foreseen;
    // A StopIteration that leaves a generator becomes a RuntimeError.
    if (!raise.foreseen || (shadow->generator != kNone && raise.is_of(PyExc_StopIteration)))
      return raised_unforeseen(*this);
    if (shadow->generator != kNone) end_generator(*this, shadow->generator);
    inner_raised(*this, outer);
  } else if (shadow->generator == kNone && cpython::is_generator_code(shadow->code)) {
    Val generator = new_virtual(*this, VirtualKind::kGenerator, Py_TYPE(result));
    trace_->coroutines |= PyCoro_CheckExact(result) != 0;
    heap.model(generator).real = result;
    shadow->generator = generator.index();
    shadow->frame = cpython::generator_frame(result);
    shadow->yielded = false;
    set_field(*this, generator, field::kGenerator::kFunction, shadow->function);
    suspend(*this, std::move(shadow));
    inner_returned(*this, outer, generator);
    return go_on(*this, outer);
  } else if (shadow->result.is_null()) {
    return abandon(kUnseen);
  } else if (shadow->yielded) {
    Val value = shadow->result;
    suspend(*this, std::move(shadow));
    inner_returned(*this, outer, value);
    return go_on(*this, outer);
  } else if (shadow->generator != kNone) {
    // The generator ran to its end: its driver sees StopIteration.
    end_generator(*this, shadow->generator);
    outer.pending.y = shadow->result;
  } else {
    inner_returned(*this, outer, shadow->result);
  }
  frames.spare.push_back(std::move(shadow));
  go_on(*this, outer);
}

namespace {

// What is returned has tracebacks, which name this frame, or what dies with the frame runs code of the user's: the
// trace ends in an exit at its return.
void end_at_return(Recorder& recorder) {
  if (recorder.frames.return_snapshot != kNone && snapshot_usable(recorder, recorder.frames.return_snapshot))
    return recorder.end_with_exit(recorder.frames.return_snapshot);
  note_stop(recorder, Abort::kUnbuildable, recorder.snapshots.unusable_reason);
  recorder.cut_at_last_snapshot();
}

}  // namespace

void Recorder::leave_root(ShadowFrame& shadow, PyObject* result) {
  frames.clear();
  if (result == nullptr) {
    // An exception leaves the root: the trace ends where it was raised, if that is known.
    note_stop(*this, Abort::kEscapes, "");
    if (raise.snapshot != kNone) {
      trace_->nodes.resize(raise.nodes);
      end_with_exit(raise.snapshot);
    } else {
      cut_at_last_snapshot();
    }
    return;
  }
  if (shadow.result.is_null()) return abandon(kUnseen);
  ++snapshots.visit;
  snapshots.visited.resize(trace_->virtuals.size(), 0);
  if (shadow.result.is_virtual() && !virtual_usable(*this, shadow.result.index(), trace_->clock)) {
    note_stop(*this, Abort::kUnbuildable, snapshots.unusable_reason);
    return cut_at_last_snapshot();
  }
  ++snapshots.visit;
  if ((raise.any_traced && holds_raised(*this, shadow.result)) || frames.leaves_generator) return end_at_return(*this);
  Node node{};
  node.op = Op::kReturn;
  if (raise.any_traced_built) node.snapshot = frames.return_snapshot;
  node.a = shadow.result;
  node.time = trace_->clock;
  node.site = 0;
  trace_->nodes.push_back(node);
  finished_ = true;
  check_snapshots();
  end_events();
}

namespace {

// What len() gives where __len__ returned this. Null: it raises, or a replay may not get a length (see guard_length).
Val as_length(Recorder& recorder, Val value) {
  PyObject* const object = recorder.heap.real(value);
  if (object == nullptr || !PyLong_Check(object) || cpython::int_sign(object) < 0) return Val();
  if (value.is_reg()) return recorder.trace().regs[value.index()].rep == Rep::kInt ? value : Val();
  const Py_ssize_t length = PyLong_AsSsize_t(object);
  if (length < 0) return PyErr_Clear(), Val();
  return PyLong_CheckExact(object) ? value : recorder.reads.owned(Ref::steal(PyLong_FromSsize_t(length)).get());
}

}  // namespace

void inner_returned(Recorder& recorder, ShadowFrame& outer, Val value) {
  Pending& pending = outer.pending;
  switch (pending.then) {
    case Then::kInit:
    case Then::kReplace:
      pending.result = pending.x;
      break;
    case Then::kDrop:
      break;
    case Then::kBinary:
      if (value.object() == Py_NotImplemented) return go_on_binary(recorder, outer);
      if (value.is_reg() && recorder.trace().regs[value.index()].rep == Rep::kObject &&
          recorder.heap.type_of(value) == nullptr)
        return recorder.stop(Abort::kUnknownOperand, "what an operator's method returned");
      pending.result = value;
      break;
    case Then::kLength:
      pending.result = as_length(recorder, value);
      if (pending.result.is_null()) return recorder.stop(Abort::kUnknownOperand, "what __len__ returned");
      break;
    default:
      pending.result = value;
  }
  pending.has_result = true;
}

}  // namespace pijit
