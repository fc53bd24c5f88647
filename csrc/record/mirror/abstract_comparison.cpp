// Comparison inside C code: methods of classes on either side, reflection, identity, and built-in operands.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "mindspore/library.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};

PyObject* method_name(int op) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__lt__"), PyUnicode_InternFromString("__le__"),
                                    PyUnicode_InternFromString("__eq__"), PyUnicode_InternFromString("__ne__"),
                                    PyUnicode_InternFromString("__gt__"), PyUnicode_InternFromString("__ge__")};
  return names[op];
}

Task<Val> compare_slot(Drive& drive, int op, Val left, Val right);

// object's own: identity, and != as the opposite of ==.
Task<Val> compare_identity(Drive& drive, int op, Val left, Val right) {
  if (op == Py_EQ) {
    const int same = same_object(drive.recorder(), left, right);
    if (same < 0) co_await drive.unknown();
    co_return same > 0 ? truth_value(true) : not_implemented();
  }
  if (op != Py_NE) co_return not_implemented();
  Val equal = co_await compare_slot(drive, Py_EQ, left, right);
  if (equal.object() == Py_NotImplemented) co_return equal;
  const bool yes = co_await is_true(drive, equal);
  co_return truth_value(!yes);
}

// Tuples and lists: the first items that differ decide.
Task<Val> compare_sequences(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  Vals a, b;
  if (!try_items(recorder, left, &a) || !try_items(recorder, right, &b)) co_await drive.unknown();
  const bool lists = PyType_IsSubtype(recorder.heap.type_of(left), &PyList_Type);
  if (lists && a.size() != b.size() && (op == Py_EQ || op == Py_NE)) co_return truth_value(op == Py_NE);
  size_t i = 0;
  for (; i < a.size() && i < b.size(); ++i) {
    const bool equal = co_await equals(drive, a[i], b[i]);
    if (!equal) break;
  }
  if (i == a.size() || i == b.size()) {
    const bool results[] = {a.size() < b.size(),  a.size() <= b.size(), a.size() == b.size(),
                            a.size() != b.size(), a.size() > b.size(),  a.size() >= b.size()};
    co_return truth_value(results[op]);
  }
  if (op == Py_EQ || op == Py_NE) co_return truth_value(op == Py_NE);
  Val result = co_await compare(drive, op, a[i], b[i]);
  co_return result;
}

Task<Val> compare_dicts(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  if (op != Py_EQ && op != Py_NE) co_return not_implemented();
  Objects a, b;
  Vals x, y;
  if (!dict_content(recorder, left, &a, &x) || !dict_content(recorder, right, &b, &y)) co_await drive.unknown();
  if (a.size() != b.size()) co_return truth_value(op == Py_NE);
  const bool ordered = recorder.heap.type_of(left) == &PyODict_Type && recorder.heap.type_of(right) == &PyODict_Type;
  const KeyList others(b);
  for (size_t i = 0; i < a.size(); ++i) {
    const ptrdiff_t at = others.find(a[i]);
    if (at < 0) co_return truth_value(op == Py_NE);
    const bool equal = co_await equals(drive, x[i], y[static_cast<size_t>(at)]);
    if (!equal) co_return truth_value(op == Py_NE);
  }
  for (size_t i = 0; i < a.size() && ordered; ++i)
    if (!cpython::keys_equal(a[i], b[i])) co_return truth_value(op == Py_NE);
  co_return truth_value(op == Py_EQ);
}

// Of what built-in class the comparison is that the class uses for its instances.
bool compares_as(PyTypeObject* type, PyTypeObject* builtin) {
  return type->tp_richcompare == builtin->tp_richcompare;
}

// Comparing objects of this class runs no Python and looks at nothing mutable. Such are what the adapter owns, too:
// dtypes, devices.
bool native_comparison(const Kernel& recording, PyTypeObject* type) {
  for (PyTypeObject* known : {&PyBaseObject_Type, &PyLong_Type, &PyFloat_Type, &PyUnicode_Type, &PyBytes_Type,
                              &PyType_Type, &PyComplex_Type, &PyCFunction_Type, &PyCode_Type})
    if (compares_as(type, known)) return true;
  return type->tp_richcompare == nullptr ||
         (recording.adapter() != nullptr && recording.adapter()->claims(reinterpret_cast<PyObject*>(type)));
}

// A comparison in C on these two: plain values, or objects that it tells apart by what never changes.
Task<Val> compare_native(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  PyTypeObject *type = recorder.heap.type_of(left), *other = recorder.heap.type_of(right);
  if (type->tp_richcompare == nullptr) co_return not_implemented();
  if (compares_as(type, &PyBaseObject_Type)) {
    Val result = co_await compare_identity(drive, op, left, right);
    co_return result;
  }
  const bool lists = PyType_IsSubtype(type, &PyList_Type), tuples = PyType_IsSubtype(type, &PyTuple_Type);
  if ((lists && compares_as(type, &PyList_Type)) || (tuples && compares_as(type, &PyTuple_Type))) {
    if (!PyType_IsSubtype(other, lists ? &PyList_Type : &PyTuple_Type)) co_return not_implemented();
    Val result = co_await compare_sequences(drive, op, left, right);
    co_return result;
  }
  if (cpython::is_builtin_dict(type)) {
    if (!PyType_IsSubtype(other, &PyDict_Type)) co_return not_implemented();
    Val result = co_await compare_dicts(drive, op, left, right);
    co_return result;
  }
  if (type == namespace_type()) {
    if (!PyType_IsSubtype(other, type)) co_return not_implemented();
    const Val a = namespace_dict(recorder, left), b = namespace_dict(recorder, right);
    if (a.is_null() || b.is_null() || (op != Py_EQ && op != Py_NE)) co_await drive.unknown();
    Val result = co_await compare_dicts(drive, op, a, b);
    co_return result;
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    Val result = compare_sets(recorder, op, left, right);
    if (result.is_null()) co_await drive.unknown();
    co_return result;
  }
  PyObject* dict = nullptr;
  Ref a = plain_object(recorder, left), b = plain_object(recorder, right);
  if (!a && left.is_const() && native_comparison(recorder, type)) a = Ref::borrow(left.object());
  if (a && !b && right.is_const()) b = Ref::borrow(right.object());
  if (!a || !recorder.live()) co_await drive.unknown();
  // What cannot be an operand of this comparison, whatever is in it.
  if (!b && native_comparison(recorder, type)) co_return not_implemented();
  if (!b || !guard_instance(recorder, a.get(), &dict) || !guard_instance(recorder, b.get(), &dict))
    co_await drive.unknown();
  if (left.is_const()) recorder.reads.guard_value(left.object());
  if (right.is_const()) recorder.reads.guard_value(right.object());
  Ref made = Ref::steal(type->tp_richcompare(a.get(), b.get(), op));
  if (!made) PyErr_Clear();
  if (!made || !(PyBool_Check(made.get()) || made.get() == Py_NotImplemented)) co_await drive.unknown();
  co_return Val::constant(made.get());
}

// type(left).tp_richcompare(left, right, op)
Task<Val> compare_slot(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = guarded_type(recorder, left);
  if (type != nullptr) recorder.reads.guard_type_version(type);
  if (type == nullptr || !recorder.live()) co_await drive.unknown();
  if (type->tp_richcompare != cpython::slot_functions().richcompare) {
    Val result = co_await compare_native(drive, op, left, right);
    co_return result;
  }
  PyObject* method = recorder.reads.lookup_type(type, method_name(op));
  if (method == nullptr || method == Py_None) co_return not_implemented();
  if (Py_TYPE(method) == &PyWrapperDescr_Type) {
    auto* wrapped = reinterpret_cast<PyWrapperDescrObject*>(method)->d_wrapped;
    const bool object = wrapped == reinterpret_cast<void*>(PyBaseObject_Type.tp_richcompare);
    const bool tuple = wrapped == reinterpret_cast<void*>(PyTuple_Type.tp_richcompare);
    if (!object && !tuple) co_await drive.unknown();
    if (tuple && !PyType_IsSubtype(recorder.heap.type_of(right), &PyTuple_Type)) co_return not_implemented();
    if (tuple) {
      Val result = co_await compare_sequences(drive, op, left, right);
      co_return result;
    }
    Val result = co_await compare_identity(drive, op, left, right);
    co_return result;
  }
  Vals more;
  more.push_back(right);
  Val result = co_await call_special(drive, left, method_name(op), more);
  co_return result;
}

}  // namespace

int same_object(Recorder& recorder, Val left, Val right) {
  if (recorder.heap.is_virtual(left, VirtualKind::kAddress)) return -1;  // every call of id() makes a number
  if (left == right) return 1;
  // What is in a register may have been taken apart more than once.
  const auto place = [&](Val value) {
    return value.is_virtual() ? recorder.trace().virtuals[value.index()].reg : value.is_reg() ? value.index() : kNone;
  };
  if (place(left) != kNone && place(left) == place(right)) return 1;
  if (left.is_const() && right.is_const()) {
    PyObject *a = left.object(), *b = right.object();
    if (a == b) return 1;
    // Which of several equal values an argument is, no guard says.
    auto singleton = [](PyObject* object) {
      return object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || PyBool_Check(object);
    };
    const bool equal =
        Py_TYPE(a) == Py_TYPE(b) && cpython::is_scalar(a) && !singleton(a) && cpython::scalars_equal(a, b);
    return equal ? -1 : 0;
  }
  if (left.is_virtual() || right.is_virtual()) {
    // An argument may be an object that existed before.
    const Val known = left.is_virtual() ? left : right, other = left.is_virtual() ? right : left;
    if (other.is_const() && !cpython::is_scalar(other.object())) return is_argument(recorder, known, other.object());
    // A fresh object is only itself; a result may be any object that escaped, and so may an argument.
    const auto fresh = [&](Val value) { return value.is_virtual() && recorder.heap.is_fresh(value); };
    const auto found = [&](Val value) {
      if (value.is_reg()) return recorder.facts(value).rep == Rep::kObject;
      return value.is_virtual() && !fresh(value) && !recorder.trace().epochs.empty();
    };
    if (fresh(left) || fresh(right)) return found(left) || found(right) ? -1 : 0;
    return -1;
  }
  PyObject* constant = left.is_const() ? left.object() : right.object();
  Val reg = left.is_const() ? right : left;
  // An operator whose result is not there leaves the replay.
  if (constant == Py_None && reg.is_reg() && recorder.facts(reg).rep == Rep::kTensor) return 0;
  PyTypeObject* type = reg.is_reg() ? recorder.heap.type_of(reg) : nullptr;
  return constant == nullptr || type == nullptr || Py_TYPE(constant) == type ? -1 : 0;
}

namespace {

// id(a) == id(b), or one of these and another int. 1, 0, or -1: not known.
int same_address(Recorder& recorder, Val left, Val right) {
  const bool both = recorder.heap.is_virtual(right, VirtualKind::kAddress);
  if (!recorder.heap.is_virtual(left, VirtualKind::kAddress)) return both ? same_address(recorder, right, left) : -1;
  const Val object = recorder.heap.virtual_field(left, 0);
  if (both) return same_object(recorder, object, recorder.heap.virtual_field(right, 0));
  const bool fresh = object.is_virtual() && recorder.heap.is_fresh(object);
  return fresh && right.is_const() && PyLong_CheckExact(right.object()) ? 0 : -1;
}

// Whether two dtypes of MindSpore are equal, which C finds out; -1: they are not such.
int same_dtype(Recorder& recorder, Val left, Val right) {
  if (!left.is_const() || !right.is_const() || !mindspore::is_dtype(left.object()) ||
      !mindspore::is_dtype(right.object()))
    return -1;
  for (Val each : {left, right}) recorder.reads.guard_type_version(Py_TYPE(each.object()));
  const int same = recorder.live() ? PyObject_RichCompareBool(left.object(), right.object(), Py_EQ) : -1;
  if (same < 0) PyErr_Clear();
  return same;
}

}  // namespace

Task<Val> compare(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  for (Val* value : {&left, &right}) {
    if (!value->is_reg() || touches_tensor(recorder, *value)) continue;
    const Val number = recorder.unbox(*value, recorder.heap.reg_objects[value->index()]);
    if (!number.is_null()) *value = number;
  }
  if (const int same = op == Py_EQ || op == Py_NE ? same_dtype(recorder, left, right) : -1; same >= 0)
    co_return Val::constant((same != 0) == (op == Py_EQ) ? Py_True : Py_False);
  if (const int same = op == Py_EQ || op == Py_NE ? same_address(recorder, left, right) : -1; same >= 0)
    co_return Val::constant((same != 0) == (op == Py_EQ) ? Py_True : Py_False);
  if (const Val number = compute_number(recorder, SiteKind::kCompare, op, left, right); !number.is_null())
    co_return number;
  for (Val* value : {&left, &right})
    if (value->is_reg() && !touches_tensor(recorder, *value)) *value = force(recorder, *value);
  if (!recorder.live() || left.is_null() || right.is_null()) co_await drive.unknown();
  PyTypeObject *a = guarded_type(recorder, left), *b = guarded_type(recorder, right);
  if (a == nullptr || b == nullptr) co_await drive.unknown();
  const bool reflected_first = a != b && PyType_IsSubtype(b, a) && b->tp_richcompare != nullptr;
  if (reflected_first) {
    Val result = co_await compare_slot(drive, kSwapped[op], right, left);
    if (result.object() != Py_NotImplemented) co_return result;
  }
  Val result = co_await compare_slot(drive, op, left, right);
  if (result.object() != Py_NotImplemented) co_return result;
  if (!reflected_first) {
    result = co_await compare_slot(drive, kSwapped[op], right, left);
    if (result.object() != Py_NotImplemented) co_return result;
  }
  if (op != Py_EQ && op != Py_NE) co_await drive.raise();
  const int same = same_object(recorder, left, right);
  if (same < 0) co_await drive.unknown();
  co_return truth_value((same > 0) == (op == Py_EQ));
}

Task<bool> equals(Drive& drive, Val left, Val right) {
  // Identity decides first; where it is not known, the two are equal values of one kind, and == says so too.
  if (same_object(drive.recorder(), left, right) > 0) co_return true;
  Val result = co_await compare(drive, Py_EQ, left, right);
  const bool yes = co_await is_true(drive, result);
  co_return yes;
}

}  // namespace pijit
