// What Objects/abstract.c and the slots of Objects/typeobject.c do, in their order.
#include "cpython/operators.h"

#include <opcode.h>

#include <cstddef>
#include <string>

#include "common/ref.h"
#include "cpython/internals.h"

namespace pijit::cpython {
namespace {

static_assert(NB_ADD == nb::kAdd && NB_AND == nb::kAnd && NB_FLOOR_DIVIDE == nb::kFloorDivide &&
              NB_LSHIFT == nb::kLeftShift && NB_MATRIX_MULTIPLY == nb::kMatrixMultiply &&
              NB_MULTIPLY == nb::kMultiply && NB_REMAINDER == nb::kRemainder && NB_OR == nb::kOr &&
              NB_POWER == nb::kPower && NB_RSHIFT == nb::kRightShift && NB_SUBTRACT == nb::kSubtract &&
              NB_TRUE_DIVIDE == nb::kTrueDivide && NB_XOR == nb::kXor && NB_INPLACE_ADD == nb::kInPlaceAdd &&
              NB_INPLACE_XOR == nb::kInPlaceXor);

struct Operator {
  const char *method, *sign;
  size_t slot;  // in PyNumberMethods
};

const Operator& operator_of(int op) {
  static constexpr Operator rows[] = {
      {"add", "+", offsetof(PyNumberMethods, nb_add)},
      {"and", "&", offsetof(PyNumberMethods, nb_and)},
      {"floordiv", "//", offsetof(PyNumberMethods, nb_floor_divide)},
      {"lshift", "<<", offsetof(PyNumberMethods, nb_lshift)},
      {"matmul", "@", offsetof(PyNumberMethods, nb_matrix_multiply)},
      {"mul", "*", offsetof(PyNumberMethods, nb_multiply)},
      {"mod", "%", offsetof(PyNumberMethods, nb_remainder)},
      {"or", "|", offsetof(PyNumberMethods, nb_or)},
      {"pow", "**", offsetof(PyNumberMethods, nb_power)},
      {"rshift", ">>", offsetof(PyNumberMethods, nb_rshift)},
      {"sub", "-", offsetof(PyNumberMethods, nb_subtract)},
      {"truediv", "/", offsetof(PyNumberMethods, nb_true_divide)},
      {"xor", "^", offsetof(PyNumberMethods, nb_xor)},
  };
  return rows[op >= nb::kInPlaceAdd ? op - nb::kInPlaceAdd : op];
}

void* slot_of(PyTypeObject* type, const Operator& of) {
  const PyNumberMethods* number = type->tp_as_number;
  return number == nullptr ? nullptr : *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(number) + of.slot);
}

Ref call_slot(void* slot, const Operator& of, PyObject* left, PyObject* right) {
  if (of.slot == offsetof(PyNumberMethods, nb_power))
    return Ref::steal(reinterpret_cast<ternaryfunc>(slot)(left, right, Py_None));
  return Ref::steal(reinterpret_cast<binaryfunc>(slot)(left, right));
}

PyObject* method_of(PyTypeObject* type, const char* prefix, const Operator& of) {
  const Ref name = Ref::steal(PyUnicode_InternFromString((std::string("__") + prefix + of.method + "__").c_str()));
  return name ? _PyType_Lookup(type, name.get()) : nullptr;
}

Ref refused() {
  return Ref::borrow(Py_NotImplemented);
}

// right.__rop__(left), as the slot of the left operand's class tries it.
Ref call_reflected(const Operator& of, PyObject* left, PyObject* right) {
  PyTypeObject* type = Py_TYPE(right);
  const Ref method = Ref::borrow(method_of(type, "r", of));
  if (!method) return PyErr_Occurred() != nullptr ? Ref() : refused();
  const descrgetfunc get = Py_TYPE(method.get())->tp_descr_get;
  const Ref bound = get == nullptr ? Ref::borrow(method.get())
                                   : Ref::steal(get(method.get(), right, reinterpret_cast<PyObject*>(type)));
  return bound ? Ref::steal(PyObject_CallOneArg(bound.get(), left)) : Ref();
}

bool goes_on(const Ref& result) {
  return result && result.get() == Py_NotImplemented;
}

// The slots of both classes, as for an operator that nothing was tried of.
Ref try_slots(const Operator& of, PyObject* left, PyObject* right) {
  PyTypeObject *a = Py_TYPE(left), *b = Py_TYPE(right);
  void *mine = slot_of(a, of), *theirs = a == b ? nullptr : slot_of(b, of);
  if (theirs == mine) theirs = nullptr;
  Ref result = refused();
  if (mine != nullptr && theirs != nullptr && PyType_IsSubtype(b, a) != 0) {
    result = call_slot(theirs, of, left, right);
    theirs = nullptr;
  }
  if (goes_on(result) && mine != nullptr) result = call_slot(mine, of, left, right);
  if (goes_on(result) && theirs != nullptr) result = call_slot(theirs, of, left, right);
  return result;
}

// What follows the plain method of the left operand.
Ref try_right(const Operator& of, PyObject* left, PyObject* right) {
  PyTypeObject *a = Py_TYPE(left), *b = Py_TYPE(right);
  void *mine = slot_of(a, of), *theirs = a == b ? nullptr : slot_of(b, of);
  if (theirs == nullptr) return refused();
  return theirs == mine ? call_reflected(of, left, right) : call_slot(theirs, of, left, right);
}

Ref repeat(ssizeargfunc slot, PyObject* sequence, PyObject* times) {
  if (PyIndex_Check(times) == 0) {
    PyErr_Format(PyExc_TypeError, "can't multiply sequence by non-int of type '%.200s'", Py_TYPE(times)->tp_name);
    return Ref();
  }
  const Py_ssize_t count = PyNumber_AsSsize_t(times, PyExc_OverflowError);
  return count == -1 && PyErr_Occurred() != nullptr ? Ref() : Ref::steal(slot(sequence, count));
}

// Concatenation and repetition, which are no numbers' operators.
Ref try_sequences(const Operator& of, bool in_place, PyObject* left, PyObject* right) {
  const PySequenceMethods *mine = Py_TYPE(left)->tp_as_sequence, *theirs = Py_TYPE(right)->tp_as_sequence;
  if (of.slot == offsetof(PyNumberMethods, nb_add) && mine != nullptr) {
    const binaryfunc slot = in_place && mine->sq_inplace_concat != nullptr ? mine->sq_inplace_concat : mine->sq_concat;
    if (slot != nullptr) return Ref::steal(slot(left, right));
  }
  if (of.slot == offsetof(PyNumberMethods, nb_multiply)) {
    ssizeargfunc slot = mine == nullptr ? nullptr : mine->sq_repeat;
    if (in_place && mine != nullptr && mine->sq_inplace_repeat != nullptr) slot = mine->sq_inplace_repeat;
    if (slot != nullptr) return repeat(slot, left, right);
    const bool looks_right = !in_place || mine == nullptr;
    if (looks_right && theirs != nullptr && theirs->sq_repeat != nullptr) return repeat(theirs->sq_repeat, right, left);
  }
  return refused();
}

}  // namespace

PyObject* finish_binary(int op, PyObject* left, PyObject* right) noexcept {
  const Operator& of = operator_of(op);
  const bool in_place = op >= nb::kInPlaceAdd;
  const bool was_in_place = in_place && method_of(Py_TYPE(left), "i", of) != nullptr;
  if (PyErr_Occurred() != nullptr) return nullptr;
  Ref result = was_in_place ? try_slots(of, left, right) : try_right(of, left, right);
  if (goes_on(result)) result = try_sequences(of, in_place, left, right);
  if (!goes_on(result)) return result.release();
  const bool power = of.slot == offsetof(PyNumberMethods, nb_power);
  PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %s%s: '%.100s' and '%.100s'", of.sign,
               in_place ? "=" : (power ? " or pow()" : ""), Py_TYPE(left)->tp_name, Py_TYPE(right)->tp_name);
  return nullptr;
}

namespace {

template <int op>
PyObject* compare_truth(PyObject*, PyObject* const* operands, Py_ssize_t) {
  const Ref result = Ref::steal(PyObject_RichCompare(operands[0], operands[1], op));
  const int yes = result ? PyObject_IsTrue(result.get()) : -1;
  return yes < 0 ? nullptr : PyBool_FromLong(yes);
}

template <int op>
PyObject* new_comparison() {
  static PyMethodDef definition = {"comparison_truth",
                                   reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(compare_truth<op>)),
                                   METH_FASTCALL, nullptr};
  return PyCFunction_New(&definition, nullptr);  // lives as long as the process
}

}  // namespace

PyObject* comparison_truth(int op) noexcept {
  static PyObject* const functions[] = {new_comparison<Py_LT>(), new_comparison<Py_LE>(), new_comparison<Py_EQ>(),
                                        new_comparison<Py_NE>(), new_comparison<Py_GT>(), new_comparison<Py_GE>()};
  return functions[op];
}

namespace {

PyObject* load_method(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  PyObject* found = nullptr;
  if (_PyObject_GetMethod(arguments[0], arguments[1], &found) == 0) return found;
  const Ref method = Ref::steal(found);
  return Py_TYPE(found)->tp_descr_get(found, arguments[0], reinterpret_cast<PyObject*>(Py_TYPE(arguments[0])));
}

}  // namespace

PyObject* method_loader() noexcept {
  static PyMethodDef definition = {"getattr", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(load_method)),
                                   METH_FASTCALL, nullptr};
  static PyObject* const function = PyCFunction_New(&definition, nullptr);  // lives as long as the process
  return function;
}

}  // namespace pijit::cpython
