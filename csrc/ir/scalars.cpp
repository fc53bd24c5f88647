// Sums, quotients and comparisons of int64, double and bool.
#include "ir/scalars.h"

#include <cmath>
#include <cstring>

#include "cpython/int_arithmetic.h"

namespace pijit {
namespace {

bool give(Reg* out, int64_t value) noexcept {
  out->rep = Rep::kInt;
  out->integer = value;
  return true;
}

bool give(Reg* out, double value) noexcept {
  out->rep = Rep::kFloat;
  out->number = value;
  return !std::isnan(value);
}

bool give(Reg* out, bool value) noexcept {
  out->rep = Rep::kBool;
  out->boolean = value;
  return true;
}

int64_t integer(const Reg& reg) noexcept {
  return reg.rep == Rep::kBool ? static_cast<int64_t>(reg.boolean) : reg.integer;
}

double number(const Reg& reg) noexcept {
  return reg.rep == Rep::kFloat ? reg.number : static_cast<double>(integer(reg));
}

template <typename T>
bool compare(ScalarOp op, T a, T b, Reg* out) noexcept {
  switch (op) {
    case ScalarOp::kLess:
      return give(out, a < b);
    case ScalarOp::kLessEqual:
      return give(out, a <= b);
    case ScalarOp::kEqual:
      return give(out, a == b);
    case ScalarOp::kNotEqual:
      return give(out, a != b);
    case ScalarOp::kGreater:
      return give(out, a > b);
    case ScalarOp::kGreaterEqual:
      return give(out, a >= b);
    default:
      return false;
  }
}

bool of_integers(ScalarOp op, int64_t a, int64_t b, Reg* out) noexcept {
  int64_t result = 0;
  double quotient = 0;
  switch (op) {
    case ScalarOp::kAdd:
      return !__builtin_add_overflow(a, b, &result) && give(out, result);
    case ScalarOp::kSubtract:
      return !__builtin_sub_overflow(a, b, &result) && give(out, result);
    case ScalarOp::kMultiply:
      return !__builtin_mul_overflow(a, b, &result) && give(out, result);
    case ScalarOp::kTrueDivide:
      return cpython::true_quotient(a, b, &quotient) && give(out, quotient);
    case ScalarOp::kFloorDivide:
      return cpython::floor_quotient(a, b, &result) && give(out, result);
    case ScalarOp::kRemainder:
      return cpython::remainder(a, b, &result) && give(out, result);
    case ScalarOp::kNegative:
      return a != INT64_MIN && give(out, -a);
    default:
      return compare(op, a, b, out);
  }
}

bool of_floats(ScalarOp op, double a, double b, Reg* out) noexcept {
  switch (op) {
    case ScalarOp::kAdd:
      return give(out, a + b);
    case ScalarOp::kSubtract:
      return give(out, a - b);
    case ScalarOp::kMultiply:
      return give(out, a * b);
    case ScalarOp::kTrueDivide:
      return b != 0 && give(out, a / b);
    case ScalarOp::kNegative:
      return give(out, -a);
    default:
      return compare(op, a, b, out);
  }
}

}  // namespace

int scalar_arity(ScalarOp op) noexcept {
  static constexpr int arities[] = {
#define PIJIT_SCALAR(name, print, function, arity) arity,
#include "ir/scalars.def"
#undef PIJIT_SCALAR
  };
  return arities[static_cast<size_t>(op)];
}

bool compute_scalar(ScalarOp op, const Reg& a, const Reg& b, Reg* out) noexcept {
  if (op == ScalarOp::kSame) return *out = a, true;
  if (op == ScalarOp::kTruth || op == ScalarOp::kNot) {
    const bool yes = a.rep == Rep::kFloat ? a.number != 0 : integer(a) != 0;
    return give(out, yes == (op == ScalarOp::kTruth));
  }
  const bool one = op == ScalarOp::kNegative;
  if (a.rep != Rep::kFloat && (one || b.rep != Rep::kFloat))
    return of_integers(op, integer(a), one ? 0 : integer(b), out);
  // CPython compares an int with a float without rounding.
  if (op >= ScalarOp::kLess && op <= ScalarOp::kGreaterEqual)
    for (const Reg* reg : {&a, &b})
      if (reg->rep != Rep::kFloat && !cpython::is_exact(integer(*reg))) return false;
  return of_floats(op, number(a), one ? 0 : number(b), out);
}

bool number_of(PyObject* object, Reg* out) noexcept {
  int overflow = 0;
  if (PyFloat_CheckExact(object)) {
    out->rep = Rep::kFloat;
    out->number = PyFloat_AS_DOUBLE(object);
  } else if (PyBool_Check(object)) {
    out->rep = Rep::kBool;
    out->boolean = object == Py_True;
  } else if (PyLong_CheckExact(object)) {
    out->rep = Rep::kInt;
    out->integer = PyLong_AsLongLongAndOverflow(object, &overflow);
  } else {
    return false;
  }
  return overflow == 0;
}

uint64_t number_bits(const Reg& number) noexcept {
  if (number.rep == Rep::kBool) return static_cast<uint64_t>(number.boolean);
  uint64_t bits;
  std::memcpy(&bits, &number.integer, sizeof bits);
  return bits;
}

PyObject* number_object(const Reg& reg) noexcept {
  if (reg.rep == Rep::kInt) return PyLong_FromLongLong(reg.integer);
  if (reg.rep == Rep::kFloat) return PyFloat_FromDouble(reg.number);
  return new_reference(reg.boolean ? Py_True : Py_False);
}

bool run_scalar(const Node& node, Reg* regs) noexcept {
  Reg constant{};
  constant.rep = node.rep;
  std::memcpy(&constant.integer, &node.imm, sizeof node.imm);
  Reg& out = regs[node.out];
  out.owned = 0;
  return compute_scalar(static_cast<ScalarOp>(node.aux), node.a.is_null() ? constant : regs[node.a.index()],
                        node.b.is_null() ? constant : regs[node.b.index()], &out);
}

}  // namespace pijit
