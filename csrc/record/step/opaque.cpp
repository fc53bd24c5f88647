// Opaque calls: what the recorder does not look into is performed at replay as CPython performed it.
//
// Every instruction that calls out into C is, for an unknown operand, a call of a function of `operator` or `builtins`
// with the same semantics, so one kind of node does for all of them. A value that such a call returned is a register of
// a type that is not known before something looks at it; then the type is guarded in place (`learn`), and arithmetic on
// immutable scalars becomes a node that only computes (`compute`).
//
// 1. A callable that looks at the locals of its caller's frame is not called this way: the frames that stand in the
// chain have none.
// 2. A call is tried only where the shadow is as it was before the instruction.
#include "record/step/opaque.h"

#include <algorithm>

#include "cpython/exception_groups.h"
#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "cpython/operators.h"
#include "cpython/patch_releases.h"
#include "record/calls.h"
#include "record/marks.h"
#include "record/mirror/builtins.h"
#include "record/state/epoch.h"
#include "record/state/exceptions.h"
#include "record/state/found.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"
#include "record/step/frame_calls.h"
#include "record/step/next.h"
#include "record/step/raised.h"
#include "record/step/step.h"

namespace pijit {
namespace {

constexpr uint32_t kMaxOpaqueCalls = 1000;  // of one trace

PyObject* finalize(PyObject*, PyObject* object) {
  if (Py_REFCNT(object) == 1) PyObject_CallFinalizer(object);  // whoever else holds it keeps it alive
  return new_reference(Py_None);
}

PyObject* add_context(PyObject*, PyObject* const* args, Py_ssize_t) {
  cpython::add_attribute_context(args[0], args[1], args[2]);
  Py_RETURN_NONE;
}

PyMethodDef context_row = {"add_context", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(add_context)),
                           METH_FASTCALL, nullptr};
PyMethodDef finalize_row = {"finalize", finalize, METH_O, nullptr};

struct Functions {
  PyObject *binary[26], *compare[6], *neg, *pos, *invert, *not_, *truth, *getitem, *setitem, *delitem, *contains, *is_,
      *callable_alias, *is_not, *getattr, *setattr, *delattr, *iter, *str, *repr, *ascii, *format, *join, *import,
      *append, *add, *finalize, *context, *method;
  PyObject *look_at_frames[11], *look_at_heap[4], *count_references;
};

const Functions& functions() {
  static const Functions table = [] {
    Functions f{};
    // In the order of cpython/operators.h.
    const char* const kBinary[] = {"add", "and_", "floordiv", "lshift", "matmul",  "mul", "mod",
                                   "or_", "pow",  "rshift",   "sub",    "truediv", "xor"};
    const char* const kInPlace[] = {"iadd", "iand", "ifloordiv", "ilshift", "imatmul",  "imul", "imod",
                                    "ior",  "ipow", "irshift",   "isub",    "itruediv", "ixor"};
    const char* const kCompare[] = {"lt", "le", "eq", "ne", "gt", "ge"};
    for (size_t i = 0; i < 13; ++i) f.binary[i] = find_object("_operator", kBinary[i]);
    for (size_t i = 0; i < 13; ++i) f.binary[13 + i] = find_object("_operator", kInPlace[i]);
    for (size_t i = 0; i < 6; ++i) f.compare[i] = find_object("_operator", kCompare[i]);
    f.neg = find_object("_operator", "neg");
    f.pos = find_object("_operator", "pos");
    f.invert = find_object("_operator", "invert");
    f.not_ = find_object("_operator", "not_");
    f.truth = find_object("_operator", "truth");
    f.getitem = find_object("_operator", "getitem");
    f.callable_alias = find_object("collections.abc", "_CallableGenericAlias");
    f.setitem = find_object("_operator", "setitem");
    f.delitem = find_object("_operator", "delitem");
    f.contains = find_object("_operator", "contains");
    f.is_ = find_object("_operator", "is_");
    f.is_not = find_object("_operator", "is_not");
    for (auto [place, name] : {std::pair{&f.getattr, "getattr"},
                               {&f.setattr, "setattr"},
                               {&f.delattr, "delattr"},
                               {&f.iter, "iter"},
                               {&f.str, "str"},
                               {&f.repr, "repr"},
                               {&f.ascii, "ascii"},
                               {&f.format, "format"},
                               {&f.import, "__import__"}})
      *place = find_object("builtins", name);
    Ref empty = Ref::steal(PyUnicode_FromStringAndSize("", 0));
    f.append = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "append");
    f.add = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PySet_Type), "add");
    f.join = PyObject_GetAttrString(empty.get(), "join");
    f.finalize = PyCFunction_New(&finalize_row, nullptr);
    f.context = PyCFunction_New(&context_row, nullptr);
    f.method = cpython::method_loader();
    size_t i = 0;
    for (const char* name : {"locals", "vars", "dir", "eval", "exec", "breakpoint", "super"})
      f.look_at_frames[i++] = find_object("builtins", name);
    for (const char* name : {"_getframe", "settrace", "setprofile", "call_tracing"})
      f.look_at_frames[i++] = find_object("sys", name);
    f.count_references = find_object("sys", "getrefcount");
    i = 0;
    for (const char* name : {"collect", "freeze", "get_objects", "get_referrers"})
      f.look_at_heap[i++] = find_object("gc", name);
    return f;
  }();
  return table;
}

// Without arguments, `vars`, `dir` and `super` look at the caller's frame too.
bool looks_at_frames(PyObject* callable, size_t arguments) {
  for (PyObject* known : functions().look_at_frames) {
    if (known != callable) continue;
    const bool only_without = PyType_Check(callable) || callable == functions().look_at_frames[1] ||
                              callable == functions().look_at_frames[2];
    return !only_without || arguments == 0;
  }
  return false;
}

bool looks_at_heap(PyObject* callable) {
  const auto& known = functions().look_at_heap;
  return callable != nullptr && std::find(std::begin(known), std::end(known), callable) != std::end(known);
}

bool is_singleton(PyObject* object) {
  return object == Py_None || object == Py_True || object == Py_False || object == Py_Ellipsis ||
         object == Py_NotImplemented;
}

Val function(PyObject* object) {
  return Val::constant(object);
}

PyObject* name_of(ShadowFrame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code->co_names, index);
}

bool request_call(ShadowFrame& frame, Instruction now, Request* out) {
  const int count = now.argument, above = now.is(Operation::kCallNames) ? 1 : 0;
  const Callee callee = frame.callee(count + above);
  out->callable = callee.callable;
  if (!callee.self.is_null()) out->args.push_back(callee.self);
  for (int i = count; i > 0; --i) out->args.push_back(frame.top(i + above));
  out->names = frame.call_names;
  out->pops = count + above + 2;
  return true;
}

bool request_spread(Heap& heap, ShadowFrame& frame, int keywords, Request* out) {
  const Val positional = frame.top(keywords + 1);
  out->callable = frame.callee(keywords + 1).callable;
  out->spread = true;
  out->pops = keywords + 3;
  if (heap.type_of(positional) != &PyTuple_Type) return false;
  out->args = {positional};
  if (keywords != 0 && !frame.top().is_null()) {
    if (heap.type_of(frame.top()) != &PyDict_Type) return false;
    out->args.push_back(frame.top());
  }
  return true;
}

bool request_attribute(ReadSet& reads, ShadowFrame& frame, Instruction now, Request* out) {
  const Functions& f = functions();
  const Val name = reads.owned(name_of(frame, now.argument));
  switch (now.operation) {
    case Operation::kLoadAttribute: {
      const bool method = now.flag != 0 && cpython::has_property(cpython::peek(frame.frame, 1), name.object());
      out->callable = function(method ? f.method : f.getattr);
      out->args = {frame.top(), name};
      out->pushes = now.flag != 0 ? 2 : 1;
      return true;
    }
    case Operation::kStoreAttribute:
      out->callable = function(f.setattr);
      out->args = {frame.top(1), name, frame.top(2)};
      return true;
    default:
      out->callable = function(f.delattr);
      out->args = {frame.top(), name};
      return true;
  }
}

// The beginning of a with statement, of a context manager of C.
bool request_enter(Recorder& recorder, ShadowFrame& frame, Request* out) {
  const Val manager = frame.top();
  PyTypeObject* type = recorder.heap.type_of(manager);
  if (type == nullptr) return false;
  PyObject *enter = recorder.reads.lookup_type(type, names().enter),
           *exit = recorder.reads.lookup_type(type, names().exit);
  if (!recorder.live() || enter == nullptr || exit == nullptr || Py_TYPE(enter) != &PyMethodDescr_Type ||
      Py_TYPE(exit) != &PyMethodDescr_Type)
    return false;
  out->exit = new_virtual(recorder, VirtualKind::kBuiltinMethod, nullptr);
  set_field(recorder, out->exit, 0, Val::constant(exit));
  set_field(recorder, out->exit, 1, manager);
  out->callable = Val::constant(enter);
  out->args = {manager};
  out->pushes = 3;  // see Pending
  return true;
}

// The function that does what an instruction does with the operands of its CallForm; null: not with these.
PyObject* function_of(FrameStack& frames, ShadowFrame& frame, Instruction now) {
  const Functions& f = functions();
  switch (now.operation) {
    case Operation::kBinary:
      return f.binary[now.argument];
    case Operation::kCompare:
      return now.flag != 0 ? cpython::comparison_truth(now.argument) : f.compare[now.argument];
    case Operation::kIs:
      if (frame.top(2).is_const() && frame.top(1).is_const()) return nullptr;
      return now.flag != 0 ? f.is_not : f.is_;
    case Operation::kContains:
      return now.flag == 0 ? f.contains : nullptr;
    case Operation::kNegative:
      return f.neg;
    case Operation::kPositive:
      return f.pos;
    case Operation::kInvert:
      return f.invert;
    case Operation::kNot:
      return f.not_;
    case Operation::kToBool:
      return f.truth;
    case Operation::kSubscript:
      return f.getitem;
    case Operation::kStoreSubscript:
      return f.setitem;
    case Operation::kDeleteSubscript:
      return f.delitem;
    case Operation::kGetYieldFromIter:
      return PyCoro_CheckExact(frames.operand(1)) ? nullptr : f.iter;
    case Operation::kGetIter:
      return f.iter;
    case Operation::kReraiseGroup:
      return cpython::group_reraiser();
    default:
      return nullptr;
  }
}

bool request_plain(FrameStack& frames, ShadowFrame& frame, Instruction now, Request* out) {
  PyObject* called = function_of(frames, frame, now);
  if (called == nullptr) return false;
  const cpython::CallForm& form = cpython::call_form_of(now.operation);
  out->callable = function(called);
  for (const char* place = form.arguments; *place != 0; ++place) out->args.push_back(frame.top(*place - '0'));
  return true;
}

// An item for a container that is being built, where that is not virtual.
bool request_added(ShadowFrame& frame, Instruction now, Request* out) {
  const Functions& f = functions();
  const bool pair = now.is(Operation::kMapAdd);
  const Val container = frame.top(now.argument + out->pops);
  out->callable = function(pair ? f.setitem : now.is(Operation::kListAppend) ? f.append : f.add);
  out->args = pair ? Vals{container, frame.top(2), frame.top(1)} : Vals{container, frame.top()};
  return !container.is_virtual();
}

bool request_slice(Recorder& recorder, ShadowFrame& frame, Instruction now, Request* out) {
  const Functions& f = functions();
  const bool store = now.is(Operation::kStoreSlice);
  out->callable = function(store ? f.setitem : f.getitem);
  out->args = {frame.top(3), slice_of(recorder, frame.top(2), frame.top(1))};
  if (store) out->args.push_back(frame.top(4));
  return true;
}

bool request_format(ShadowFrame& frame, Instruction now, Request* out) {
  const Functions& f = functions();
  PyObject* conversion[] = {f.format, f.str, f.repr, f.ascii};
  const bool specified = now.flag > 3;
  const int how = now.flag & 3;
  if (specified && how != 0) return false;
  out->callable = function(conversion[how]);
  out->args = {frame.top(specified ? 2 : 1)};
  if (specified) out->args.push_back(frame.top());
  out->pops = specified ? 2 : 1;
  return true;
}

bool request_exit(Recorder& recorder, ShadowFrame& frame, Request* out) {
  const Val exception = frame.top();
  if (!recorder.heap.is_virtual(exception, VirtualKind::kException)) return false;
  const Callee exit = frame.exit_callee();
  out->callable = exit.callable;
  if (!exit.self.is_null()) out->args.push_back(exit.self);
  for (Val given : {Val::constant(reinterpret_cast<PyObject*>(recorder.heap.type_of(exception))), exception,
                    traceback_of(recorder, exception)})
    out->args.push_back(given);
  return true;
}

bool request_import(ReadSet& reads, ShadowFrame& frame, Instruction now, Request* out) {
  PyObject* const import = read_import(reads, frame);
  if (import == nullptr) return false;
  out->callable = function(import);
  out->args = {reads.owned(name_of(frame, now.argument)), Val::constant(cpython::globals(frame.frame)),
               Val::constant(Py_None), frame.top(1), frame.top(2)};
  return true;
}

}  // namespace

bool request(Recorder& recorder, ShadowFrame& frame, Instruction now, Request* out) {
  const cpython::CallForm& form = cpython::call_form_of(now.operation);
  if (form.pops != cpython::kVaries) out->pops = form.pops;
  if (form.pushes != cpython::kVaries) out->pushes = form.pushes;
  if (*form.arguments != 0) return request_plain(recorder.frames, frame, now, out);
  switch (now.operation) {
    case Operation::kCall:
    case Operation::kCallNames:
      return request_call(frame, now, out);
    case Operation::kCallSpread:
      return request_spread(recorder.heap, frame, now.flag, out);
    case Operation::kLoadAttribute:
    case Operation::kStoreAttribute:
    case Operation::kDeleteAttribute:
      return request_attribute(recorder.reads, frame, now, out);
    case Operation::kLoadSlice:
    case Operation::kStoreSlice:
      return request_slice(recorder, frame, now, out);
    case Operation::kListAppend:
    case Operation::kSetAdd:
    case Operation::kMapAdd:
      return request_added(frame, now, out);
    case Operation::kFormat:
      return request_format(frame, now, out);
    case Operation::kEnterWith:
      return request_enter(recorder, frame, out);
    case Operation::kExitWith:
      return request_exit(recorder, frame, out);
    case Operation::kMatchGroup:
      if (cpython::wrapped_have_tracebacks() && !is_exception_group(recorder.heap.type_of(frame.top(2)))) return false;
      out->callable = function(cpython::group_splitter());
      out->args = {frame.top(2), frame.top(), recorder.frames.handling()};
      return true;
    case Operation::kImport:
      return request_import(recorder.reads, frame, now, out);
    default:
      return false;
  }
}

// Imports, which the globals of a frame that is followed can make fail.
void find_opaque_functions() {
  functions();
}

namespace {

// __class_getitem__ makes a types.GenericAlias of the class and the key: builtin classes have it in C, abstract
// classes of containers as a class method. That of Callable looks at the key as well.
bool makes_alias(PyObject* method) {
  if (method != nullptr && Py_TYPE(method) == &PyClassMethodDescr_Type)
    return reinterpret_cast<PyMethodDescrObject*>(method)->d_method->ml_meth == Py_GenericAlias;
  if (method == nullptr || Py_TYPE(method) != &PyClassMethod_Type) return false;
  PyObject* called = classmethod_callable(method);
  return called == reinterpret_cast<PyObject*>(&Py_GenericAliasType) || called == functions().callable_alias;
}

// A constant, or a tuple of such.
bool is_key_of_alias(Heap& heap, Val key) {
  if (key.is_const()) return true;
  if (!heap.is_virtual(key, VirtualKind::kTuple)) return false;
  const auto& items = heap.model(key).items;
  return std::all_of(items.begin(), items.end(), [](Val item) { return item.is_const(); });
}

}  // namespace

Invoke generic_alias(Recorder& recorder, ShadowFrame& frame, Val cls, Val key, int pops) {
  PyObject* type = cls.object();
  if (type == nullptr || !PyType_Check(type) || !is_key_of_alias(recorder.heap, key)) return Invoke::kUnknown;
  PyObject* method = recorder.reads.lookup_type(reinterpret_cast<PyTypeObject*>(type), names().class_getitem);
  if (!recorder.live()) return Invoke::kStopped;
  if (!makes_alias(method)) return Invoke::kUnknown;
  return compute_object(recorder, frame, functions().getitem, {cls, key}, pops);
}

PyObject* operator_function(SiteKind kind, int oparg) {
  const Functions& f = functions();
  switch (kind) {
    case SiteKind::kBinary:
      return f.binary[oparg];
    case SiteKind::kCompare:
      return f.compare[oparg];
    case SiteKind::kUnary:
      return oparg == 0 ? f.neg : oparg == 1 ? f.pos : oparg == 2 ? f.invert : f.not_;
    case SiteKind::kBool:
      return f.truth;
    case SiteKind::kSubscr:
      return f.getitem;
    case SiteKind::kContains:
      return f.contains;
    default:
      return nullptr;
  }
}

PyObject* string_function(int conversion) {
  const Functions& f = functions();
  PyObject* known[] = {f.format, f.str, f.repr, f.ascii};
  return conversion < 0 ? f.join : known[conversion];
}

PyObject* getattr_function() {
  return functions().getattr;
}

PyObject* finalize_function() {
  return functions().finalize;
}

PyObject* context_function() {
  return functions().context;
}

PyObject* import_function() {
  return functions().import;
}

PyObject* identity_function(bool invert) {
  return invert ? functions().is_not : functions().is_;
}

// Foreign code has run since an operator made the tensor, or since guards found it.
bool is_older(const Kernel& recording, Val tensor) {
  return recording.trace().regs[tensor.index()].epoch < recording.trace().epochs.size();
}

bool Recorder::check_class(Operand tensor) {
  if (!is_older(*this, tensor.value)) return true;
  const uint32_t reg = tensor.value.index();
  PyTypeObject* type = Py_TYPE(tensor.object);
  const PyTypeObject* known = trace_->regs[reg].type;
  heap.reg_objects[reg] = tensor.object;
  if (known == nullptr) return true;
  if (known != type) return stop(Abort::kChanged, "the class of a tensor"), false;
  bool created;
  reads.facts.find(reinterpret_cast<const void*>((uintptr_t{reg} + 1) << 4), FactKind::kResult, &created);
  if (!created) return true;
  Guard guard{};
  guard.op = GuardOp::kType;
  guard.subject = Val::reg(reg);
  guard.expected = reinterpret_cast<PyObject*>(type);
  reads.add_guard(guard);
  return true;
}

void learn(Recorder& recorder, ShadowFrame& frame, int depth, bool tensors, bool inside) {
  const Val value = frame.top(depth);
  if (!value.is_reg()) return;
  const uint32_t index = value.index();
  const bool tensor = recorder.trace().regs[index].rep == Rep::kTensor;
  const bool again = tensor && is_older(recorder, value);
  const bool known_type = recorder.trace().regs[index].type != nullptr;
  if (!again && (tensor ? !tensors || known_type : recorder.trace().regs[index].rep != Rep::kObject)) return;
  if (frame.is_loose(frame.locals + frame.sp - depth)) return;
  PyObject* object = recorder.frames.operand(depth);
  if (again && (!recorder.check_class({value, object}) || !tensors || known_type)) return;
  if (!tensor) recorder.heap.reg_objects[index] = object;
  auto known = recorder.foreign.singletons.find(index);
  if (known != recorder.foreign.singletons.end()) {
    frame.top(depth) = Val::constant(known->second);
    return;
  }
  inside = inside || PyTuple_CheckExact(object) || PyList_CheckExact(object);
  if (inside && !tensor && is_fixed(recorder, value, object) && adopt(recorder, value, object)) return;
  if (recorder.trace().regs[index].type == nullptr) {
    // A class that the call made may be another one each time: what is done with its instances is left opaque.
    if (!cpython::is_importable(Py_TYPE(object))) return;
    const bool single = is_singleton(object);
    recorder.foreign.learned.emplace_back(index, static_cast<uint32_t>(recorder.trace().nodes.size()));
    Node& node = emit_node(recorder, single ? Op::kGuardIs : Op::kGuardType);
    node.a = value;
    node.b = single ? Val::constant(object) : recorder.reads.owned(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (single) {
      recorder.foreign.singletons[index] = object;
      frame.top(depth) = Val::constant(object);
      return;
    }
    recorder.foreign.set_type(value, Py_TYPE(object));
  }
  if (inside && !tensor) adopt(recorder, value, object);
}

// What is known of a callable, as long as it is there: the call may be the last that anybody has of it.
ForeignCall foreign_call(Recorder& recorder, PyObject* callable) {
  ForeignCall found = ForeignCall::kUnknown;
  if (mark_of(callable) == Mark::kSides) return ForeignCall::kSides;
  if (recorder.adapter() != nullptr) found = recorder.adapter()->foreign_call(callable);
  return found == ForeignCall::kUnknown && cpython::is_cache_of_types(callable) ? ForeignCall::kIdle : found;
}

// Emits the call; *result is the register that takes what it returns.
bool opaque_node(Recorder& recorder, ShadowFrame& frame, Op op, Val callable, Vals args, PyObject* names, bool spread,
                 Val* result) {
  if (const Val handled = recorder.frames.handling(); !handled.is_null()) materialize(recorder, handled);
  // The trace can say later what is called.
  const bool method = recorder.heap.is_virtual(callable, VirtualKind::kBuiltinMethod);
  const Val called = method ? recorder.heap.virtual_field(callable, 0) : callable;
  if (recorder.live() && called.is_const() && is_lasting(called.object())) recorder.reads.owned(called.object());
  if (recorder.live()) callable = materialize(recorder, callable);
  for (Val& value : args)
    if (recorder.live()) value = materialize(recorder, value);
  if (!recorder.live() || callable.is_null()) return false;
  // An exception goes on with the very objects that the call was given.
  frame.mark = recorder.here();
  frame.snapshot = kNone;
  *result = add_reg(recorder, Rep::kObject, nullptr, nullptr);
  Node& node = emit_node(recorder, op);
  node.a = callable;
  if (names != nullptr) node.b = Val::constant(names);
  node.aux = spread ? kNone : names == nullptr ? 0 : static_cast<uint32_t>(PyTuple_GET_SIZE(names));
  node.out = result->index();
  if (op == Op::kOpaque && called.is_const()) node.foreign = foreign_call(recorder, called.object());
  if (op == Op::kOpaque && recorder.adapter() != nullptr) node.imm = recorder.adapter()->operators_counted();
  node.first = static_cast<uint32_t>(recorder.trace().operands.size());
  node.count = static_cast<uint32_t>(args.size());
  recorder.trace().operands.insert(recorder.trace().operands.end(), args.begin(), args.end());
  return true;
}

Pending& await_opaque(Recorder& recorder, ShadowFrame& frame, int pops, int pushes, Val result) {
  recorder.foreign.opaque_calls += 1;
  recorder.foreign.only_tensors = false;
  recorder.allow_gc();
  Pending& pending = await(frame, pops, pushes);
  pending.awaited = Opaque{result.index()};
  pending.ignores_frames = true;
  return pending;
}

namespace {

// What the frames hold is to be found among all objects.
void make_real(Recorder& recorder) {
  for (const auto& frame : recorder.frames) {
    const Vals slots(frame->slots.begin(), frame->slots.begin() + frame->locals + frame->sp);
    for (Val value : slots) {
      ++recorder.snapshots.visit;
      recorder.snapshots.visited.resize(recorder.trace().virtuals.size(), 0);
      if (recorder.live() && value.is_virtual() && virtual_usable(recorder, value.index(), recorder.trace().clock))
        materialize(recorder, value);
    }
  }
}

}  // namespace

// What cannot be followed with numbers that differ from call to call may be with those of now. True: some are constants
// now, and the instruction, which CPython has not begun, is to be tried again. The rollback makes good all that the
// attempt did, as no epoch follows: an attempt that changed more (note_lasting) is not repeated.
bool fix_operands(Recorder& recorder, ShadowFrame& frame) {
  constexpr int kDeepest = 2;
  if (recorder.stop_final || recorder.stop_changed || frame.changed || recorder.raise.unforeseen ||
      &frame != &recorder.frames.top())
    return false;
  if (recorder.heap.lasting != frame.mark.lasting) return false;
  const StopInfo why = recorder.trace().stop;
  recorder.rollback(frame);
  frame.pending = Pending();
  Request wanted;
  const Instruction now = frame.current();
  recorder.resume();
  bool any = false;
  if (request(recorder, frame, now, &wanted))
    for (int i = 1; i <= wanted.pops && recorder.live(); ++i)
      any = fix_number(recorder, &frame.top(i), kDeepest) || any;
  if (any && recorder.live()) {
    recorder.trace().stop = StopInfo();
    frame.mark = recorder.here();
    frame.snapshot = kNone;
    if (now.is(Operation::kCall)) frame.kwnames = frame.call_names;
    return true;
  }
  if (recorder.live()) {
    recorder.halt();
    recorder.trace().stop = why;
  }
  return false;
}

namespace {

// The addresses of scalars that C code will see: which scalars they are is guarded then.
void take_addresses(Recorder& recorder, ShadowFrame& frame) {
  bool any = false;
  for (const auto& each : recorder.frames)
    for (int i = 0; i < each->locals + each->sp && recorder.live(); ++i) {
      const Val value = each->slots[static_cast<size_t>(i)];
      if (!recorder.heap.is_virtual(value, VirtualKind::kAddress) || recorder.heap.is_built(value)) continue;
      materialize(recorder, value);
      any = true;
    }
  if (!any || !recorder.live()) return;
  frame.mark = recorder.here();
  frame.snapshot = kNone;
}

}  // namespace

// The instruction under way, executed already or not, as an opaque call.
bool go_opaque(Recorder& recorder, ShadowFrame& frame) {
  if (recorder.foreign.opaque_calls >= kMaxOpaqueCalls) return false;
  take_addresses(recorder, frame);
  if (!recorder.live()) return false;
  const Instruction now = frame.current();
  if (now.is(Operation::kForIter) || now.is(Operation::kSend)) return go_opaque_next(recorder, frame);
  Request wanted;
  if (!request(recorder, frame, now, &wanted)) return false;
  PyObject* callable = wanted.callable.object();
  if (callable == functions().binary[nb::kOr] &&
      join_types(recorder, frame, callable, wanted.args[0], wanted.args[1], wanted.pops) != Invoke::kUnknown)
    return recorder.live();
  if (callable != nullptr && looks_at_frames(callable, wanted.args.size())) return false;
  if (callable == functions().count_references ||
      (callable != nullptr && recorder.adapter() != nullptr && recorder.adapter()->counts_holders(callable))) {
    recorder.stop_final = true;  // nor may a frame that calls it run while registers hold the object
    return false;
  }
  for (Val value : wanted.args)
    if (value.is_null()) return false;
  if (!keep_frame_references(recorder, &wanted)) return false;
  if (!snapshot_usable(recorder, snapshot(recorder))) return false;
  if (looks_at_heap(callable)) make_real(recorder);
  Val result;
  if (!opaque_node(recorder, frame, Op::kOpaque, wanted.callable, wanted.args, wanted.names, wanted.spread, &result))
    return false;
  Pending& pending = await_opaque(recorder, frame, wanted.pops, wanted.pushes, result);
  pending.finish = now.is(Operation::kMatchGroup)
                       ? [](Recorder& recorder, ShadowFrame& f, PyObject*) { take_split_group(recorder, f); }
                       : [](Recorder& recorder, ShadowFrame& f, PyObject* object) { take_opaque(recorder, f, object); };
  pending.y = wanted.exit;
  recorder.foreign.only_tensors = callable != nullptr && recorder.adapter() != nullptr &&
                                  recorder.adapter()->foreign_call(callable) == ForeignCall::kWrites;
  return true;
}

namespace {

// A call that writes to tensors alone gave the tensor back that it wrote to first; Null: something else.
Val handed_back(Recorder& recorder, const Node& node, PyObject* object) {
  const bool named = node.count <= node.aux;  // or spread: the first may be anything
  if (!recorder.foreign.only_tensors || named || recorder.adapter() == nullptr ||
      !recorder.adapter()->is_tensor(object))
    return Val();
  const Val first = recorder.trace().operands[node.first];
  return first.is_reg() && recorder.heap.real(first) == object ? first : Val();
}

}  // namespace

void take_opaque(Recorder& recorder, ShadowFrame& frame, PyObject* object) {
  recorder.pause_gc();
  if (locals_were_seen(recorder)) return;
  Pending& pending = frame.pending;
  Node& node = recorder.trace().nodes.back();
  if (node.op == Op::kOpaque && recorder.adapter() != nullptr)
    node.imm = recorder.adapter()->operators_counted() - node.imm;
  const uint32_t out = std::get<Opaque>(pending.awaited).out;
  pending.result = Val::reg(out);
  if (recorder.foreign.only_tensors && recorder.adapter() != nullptr) recorder.adapter()->foreign_code();
  if (object == nullptr) return;
  if (const Val first = handed_back(recorder, node, object); !first.is_null()) {
    pending.result = first;
    return;
  }
  recorder.foreign.note_holders(out, object);
  const bool unbound = pending.pushes == 2 && cpython::has_self(frame.frame);
  recorder.heap.reg_objects[out] = unbound ? nullptr : object;
  recorder.foreign.epoch_result = unbound ? Val() : pending.result;
}

}  // namespace pijit
