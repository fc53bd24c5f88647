// The recorder's life: start, events, frames entered and left, the outcome.
#include "record/recorder.h"

#include <chrono>

#include "cpython/keys.h"
#include "cpython/opcodes.h"
#include "record/limits.h"

namespace pijit {
namespace {

thread_local Recorder* t_active = nullptr;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int on_event(PyObject*, PyFrameObject* object, int what, PyObject* argument) {
  Recorder* recorder = t_active;
  if (recorder == nullptr || !recorder->live()) return 0;
  cpython::Frame* frame = cpython::frame_of(object);
  if (what == PyTrace_OPCODE) {
    recorder->on_instruction(frame);
  } else if (what == PyTrace_CALL) {
    cpython::set_event_flags(object, cpython::kOpcodeEvents);
  } else if (what == PyTrace_EXCEPTION) {
    recorder->on_exception(frame, argument);
  }
  return 0;
}

}  // namespace

Recorder* active_recorder() noexcept {
  return t_active;
}

Recorder::Recorder(PyThreadState* thread, cpython::Frame* root, Adapter* adapter)
    : thread_(thread),
      adapter_(adapter),
      root_(root),
      trace_(std::make_unique<Trace>()),
      limit_(record_limits().operations) {}

Recorder::~Recorder() {
  end_events();
  for (auto& frame : spare_) frame.reset();
}

bool Recorder::start() {
  started_ = now();
  trace_->code = Ref::borrow(reinterpret_cast<PyObject*>(cpython::code(root_)));
  trace_->owned.push_back(Ref::borrow(trace_->code.get()));
  if (adapter_ != nullptr) {
    if (adapter_->must_step_aside() != nullptr) return false;
    trace_->state = adapter_->capture_state();
    trace_->tensors = adapter_->new_inputs();
  }
  gc_ = std::make_unique<cpython::GcPause>();
  live_ = true;
  if (!bind_root()) {
    live_ = false;
    return false;
  }
  if (adapter_ != nullptr) {
    if (!adapter_->begin_recording(*this)) {
      live_ = false;
      return false;
    }
    adapter_on_ = true;
  }
  t_active = this;
  cpython::start_events(thread_, on_event);
  observing_ = true;
  return true;
}

// Gives the thread back as it was; idempotent.
void Recorder::end_events() {
  live_ = false;
  if (observing_) {
    observing_ = false;
    if (cpython::events_are(thread_, on_event)) cpython::stop_events(thread_);
    for (auto& shadow : frames_) {
      PyFrameObject* object = cpython::frame_object(shadow->frame);
      if (object != nullptr) cpython::set_event_flags(object, cpython::kDefaultEvents);
    }
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

std::unique_ptr<Trace> Recorder::finish() {
  if (adapter_on_ && adapter_->trouble() != nullptr) abandon(adapter_->trouble());
  end_events();
  if (abandoned_ || !finished_ || foreign_) return nullptr;
  close_dict_guards();
  trace_->record_seconds = now() - started_;
  trace_->operations = record_limits().operations - limit_;
  return std::move(trace_);
}

void Recorder::push_frame(std::unique_ptr<ShadowFrame> shadow) {
  frames_.push_back(std::move(shadow));
  if (frames_.size() > trace_->depth) trace_->depth = static_cast<uint32_t>(frames_.size());
}

void Recorder::on_exception(cpython::Frame* frame, PyObject*) {
  if (frames_.empty() || top_frame().frame != frame) return;
  Pending& pending = top_frame().pending;
  if (pending.active && pending.then == Then::kNext) return;  // FOR_ITER tells its StopIteration to tracers
  exception_ = true;
  if (pending.active && pending.folds && !foreseen_) note_raise(top_frame());
  if (pending.active && (pending.raises || pending.folds)) foreseen_ = true;
}

// The previous instruction raised and CPython went to a handler of this frame.
bool Recorder::unwind(ShadowFrame& frame) {
  exception_ = false;
  if (!foreseen_) {
    stop(Abort::kRaised, "");
    return false;
  }
  foreseen_ = false;
  raise_snapshot_ = kNone;
  frame.pending = Pending();
  cpython::Handler handler;
  if (!cpython::find_handler(frame.code, frame.operation, &handler) ||
      handler.target != cpython::instruction_index(frame.frame)) {
    abandon("an exception was foreseen that was not raised");
    return false;
  }
  frame.sp = handler.depth;
  if (handler.push_lasti) frame.push(owned(cpython::slots(frame.frame)[frame.locals + frame.sp]));
  Val exception = new_virtual(VirtualKind::kException, Py_TYPE(cpython::slots(frame.frame)[frame.locals + frame.sp]));
  model(exception).real = cpython::slots(frame.frame)[frame.locals + frame.sp];
  frame.push(exception);
  return true;
}

void Recorder::on_instruction(cpython::Frame* object) {
  if (frames_.empty()) return;
  ShadowFrame& frame = top_frame();
  if (frame.frame != object) return;
  if (limit_-- == 0 || trace_->nodes.size() > record_limits().nodes) return stop(Abort::kTooLong, "");
  const bool raised = frame.pending.active && frame.pending.raises;  // RERAISE tells nobody
  foreseen_ = foreseen_ || raised;
  if (exception_ || raised) {
    if (!unwind(frame)) return;
  } else if (frame.pending.active) {
    complete(frame);
    if (!live_) return;
  }
  int index = cpython::instruction_index(object);
  int opcode = cpython::base_opcode(frame.code, index), oparg = cpython::oparg(frame.code, index);
  frame.instruction = index;
  while (opcode == EXTENDED_ARG) {
    ++index;
    opcode = cpython::base_opcode(frame.code, index);
    oparg = (oparg << 8) | cpython::oparg(frame.code, index);
  }
  frame.operation = index;
  frame.node_mark = static_cast<uint32_t>(trace_->nodes.size());
  frame.time_mark = trace_->clock;
  frame.snapshot = kNone;
  frame.changed = false;
#if PIJIT_CHECKED
  check_shadow(*this, frame);
#endif
  step(*this, frame, opcode, oparg);
  frame.changed = !frame.pending.active;
}

}  // namespace pijit
