// Exceptions while recording: what a raise makes, the traceback on the way, and what a handler finds.
//
//   will_raise() -> left_frame(), any number of times -> unwind() -> raised_exception()
//
// 1. An exception is a virtual object until it escapes, and so is every frame that its traceback names; a frame that
// ends notes its variables.
// 2. What the model says is compared with the exception that CPython raised: one that differs in its arguments, context
// or traceback cannot be built, and then a snapshot that needs it is not usable.
// 3. An exception that was built is the program's: entries for it are made by no node, so one that is raised again and
// would get more of them ends what is recorded.
#include "record/state/exceptions.h"
#include "cpython/keys.h"
#include "cpython/patch_releases.h"
#include "record/state/known_objects.h"

namespace pijit {

using namespace exception_field;

PyTypeObject* base_exception() {
  return reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
}

bool makes_itself(PyTypeObject* type, size_t args) {
  auto* groups = reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup);
  auto* of_system = reinterpret_cast<PyTypeObject*>(PyExc_OSError);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || PyType_IsSubtype(type, groups)) return false;
  return !PyType_IsSubtype(type, of_system) || args < 2;
}

bool decides_by_arguments(PyTypeObject* type, size_t args) {
  auto* of_system = reinterpret_cast<PyTypeObject*>(PyExc_OSError);
  return type->tp_new == of_system->tp_new && args >= (type == of_system ? 2 : 3);
}

bool makes_group(PyTypeObject* type) {
  auto* groups = reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup);
  return PyType_IsSubtype(type, groups) && type->tp_new == groups->tp_new && type->tp_finalize == nullptr &&
         type->tp_del == nullptr;
}

bool is_plain_exception(PyTypeObject* type) {
  return type->tp_new == base_exception()->tp_new && type->tp_finalize == nullptr && type->tp_del == nullptr;
}

namespace {

PyObject* args_of(PyObject* exception) {
  return reinterpret_cast<PyBaseExceptionObject*>(exception)->args;
}

// The text of a message is the same at each replay when it is made of what the operands are, not of what they hold.
bool has_fixed_message(Recorder& recorder, PyObject* exception, const Vec<Operand>& operands, bool unpacking) {
  const bool of_types = unpacking || PyErr_GivenExceptionMatches(exception, PyExc_TypeError) != 0 ||
                        PyErr_GivenExceptionMatches(exception, PyExc_AttributeError) != 0 ||
                        PyErr_GivenExceptionMatches(exception, PyExc_LookupError) != 0;
  for (const Operand& operand : operands) {
    if (operand.value.is_null()) continue;
    PyObject* object = operand.value.object();
    if (object != nullptr && (is_plain_const(object) || PyType_Check(object) || PyCFunction_Check(object))) continue;
    if (!of_types || recorder.is_scalar_reg(operand.value)) return false;
  }
  return true;
}

// What the instruction gave the exception, as it is found again at each replay; Null: not known.
Val given(Recorder& recorder, PyObject* object, const Vec<Operand>& operands, bool fixed_message) {
  for (const Operand& operand : operands)
    if (!operand.value.is_null() && operand.object == object) return operand.value;
  const char* text = PyUnicode_CheckExact(object) ? PyUnicode_AsUTF8(object) : nullptr;
  if (text == nullptr) PyErr_Clear();
  if (text != nullptr && fixed_message && strstr(text, "0x") == nullptr) return recorder.own_const(object);
  if (!cpython::is_scalar(object) || text != nullptr) return Val();
  for (const Operand& operand : operands)
    if (operand.value.is_const() && cpython::same_scalar(operand.value.object(), object)) return operand.value;
  return Val();
}

}  // namespace

Val Recorder::handled_at_entry() {
  if (raise_.entry_handled.is_null()) raise_.entry_handled = new_virtual(VirtualKind::kHandled, nullptr);
  return raise_.entry_handled;
}

// What PUSH_EXC_INFO puts away. A generator has a place of its own for what it and its callees handle.
Val Recorder::saved_exception() {
  for (size_t i = frames_.size(); i-- > 0;) {
    if (!frames_[i]->handled.empty()) return frames_[i]->handled.back();
    if (frames_[i]->generator != kNone) return Val::constant(Py_None);
  }
  return handled_at_entry();
}

// The frame of a level, as tracebacks name it.
Val Recorder::frame_self(size_t level) {
  ShadowFrame& frame = *frames_[level];
  if (!frame.self.is_null()) return frame.self;
  const bool generator = frame.generator != kNone;
  const Val caller = level > 0 && !generator ? frame_self(level - 1) : Val();
  frame.self = new_virtual(VirtualKind::kFrame, nullptr);
  set_field(frame.self, 0, frame.function);
  set_field(frame.self, 1, caller);
  if (!frame.names.is_null()) trace_->virtuals[frame.self.index()].buildable = false;  // whose variables are a dict
  if (generator) set_field(frame.self, 2, Val::virtual_object(frame.generator));
  if (level + 1 < frames_.size() && frames_[level + 1]->outer_state != kNone)
    trace_->frame_states[frames_[level + 1]->outer_state].self = frame.self.index();
  return frame.self;
}

namespace {

// Where a frame that ends stands: RERAISE goes back to where what it raises came from.
int last_instruction(ShadowFrame& frame) {
  const Instruction now = frame.current();
  if (!now.is(Operation::kReraise) || now.argument == 0) return frame.operation;
  PyObject* from = frame.top(now.argument + 1).object();
  return from != nullptr && PyLong_CheckExact(from) ? static_cast<int>(PyLong_AsLong(from)) : frame.operation;
}

}  // namespace

// The frame ends with the variables that it has now.
void Recorder::end_frame(ShadowFrame& frame) {
  if (frame.self.is_null()) return;
  if (cpython::ended_generators_have_callers() && frame.generator != kNone && !frames_.empty())
    set_field(frame.self, 1, frame_self(frames_.size() - 1));
  Model& content = model(frame.self);
  content.position = kExhausted;
  for (int i = 0; i < frame.locals; ++i) {
    content.items.push_back(frame.local(i));
    log(frame.self, LogOp::kItem, Val(), frame.local(i), static_cast<uint32_t>(i));
  }
  log(frame.self, LogOp::kIndex, Val(), Val(), static_cast<uint32_t>(last_instruction(frame)));
}

// Foreign code has raised `object`, which is in a register: nothing is known of it but its class.
void Recorder::begin_taken(PyObject* object, Val taken) {
  const Val exception = new_virtual(VirtualKind::kException, Py_TYPE(object));
  model(exception).real = object;
  set_field(exception, kTaken, taken);
  note_raise(top_frame(), 0, exception, true);
  note_sought(top_frame().pending);
  raise_.entry_due = true;
  raise_.snapshot = kNone;
}

bool Recorder::is_taken(Val exception) const {
  const Vals& fields = heap_.models[exception.index()]->items;
  return fields.size() > kTaken && !fields[kTaken].is_null();
}

// `again`: as it is, without an entry for this instruction.
void Recorder::note_raise(ShadowFrame& frame, int pops, Val exception, bool again) {
  raise_.value = exception;
  raise_.cause = Val();
  raise_.again = again;
  raise_.thrown = false;
  raise_.context = handling();
  raise_.entry_due = !again;
  raise_.path.clear();
  raise_.operands.clear();
  raise_.sought = Val();
  raise_.operation = cpython::operation_at(frame.code, frame.operation);
  for (int i = 1; i <= pops; ++i) raise_.operands.push_back({frame.top(i), real(frame.top(i))});
}

void Recorder::begin_raise(ShadowFrame& frame, int pops, Val exception, bool again) {
  note_raise(frame, pops, exception, again);
  // The trace may end there.
  raise_.snapshot = exit_snapshot();
  raise_.nodes = frame.mark.nodes;
  if (!snapshot_usable(raise_.snapshot)) raise_.snapshot = kNone;
}

// An exception is thrown into a generator, whose frame is the innermost one: there is no way back to that.
void Recorder::raise_at_yield(ShadowFrame& frame, Val exception) {
  frame.instruction = frame.operation = cpython::resume_index(frame.frame) - 1;
  note_raise(frame, 0, exception, false);
  raise_.thrown = true;
  // CPython's entry for it names the instruction where the frame stands, which from 3.13 on comes after the yield.
  raise_.path.push_back({frame_self(frames_.size() - 1), frame.code, cpython::instruction_index(frame.frame)});
  raise_.entry_due = false;
  raise_.context = frame.handled.empty() ? Val() : frame.handled.back();
  raise_.snapshot = kNone;
  // CPython sends None with it, which stays on the stack where what the generator delegates to has raised.
  frame.slots[static_cast<size_t>(frame.locals + frame.sp)] = Val::constant(Py_None);
  await(frame, 0, 0).raises = true;
}

// The exception under way passes the innermost frame.
void Recorder::pass_frame() {
  if (std::exchange(raise_.entry_due, true))
    raise_.path.push_back({frame_self(frames_.size() - 1), top_frame().code, top_frame().operation});
}

// The arguments of an exception that CPython made, in terms of what it was made of.
bool Recorder::raised_arguments(PyObject* object, Vals* out) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* args = args_of(object);
  const bool plain_init = cpython::builtin_init(type) == base_exception()->tp_init || PyTuple_GET_SIZE(args) == 0;
  const bool named = type == reinterpret_cast<PyTypeObject*>(PyExc_AttributeError) ||
                     type == reinterpret_cast<PyTypeObject*>(PyExc_NameError);
  if (!is_plain_exception(type) || (!plain_init && !named)) return false;
  if (raise_.operation == Operation::kRaise)
    return PyTuple_GET_SIZE(args) == 0 && type->tp_init == cpython::builtin_init(type);
  const bool unpacking = raise_.operation == Operation::kUnpack || raise_.operation == Operation::kUnpackEx;
  const bool fixed = has_fixed_message(*this, object, raise_.operands, unpacking);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    out->push_back(given(*this, PyTuple_GET_ITEM(args, i), raise_.operands, fixed));
    if (out->back().is_null()) return false;
  }
  return true;
}

// An AttributeError leaves C code that looked for an attribute.
void Recorder::note_sought(const Pending& pending) {
  if (raise_.sought.is_null()) raise_.sought = pending.sought;
}

// That code has told the real exception, `object`, if nobody else had.
void Recorder::add_sought(Val exception, PyObject* object) {
  static PyObject *const name = PyUnicode_InternFromString("name"), *const of = PyUnicode_InternFromString("obj");
  const Val pair = std::exchange(raise_.sought, Val());
  if (pair.is_null() || PyErr_GivenExceptionMatches(object, PyExc_AttributeError) == 0) return;
  const Val sought = virtual_field(pair, 0), sought_name = virtual_field(pair, 1);
  if (is_taken(exception) || is_built(exception)) {
    const uint32_t reg = trace_->virtuals[exception.index()].reg;
    const Val place = is_taken(exception) ? virtual_field(exception, kTaken) : Val::reg(reg);
    call_known(context_function(), {place, sought, sought_name});
    return;
  }
  const auto* error = reinterpret_cast<PyAttributeErrorObject*>(object);
  Val known;
  if (attr_find(exception, name, &known) || attr_find(exception, of, &known)) return;
  if (error->name != sought_name.object() || error->obj != real(sought)) return;
  attr_set(exception, name, sought_name);
  attr_set(exception, of, sought);
}

// AttributeError and NameError know what was looked for, and where.
bool Recorder::note_name(Val exception, PyObject* object) {
  PyObject *name = nullptr, *of = nullptr;
  if (Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(PyExc_AttributeError)) {
    name = reinterpret_cast<PyAttributeErrorObject*>(object)->name;
    of = reinterpret_cast<PyAttributeErrorObject*>(object)->obj;
  } else if (Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(PyExc_NameError)) {
    name = reinterpret_cast<PyNameErrorObject*>(object)->name;
  }
  if (name != nullptr && !PyUnicode_CheckExact(name)) return false;
  if (name != nullptr) attr_set(exception, Ref::steal(PyUnicode_InternFromString("name")).get(), owned(name));
  if (of == nullptr) return true;
  const Val sought = raise_.sought.is_null() ? Val() : virtual_field(raise_.sought, 0);
  const bool same = !sought.is_null() && real(sought) == of;
  const Val value = same ? sought : given(*this, of, raise_.operands, false);
  if (value.is_null()) return false;
  attr_set(exception, Ref::steal(PyUnicode_InternFromString("obj")).get(), value);
  return true;
}

Val Recorder::new_exception(PyObject* object) {
  Vals args;
  const bool known = raised_arguments(object, &args);
  const Val items = known ? new_tuple(&PyTuple_Type, args.data(), args.size()) : Val();
  const Val exception = new_virtual(VirtualKind::kException, Py_TYPE(object));
  model(exception).real = object;
  if (known) set_field(exception, kArgs, items);
  if (!known || !note_name(exception, object)) trace_->virtuals[exception.index()].buildable = false;
  return exception;
}

// Context and traceback of the real exception are what the model says.
bool Recorder::is_as_raised(Val exception) {
  PyObject* object = model(exception).real;
  auto* base = reinterpret_cast<PyBaseExceptionObject*>(object);
  const Model& content = model(exception);
  const auto field = [&](size_t i) { return i < content.items.size() ? content.items[i] : Val(); };
  const bool taken = is_taken(exception);
  PyObject *context = real(field(kContext)), *cause = field(kCause).is_null() ? Py_None : real(field(kCause));
  if (is_virtual(field(kContext), VirtualKind::kHandled)) context = raise_.entry_exception;
  if (context == Py_None) context = nullptr;
  if (base->context != context && !(taken && field(kContext).is_null())) return false;
  if ((base->cause == nullptr ? Py_None : base->cause) != cause && !(taken && field(kCause).is_null())) return false;
  auto* entry = base->traceback == Py_None ? nullptr : reinterpret_cast<PyTracebackObject*>(base->traceback);
  for (size_t i = content.traced.size(); i-- > 0; entry = entry->tb_next) {
    if (entry == nullptr || entry->tb_lasti / 2 != content.traced[i].instruction) return false;
    if (cpython::code(cpython::frame_of(entry->tb_frame)) != content.traced[i].code) return false;
  }
  return taken || entry == nullptr;
}

Val Recorder::stop_value() const {
  if (is_virtual(raise_.value, VirtualKind::kException)) return stop_value(raise_.value);
  return raise_.operation == Operation::kRaise ? Val::constant(Py_None) : Val();
}

Val Recorder::stop_value(Val exception) const {
  const Vals& fields = heap_.models[exception.index()]->items;
  if (fields.size() <= kInitArgs || fields[kInitArgs].is_null()) return Val::constant(Py_None);
  const Val args = fields[kInitArgs];
  return args.is_virtual() ? heap_.models[args.index()]->items[0] : Val::constant(Py_None);
}

// C code that the exception left has put a note on it.
static bool has_foreign_note(Recorder& recorder, Val exception, PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__notes__");
  PyObject *dict = reinterpret_cast<PyBaseExceptionObject*>(object)->dict, *notes = nullptr;
  Val known;
  return dict != nullptr && cpython::dict_lookup(dict, name, &notes) > 0 &&
         !recorder.attr_find(exception, name, &known);
}

// The exception that a handler of the innermost frame finds. Null: it escaped, and more is to be known of it.
Val Recorder::raised_exception(PyObject* object) {
  pass_frame();
  Val exception = std::exchange(raise_.value, Val());
  const bool made_by_c = exception.is_virtual() && model(exception).real == nullptr && !is_built(exception);
  if (made_by_c && type_of(exception) == Py_TYPE(object)) model(exception).real = object;
  if (!exception.is_virtual() || model(exception).real != object) {
    exception = new_exception(object);
    raise_.again = false;
  }
  add_sought(exception, object);
  if (has_foreign_note(*this, exception, object)) return Val();
  const bool escaped = trace_->virtuals[exception.index()].reg != kNone;
  if (escaped) return raise_.again && raise_.path.empty() ? exception : Val();
  if (!raise_.cause.is_null()) set_field(exception, kCause, raise_.cause);
  if (!raise_.again) {
    const Val context = raise_.context;
    const bool none = raise_.thrown && context.is_null();
    if (context != exception && !none) set_field(exception, kContext, context.is_null() ? handled_at_entry() : context);
    // A chain that would come back ends before that. The log cannot say so.
    for (Val at = context; is_virtual(at, VirtualKind::kException) && model(at).items.size() > kContext;) {
      Val& next = model(at).items[kContext];
      if (next == exception) {
        trace_->virtuals[exception.index()].buildable = trace_->virtuals[at.index()].buildable = false;
        next = Val::constant(Py_None);
      }
      at = next;
    }
  }
  for (const TracedFrame& entry : raise_.path) {
    model(exception).traced.push_back(entry);
    log(exception, LogOp::kTraced, Val(), entry.frame, static_cast<uint32_t>(entry.instruction));
  }
  raise_.path.clear();
  raise_.any_traced = true;
  if (trace_->virtuals[exception.index()].buildable && !is_as_raised(exception))
    trace_->virtuals[exception.index()].buildable = false;
  return exception;
}

Val Recorder::traceback_of(Val exception) {
  if (model(exception).traced.empty()) return Val::constant(Py_None);
  const Val traceback = new_virtual(VirtualKind::kTraceback, &PyTraceBack_Type);
  set_field(traceback, field::kTraceback::kException, exception);
  log(traceback, LogOp::kIndex, Val(), Val(), static_cast<uint32_t>(model(exception).traced.size()));
  model(exception).tracebacks.push_back(traceback);
  return traceback;
}

bool Recorder::exc_info(Vals* out) {
  const Val exception = handling();
  if (is_virtual(exception, VirtualKind::kException)) {
    *out = {Val::constant(reinterpret_cast<PyObject*>(type_of(exception))), exception, traceback_of(exception)};
    return !is_built(exception);
  }
  if (!exception.is_null() || !nothing_handled_at_entry()) return false;
  out->assign(3, Val::constant(Py_None));
  return true;
}

bool Recorder::nothing_handled_at_entry() {
  if (raise_.entry_exception != nullptr && raise_.entry_exception != Py_None) return false;
  const Val handled = materialize(handled_at_entry());
  if (!live_) return false;
  Node& node = emit_node(Op::kGuardIs);
  node.a = handled;
  node.b = Val::constant(Py_None);
  return true;
}

// Everything that a frame which has ended holds is reached by foreign code through the traceback.
void Recorder::materialize_frame(Val frame) {
  const Model& content = model(frame);
  if (!trace_->virtuals[frame.index()].buildable) return stop(Abort::kUnbuildable, "the frame of a class body");
  if (content.position != kExhausted) {
    if (content.items.size() > 2) stop(Abort::kUnbuildable, "the frame of a generator");
    return;
  }
  for (size_t i = 0; i < content.items.size() && live_; ++i)
    if (i != 1) materialize(content.items[i]);
  if (live_ && !content.items[1].is_null()) materialize_frame(content.items[1]);
}

bool Recorder::holds_raised(Val value) {
  if (!value.is_virtual() || trace_->virtuals[value.index()].reg != kNone) return false;
  if (snapshots_.visited[value.index()] == snapshots_.visit) return false;
  snapshots_.visited[value.index()] = snapshots_.visit;
  const Model& content = model(value);
  if (!content.traced.empty()) return true;
  if (content.suspended != nullptr) {
    const ShadowFrame& frame = *content.suspended;
    for (int i = 0; i < frame.locals + frame.sp; ++i)
      if (holds_raised(frame.slots[static_cast<size_t>(i)])) return true;
    for (Val exception : frame.handled)
      if (holds_raised(exception)) return true;
  }
  for (auto* values : {&content.items, &content.attrs})
    for (Val item : *values)
      if (holds_raised(item)) return true;
  return false;
}

}  // namespace pijit
