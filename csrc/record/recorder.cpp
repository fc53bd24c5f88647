// The recorder's life: start, events, frames entered and left, the outcome.
#include "record/recorder.h"

#include <chrono>

#include <opcode.h>

#include "cpython/keys.h"
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

Recorder* active_recorder() noexcept { return t_active; }

Recorder::Recorder(PyThreadState* thread, cpython::Frame* root, Adapter* adapter)
    : thread_(thread), adapter_(adapter), root_(root), trace_(std::make_unique<Trace>()), limit_(record_limits().operations) {}

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
  trace_->nodes.reserve(2048);
  trace_->slots.reserve(16384);
  reg_objects_.reserve(2048);
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

namespace {

// The value of closure cell `index` of a function shadow.
Val closure_cell(Recorder& recorder, Val function, Py_ssize_t index) {
  if (function.is_virtual()) {
    Val closure = recorder.virtual_field(function, 6);
    if (closure.is_virtual()) return recorder.model(closure).items[index];
    return Val::constant(PyTuple_GET_ITEM(closure.object(), index));
  }
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(function.object())->func_closure;
  return Val::constant(PyTuple_GET_ITEM(closure, index));
}

}  // namespace

// The instructions before the first event make cells and copy free variables; CPython runs them silently.
void run_prologue(Recorder& recorder, ShadowFrame& shadow) {
  PyCodeObject* code = shadow.code;
  for (int i = 0; i < code->_co_firsttraceable; ++i) {
    int opcode = cpython::base_opcode(code, i), oparg = cpython::full_oparg(code, i);
    if (opcode == MAKE_CELL) {
      Val content = shadow.local(oparg);
      Val cell = recorder.new_virtual(VirtualKind::kCell, &PyCell_Type);
      recorder.model(cell).items.resize(1);
      recorder.set_field(cell, 0, content);
      shadow.local(oparg) = cell;
    } else if (opcode == COPY_FREE_VARS) {
      for (int k = 0; k < oparg; ++k) shadow.local(shadow.locals - oparg + k) = closure_cell(recorder, shadow.function, k);
    }
    i += cpython::cache_entries(opcode);
  }
}

bool Recorder::enter_frame(cpython::Frame* frame, int throwflag) {
  if (!live_ || frames_.empty()) return false;
  if (throwflag != 0) {
    drop_generator(frame);
    return false;
  }
  ShadowFrame& outer = top_frame();
  Pending& pending = outer.pending;
  bool expected = pending.active && pending.expects_frame && (!pending.entered || pending.then == Then::kCollect);
  if (expected && pending.generator != kNone) {
    Model& generator = model(pending.generator);
    if (generator.suspended == nullptr || generator.suspended->frame != frame) expected = false;
    if (expected) {
      pending.entered = true;
      push_frame(std::move(generator.suspended));
      ShadowFrame& shadow = top_frame();
      if (shadow.yielded) shadow.push(Val::constant(Py_None));
      shadow.yielded = false;
      shadow.outer_state = kNone;
      return true;
    }
  } else if (expected && cpython::function(frame) == reinterpret_cast<PyObject*>(pending.function)) {
    pending.entered = true;
    std::unique_ptr<ShadowFrame> shadow;
    if (spare_.empty()) {
      shadow = std::make_unique<ShadowFrame>();
    } else {
      shadow = std::move(spare_.back());
      spare_.pop_back();
    }
    shadow->frame = frame;
    shadow->code = cpython::code(frame);
    shadow->function = pending.x_function;
    shadow->locals = shadow->code->co_nlocalsplus;
    shadow->sp = 0;
    shadow->instruction = 0;
    shadow->slots.assign(static_cast<size_t>(shadow->locals + shadow->code->co_stacksize + 1), Val());
    for (size_t i = 0; i < bound_.size(); ++i) {
      shadow->slots[i] = bound_[i];
      if (bound_[i].is_virtual() && model(bound_[i]).real == nullptr) model(bound_[i]).real = cpython::slots(frame)[i];
    }
    shadow->pending = Pending();
    shadow->result = Val();
    shadow->yielded = false;
    shadow->kwnames = nullptr;
    shadow->generator = kNone;
    shadow->outer_state = kNone;
    shadow->handled = 0;
    push_frame(std::move(shadow));
    run_prologue(*this, top_frame());
    return true;
  }
  if (!(pending.active && (pending.ignores_frames || pending.adapter))) note_foreign(frame);
  return false;
}

namespace {

// The class that a LOAD_GLOBAL in an except clause names, if a GeneratorExit surely does not match it.
bool cannot_match(cpython::Frame* frame, int name) {
  PyObject* key = PyTuple_GET_ITEM(cpython::code(frame)->co_names, name);
  PyObject* found = nullptr;
  if (cpython::dict_lookup(cpython::globals(frame), key, &found) == 0) cpython::dict_lookup(cpython::builtins(frame), key, &found);
  if (found == nullptr || Py_TYPE(found) != &PyType_Type || !PyExceptionClass_Check(found)) return false;
  return !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), reinterpret_cast<PyTypeObject*>(found));
}

// Closing the generator where it stands only passes by except clauses of other exceptions: no code of the user's runs.
bool closes_silently(cpython::Frame* frame) {
  PyCodeObject* code = cpython::code(frame);
  cpython::Handler handler;
  if (!cpython::find_handler(code, cpython::instruction_index(frame), &handler)) return true;
  int at = handler.target;
  if (cpython::base_opcode(code, at) != PUSH_EXC_INFO) return false;
  at = cpython::next_index(code, at);
  while (cpython::base_opcode(code, at) == LOAD_GLOBAL) {
    if (!cannot_match(frame, cpython::oparg(code, at) >> 1)) return false;
    at = cpython::next_index(code, at);
    if (cpython::base_opcode(code, at) != CHECK_EXC_MATCH) return false;
    at = cpython::next_index(code, at);
    if (cpython::base_opcode(code, at) != POP_JUMP_FORWARD_IF_FALSE) return false;
    at = cpython::next_index(code, at) + cpython::oparg(code, at);
  }
  if (cpython::base_opcode(code, at) != RERAISE) return false;
  if (!cpython::find_handler(code, at, &handler)) return true;
  at = handler.target;  // the clean-up of a handler: COPY, POP_EXCEPT, RERAISE
  return cpython::base_opcode(code, at) == COPY && cpython::base_opcode(code, at + 1) == POP_EXCEPT && cpython::base_opcode(code, at + 2) == RERAISE &&
         !cpython::find_handler(code, at + 2, &handler);
}

}  // namespace

// A generator that is closed or thrown into. One of ours may just end; for any other, who knows.
void Recorder::drop_generator(cpython::Frame* frame) {
  SavedError thrown;
  for (auto& content : models_) {
    if (content->kind != VirtualKind::kGenerator || content->suspended == nullptr || content->suspended->frame != frame) continue;
    content->suspended = nullptr;
    if (closes_silently(frame)) return;
    break;
  }
  note_foreign(frame);
}

void Recorder::note_foreign(cpython::Frame* frame) {
  if (foreign_) return;
  foreign_ = true;
  note_stop(Abort::kForeignCode, "");
  const char* name = PyUnicode_AsUTF8(cpython::code(frame)->co_qualname);
  if (name == nullptr) PyErr_Clear();
  trace_->stop.reason += std::string(": ") + (name == nullptr ? "?" : name);
}

void Recorder::leave_frame(cpython::Frame* frame, PyObject* result) {
  if (!live_ || frames_.empty() || top_frame().frame != frame) return;
  PyObject* raised = result == nullptr ? PyErr_Occurred() : nullptr;
  raised_ = raised != nullptr && PyType_Check(raised) ? reinterpret_cast<PyTypeObject*>(raised) : nullptr;
  SavedError error;
  std::unique_ptr<ShadowFrame> shadow = std::move(frames_.back());
  frames_.pop_back();
  if (frames_.empty()) {
    leave_root(*shadow, result);
    return;
  }
  ShadowFrame& outer = top_frame();
  if (result == nullptr) {
    if (!foreseen_) {
      frames_.push_back(std::move(shadow));
      stop(Abort::kRaised, "");
      return;
    }
    if (shadow->generator != kNone) model(shadow->generator).suspended = nullptr;
    inner_raised(outer);
  } else if (shadow->generator == kNone && cpython::is_generator_code(shadow->code)) {
    Val generator = new_virtual(VirtualKind::kGenerator, Py_TYPE(result));
    model(generator).real = result;
    shadow->generator = generator.index();
    shadow->frame = cpython::generator_frame(result);
    shadow->yielded = false;
    model(generator).suspended = std::move(shadow);
    inner_returned(outer, generator);
    return;
  } else if (shadow->yielded) {
    Val value = shadow->result;
    model(shadow->generator).suspended = std::move(shadow);
    inner_returned(outer, value);
    return;
  } else if (shadow->generator != kNone) {
    // The generator ran to its end: its driver sees StopIteration.
    model(shadow->generator).suspended = nullptr;
    if (outer.pending.then == Then::kZipNext) {
      outer.pending.then = Then::kNext;
      outer.pending.has_result = false;
    }
    if (outer.pending.then != Then::kNext && outer.pending.then != Then::kCollect) stop(Abort::kGenerator, "");
  } else {
    inner_returned(outer, shadow->result);
  }
  spare_.push_back(std::move(shadow));
}

void Recorder::leave_root(ShadowFrame& shadow, PyObject* result) {
  frames_.clear();
  if (result == nullptr) {
    // An exception leaves the root: the trace ends where it was raised, if that is known.
    note_stop(Abort::kEscapes, "");
    if (raise_snapshot_ != kNone) {
      trace_->nodes.resize(raise_nodes_);
      end_with_exit(raise_snapshot_);
    } else {
      cut_at_last_snapshot();
    }
    return;
  }
  Node node{};
  node.op = Op::kReturn;
  node.a = shadow.result;
  node.time = trace_->clock;
  node.site = 0;
  trace_->nodes.push_back(node);
  finished_ = true;
  check_snapshots();
  end_events();
}

void Recorder::inner_returned(ShadowFrame& outer, Val value) {
  Pending& pending = outer.pending;
  switch (pending.then) {
    case Then::kPush:
    case Then::kGetAttribute:
    case Then::kGetAttrDefault:
    case Then::kCheckIter:
    case Then::kNext:
      pending.result = value;
      break;
    case Then::kInit:
      pending.result = pending.x;
      break;
    case Then::kDrop:
      break;
    case Then::kHasAttr:
      pending.result = Val::constant(Py_True);
      break;
    case Then::kTruth:
    case Then::kNotTruth: {
      bool yes = false;
      if (!truth(value, &yes)) return stop(Abort::kUnknownOperand, "truth of a result");
      if (pending.then == Then::kNotTruth) yes = !yes;
      pending.result = Val::constant(yes ? Py_True : Py_False);
      break;
    }
    case Then::kCollect:
      outer.collected.push_back(value);
      return;
    case Then::kZipBuild:
      outer.collected.push_back(value);
      return go_on_zip(outer, pending.pops);
    case Then::kBinary:
      if (value.object() == Py_NotImplemented) return stop(Abort::kUnknownOperand, "a reflected operator");
      pending.result = value;
      break;
    case Then::kEnumerate: {
      Val result = new_virtual(VirtualKind::kEnumerate, &PyEnum_Type);
      set_field(result, 0, value);
      set_field(result, 1, pending.x);
      pending.result = result;
      break;
    }
    case Then::kZipNext:
      outer.collected.push_back(value);
      return go_on_zip_next(outer, pending.x);
    case Then::kNew:
      if (after_new(outer, value) != Invoke::kStarted) stop(Abort::kUnknownCall, "__init__ of a class");
      return;
  }
  pending.has_result = true;
}

// The exception that left the inner frame is of this built-in class.
bool Recorder::is_raised(PyObject* type) const {
  return raised_ != nullptr && PyType_IsSubtype(raised_, reinterpret_cast<PyTypeObject*>(type));
}

void Recorder::inner_raised(ShadowFrame& outer) {
  Pending& pending = outer.pending;
  bool attribute_error = is_raised(PyExc_AttributeError);
  switch (pending.then) {
    case Then::kGetAttribute: {
      if (!attribute_error) break;
      PyObject* fallback = lookup_type(type_of(pending.x), names().getattr);
      if (fallback == nullptr) break;
      Arguments args;
      args.values = {pending.x, pending.y};
      foreseen_ = exception_ = false;
      Then then = pending.outer_then;
      Val z = pending.z;
      int pops = pending.pops, pushes = pending.pushes;
      if (invoke_function(outer, Val::constant(fallback), args, then, pops) != Invoke::kStarted)
        return stop(Abort::kUnknownAttribute, "__getattr__");
      outer.pending.z = z;
      outer.pending.pushes = static_cast<uint8_t>(pushes);
      return;
    }
    case Then::kGetAttrDefault:
      if (!attribute_error) break;
      foreseen_ = exception_ = false;
      pending.result = pending.z;
      pending.has_result = true;
      return;
    case Then::kHasAttr:
      if (!attribute_error) break;
      foreseen_ = exception_ = false;
      pending.result = Val::constant(Py_False);
      pending.has_result = true;
      return;
    case Then::kNext:
      if (!is_raised(PyExc_StopIteration)) break;
      foreseen_ = exception_ = false;
      return;
    default:
      break;
  }
}

void Recorder::on_exception(cpython::Frame* frame, PyObject*) {
  if (frames_.empty() || top_frame().frame != frame) return;
  Pending& pending = top_frame().pending;
  if (pending.active && (pending.then == Then::kNext || pending.then == Then::kZipNext)) return;  // FOR_ITER tells its StopIteration to tracers
  exception_ = true;
  if (pending.active && pending.raises) foreseen_ = true;
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
  if (!cpython::find_handler(frame.code, frame.operation, &handler)) {
    stop(Abort::kRaised, "no handler");
    return false;
  }
  frame.sp = handler.depth;
  if (handler.push_lasti) frame.push(owned(cpython::slots(frame.frame)[frame.locals + frame.sp]));
  Val exception = new_virtual(VirtualKind::kException, Py_TYPE(cpython::slots(frame.frame)[frame.locals + frame.sp]));
  model(exception).real = cpython::slots(frame.frame)[frame.locals + frame.sp];
  frame.push(exception);
  return true;
}

void Recorder::note_real(Val value, PyObject* object) {
  if (object == nullptr) return;
  if (value.is_reg()) {
    if (reg_objects_[value.index()] == nullptr) reg_objects_[value.index()] = object;
  } else if (value.is_virtual()) {
    Model& content = model(value);
    bool tuple = PyTuple_Check(object);
    if (!tuple && !PyList_CheckExact(object)) return;
    for (size_t i = 0; i < content.items.size(); ++i)
      note_real(content.items[i], tuple ? PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)) : PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
  }
}

void Recorder::complete(ShadowFrame& frame) {
  Pending& pending = frame.pending;
  if (pending.expects_frame && !pending.entered && pending.then != Then::kCollect) return stop(Abort::kUnknownCall, "the frame was not entered");
  PyObject* result = pending.pushes > 0 ? stack_real(1) : nullptr;
  if (pending.then == Then::kNext) {
    // A generator or __next__ in FOR_ITER: fell through with a value, or jumped behind the loop.
    bool value = pending.has_result;
    Val item = pending.result;
    pending.active = false;
    if (value) {
      frame.push(item);
    } else {
      frame.sp -= 1;
    }
    return;
  }
  if (pending.adapter) {
    Val value;
    if (!adapter_->finish_call(site_, pending.pushes > 0 ? result : nullptr, &value)) {
      if (live_) stop(Abort::kAdapter, "");
      return;
    }
    note_real(value, result);
    pending.result = value;
    if (pending.branch) {
      finish_branch(frame, value);
      if (!live_) return;
    }
  } else if (pending.finish != nullptr) {
    pending.finish(*this, frame, result);
    if (!live_) return;
  } else if (!pending.has_result && pending.pushes > 0) {
    return stop(Abort::kUnknownCall, "no result was seen");
  }
  Val value = pending.result;
  frame.sp -= pending.pops;
  if (pending.pushes == 2 && stack_real(2) != nullptr) {
    // LOAD_METHOD left method and self instead of a bound method.
    Val method = virtual_field(value, 0), self = virtual_field(value, 1);
    frame.push(method);
    frame.push(self);
  } else if (pending.pushes > 0) {
    if (pending.pushes == 2) frame.push(Val());
    if (pending.pushes == 3) frame.push(pending.y);
    if (value.is_virtual() && model(value).real == nullptr) model(value).real = result;
    frame.push(value);
  }
  pending.active = false;
  frame.collected.clear();
}

void Recorder::on_instruction(cpython::Frame* object) {
  if (frames_.empty()) return;
  ShadowFrame& frame = top_frame();
  if (frame.frame != object) return;
  if (limit_-- == 0) return stop(Abort::kTooLong, "");
  if (exception_) {
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

void Recorder::done(ShadowFrame& frame, int pops, Val result) {
  frame.sp -= pops;
  frame.push(result);
}

Pending& Recorder::await(ShadowFrame& frame, int pops, int pushes) {
  frame.pending = Pending();
  frame.pending.active = true;
  frame.pending.pops = pops;
  frame.pending.pushes = static_cast<uint8_t>(pushes);
  return frame.pending;
}

void Recorder::observe(ShadowFrame& frame, int pops, Finish finish) { await(frame, pops, 1).finish = finish; }

void Recorder::known(ShadowFrame& frame, int pops, Val result) {
  Pending& pending = await(frame, pops, 1);
  pending.result = result;
  pending.has_result = true;
}

void Recorder::will_raise(ShadowFrame& frame, int pops) {
  await(frame, pops, 0).raises = true;
  if (frame.handled == 0) {
    raise_snapshot_ = snapshot();
    raise_nodes_ = frame.node_mark;
    if (!snapshot_usable(raise_snapshot_)) raise_snapshot_ = kNone;
  }
}

bool Recorder::ask_adapter(ShadowFrame& frame, const CallSite& site, int pops, int pushes) {
  if (adapter_ == nullptr) return false;
  site_ = site;
  Val result;
  switch (adapter_->begin_call(site_, &result)) {
    case CallFate::kUnknown:
      return false;
    case CallFate::kStop:
      if (live_) stop(Abort::kAdapter, "");
      return true;
    case CallFate::kDone:
      if (pushes > 0) {
        known(frame, pops, result);
        frame.pending.pushes = static_cast<uint8_t>(pushes);
      } else {
        await(frame, pops, 0);
      }
      return true;
    case CallFate::kObserve:
      await(frame, pops, pushes).adapter = true;
      return true;
  }
  return false;
}

// Asks the adapter about an instruction whose operands are the top `count` stack entries (or given values).
bool Recorder::ask_about(ShadowFrame& frame, SiteKind kind, std::initializer_list<Val> operands, int pops, int pushes, int oparg, PyObject* name,
                         PyObject* callable) {
  operands_.clear();
  bool tensor = false;
  for (Val value : operands) {
    operands_.push_back({value, real(value)});
    tensor = tensor || touches_tensor(value);
  }
  if (!tensor) return false;
  CallSite site{};
  site.kind = kind;
  site.callable = callable;
  site.name = name;
  site.oparg = oparg;
  site.operands = operands_.data();
  site.count = operands_.size();
  return ask_adapter(frame, site, pops, pushes);
}

PyObject* Recorder::stack_real(int depth) const { return cpython::peek(frames_.back()->frame, depth); }

}  // namespace pijit
