// Known C callables of functools, operator and threading: reduce, itemgetter and its kind, locks.
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/calls.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

struct Getters {
  PyTypeObject *item, *attribute, *method;
};

const Getters& getters() {
  static const Getters types = {find_type("operator", "itemgetter"), find_type("operator", "attrgetter"),
                                find_type("operator", "methodcaller")};
  return types;
}

Task<Val> reduce(Drive& drive, Arguments args) {
  Val total = args.values.size() == 3 ? args.values[2] : Val();
  Val iterator = co_await get_iter(drive, args.values[1]);
  for (;;) {
    Val item = co_await iter_next(drive, iterator);
    if (item.is_null()) break;
    if (total.is_null()) {
      total = item;
      continue;
    }
    total = co_await call_two(drive, args.values[0], total, item);
  }
  if (total.is_null()) co_await drive.raise();
  co_return total;
}

// itemgetter(...), attrgetter(...), methodcaller(...): what they were called with.
template <int kWhich>
Task<Val> make_getter(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = kWhich == 0 ? getters().item : kWhich == 1 ? getters().attribute : getters().method;
  Val getter = new_virtual(recorder, VirtualKind::kLazy, type);
  for (size_t i = 0; i < args.values.size(); ++i) set_field(recorder, getter, static_cast<uint32_t>(i), args.values[i]);
  recorder.heap.model(getter).get<family::Lazy>().names = args.names;
  if (!args.names.empty()) recorder.trace().virtuals[getter.index()].buildable = false;
  co_return getter;
}

Task<Val> get_attribute(Drive& drive, Val object, Val name, bool last = false) {
  Recorder& recorder = drive.recorder();
  if (name.object() == nullptr || !PyUnicode_CheckExact(name.object())) co_await drive.unknown();
  Val result;
  bool missing = false;
  const Invoke outcome = get_attribute(recorder, drive.frame(), object, name.object(), 0, &result, &missing);
  if (missing) co_await drive.raise();
  if (outcome == Invoke::kStarted && !drive.frame().pending.active) co_return result;
  if (last && drive.leave(outcome)) co_await Drive::Never();
  const Inner inner = co_await drive.wait(outcome);
  if (inner.raised) co_await drive.pass_on();
  co_return inner.value;
}

// "a.b.c" one after the other.
Task<Val> get_path(Drive& drive, Val object, Val path, bool last) {
  Recorder& recorder = drive.recorder();
  Ref dot = Ref::steal(PyUnicode_FromString("."));
  if (path.object() == nullptr || !PyUnicode_CheckExact(path.object())) co_await drive.unknown();
  Ref names = Ref::steal(PyUnicode_Split(path.object(), dot.get(), -1));
  const Py_ssize_t count = PyList_GET_SIZE(names.get());
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* interned = new_reference(PyList_GET_ITEM(names.get(), i));
    PyUnicode_InternInPlace(&interned);
    Ref name = Ref::steal(interned);
    drive.frame().pending = Pending();
    object = co_await get_attribute(drive, object, recorder.reads.owned(name.get()), last && i + 1 == count);
  }
  co_return object;
}

// getter(object): the getter comes first.
Task<Val> call_getter(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val getter = args.values[0];
  if (args.values.size() != 2 || !args.names.empty()) co_await drive.unknown();
  PyTypeObject* type = recorder.heap.type_of(getter);
  const Vals fields = recorder.heap.model(getter).items;
  if (type == getters().method) {
    Val method = co_await get_attribute(drive, args.values[1], fields[0]);
    Arguments inner;
    inner.values.assign(fields.begin() + 1, fields.end());
    inner.names = recorder.heap.model(getter).get<family::Lazy>().names;
    Val result = co_await call(drive, method, inner, true);
    co_return result;
  }
  Vals found;
  const bool last = fields.size() == 1;
  for (Val field : fields) {
    Val item;
    if (type == getters().item) {
      item = co_await get_item(drive, args.values[1], field, last);
    } else {
      item = co_await get_path(drive, args.values[1], field, last);
    }
    found.push_back(item);
  }
  co_return found.size() == 1 ? found[0] : recorder.new_tuple(&PyTuple_Type, found.data(), found.size());
}

// The functions of operator on objects; those of plain values fold. On tensors they do what the operators do.
template <int kOp>
Task<Val> operate_on_objects(Drive& drive, Arguments args) {
  Val result = co_await binary(drive, kOp, args.values[0], args.values[1]);
  co_return result;
}

template <int kOp>
Task<Val> relate_objects(Drive& drive, Arguments args) {
  Val result = co_await compare(drive, kOp, args.values[0], args.values[1]);
  co_return result;
}

template <SiteKind kKind, int kOp, Driven kFunction>
Invoke of_site(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (!frame.drive && ask_about(recorder, frame, kKind, {args.values[0], args.values[1]}, pops, 1, kOp))
    return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
  return recorder.live() ? folded<kFunction>(recorder, frame, args, pops) : Invoke::kStopped;
}

template <int kOp>
constexpr Builtin operate = of_site<SiteKind::kBinary, kOp, operate_on_objects<kOp>>;
template <int kOp>
constexpr Builtin relate = of_site<SiteKind::kCompare, kOp, relate_objects<kOp>>;

// operator.is_, operator.is_not
template <bool kInvert>
Invoke identity(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const Val left = args.values[0], right = args.values[1];
  if (left.is_const() && right.is_const() && cpython::is_scalar(left.object())) return Invoke::kUnknown;
  const int same = same_object(recorder, left, right);
  if (same >= 0) return give(recorder, frame, pops, truth_value((same > 0) != kInvert));
  return frame.drive ? Invoke::kUnknown : compute_object(recorder, frame, recorder.called, args.values, pops);
}

Invoke contains_item(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (frame.drive || touches_tensor(recorder, args.values[0])) return Invoke::kUnknown;
  if (contains(recorder, frame, args.values[0], args.values[1], pops, false)) return Invoke::kStarted;
  return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
}

// operator.setitem(container, key, value), operator.delitem(container, key)
Task<Val> write_item(Drive& drive, Arguments args) {
  const bool sets = args.values.size() == 3;
  PyTypeObject* type = guarded_type(drive.recorder(), args.values[0]);
  Driven function = type == &PyList_Type   ? (sets ? list_setitem : list_delitem)
                    : type == &PyDict_Type ? (sets ? dict_setitem : dict_delitem)
                                           : nullptr;
  if (function == nullptr) co_await drive.unknown();
  Val done = co_await function(drive, args);
  co_return done;
}

Invoke set_item(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const std::initializer_list<Val> operands = {args.values[0], args.values[1], args.values[2]};
  if (!frame.drive && ask_about(recorder, frame, SiteKind::kStoreSubscr, operands, pops, 1))
    return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
  return recorder.live() ? drive(recorder, frame, write_item, args, pops) : Invoke::kStopped;
}

// A lock is taken and given back at replay as it was while recording.
Task<Val> lock_method(Drive& drive, PyTypeObject* type, PyObject* name, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!args.values[0].is_const() || !call_known(recorder, cpython::lookup_type(type, name), args.values))
    co_await drive.unknown();
  co_return Val::constant(name == names().enter ? Py_True : Py_None);
}

template <int kWhich, bool kEnters>
Task<Val> lock_block(Drive& drive, Arguments args) {
  static PyTypeObject* const type = find_type("_thread", kWhich == 0 ? "RLock" : "LockType");
  Val done = co_await lock_method(drive, type, kEnters ? names().enter : names().exit, args);
  co_return done;
}

}  // namespace

bool is_lock(PyTypeObject* type) noexcept {
  static PyTypeObject* const known[] = {find_type("_thread", "RLock"), find_type("_thread", "LockType")};
  return type == known[0] || type == known[1];
}

// An itemgetter, attrgetter or methodcaller that was made while recording, or before.
Invoke invoke_getter(Recorder& recorder, ShadowFrame& frame, Val getter, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(getter);
  if (type != getters().item && type != getters().attribute && type != getters().method) return Invoke::kUnknown;
  if (getter.is_const()) {
    Ref parts = Ref::steal(PyObject_CallMethod(getter.object(), "__reduce__", nullptr));
    if (!parts) return PyErr_Clear(), Invoke::kUnknown;
    PyObject* given = PyTuple_GET_ITEM(parts.get(), 1);
    const bool named = PyTuple_GET_ITEM(parts.get(), 0) != reinterpret_cast<PyObject*>(type);  // a partial object
    if (named || !is_plain_const(given)) return Invoke::kUnknown;
    recorder.reads.owned(getter.object());  // no other one can come to its address, and nobody notices that it lives
    Val made = new_virtual(recorder, VirtualKind::kLazy, type);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i)
      set_field(recorder, made, static_cast<uint32_t>(i), constant(recorder, PyTuple_GET_ITEM(given, i)));
    getter = made;
  }
  Arguments all = args;
  all.values.insert(all.values.begin(), getter);
  return drive(recorder, frame, call_getter, all, pops);
}

namespace {

constexpr KnownCallable kFunctionalRows[] = {
    {"functools", "reduce", reduce, 2, 3},
    {"operator", "itemgetter", make_getter<0>, 1, kAny},
    {"operator", "attrgetter", make_getter<1>, 1, kAny},
    {"operator", "methodcaller", make_getter<2>, 1, kAny, kOptions},
    {"_operator", "add", operate<nb::kAdd>, 2, 2, kComputes},
    {"_operator", "concat", operate<nb::kAdd>, 2, 2},
    {"_operator", "sub", operate<nb::kSubtract>, 2, 2, kComputes},
    {"_operator", "mul", operate<nb::kMultiply>, 2, 2, kComputes},
    {"_operator", "truediv", operate<nb::kTrueDivide>, 2, 2, kComputes},
    {"_operator", "floordiv", operate<nb::kFloorDivide>, 2, 2, kComputes},
    {"_operator", "mod", operate<nb::kRemainder>, 2, 2, kComputes},
    {"_operator", "pow", operate<nb::kPower>, 2, 2},
    {"_operator", "and_", operate<nb::kAnd>, 2, 2, kComputes},
    {"_operator", "or_", operate<nb::kOr>, 2, 2, kComputes},
    {"_operator", "xor", operate<nb::kXor>, 2, 2, kComputes},
    {"_operator", "lshift", operate<nb::kLeftShift>, 2, 2, kComputes},
    {"_operator", "rshift", operate<nb::kRightShift>, 2, 2, kComputes},
    {"_operator", "matmul", operate<nb::kMatrixMultiply>, 2, 2},
    {"_operator", "iadd", operate<nb::kInPlaceAdd>, 2, 2},
    {"_operator", "isub", operate<nb::kInPlaceSubtract>, 2, 2},
    {"_operator", "imul", operate<nb::kInPlaceMultiply>, 2, 2},
    {"_operator", "imatmul", operate<nb::kInPlaceMatrixMultiply>, 2, 2},
    {"_operator", "itruediv", operate<nb::kInPlaceTrueDivide>, 2, 2},
    {"_operator", "ifloordiv", operate<nb::kInPlaceFloorDivide>, 2, 2},
    {"_operator", "imod", operate<nb::kInPlaceRemainder>, 2, 2},
    {"_operator", "ipow", operate<nb::kInPlacePower>, 2, 2},
    {"_operator", "iand", operate<nb::kInPlaceAnd>, 2, 2},
    {"_operator", "ior", operate<nb::kInPlaceOr>, 2, 2},
    {"_operator", "ixor", operate<nb::kInPlaceXor>, 2, 2},
    {"_operator", "ilshift", operate<nb::kInPlaceLeftShift>, 2, 2},
    {"_operator", "irshift", operate<nb::kInPlaceRightShift>, 2, 2},
    {"_operator", "lt", relate<Py_LT>, 2, 2, kComputes},
    {"_operator", "le", relate<Py_LE>, 2, 2, kComputes},
    {"_operator", "eq", relate<Py_EQ>, 2, 2, kComputes},
    {"_operator", "ne", relate<Py_NE>, 2, 2, kComputes},
    {"_operator", "gt", relate<Py_GT>, 2, 2, kComputes},
    {"_operator", "ge", relate<Py_GE>, 2, 2, kComputes},
    {"_operator", "neg pos not_ index", fold, 1, 1, kComputes},
    {"_operator", "getitem", item_of, 2, 2},
    {"_operator", "setitem", set_item, 3, 3},
    {"_operator", "delitem", write_item, 2, 2},
    {"_operator", "is_", identity<false>, 2, 2},
    {"_operator", "is_not", identity<true>, 2, 2},
    {"_operator", "contains", contains_item, 2, 2},
    {"_operator", "truth", truth_of, 1, 1},
    {"_thread", "RLock.__exit__", lock_block<0, false>, 1, kAny},
    {"_thread", "LockType.__exit__", lock_block<1, false>, 1, kAny},
    // Where `with` calls __enter__ as anything else is called.
    {"_thread", cpython::kExitHasSelf ? "RLock.__enter__" : "", lock_block<0, true>, 1, 1},
    {"_thread", cpython::kExitHasSelf ? "LockType.__enter__" : "", lock_block<1, true>, 1, 1},
};

}  // namespace

constinit const KnownCalls kFunctionalCalls = kFunctionalRows;

}  // namespace pijit
