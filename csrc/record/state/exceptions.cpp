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
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"

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
    if (!of_types || is_scalar_reg(recorder, operand.value)) return false;
  }
  return true;
}

// What the instruction gave the exception, as it is found again at each replay; Null: not known.
Val given(Recorder& recorder, PyObject* object, const Vec<Operand>& operands, bool fixed_message) {
  for (const Operand& operand : operands)
    if (!operand.value.is_null() && operand.object == object) return operand.value;
  const char* text = PyUnicode_CheckExact(object) ? PyUnicode_AsUTF8(object) : nullptr;
  if (text == nullptr) PyErr_Clear();
  if (text != nullptr && fixed_message && strstr(text, "0x") == nullptr) return recorder.reads.owned(object);
  if (!cpython::is_scalar(object) || text != nullptr) return Val();
  for (const Operand& operand : operands)
    if (operand.value.is_const() && cpython::same_scalar(operand.value.object(), object)) return operand.value;
  return Val();
}

Val handled_at_entry(Recorder& recorder) {
  if (recorder.raise.entry_handled.is_null())
    recorder.raise.entry_handled = new_virtual(recorder, VirtualKind::kHandled, nullptr);
  return recorder.raise.entry_handled;
}

}  // namespace

// What PUSH_EXC_INFO puts away. A generator has a place of its own for what it and its callees handle.
Val saved_exception(Recorder& recorder) {
  for (size_t i = recorder.frames.size(); i-- > 0;) {
    if (!recorder.frames[i]->handled.empty()) return recorder.frames[i]->handled.back();
    if (recorder.frames[i]->generator != kNone) return Val::constant(Py_None);
  }
  return handled_at_entry(recorder);
}

namespace {

// The frame of a level, as tracebacks name it.
Val frame_self(Recorder& recorder, size_t level) {
  ShadowFrame& frame = *recorder.frames[level];
  if (!frame.self.is_null()) return frame.self;
  const bool generator = frame.generator != kNone;
  const Val caller = level > 0 && !generator ? frame_self(recorder, level - 1) : Val();
  frame.self = new_virtual(recorder, VirtualKind::kFrame, nullptr);
  set_field(recorder, frame.self, 0, frame.function);
  set_field(recorder, frame.self, 1, caller);
  if (!frame.names.is_null())
    recorder.trace().virtuals[frame.self.index()].buildable = false;  // whose variables are a dict
  if (generator) set_field(recorder, frame.self, 2, Val::virtual_object(frame.generator));
  if (level + 1 < recorder.frames.size() && recorder.frames[level + 1]->outer_state != kNone)
    recorder.trace().frame_states[recorder.frames[level + 1]->outer_state].self = frame.self.index();
  return frame.self;
}

// Where a frame that ends stands: RERAISE goes back to where what it raises came from.
int last_instruction(ShadowFrame& frame) {
  const Instruction now = frame.current();
  if (!now.is(Operation::kReraise) || now.argument == 0) return frame.operation;
  PyObject* from = frame.top(now.argument + 1).object();
  return from != nullptr && PyLong_CheckExact(from) ? static_cast<int>(PyLong_AsLong(from)) : frame.operation;
}

}  // namespace

// The frame ends with the variables that it has now.
void end_frame(Recorder& recorder, ShadowFrame& frame) {
  if (frame.self.is_null()) return;
  if (cpython::ended_generators_have_callers() && frame.generator != kNone && !recorder.frames.empty())
    set_field(recorder, frame.self, 1, frame_self(recorder, recorder.frames.size() - 1));
  Model& content = recorder.heap.model(frame.self);
  content.get<family::Frame>().ended = true;
  for (int i = 0; i < frame.locals; ++i) {
    content.items.push_back(frame.local(i));
    log(recorder, frame.self, LogOp::kItem, Val(), frame.local(i), static_cast<uint32_t>(i));
  }
  log(recorder, frame.self, LogOp::kIndex, Val(), Val(), static_cast<uint32_t>(last_instruction(frame)));
}

namespace {

// `again`: as it is, without an entry for this instruction.
void note_raise(Recorder& recorder, ShadowFrame& frame, int pops, Val exception, bool again) {
  recorder.raise.value = exception;
  recorder.raise.cause = Val();
  recorder.raise.again = again;
  recorder.raise.thrown = false;
  recorder.raise.context = recorder.frames.handling();
  recorder.raise.entry_due = !again;
  recorder.raise.path.clear();
  recorder.raise.operands.clear();
  recorder.raise.sought = Val();
  recorder.raise.operation = cpython::operation_at(frame.code, frame.operation);
  for (int i = 1; i <= pops; ++i) recorder.raise.operands.push_back({frame.top(i), recorder.heap.real(frame.top(i))});
}

}  // namespace

// Foreign code has raised `object`, which is in a register: nothing is known of it but its class.
void begin_taken(Recorder& recorder, PyObject* object, Val taken) {
  const Val exception = new_virtual(recorder, VirtualKind::kException, Py_TYPE(object));
  recorder.heap.model(exception).real = object;
  set_field(recorder, exception, kTaken, taken);
  note_raise(recorder, recorder.frames.top(), 0, exception, true);
  recorder.raise.note_sought(recorder.frames.top().pending);
  recorder.raise.entry_due = true;
  recorder.raise.snapshot = kNone;
}

bool is_taken(const Heap& heap, Val exception) {
  const Vals& fields = heap.models[exception.index()]->items;
  return fields.size() > kTaken && !fields[kTaken].is_null();
}

void begin_raise(Recorder& recorder, ShadowFrame& frame, int pops, Val exception, bool again) {
  note_raise(recorder, frame, pops, exception, again);
  // The trace may end there.
  recorder.raise.snapshot = exit_snapshot(recorder);
  recorder.raise.nodes = frame.mark.nodes;
  if (!snapshot_usable(recorder, recorder.raise.snapshot)) recorder.raise.snapshot = kNone;
}

// An exception is thrown into a generator, whose frame is the innermost one: there is no way back to that.
void raise_at_yield(Recorder& recorder, ShadowFrame& frame, Val exception) {
  frame.instruction = frame.operation = cpython::resume_index(frame.frame) - 1;
  note_raise(recorder, frame, 0, exception, false);
  recorder.raise.thrown = true;
  // CPython's entry for it names the instruction where the frame stands, which from 3.13 on comes after the yield.
  recorder.raise.path.push_back(
      {frame_self(recorder, recorder.frames.size() - 1), frame.code, cpython::instruction_index(frame.frame)});
  recorder.raise.entry_due = false;
  recorder.raise.context = frame.handled.empty() ? Val() : frame.handled.back();
  recorder.raise.snapshot = kNone;
  // CPython sends None with it, which stays on the stack where what the generator delegates to has raised.
  frame.slots[static_cast<size_t>(frame.locals + frame.sp)] = Val::constant(Py_None);
  await(frame, 0, 0).raises = true;
}

// The exception under way passes the innermost frame.
void pass_frame(Recorder& recorder) {
  if (std::exchange(recorder.raise.entry_due, true))
    recorder.raise.path.push_back({frame_self(recorder, recorder.frames.size() - 1), recorder.frames.top().code,
                                   recorder.frames.top().operation});
}

namespace {

// The arguments of an exception that CPython made, in terms of what it was made of.
bool raised_arguments(Recorder& recorder, PyObject* object, Vals* out) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* args = args_of(object);
  const bool plain_init = cpython::builtin_init(type) == base_exception()->tp_init || PyTuple_GET_SIZE(args) == 0;
  const bool named = type == reinterpret_cast<PyTypeObject*>(PyExc_AttributeError) ||
                     type == reinterpret_cast<PyTypeObject*>(PyExc_NameError);
  if (!is_plain_exception(type) || (!plain_init && !named)) return false;
  if (recorder.raise.operation == Operation::kRaise)
    return PyTuple_GET_SIZE(args) == 0 && type->tp_init == cpython::builtin_init(type);
  const bool unpacking =
      recorder.raise.operation == Operation::kUnpack || recorder.raise.operation == Operation::kUnpackEx;
  const bool fixed = has_fixed_message(recorder, object, recorder.raise.operands, unpacking);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    out->push_back(given(recorder, PyTuple_GET_ITEM(args, i), recorder.raise.operands, fixed));
    if (out->back().is_null()) return false;
  }
  return true;
}

// That code has told the real exception, `object`, if nobody else had.
void add_sought(Recorder& recorder, Val exception, PyObject* object) {
  static PyObject *const name = PyUnicode_InternFromString("name"), *const of = PyUnicode_InternFromString("obj");
  const Val pair = std::exchange(recorder.raise.sought, Val());
  if (pair.is_null() || PyErr_GivenExceptionMatches(object, PyExc_AttributeError) == 0) return;
  const Val sought = recorder.heap.virtual_field(pair, 0), sought_name = recorder.heap.virtual_field(pair, 1);
  if (is_taken(recorder.heap, exception) || recorder.heap.is_built(exception)) {
    const uint32_t reg = recorder.trace().virtuals[exception.index()].reg;
    const Val place =
        is_taken(recorder.heap, exception) ? recorder.heap.virtual_field(exception, kTaken) : Val::reg(reg);
    call_known(recorder, context_function(), {place, sought, sought_name});
    return;
  }
  const auto* error = reinterpret_cast<PyAttributeErrorObject*>(object);
  Val known;
  if (attr_find(recorder.heap, exception, name, &known) || attr_find(recorder.heap, exception, of, &known)) return;
  if (error->name != sought_name.object() || error->obj != recorder.heap.real(sought)) return;
  attr_set(recorder, exception, name, sought_name);
  attr_set(recorder, exception, of, sought);
}

// AttributeError and NameError know what was looked for, and where.
bool note_name(Recorder& recorder, Val exception, PyObject* object) {
  PyObject *name = nullptr, *of = nullptr;
  if (Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(PyExc_AttributeError)) {
    name = reinterpret_cast<PyAttributeErrorObject*>(object)->name;
    of = reinterpret_cast<PyAttributeErrorObject*>(object)->obj;
  } else if (Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(PyExc_NameError)) {
    name = reinterpret_cast<PyNameErrorObject*>(object)->name;
  }
  if (name != nullptr && !PyUnicode_CheckExact(name)) return false;
  if (name != nullptr)
    attr_set(recorder, exception, Ref::steal(PyUnicode_InternFromString("name")).get(), recorder.reads.owned(name));
  if (of == nullptr) return true;
  const Val sought = recorder.raise.sought.is_null() ? Val() : recorder.heap.virtual_field(recorder.raise.sought, 0);
  const bool same = !sought.is_null() && recorder.heap.real(sought) == of;
  const Val value = same ? sought : given(recorder, of, recorder.raise.operands, false);
  if (value.is_null()) return false;
  attr_set(recorder, exception, Ref::steal(PyUnicode_InternFromString("obj")).get(), value);
  return true;
}

}  // namespace

Val new_exception(Recorder& recorder, PyObject* object) {
  Vals args;
  const bool known = raised_arguments(recorder, object, &args);
  const Val items = known ? recorder.new_tuple(&PyTuple_Type, args.data(), args.size()) : Val();
  const Val exception = new_virtual(recorder, VirtualKind::kException, Py_TYPE(object));
  recorder.heap.model(exception).real = object;
  if (known) set_field(recorder, exception, kArgs, items);
  if (!known || !note_name(recorder, exception, object)) recorder.trace().virtuals[exception.index()].buildable = false;
  return exception;
}

namespace {

// Context and traceback of the real exception are what the model says.
bool is_as_raised(Recorder& recorder, Val exception) {
  PyObject* object = recorder.heap.model(exception).real;
  auto* base = reinterpret_cast<PyBaseExceptionObject*>(object);
  const Model& content = recorder.heap.model(exception);
  const auto field = [&](size_t i) { return i < content.items.size() ? content.items[i] : Val(); };
  const bool taken = is_taken(recorder.heap, exception);
  PyObject *context = recorder.heap.real(field(kContext)),
           *cause = field(kCause).is_null() ? Py_None : recorder.heap.real(field(kCause));
  if (recorder.heap.is_virtual(field(kContext), VirtualKind::kHandled)) context = recorder.raise.entry_exception;
  if (context == Py_None) context = nullptr;
  if (base->context != context && !(taken && field(kContext).is_null())) return false;
  if ((base->cause == nullptr ? Py_None : base->cause) != cause && !(taken && field(kCause).is_null())) return false;
  auto* entry = base->traceback == Py_None ? nullptr : reinterpret_cast<PyTracebackObject*>(base->traceback);
  const auto& traced = content.get<family::Exception>().traced;
  for (size_t i = traced.size(); i-- > 0; entry = entry->tb_next) {
    if (entry == nullptr || entry->tb_lasti / 2 != traced[i].instruction) return false;
    if (cpython::code(cpython::frame_of(entry->tb_frame)) != traced[i].code) return false;
  }
  return taken || entry == nullptr;
}

}  // namespace

Val stop_value(const Recorder& recorder) {
  if (recorder.heap.is_virtual(recorder.raise.value, VirtualKind::kException))
    return stop_value(recorder.heap, recorder.raise.value);
  return recorder.raise.operation == Operation::kRaise ? Val::constant(Py_None) : Val();
}

Val stop_value(const Heap& heap, Val exception) {
  const Vals& fields = heap.models[exception.index()]->items;
  if (fields.size() <= kInitArgs || fields[kInitArgs].is_null()) return Val::constant(Py_None);
  const Val args = fields[kInitArgs];
  return args.is_virtual() ? heap.models[args.index()]->items[0] : Val::constant(Py_None);
}

// C code that the exception left has put a note on it.
static bool has_foreign_note(Heap& heap, Val exception, PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__notes__");
  PyObject *dict = reinterpret_cast<PyBaseExceptionObject*>(object)->dict, *notes = nullptr;
  Val known;
  return dict != nullptr && cpython::dict_lookup(dict, name, &notes) > 0 && !attr_find(heap, exception, name, &known);
}

// The exception that a handler of the innermost frame finds. Null: it escaped, and more is to be known of it.
Val raised_exception(Recorder& recorder, PyObject* object) {
  pass_frame(recorder);
  Val exception = std::exchange(recorder.raise.value, Val());
  const bool made_by_c =
      exception.is_virtual() && recorder.heap.model(exception).real == nullptr && !recorder.heap.is_built(exception);
  if (made_by_c && recorder.heap.type_of(exception) == Py_TYPE(object)) recorder.heap.model(exception).real = object;
  if (!exception.is_virtual() || recorder.heap.model(exception).real != object) {
    exception = new_exception(recorder, object);
    recorder.raise.again = false;
  }
  add_sought(recorder, exception, object);
  if (has_foreign_note(recorder.heap, exception, object)) return Val();
  const bool escaped = recorder.trace().virtuals[exception.index()].reg != kNone;
  if (escaped) return recorder.raise.again && recorder.raise.path.empty() ? exception : Val();
  if (!recorder.raise.cause.is_null()) set_field(recorder, exception, kCause, recorder.raise.cause);
  if (!recorder.raise.again) {
    const Val context = recorder.raise.context;
    const bool none = recorder.raise.thrown && context.is_null();
    if (context != exception && !none)
      set_field(recorder, exception, kContext, context.is_null() ? handled_at_entry(recorder) : context);
    // A chain that would come back ends before that. The log cannot say so.
    for (Val at = context;
         recorder.heap.is_virtual(at, VirtualKind::kException) && recorder.heap.model(at).items.size() > kContext;) {
      Val& next = recorder.heap.model(at).items[kContext];
      if (next == exception) {
        recorder.trace().virtuals[exception.index()].buildable = recorder.trace().virtuals[at.index()].buildable =
            false;
        next = Val::constant(Py_None);
      }
      at = next;
    }
  }
  for (const TracedFrame& entry : recorder.raise.path) {
    recorder.heap.model(exception).get<family::Exception>().traced.push_back(entry);
    log(recorder, exception, LogOp::kTraced, Val(), entry.frame, static_cast<uint32_t>(entry.instruction));
  }
  recorder.raise.path.clear();
  recorder.raise.any_traced = true;
  if (recorder.trace().virtuals[exception.index()].buildable && !is_as_raised(recorder, exception))
    recorder.trace().virtuals[exception.index()].buildable = false;
  return exception;
}

Val traceback_of(Recorder& recorder, Val exception) {
  auto& known = recorder.heap.model(exception).get<family::Exception>();
  if (known.traced.empty()) return Val::constant(Py_None);
  const Val traceback = new_virtual(recorder, VirtualKind::kTraceback, &PyTraceBack_Type);
  set_field(recorder, traceback, field::kTraceback::kException, exception);
  log(recorder, traceback, LogOp::kIndex, Val(), Val(), static_cast<uint32_t>(known.traced.size()));
  known.tracebacks.push_back(traceback);
  return traceback;
}

bool exc_info(Recorder& recorder, Vals* out) {
  const Val exception = recorder.frames.handling();
  if (recorder.heap.is_virtual(exception, VirtualKind::kException)) {
    *out = {Val::constant(reinterpret_cast<PyObject*>(recorder.heap.type_of(exception))), exception,
            traceback_of(recorder, exception)};
    return !recorder.heap.is_built(exception);
  }
  if (!exception.is_null() || !nothing_handled_at_entry(recorder)) return false;
  out->assign(3, Val::constant(Py_None));
  return true;
}

bool nothing_handled_at_entry(Recorder& recorder) {
  if (recorder.raise.entry_exception != nullptr && recorder.raise.entry_exception != Py_None) return false;
  const Val handled = materialize(recorder, handled_at_entry(recorder));
  if (!recorder.live()) return false;
  Node& node = emit_node(recorder, Op::kGuardIs);
  node.a = handled;
  node.b = Val::constant(Py_None);
  return true;
}

// Everything that a frame which has ended holds is reached by foreign code through the traceback.
void materialize_frame(Recorder& recorder, Val frame) {
  const Model& content = recorder.heap.model(frame);
  if (!recorder.trace().virtuals[frame.index()].buildable)
    return recorder.stop(Abort::kUnbuildable, "the frame of a class body");
  if (!content.get<family::Frame>().ended) {
    if (content.items.size() > 2) recorder.stop(Abort::kUnbuildable, "the frame of a generator");
    return;
  }
  for (size_t i = 0; i < content.items.size() && recorder.live(); ++i)
    if (i != 1) materialize(recorder, content.items[i]);
  if (recorder.live() && !content.items[1].is_null()) materialize_frame(recorder, content.items[1]);
}

bool holds_raised(Recorder& recorder, Val value) {
  if (!value.is_virtual() || recorder.trace().virtuals[value.index()].reg != kNone) return false;
  if (recorder.snapshots.visited[value.index()] == recorder.snapshots.visit) return false;
  recorder.snapshots.visited[value.index()] = recorder.snapshots.visit;
  const Model& content = recorder.heap.model(value);
  const auto* exception = content.find<family::Exception>();
  if (exception != nullptr && !exception->traced.empty()) return true;
  const auto* generator = content.find<family::Generator>();
  if (generator != nullptr && generator->suspended != nullptr) {
    const ShadowFrame& frame = *generator->suspended;
    for (int i = 0; i < frame.locals + frame.sp; ++i)
      if (holds_raised(recorder, frame.slots[static_cast<size_t>(i)])) return true;
    for (Val handled : frame.handled)
      if (holds_raised(recorder, handled)) return true;
  }
  const auto raised = [&](Val item) { return holds_raised(recorder, item); };
  const auto* attributes = content.find<family::Attributes>();
  return std::any_of(content.items.begin(), content.items.end(), raised) ||
         (attributes != nullptr && std::any_of(attributes->values.begin(), attributes->values.end(), raised));
}

}  // namespace pijit
