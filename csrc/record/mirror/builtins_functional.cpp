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

Task<Val> get_attribute(Drive& drive, Val object, Val name) {
  Recorder& recorder = drive.recorder();
  if (name.object() == nullptr || !PyUnicode_CheckExact(name.object())) co_await drive.unknown();
  Val result;
  bool missing = false;
  const Invoke outcome = get_attribute(recorder, drive.frame(), object, name.object(), 0, &result, &missing);
  if (missing) co_await drive.raise();
  if (outcome == Invoke::kStarted && !drive.frame().pending.active) co_return result;
  Inner inner = co_await drive.wait(outcome);
  if (inner.raised) co_await drive.pass_on();
  co_return inner.value;
}

// "a.b.c" one after the other.
Task<Val> get_path(Drive& drive, Val object, Val path) {
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
    object = co_await get_attribute(drive, object, recorder.reads.owned(name.get()));
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
    Val result = co_await call(drive, method, inner);
    co_return result;
  }
  Vals found;
  for (Val field : fields) {
    Val item;
    if (type == getters().item) {
      item = co_await get_item(drive, args.values[1], field);
    } else {
      item = co_await get_path(drive, args.values[1], field);
    }
    found.push_back(item);
  }
  co_return found.size() == 1 ? found[0] : recorder.new_tuple(&PyTuple_Type, found.data(), found.size());
}

// The functions of operator on objects; those of plain values fold.
template <int kOp>
Task<Val> operate(Drive& drive, Arguments args) {
  Val result = co_await binary(drive, kOp, args.values[0], args.values[1]);
  co_return result;
}

template <int kOp>
Task<Val> relate(Drive& drive, Arguments args) {
  Val result = co_await compare(drive, kOp, args.values[0], args.values[1]);
  co_return result;
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
    if (type == getters().method) return Invoke::kUnknown;
    Ref parts = Ref::steal(PyObject_CallMethod(getter.object(), "__reduce__", nullptr));
    if (!parts) return PyErr_Clear(), Invoke::kUnknown;
    PyObject* given = PyTuple_GET_ITEM(parts.get(), 1);
    if (!is_plain_const(given)) return Invoke::kUnknown;
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
    {"_operator", "add", folded<operate<nb::kAdd>>, 2, 2, kComputes},
    {"_operator", "concat", folded<operate<nb::kAdd>>, 2, 2},
    {"_operator", "sub", folded<operate<nb::kSubtract>>, 2, 2, kComputes},
    {"_operator", "mul", folded<operate<nb::kMultiply>>, 2, 2, kComputes},
    {"_operator", "truediv", folded<operate<nb::kTrueDivide>>, 2, 2, kComputes},
    {"_operator", "floordiv", folded<operate<nb::kFloorDivide>>, 2, 2, kComputes},
    {"_operator", "mod", folded<operate<nb::kRemainder>>, 2, 2, kComputes},
    {"_operator", "pow", folded<operate<nb::kPower>>, 2, 2},
    {"_operator", "and_", folded<operate<nb::kAnd>>, 2, 2, kComputes},
    {"_operator", "or_", folded<operate<nb::kOr>>, 2, 2, kComputes},
    {"_operator", "xor", folded<operate<nb::kXor>>, 2, 2, kComputes},
    {"_operator", "iadd", folded<operate<nb::kInPlaceAdd>>, 2, 2},
    {"_operator", "lt", folded<relate<Py_LT>>, 2, 2, kComputes},
    {"_operator", "le", folded<relate<Py_LE>>, 2, 2, kComputes},
    {"_operator", "eq", folded<relate<Py_EQ>>, 2, 2, kComputes},
    {"_operator", "ne", folded<relate<Py_NE>>, 2, 2, kComputes},
    {"_operator", "gt", folded<relate<Py_GT>>, 2, 2, kComputes},
    {"_operator", "ge", folded<relate<Py_GE>>, 2, 2, kComputes},
    {"_operator", "neg pos not_ index", fold, 1, 1, kComputes},
    {"_operator", "getitem", item_of, 2, 2},
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
