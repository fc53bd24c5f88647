// Calls: what the callable is, how its arguments bind, which frame is to be entered.
//
// Binding mirrors CPython's for Python functions: positional, keyword, defaults, *args and **kwargs as virtual tuple
// and dict. A call that would not bind (a TypeError) is not mirrored: the recording stops there.
#include "record/recorder.h"

#include <algorithm>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "cpython/members.h"
#include "cpython/objects.h"
#include "numpy/library.h"
#include "record/calls.h"
#include "record/limits.h"
#include "record/marks.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// The parts of a function that binding looks at, of a real or a virtual function.
struct FunctionParts {
  PyCodeObject* code = nullptr;
  Val defaults, kwdefaults;
};

bool function_parts(Recorder& recorder, Val function, FunctionParts* parts) {
  if (function.is_virtual()) {
    Model& content = recorder.heap.model(function);
    if (content.kind != VirtualKind::kFunction) return false;
    parts->code = reinterpret_cast<PyCodeObject*>(content.items[0].object());
    parts->defaults = content.items[3];
    parts->kwdefaults = content.items[4];
    return parts->code != nullptr && !parts->defaults.is_reg() && !parts->kwdefaults.is_reg();
  }
  PyObject* object = function.object();
  if (object == nullptr || Py_TYPE(object) != &PyFunction_Type) return false;
  auto* real = reinterpret_cast<PyFunctionObject*>(object);
  if (!recorder.reads.guard_function(real)) return false;
  parts->code = reinterpret_cast<PyCodeObject*>(real->func_code);
  if (real->func_defaults != nullptr) parts->defaults = Val::constant(real->func_defaults);
  if (real->func_kwdefaults != nullptr) parts->kwdefaults = Val::constant(real->func_kwdefaults);
  return true;
}

Py_ssize_t tuple_size(Heap& heap, Val tuple) {
  if (tuple.is_null()) return 0;
  return tuple.is_virtual() ? static_cast<Py_ssize_t>(heap.model(tuple).items.size())
                            : PyTuple_GET_SIZE(tuple.object());
}

Val tuple_item(Recorder& recorder, Val tuple, Py_ssize_t i) {
  return tuple.is_virtual() ? recorder.heap.model(tuple).items[static_cast<size_t>(i)]
                            : constant(recorder, PyTuple_GET_ITEM(tuple.object(), i));
}

bool same_name(PyObject* a, PyObject* b) {
  return a == b || cpython::scalars_equal(a, b);
}

// Fills `slots` as initialize_locals does. False: it would raise, or is not understood.
bool bind_arguments(Recorder& recorder, const FunctionParts& parts, const Arguments& args, Vals& slots) {
  PyCodeObject* code = parts.code;
  int positional = code->co_argcount, named = positional + code->co_kwonlyargcount;
  bool star = (code->co_flags & CO_VARARGS) != 0, double_star = (code->co_flags & CO_VARKEYWORDS) != 0;
  slots.assign(static_cast<size_t>(named + star + double_star), Val());
  size_t given = args.positional();
  size_t taken = given < static_cast<size_t>(positional) ? given : static_cast<size_t>(positional);
  for (size_t i = 0; i < taken; ++i) slots[i] = args.values[i];
  if (given > taken && !star) return false;
  if (star)
    slots[static_cast<size_t>(named)] = recorder.new_tuple(&PyTuple_Type, args.values.data() + taken, given - taken);
  Val extra;
  if (double_star) slots[static_cast<size_t>(named + star)] = extra = new_dict(recorder);
  for (size_t k = 0; k < args.names.size(); ++k) {
    PyObject* name = args.names[k];
    Val value = args.values[given + k];
    int at = code->co_posonlyargcount;
    while (at < named && !same_name(PyTuple_GET_ITEM(code->co_localsplusnames, at), name)) ++at;
    if (at < named) {
      if (!slots[static_cast<size_t>(at)].is_null()) return false;
      slots[static_cast<size_t>(at)] = value;
    } else if (double_star) {
      dict_set(recorder, extra, name, value);
    } else {
      return false;
    }
  }
  Py_ssize_t defaults = tuple_size(recorder.heap, parts.defaults);
  for (int i = 0; i < positional; ++i) {
    if (!slots[static_cast<size_t>(i)].is_null()) continue;
    Py_ssize_t k = i - (positional - defaults);
    if (k < 0) return false;
    slots[static_cast<size_t>(i)] = tuple_item(recorder, parts.defaults, k);
  }
  for (int i = positional; i < named; ++i) {
    if (!slots[static_cast<size_t>(i)].is_null()) continue;
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    if (parts.kwdefaults.is_null()) return false;
    Val value;
    if (parts.kwdefaults.is_virtual()) {
      if (!dict_find(recorder.heap, parts.kwdefaults, name, &value)) return false;
    } else {
      PyObject* object = nullptr;
      if (!recorder.reads.read_dict(parts.kwdefaults.object(), name, &object) || object == nullptr) return false;
      value = constant(recorder, object);
    }
    slots[static_cast<size_t>(i)] = value;
  }
  return recorder.live();
}

constexpr int kDeepest = 4;  // of containers in containers

// A constant, or a container of constants that the recording has seen made: the same at each replay.
bool is_settled(Recorder& recorder, Val value, int depth) {
  if (value.is_const()) return true;
  if (!value.is_virtual() || depth > kDeepest) return false;
  Vals items;
  Objects keys;
  switch (recorder.heap.model(value).kind) {
    case VirtualKind::kTuple:
    case VirtualKind::kList:
      if (!try_items(recorder, value, &items)) return false;
      break;
    case VirtualKind::kDict:
      if (!dict_content(recorder, value, &keys, &items)) return false;
      break;
    default:
      return false;
  }
  return std::all_of(items.begin(), items.end(), [&](Val item) { return is_settled(recorder, item, depth + 1); });
}

// A function whose result the user said does not change, called with constants: its result is one, too.
bool call_constant(Recorder& recorder, ShadowFrame& frame, const Arguments& args, int pops) {
  for (Val value : args.values)
    if (!is_settled(recorder, value, 0)) return false;
  observe(frame, pops, [](Recorder& r, ShadowFrame& f, PyObject* result) { f.pending.result = r.reads.owned(result); });
  frame.pending.ignores_frames = true;
  return true;
}

// The first type along the bases whose tp_new is not inherited from a Python class: object.__new__ or a builtin one.
bool is_plain_new(PyTypeObject* type) {
  return type->tp_new == PyBaseObject_Type.tp_new;
}

// (__new__, type, *args): that function in Python, then __init__ of what it made.
Task<Val> instantiate(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  PyObject* function = args.values[0].object();
  auto* wanted = reinterpret_cast<PyTypeObject*>(args.values[1].object());
  args.values.erase(args.values.begin());
  const Val made = co_await call_function(drive, function, args);
  PyTypeObject* type = recorder.heap.type_of(made);
  if (type == nullptr) co_await drive.unknown();
  if (!PyType_IsSubtype(type, wanted)) co_return made;
  args.values.erase(args.values.begin());
  const Invoke outcome = after_new(recorder, drive.frame(), made, args, 0);
  if (drive.leave(outcome)) co_await Drive::Never();
  const Inner inner = co_await drive.wait(outcome);
  if (inner.raised) co_await drive.pass_on();
  co_return inner.value;
}

}  // namespace

Invoke invoke_function(Recorder& recorder, ShadowFrame& frame, Val function, Arguments& args, Then then, int pops) {
  PyObject* first = args.values.empty() ? nullptr : recorder.heap.real(args.values[0]);
  const Mark mark = mark_of_call(function.is_virtual() ? recorder.heap.model(function).real : function.object(), first);
  if (mark == Mark::kSkip || mark == Mark::kOpaque || mark == Mark::kWhole || mark == Mark::kSides)
    return Invoke::kUnknown;
  if (mark == Mark::kConstant && then == Then::kPush && call_constant(recorder, frame, args, pops))
    return Invoke::kStarted;
  if (then == Then::kPush)
    if (const Invoke drawn = draw_below(recorder, frame, function.object(), args, pops); drawn != Invoke::kUnknown)
      return drawn;
  FunctionParts parts;
  if (!function_parts(recorder, function, &parts)) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  if ((parts.code->co_flags & CO_ASYNC_GENERATOR) != 0 || finds_modules(parts.code) || draws_many(parts.code))
    return Invoke::kUnknown;
  if ((parts.code->co_flags & CO_COROUTINE) != 0 && cpython::tracks_coroutine_origins(recorder.thread()))
    return Invoke::kUnknown;
  if (recorder.frames.size() >= record_limits().depth) return Invoke::kUnknown;
  if (!bind_arguments(recorder, parts, args, recorder.frames.bound))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  PyObject* object = function.is_virtual() ? recorder.heap.model(function).real : function.object();
  if (object == nullptr) return Invoke::kUnknown;
  if ((mark == Mark::kEnter || mark == Mark::kLeave) && !args.values.empty()) {
    Node& node = emit_node(recorder, Op::kRegion);
    node.a = args.values[0];
    node.imm = mark == Mark::kEnter;
  }
  Pending& pending = await(frame, pops, then == Then::kDrop ? 0 : 1);
  pending.then = then;
  pending.awaited = Entering{reinterpret_cast<PyFunctionObject*>(object), function, Val()};
  return Invoke::kStarted;
}

// Its variables are in a dict.
Invoke invoke_body(Recorder& recorder, ShadowFrame& frame, Val function, Val names) {
  Arguments none;
  const Invoke outcome = invoke_function(recorder, frame, function, none, Then::kPush, 0);
  if (outcome == Invoke::kStarted) std::get<Entering>(frame.pending.awaited).names = names;
  return outcome;
}

namespace {

// type.__call__: tp_new, then tp_init.
// An instance of a class that derives from property: it is real from the start, and its __init__ in Python is followed.
Invoke new_property(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, Arguments& args, int pops) {
  PyObject* init = recorder.reads.lookup_type(type, names().init);
  if (!recorder.live()) return Invoke::kStopped;
  if (type->tp_new != PyProperty_Type.tp_new || type->tp_finalize != nullptr || type->tp_del != nullptr ||
      init == nullptr || Py_TYPE(init) != &PyFunction_Type)
    return Invoke::kUnknown;
  static PyObject* const make = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyProperty_Type), "__new__");
  const Val instance = call_for(recorder, type, make, {Val::constant(reinterpret_cast<PyObject*>(type))});
  return instance.is_null() ? Invoke::kStopped : after_new(recorder, frame, instance, args, pops);
}

Invoke invoke_type(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments& args, int pops) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable.object());
  PyTypeObject* meta = Py_TYPE(type);
  if (meta != &PyType_Type) {
    if (PyObject* meta_call = python_method(recorder.reads, meta, names().call)) {
      args.values.insert(args.values.begin(), callable);
      return invoke_function(recorder, frame, Val::constant(meta_call), args, Then::kPush, pops);
    }
    if (meta->tp_call != PyType_Type.tp_call) return Invoke::kUnknown;
  }
  bool exception = PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || is_known_builtin(callable.object()))
    return exception ? invoke_builtin_exception(recorder, frame, type, args, pops)
                     : invoke_builtin(recorder, frame, callable, args, pops);
  recorder.reads.guard_type_version(type);
  if (!recorder.live()) return Invoke::kStopped;
  PyObject* python_new = cpython::lookup_type(type, names().new_);
  if (python_new != nullptr && Py_TYPE(python_new) == &PyStaticMethod_Type) {
    Ref function = Ref::steal(PyObject_GetAttrString(python_new, "__func__"));
    if (!function || Py_TYPE(function.get()) != &PyFunction_Type) return Invoke::kUnknown;
    args.values.insert(args.values.begin(), {Val::constant(function.get()), callable});
    return drive(recorder, frame, instantiate, args, pops);
  }
  if (exception) return invoke_builtin_exception(recorder, frame, type, args, pops);
  if (PyType_IsSubtype(type, &PyProperty_Type)) return new_property(recorder, frame, type, args, pops);
  bool dict_like = PyType_IsSubtype(type, &PyDict_Type);
  if (!is_plain_new(type) && !dict_like) return Invoke::kUnknown;
  if (dict_like && type->tp_new != PyDict_Type.tp_new && type->tp_new != PyODict_Type.tp_new) return Invoke::kUnknown;
  if (type->tp_finalize != nullptr || type->tp_del != nullptr) return Invoke::kUnknown;
  return after_new(recorder, frame, new_virtual(recorder, VirtualKind::kInstance, type), args, pops);
}

}  // namespace

Invoke after_new(Recorder& recorder, ShadowFrame& frame, Val instance, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(instance);
  PyObject* init = recorder.reads.lookup_type(type, names().init);
  if (!recorder.live()) return Invoke::kStopped;
  if (init == nullptr) return Invoke::kUnknown;
  if (Py_TYPE(init) == &PyFunction_Type) {
    args.values.insert(args.values.begin(), instance);
    Invoke outcome = invoke_function(recorder, frame, Val::constant(init), args, Then::kInit, pops);
    if (outcome == Invoke::kStarted) frame.pending.x = instance;
    return outcome;
  }
  if (Py_TYPE(init) != &PyWrapperDescr_Type || recorder.heap.is_virtual(instance, VirtualKind::kException))
    return Invoke::kUnknown;
  void* wrapped = reinterpret_cast<PyWrapperDescrObject*>(init)->d_wrapped;
  bool plain = wrapped == reinterpret_cast<void*>(PyBaseObject_Type.tp_init);
  bool empty_dict = args.values.empty() && PyType_IsSubtype(type, &PyDict_Type);
  if (!plain && !empty_dict) return Invoke::kUnknown;
  known(frame, pops, instance);
  return Invoke::kStarted;
}

// What the trace has made the weak reference of; Null: it is not known.
Val made_of(const Trace& trace, Val reference) {
  for (size_t i = trace.nodes.size(); i-- > 0;) {
    const Node& node = trace.nodes[i];
    if (node.op != Op::kPure || node.out != reference.index()) continue;
    const bool makes = node.a.object() == reinterpret_cast<PyObject*>(cpython::reference_type()) && node.count == 1;
    return makes ? trace.operands[node.first] : Val();
  }
  return Val();
}

namespace {

// What a partial object adds to the arguments of its call: before those that it is given, keywords too.
bool add_partial(Recorder& recorder, Val given, Val keywords, Arguments& args) {
  Vals fixed, values;
  Objects keys;
  if (!try_items(recorder, given, &fixed) || !dict_content(recorder, keywords, &keys, &values)) return false;
  const size_t positional = args.positional();
  for (size_t i = 0; i < args.names.size(); ++i) {
    const Val value = args.values[positional + i];
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](PyObject* key) { return same_name(args.names[i], key); });
    if (known == keys.end()) {
      keys.push_back(args.names[i]);
      values.push_back(value);
    } else {
      values[static_cast<size_t>(known - keys.begin())] = value;
    }
  }
  args.values.resize(positional);
  args.values.insert(args.values.begin(), fixed.begin(), fixed.end());
  args.values.insert(args.values.end(), values.begin(), values.end());
  args.names = keys;
  return true;
}

// The parts of a partial object that existed before.
bool partial_parts(ReadSet& reads, PyObject* partial, PyObject* parts[3]) {
  static const char* const kNames[] = {"func", "args", "keywords"};
  for (int i = 0; i < 3; ++i) {
    Ref name = Ref::steal(PyUnicode_InternFromString(kNames[i]));
    const PyMemberDef* member = cpython::member_of(reads.lookup_type(Py_TYPE(partial), name.get()));
    if (member == nullptr || !reads.guard_slot(partial, member->offset, &parts[i]) || !parts[i]) return false;
  }
  return true;
}

// An instance of a class with __call__ in Python.
Invoke invoke_instance(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(callable);
  if (type->tp_call != cpython::slot_functions().call) return Invoke::kUnknown;
  PyObject* dict = nullptr;
  if (callable.is_const() && !guard_instance(recorder, callable.object(), &dict)) return Invoke::kStopped;
  PyObject* call = python_method(recorder.reads, type, names().call);
  if (!recorder.live()) return Invoke::kStopped;
  if (call == nullptr) return Invoke::kUnknown;
  args.values.insert(args.values.begin(), callable);
  return invoke_function(recorder, frame, Val::constant(call), args, Then::kPush, pops);
}

void take_referent(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  take_object(recorder, frame, result);
  const Val out = frame.pending.result, made = made_of(recorder.trace(), frame.pending.y);
  if (result == Py_None) frame.pending.result = Val::constant(Py_None);
  if (made.object() == nullptr || made.object() != result) return;
  Node& guard = emit_node(recorder, Op::kGuardIs);
  guard.a = out;
  guard.b = frame.pending.result = made;
}

// A weak reference that the call itself has made.
Invoke call_reference(Recorder& recorder, ShadowFrame& frame, Val reference, int pops) {
  static PyObject* const call =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(cpython::reference_type()), "__call__");
  const Invoke outcome = compute_object(recorder, frame, call, {reference}, pops);
  if (outcome != Invoke::kStarted) return outcome;
  frame.pending.finish = take_referent;
  frame.pending.y = reference;
  return outcome;
}

}  // namespace

namespace {

// A function of NumPy in Python that is one node.
bool is_whole(PyObject* function) {
  return numpy::known_callable(function).rule != numpy::Rule::kNone;
}

// (question, body, *args): a function of NumPy asks which arguments override it, here none, and hands on to its body.
Task<Val> dispatch(Drive& drive, Arguments args) {
  PyObject *question = args.values[0].object(), *body = args.values[1].object();
  args.values.erase(args.values.begin(), args.values.begin() + 2);
  co_await call_function(drive, question, args);
  Val result = co_await call_function(drive, body, args, true);
  co_return result;
}

Invoke invoke_dispatched(Recorder& recorder, ShadowFrame& frame, PyObject* callable, Arguments& args, int pops) {
  PyObject *question = numpy::question_of(callable), *body = numpy::implementation_of(callable);
  if (question == nullptr || !PyFunction_Check(body) || is_whole(body)) return Invoke::kUnknown;
  const bool plain =
      std::all_of(args.values.begin(), args.values.end(), [&](Val value) { return is_plain(recorder, value); });
  if (!plain) return Invoke::kUnknown;
  Arguments all = args;
  all.values.insert(all.values.begin(), {Val::constant(question), Val::constant(body)});
  return drive(recorder, frame, dispatch, all, pops);
}

}  // namespace

Invoke invoke(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments& args, int pops) {
  if (callable.is_reg() && recorder.heap.type_of(callable) == cpython::reference_type() && args.values.empty() &&
      !frame.drive)
    return call_reference(recorder, frame, callable, pops);
  if (callable.is_virtual()) {
    Model& content = recorder.heap.model(callable);
    switch (content.kind) {
      case VirtualKind::kFunction:
        return invoke_function(recorder, frame, callable, args, Then::kPush, pops);
      case VirtualKind::kBoundMethod:
        args.values.insert(args.values.begin(), content.items[1]);
        return invoke(recorder, frame, content.items[0], args, pops);
      case VirtualKind::kBuiltinMethod:
        args.values.insert(args.values.begin(), content.items[1]);
        return invoke_builtin(recorder, frame, content.items[0], args, pops);
      case VirtualKind::kPartial: {
        const Val function = content.items[0];
        if (!add_partial(recorder, content.items[1], content.items[2], args)) return Invoke::kUnknown;
        return invoke(recorder, frame, function, args, pops);
      }
      case VirtualKind::kInstance:
        return invoke_instance(recorder, frame, callable, args, pops);
      case VirtualKind::kLazy:
        return invoke_getter(recorder, frame, callable, args, pops);
      default:
        return Invoke::kUnknown;
    }
  }
  PyObject* object = callable.object();
  if (object == nullptr) return Invoke::kUnknown;
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyFunction_Type && is_whole(object)) return Invoke::kUnknown;
  if (type == &PyFunction_Type) return invoke_function(recorder, frame, callable, args, Then::kPush, pops);
  if (type == &PyMethod_Type) {
    if (!recorder.reads.guard_parts(object)) return Invoke::kUnknown;
    args.values.insert(args.values.begin(), constant(recorder, PyMethod_GET_SELF(object)));
    return invoke(recorder, frame, Val::constant(PyMethod_GET_FUNCTION(object)), args, pops);
  }
  if (PyType_Check(object)) return invoke_type(recorder, frame, callable, args, pops);
  if (type == &PyCFunction_Type || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyClassMethodDescr_Type)
    return invoke_builtin(recorder, frame, callable, args, pops);
  if (type->tp_call == cpython::slot_functions().call) return invoke_instance(recorder, frame, callable, args, pops);
  if (type == cpython::partial_type()) {
    PyObject* parts[3];
    if (!partial_parts(recorder.reads, object, parts) ||
        !add_partial(recorder, constant(recorder, parts[1]), constant(recorder, parts[2]), args))
      return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
    return invoke(recorder, frame, constant(recorder, parts[0]), args, pops);
  }
  if (type == cpython::lru_cache_type()) {
    const Invoke outcome = invoke_cached(recorder, frame, callable, args, pops);
    return outcome == Invoke::kUnknown ? invoke_idle(recorder, frame, object, args, pops) : outcome;
  }
  if (const Invoke outcome = invoke_dispatched(recorder, frame, object, args, pops); outcome != Invoke::kUnknown)
    return outcome;
  return invoke_builtin(recorder, frame, callable, args, pops);
}

Pending& expect_generator(ShadowFrame& frame, Val generator, Then then, int pops, Val sent) {
  Pending& pending = await(frame, pops, 1);
  pending.awaited = Resuming{generator.index()};
  pending.then = then;
  pending.x = sent;
  return pending;
}

}  // namespace pijit
