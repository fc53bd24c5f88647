// Binary operators inside C code: methods of classes on either side, NotImplemented, and built-in operands.
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/scalars.h"
#include "record/state/values.h"

namespace pijit {

const OperatorMethods& operator_methods(int op) {
  static const std::vector<OperatorMethods> rows = [] {
    std::vector<OperatorMethods> made;
    for (const char* name :
         {"add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift", "sub", "truediv", "xor"}) {
      auto method = [&](const char* prefix) {
        return PyUnicode_InternFromString((std::string("__") + prefix + name + "__").c_str());
      };
      made.push_back({method(""), method("r"), method("i")});
    }
    return made;
  }();
  return rows[static_cast<size_t>(op >= nb::kInPlaceAdd ? op - nb::kInPlaceAdd : op)];
}

namespace {

bool is_wrapper(PyObject* method) {
  return method == nullptr || Py_TYPE(method) == &PyWrapperDescr_Type;
}

// The class fills the operator's slot with a method that is not C code of its own.
bool has_python_slot(ReadSet& reads, PyTypeObject* type, const OperatorMethods& methods) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  return !is_wrapper(reads.lookup_type(type, methods.plain)) || !is_wrapper(reads.lookup_type(type, methods.reflected));
}

PyObject* calculate(int op, PyObject* left, PyObject* right) {
  switch (op) {
    case nb::kAdd:
      return PyNumber_Add(left, right);
    case nb::kAnd:
      return PyNumber_And(left, right);
    case nb::kFloorDivide:
      return PyNumber_FloorDivide(left, right);
    case nb::kLeftShift:
      return PyNumber_Lshift(left, right);
    case nb::kMultiply:
      return PyNumber_Multiply(left, right);
    case nb::kRemainder:
      return PyNumber_Remainder(left, right);
    case nb::kOr:
      return PyNumber_Or(left, right);
    case nb::kPower:
      return PyNumber_Power(left, right, Py_None);
    case nb::kRightShift:
      return PyNumber_Rshift(left, right);
    case nb::kSubtract:
      return PyNumber_Subtract(left, right);
    case nb::kTrueDivide:
      return PyNumber_TrueDivide(left, right);
    case nb::kXor:
      return PyNumber_Xor(left, right);
    default:
      return nullptr;
  }
}

bool too_large(int op, PyObject* left, PyObject* right) {
  const bool grows = op == nb::kPower || op == nb::kLeftShift || op == nb::kMultiply;
  if (!grows) return false;
  auto magnitude = [](PyObject* object) {
    return PyLong_Check(object) ? cpython::int_bits(object) : PyUnicode_Check(object) ? 8 : 0;
  };
  return magnitude(right) > 20 && magnitude(left) > 1;
}

bool is_sequence(PyTypeObject* type) {
  return type != nullptr && (PyType_IsSubtype(type, &PyTuple_Type) || PyType_IsSubtype(type, &PyList_Type));
}

// One of them is a sequence that the recording has made, with a number in it that differs from call to call.
bool holds_number(Recorder& recorder, Val left, Val right) {
  for (Val value : {left, right}) {
    Vals items;
    if (!value.is_virtual() || !is_sequence(recorder.heap.type_of(value)) || !try_items(recorder, value, &items))
      continue;
    for (Val item : items)
      if (is_scalar_reg(recorder, item)) return true;
  }
  return false;
}

// list + list, tuple + tuple. False: not such operands.
bool concatenate(Recorder& recorder, Val left, Val right, Val* result) {
  PyTypeObject *a = recorder.heap.type_of(left), *b = recorder.heap.type_of(right);
  const bool lists = a == &PyList_Type && b == &PyList_Type;
  const bool tuples = PyType_IsSubtype(a, &PyTuple_Type) && PyType_IsSubtype(b, &PyTuple_Type);
  Vals items, more;
  if ((!lists && !tuples) || !try_items(recorder, left, &items) || !try_items(recorder, right, &more)) return false;
  // An empty exact tuple gives the other one itself.
  if (tuples && items.empty() && b == &PyTuple_Type) return *result = right, true;
  if (tuples && more.empty() && a == &PyTuple_Type) return *result = left, true;
  items.insert(items.end(), more.begin(), more.end());
  *result = lists ? recorder.new_list(items.data(), items.size())
                  : recorder.new_tuple(&PyTuple_Type, items.data(), items.size());
  return true;
}

// sequence * count.
bool repeat(Recorder& recorder, Val sequence, Val count, Val* result) {
  PyTypeObject* type = recorder.heap.type_of(sequence);
  PyObject* number = count.object();
  Vals items, made;
  if (!is_sequence(type) || number == nullptr || !(PyLong_CheckExact(number) || PyBool_Check(number))) return false;
  if (!try_items(recorder, sequence, &items)) return false;
  const long times = PyLong_AsLong(number);
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  if (grows_too_long(items.size(), times)) return false;
  if (type == &PyTuple_Type && (times == 1 || items.empty())) return *result = sequence, true;
  for (long i = 0; i < times && !items.empty(); ++i) made.insert(made.end(), items.begin(), items.end());
  *result = PyType_IsSubtype(type, &PyList_Type) ? recorder.new_list(made.data(), made.size())
                                                 : recorder.new_tuple(&PyTuple_Type, made.data(), made.size());
  return true;
}

// Both operands are of built-in classes (or of classes that leave the operator to them).
Task<Val> native(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  const int base = op >= nb::kInPlaceAdd ? op - nb::kInPlaceAdd : op;
  for (Val* value : {&left, &right})
    if (value->is_reg()) *value = force(recorder, *value);
  if (!recorder.live() || left.is_null() || right.is_null()) co_await drive.unknown();
  Val result;
  PyTypeObject* type = recorder.heap.type_of(left);
  Arguments both;
  both.values.push_back(left);
  both.values.push_back(right);
  if (op == nb::kInPlaceAdd && type == &PyList_Type) {
    result = co_await list_iadd(drive, both);
    co_return result;
  }
  if (op == nb::kInPlaceMultiply && type == &PyList_Type) {
    result = co_await list_imul(drive, both);
    co_return result;
  }
  if (op == nb::kInPlaceOr && type == &PyDict_Type) {
    result = co_await dict_update(drive, both);
    co_return left;
  }
  if (op != base && type == &PySet_Type) {
    result = co_await set_inplace(drive, op, left, right);
    co_return result;
  }
  if (op != base) op = base;
  if (op == nb::kRemainder && type == &PyUnicode_Type && left.is_const()) {
    result = co_await percent(drive, left, right);
    co_return result;
  }
  // Before plain_object(), which would fix numbers that differ from call to call.
  if (base == nb::kAdd && holds_number(recorder, left, right) && concatenate(recorder, left, right, &result))
    co_return result;
  Ref a = plain_object(recorder, left), b = plain_object(recorder, right);
  if (!recorder.live()) co_await drive.unknown();
  if (base == nb::kAdd && concatenate(recorder, left, right, &result)) co_return result;
  if (base == nb::kMultiply && (repeat(recorder, left, right, &result) || repeat(recorder, right, left, &result)))
    co_return result;
  result = combine_containers(recorder, op, left, right);
  if (!recorder.live()) co_await drive.unknown();
  if (!result.is_null()) co_return result;
  // A number or string of a class that inherits the operator.
  auto inherits = [](Val value) {
    PyObject* object = value.object();
    return object != nullptr && (PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object));
  };
  if (!a && inherits(left)) a = Ref::borrow(left.object());
  if (!b && inherits(right)) b = Ref::borrow(right.object());
  if (left.is_const()) recorder.reads.guard_value(left.object());
  if (right.is_const()) recorder.reads.guard_value(right.object());
  if (!a || !b || too_large(base, a.get(), b.get())) co_await drive.unknown();
  Ref made = Ref::steal(calculate(base, a.get(), b.get()));
  if (!made) {
    PyErr_Clear();
    co_await drive.raise();
  }
  result = plain_shadow(recorder, made.get());
  if (result.is_null()) co_await drive.unknown();
  co_return result;
}

// Of two numbers that are known. Null: others, or no number is the result.
static Val combine_numbers(Recorder& recorder, int op, Val left, Val right) {
  auto is_number = [](Val value) {
    return value.is_const() && (PyLong_CheckExact(value.object()) || PyFloat_CheckExact(value.object()));
  };
  const int base = op >= nb::kInPlaceAdd ? op - nb::kInPlaceAdd : op;
  if (!is_number(left) || !is_number(right) || too_large(base, left.object(), right.object())) return Val();
  const Ref made = Ref::steal(calculate(base, left.object(), right.object()));
  if (!made) PyErr_Clear();
  return made ? plain_shadow(recorder, made.get()) : Val();
}

// vectorcall_maybe(name, self, other): NotImplemented when the class has no such method.
Task<Val> call_maybe(Drive& drive, PyObject* name, Val self, Val other, bool last = false) {
  Recorder& recorder = drive.recorder();
  PyObject* method = recorder.reads.lookup_type(recorder.heap.type_of(self), name);
  if (!recorder.live()) co_await drive.unknown();
  if (method == nullptr || method == Py_None) co_return not_implemented();
  Vals more;
  more.push_back(other);
  Val result = co_await call_special(drive, self, name, more, last);
  co_return result;
}

// A built-in class does not know the other operand: its slot says NotImplemented, or it has none.
bool knows_only_itself(PyTypeObject* type, int op) {
  if (type == &PyUnicode_Type) return op != nb::kRemainder && op != nb::kInPlaceRemainder;
  for (PyTypeObject* known : {&PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyComplex_Type, &PyList_Type, &PyTuple_Type,
                              &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, Py_TYPE(Py_None), Py_TYPE(Py_Ellipsis)})
    if (type == known) return true;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_base == &PyBaseObject_Type;
}

// The class, guarded where the operand existed before; null: not known.
PyTypeObject* operand_type(Recorder& recorder, Val value) {
  return value.is_reg() ? recorder.heap.type_of(value) : guarded_type(recorder, value);
}

}  // namespace

// As binary_op1 of abstract.c, and the function that fills the slot of classes with methods in Python (SLOT1BINFULL of
// typeobject.c).
Task<Val> binary(Drive& drive, int op, Val left, Val right, bool last) {
  Recorder& recorder = drive.recorder();
  if (const Val number = combine_numbers(recorder, op, left, right); !number.is_null()) co_return number;
  if (const Val number = compute_number(recorder, SiteKind::kBinary, op, left, right); !number.is_null())
    co_return number;
  if (op < nb::kInPlaceAdd) {
    const Val computed = compute_tensors(recorder, SiteKind::kBinary, {left, right}, op);
    if (!computed.is_null()) co_return computed;
    if (!recorder.live()) co_await drive.unknown();
  }
  PyTypeObject *a = operand_type(recorder, left), *b = operand_type(recorder, right);
  if (a == nullptr || b == nullptr || touches_tensor(recorder, left)) co_await drive.unknown();
  const OperatorMethods* methods = &operator_methods(op);
  const bool of_left = has_python_slot(recorder.reads, a, *methods),
             of_right = has_python_slot(recorder.reads, b, *methods);
  if (!recorder.live()) co_await drive.unknown();
  const bool derived = a != b && PyType_IsSubtype(b, a);
  const bool inplace = op >= nb::kInPlaceAdd && (a->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
                       recorder.reads.lookup_type(a, methods->inplace) != nullptr;
  if (!inplace && !of_left && touches_tensor(recorder, right)) co_await drive.unknown();
  Val result = not_implemented();
  if (inplace) {
    result = co_await call_maybe(drive, methods->inplace, left, right, last);
  } else if (!of_left && !of_right) {
    result = co_await native(drive, op, left, right);
    co_return result;
  } else if (of_left != of_right && (derived || (of_right && !knows_only_itself(a, op)))) {
    co_await drive.unknown();
  } else if (of_left) {
    PyObject* theirs = derived ? recorder.reads.lookup_type(b, methods->reflected) : nullptr;
    const bool first = theirs != nullptr && theirs != recorder.reads.lookup_type(a, methods->reflected);
    if (first) result = co_await call_maybe(drive, methods->reflected, right, left);
    if (result.object() != Py_NotImplemented) co_return result;
    result = co_await call_maybe(drive, methods->plain, left, right, last && !first);
    if (first && result.object() == Py_NotImplemented) co_await drive.raise();
  }
  if (result.object() == Py_NotImplemented) result = co_await binary_refused(drive, op, left, right);
  co_return result;
}

Task<Val> binary_refused(Drive& drive, int op, Val left, Val right) {
  Recorder& recorder = drive.recorder();
  PyTypeObject *a = recorder.heap.type_of(left), *b = recorder.heap.type_of(right);
  const OperatorMethods* methods = &operator_methods(op);
  if (op >= nb::kInPlaceAdd && recorder.reads.lookup_type(a, methods->inplace) != nullptr) {
    Val result = co_await binary(drive, op - nb::kInPlaceAdd, left, right);
    co_return result;
  }
  if (a != b && has_python_slot(recorder.reads, b, *methods)) {
    Val result = co_await call_maybe(drive, methods->reflected, right, left);
    if (result.object() != Py_NotImplemented) co_return result;
  } else if (a != b && !knows_only_itself(b, op)) {
    co_await drive.unknown();
  }
  if (op % nb::kInPlaceAdd == nb::kMultiply && b->tp_as_sequence != nullptr) co_await drive.unknown();
  co_await drive.raise();
  co_return Val();
}

}  // namespace pijit
