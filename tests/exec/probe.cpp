// A test module that builds traces from Python descriptions and replays them, so that execution is tested without a
// recorder.
//
// arm(code, trace): the next call of a function with this code object is replayed by the trace, if its guards hold.
// A trace is a dict: inputs, regs (names of representations), guards, nodes, virtuals, log, frames, snapshots, heads,
// clock, depth, owned. A value is NULL, ("reg", i), ("virtual", i) or ("const", object).
#include <string>

#include "common/ref.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace pijit {
namespace {

PyObject* evaluate(PyThreadState* ts, cpython::Frame* frame, int throwflag);

Trace* armed = nullptr;
PyObject* armed_code = nullptr;

PyObject* get(PyObject* mapping, const char* key) {
  return PyDict_GetItemString(mapping, key);
}

long number(PyObject* mapping, const char* key, long otherwise) {
  PyObject* value = get(mapping, key);
  return value == nullptr || value == Py_None ? otherwise : PyLong_AsLong(value);
}

uint32_t index_or_none(PyObject* mapping, const char* key) {
  const long value = number(mapping, key, -1);
  return value < 0 ? kNone : static_cast<uint32_t>(value);
}

Val to_val(Trace* trace, PyObject* description) {
  if (description == nullptr || description == Py_None) return Val();
  const std::string kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(description, 0));
  PyObject* what = PyTuple_GET_ITEM(description, 1);
  if (kind == "reg") return Val::reg(static_cast<uint32_t>(PyLong_AsLong(what)));
  if (kind == "virtual") return Val::virtual_object(static_cast<uint32_t>(PyLong_AsLong(what)));
  trace->owned.push_back(Ref::borrow(what));
  return Val::constant(what);
}

template <typename Each>
void each(PyObject* mapping, const char* key, Each function) {
  PyObject* list = get(mapping, key);
  for (Py_ssize_t i = 0; list != nullptr && i < PyList_GET_SIZE(list); ++i) function(PyList_GET_ITEM(list, i));
}

template <typename Name, size_t kCount>
int find_name(PyObject* mapping, const char* key, const Name (&names)[kCount]) {
  PyObject* wanted = get(mapping, key);
  for (size_t i = 0; wanted != nullptr && i < kCount; ++i)
    if (PyUnicode_CompareWithASCIIString(wanted, names[i]) == 0) return static_cast<int>(i);
  return 0;
}

constexpr const char* kOps[] = {
#define PIJIT_OP(name, ...) #name,
#include "ir/ops.def"
#undef PIJIT_OP
};
constexpr const char* kGuards[] = {
#define PIJIT_GUARD(name, ...) #name,
#include "ir/guards.def"
#undef PIJIT_GUARD
};
constexpr const char* kVirtuals[] = {
#define PIJIT_VIRTUAL(name, ...) #name,
#include "ir/virtuals.def"
#undef PIJIT_VIRTUAL
};
constexpr const char* kLogOps[] = {"item",    "setitem", "delitem", "insert", "clear",
                                   "setattr", "delattr", "field",   "index",  "frame"};
#define PIJIT_CONTINUATION(name, print, doc) print,
constexpr const char* kContinuations[] = {
#include "ir/continuations.def"
};
#undef PIJIT_CONTINUATION

void add_virtual(Trace* trace, PyObject* item) {
  Virtual object{};
  object.kind = static_cast<VirtualKind>(find_name(item, "kind", kVirtuals));
  object.buildable = row_of(object.kind).buildable;
  object.type = reinterpret_cast<PyTypeObject*>(get(item, "type"));
  object.reg = index_or_none(item, "reg");
  object.reg_time = object.reg == kNone ? UINT32_MAX : static_cast<uint32_t>(number(item, "reg_time", 0));
  if (object.type != nullptr) trace->owned.push_back(Ref::borrow(get(item, "type")));
  trace->virtuals.push_back(object);
}

void add_log(Trace* trace, PyObject* item) {
  LogEntry entry{};
  entry.op = static_cast<LogOp>(find_name(item, "op", kLogOps));
  entry.time = ++trace->clock;
  entry.index = static_cast<uint32_t>(number(item, "index", 0));
  entry.key = to_val(trace, get(item, "key"));
  entry.value = to_val(trace, get(item, "value"));
  Virtual& object = trace->virtuals[static_cast<size_t>(number(item, "object", 0))];
  const auto at = static_cast<uint32_t>(trace->log.size());
  trace->log.push_back(entry);
  (object.head == kNone ? object.head : trace->log[object.tail].next) = at;
  object.tail = at;
}

void add_frame(Trace* trace, PyObject* item) {
  FrameState state{};
  state.parent = index_or_none(item, "parent");
  state.continuation = static_cast<Continuation>(find_name(item, "continuation", kContinuations));
  state.code = reinterpret_cast<PyCodeObject*>(get(item, "code"));
  trace->owned.push_back(Ref::borrow(get(item, "code")));
  state.function = to_val(trace, get(item, "function"));
  state.extra = to_val(trace, get(item, "extra"));
  state.resume = static_cast<int32_t>(number(item, "resume", 0));
  state.call = static_cast<int32_t>(number(item, "call", state.resume));
  state.first = static_cast<uint32_t>(trace->slots.size());
  each(item, "locals", [&](PyObject* slot) { trace->slots.push_back(to_val(trace, slot)), ++state.locals; });
  each(item, "stack", [&](PyObject* slot) { trace->slots.push_back(to_val(trace, slot)), ++state.stack; });
  trace->frame_states.push_back(state);
}

void add_guard(Trace* trace, PyObject* item) {
  Guard guard{};
  guard.op = static_cast<GuardOp>(find_name(item, "op", kGuards));
  guard.out = index_or_none(item, "out");
  guard.subject = to_val(trace, get(item, "subject"));
  guard.expected = get(item, "expected");
  if (guard.expected != nullptr) trace->owned.push_back(Ref::borrow(guard.expected));
  guard.number = static_cast<uint64_t>(number(item, "number", 0));
  guard.aux = static_cast<uint32_t>(number(item, "aux", 0));
  guard.first = static_cast<uint32_t>(trace->guard_items.size());
  each(item, "items", [&](PyObject* object) {
    const Val value = to_val(trace, object);
    trace->guard_items.push_back(value.object());
    ++guard.count;
  });
  trace->guards.push_back(guard);
}

void add_node(Trace* trace, PyObject* item) {
  Node node{};
  node.op = static_cast<Op>(find_name(item, "op", kOps));
  node.out = index_or_none(item, "out");
  node.snapshot = index_or_none(item, "snapshot");
  node.time = static_cast<uint32_t>(number(item, "time", trace->clock));
  node.a = to_val(trace, get(item, "a"));
  node.b = to_val(trace, get(item, "b"));
  node.c = to_val(trace, get(item, "c"));
  node.imm = static_cast<uint64_t>(number(item, "imm", 0));
  node.aux = static_cast<uint32_t>(number(item, "aux", 0));
  node.first = static_cast<uint32_t>(trace->operands.size());
  each(item, "operands", [&](PyObject* operand) { trace->operands.push_back(to_val(trace, operand)), ++node.count; });
  trace->nodes.push_back(node);
}

void build(Trace* trace, PyObject* description) {
  trace->inputs = static_cast<uint32_t>(number(description, "inputs", 0));
  trace->regs.resize(static_cast<size_t>(number(description, "regs", trace->inputs)));
  trace->depth = static_cast<uint32_t>(number(description, "depth", 1));
  trace->sites.push_back({nullptr, 0});
  each(description, "virtuals", [&](PyObject* item) { add_virtual(trace, item); });
  each(description, "log", [&](PyObject* item) { add_log(trace, item); });
  each(description, "frames", [&](PyObject* item) { add_frame(trace, item); });
  each(description, "snapshots", [&](PyObject* item) {
    const uint32_t time = static_cast<uint32_t>(number(item, "time", trace->clock));
    trace->snapshots.push_back({static_cast<uint32_t>(number(item, "frame", 0)), time});
  });
  each(description, "heads", [&](PyObject* item) {
    trace->heads.push_back({static_cast<uint32_t>(number(item, "state", 0)), 0, 0, false, false});
  });
  each(description, "guards", [&](PyObject* item) { add_guard(trace, item); });
  each(description, "nodes", [&](PyObject* item) { add_node(trace, item); });
}

// --- capturing a real call in the middle ------------------------------------------------------

// Verifies before and after finish_trace; false with RuntimeError set.
bool finish_armed() {
  std::string wrong = verify_trace(*armed);
  if (wrong.empty()) {
    finish_trace(*armed);
    prepare_replays(*armed);
    wrong = verify_trace(*armed);
  }
  if (!wrong.empty()) PyErr_SetString(PyExc_RuntimeError, wrong.c_str());
  return wrong.empty();
}

#if PY_VERSION_HEX < 0x030c0000
struct Capture {
  PyCodeObject* root;
  cpython::Frame* root_frame = nullptr;
  long wanted, seen = 0;
  std::unique_ptr<Trace> trace;
};
Capture* capture = nullptr;

// The instruction cannot be resumed at: it belongs to a KW_NAMES before it.
bool inside_call(PyCodeObject* code, int index) {
  const auto is = [&](int at, const char* name) {
    return at >= 0 && std::string(cpython::instruction_name(code, at)) == name;
  };
  if (is(index, "CALL")) index -= 2;
  return (is(index, "PRECALL") || is(index, "CALL")) && is(index - 1, "KW_NAMES");
}

// The instruction that a code unit belongs to: an inlined call leaves the frame at the last of its cache entries.
int instruction_of(PyCodeObject* code, int unit) {
  int index = 0;
  while (cpython::next_index(code, index) <= unit) index = cpython::next_index(code, index);
  return index;
}

Val own(Trace* trace, PyObject* object) {
  if (object == nullptr) return Val();
  trace->owned.push_back(Ref::borrow(object));
  return Val::constant(object);
}

// The state of `frame` and of those around it; kNone when one of them cannot be rebuilt.
uint32_t capture_frame(Trace* trace, cpython::Frame* frame, bool innermost) {
  PyCodeObject* code = cpython::code(frame);
  const bool root = frame == capture->root_frame;
  if (cpython::is_generator_frame(frame) || (frame->is_entry && !root)) return kNone;
  FrameState state{};
  if (!root && (state.parent = capture_frame(trace, cpython::previous(frame), false)) == kNone) return kNone;
  state.code = code;
  trace->owned.push_back(Ref::borrow(reinterpret_cast<PyObject*>(code)));
  if (!root) state.function = own(trace, cpython::function(frame));
  int index = cpython::instruction_index(frame);
  if (!innermost) {
    index = instruction_of(code, index);
    state.continuation = Continuation::kPush;
  }
  state.call = index;
  state.resume = innermost ? index : cpython::next_index(code, index);
  state.first = static_cast<uint32_t>(trace->slots.size());
  state.locals = static_cast<uint32_t>(cpython::local_count(frame));
  state.stack = static_cast<uint32_t>(cpython::stack_depth(frame));
  for (uint32_t i = 0; i < state.locals + state.stack; ++i)
    trace->slots.push_back(own(trace, cpython::slot(frame, i)));
  trace->frame_states.push_back(state);
  return static_cast<uint32_t>(trace->frame_states.size() - 1);
}

int on_event(PyObject*, PyFrameObject* object, int what, PyObject*) {
  cpython::Frame* frame = cpython::frame_of(object);
  if (what == PyTrace_CALL) {
    if (capture->root_frame == nullptr && cpython::code(frame) == capture->root) capture->root_frame = frame;
    cpython::want_opcode_events(object);
  }
  // A function called look() holds frames of the captured call: no exit is made inside it.
  if (PyUnicode_CompareWithASCIIString(cpython::code(frame)->co_name, "look") == 0) return 0;
  if (what != PyTrace_OPCODE || capture->root_frame == nullptr || capture->seen++ != capture->wanted) return 0;
  if (!inside_call(cpython::code(frame), cpython::instruction_index(frame))) {
    capture->trace = std::make_unique<Trace>();
    const uint32_t state = capture_frame(capture->trace.get(), frame, true);
    if (state == kNone) {
      capture->trace.reset();
    } else {
      capture->trace->snapshots.push_back({state, 0});
      capture->trace->sites.push_back({nullptr, 0});
    }
  }
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  return -1;
}

// capture(function, args, n) -> True: armed with an exit at the n-th instruction; False: no exit there; None: no such
// instruction. The call is abandoned at that instruction.
PyObject* capture_call(PyObject*, PyObject* args) {
  PyObject *function, *arguments;
  Capture now;
  if (!PyArg_ParseTuple(args, "OOl", &function, &arguments, &now.wanted)) return nullptr;
  PyThreadState* ts = PyThreadState_Get();
  now.root = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  capture = &now;
  // An instruction that no handler covers is not one that raises: abandoning it there leaves the handled exception
  // behind.
  PyObject *type, *value, *traceback;
  PyErr_GetExcInfo(&type, &value, &traceback);
  cpython::start_events(ts, on_event);
  Ref result = Ref::steal(PyObject_CallObject(function, arguments));
  cpython::stop_events(ts);
  capture = nullptr;
  PyErr_SetExcInfo(type, value, traceback);
  PyErr_Clear();
  if (now.seen <= now.wanted) Py_RETURN_NONE;
  if (!now.trace) Py_RETURN_FALSE;
  Node node{};
  node.op = Op::kExit;
  node.snapshot = 0;
  now.trace->nodes.push_back(node);
  now.trace->depth = static_cast<uint32_t>(now.trace->frame_states.size());
  delete armed;
  armed = now.trace.release();
  armed->code = Ref::borrow(PyFunction_GET_CODE(function));
  drop_reference(armed_code);
  armed_code = new_reference(armed->code.get());
  if (!finish_armed()) return nullptr;
  cpython::set_eval_frame(ts, evaluate);
  Py_RETURN_TRUE;
}
#endif

// --- replaying --------------------------------------------------------------------------------

PyObject* evaluate(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  cpython::Evaluation evaluation(frame);
  PyObject* result;
  if (throwflag == 0 && armed != nullptr && reinterpret_cast<PyObject*>(cpython::code(frame)) == armed_code &&
      cpython::is_fresh(frame)) {
    Left left;
    if (try_replay(*armed, frame, ts, &result, &left)) return evaluation.finish(ts, result);
  }
  return evaluation.finish(ts, cpython::eval_default(ts, frame, throwflag));
}

// arm(code, description) -> text of the trace. RuntimeError when it does not verify.
PyObject* arm(PyObject*, PyObject* args) {
  PyObject *code, *description;
  if (!PyArg_ParseTuple(args, "OO", &code, &description)) return nullptr;
  delete armed;
  armed = new Trace;
  armed->code = Ref::borrow(code);
  build(armed, description);
  drop_reference(armed_code);
  armed_code = new_reference(code);
  if (!finish_armed()) return nullptr;
  cpython::set_eval_frame(PyThreadState_Get(), evaluate);
  return PyUnicode_FromString(print_trace(*armed, true).c_str());
}

// disarm() -> (replays, exits)
PyObject* disarm(PyObject*, PyObject*) {
  cpython::set_eval_frame(PyThreadState_Get(), cpython::default_eval_frame());
  PyObject* result = Py_BuildValue("KK", armed == nullptr ? 0 : armed->replays, armed == nullptr ? 0 : armed->exits);
  delete armed;
  armed = nullptr;
  return result;
}

// miss(*inputs) -> why the armed trace's guards do not hold for these arguments, or "".
PyObject* miss(PyObject*, PyObject* args) {
  RegisterFile file(armed->regs.size());
  for (uint32_t i = 0; i < armed->inputs; ++i) {
    file.get()[i].object = PyTuple_GET_ITEM(args, i);
    file.get()[i].rep = Rep::kObject;
  }
  return PyUnicode_FromString(explain_miss(*armed, nullptr, file.get()).c_str());
}

// facts(object) -> numbers that guards compare.
PyObject* facts(PyObject*, PyObject* object) {
  const bool type = PyType_Check(object) != 0, dict = PyDict_Check(object) != 0,
             function = PyFunction_Check(object) != 0;
  cpython::Frame* frame = PyGen_CheckExact(object) ? cpython::generator_frame(object) : nullptr;
  auto* own = reinterpret_cast<PyTypeObject*>(object);
  return Py_BuildValue(
      "{sKsIsIsIsKsKsisi}", "dict", dict ? static_cast<unsigned long long>(cpython::dict_version(object)) : 0ULL, "type",
      type ? cpython::type_version(own) : 0, "function", function ? cpython::function_version(object) : 0, "keys",
      type ? cpython::shared_keys_version(own) : 0, "keys_id",
      type ? static_cast<unsigned long long>(cpython::shared_keys_id(own)) : 0ULL, "instance_dict",
      reinterpret_cast<unsigned long long>(cpython::instance_dict(object)), "resume",
      frame == nullptr ? 0 : cpython::resume_index(frame), "used", frame == nullptr ? 0 : cpython::used_slots(frame));
}

// handler(code, index) -> (target, depth, push_lasti) or None
PyObject* handler(PyObject*, PyObject* args) {
  PyObject* code;
  int index;
  if (!PyArg_ParseTuple(args, "Oi", &code, &index)) return nullptr;
  cpython::Handler found;
  if (!cpython::find_handler(reinterpret_cast<PyCodeObject*>(code), index, &found)) Py_RETURN_NONE;
  return Py_BuildValue("iiO", found.target, found.depth, found.push_lasti ? Py_True : Py_False);
}

PyMethodDef methods[] = {{"arm", arm, METH_VARARGS, nullptr},
                         {"disarm", disarm, METH_NOARGS, nullptr},
                         {"miss", miss, METH_VARARGS, nullptr},
                         {"facts", facts, METH_O, nullptr},
                         {"handler", handler, METH_VARARGS, nullptr},
#if PY_VERSION_HEX < 0x030c0000
                         {"capture", capture_call, METH_VARARGS, nullptr},
#endif
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "probe", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace pijit

PyMODINIT_FUNC PyInit_probe() {
  return PyModule_Create(&pijit::module);
}
