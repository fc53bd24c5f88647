// Follows longobject.c, floatobject.c and mathmodule.c where these answer with a number.
#include "scalar/arithmetic.h"

#include <cmath>

#include "cpython/complex.h"
#include "cpython/int_arithmetic.h"
#include "cpython/operators.h"

namespace pijit::scalar {
namespace {

constexpr int64_t kFar = int64_t{1} << 61;  // sums of two of these are no larger than 64 bits

bool give(Value* out, int64_t value) noexcept {
  *out = Value::of(value);
  return true;
}
bool give(Value* out, double value) noexcept {
  *out = Value::of(value);
  return !std::isnan(value);
}
double number(const Value& value) noexcept {
  return value.tag == Tag::kFloat ? value.number : static_cast<double>(value.integer);
}

bool shift(bool left, int64_t a, int64_t b, Value* out) noexcept {
  if (b < 0) return false;
  if (!left) return give(out, b >= 64 ? (a < 0 ? int64_t{-1} : int64_t{0}) : a >> b);
  if (a == 0) return give(out, int64_t{0});
  if (b >= 63) return false;
  const auto shifted = static_cast<int64_t>(static_cast<uint64_t>(a) << b);
  return shifted >> b == a && give(out, shifted);
}

bool power_of_ints(int64_t base, int64_t exponent, Value* out) noexcept {
  if (exponent < 0) return false;
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return false;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  return give(out, result);
}

bool of_ints(int op, int64_t a, int64_t b, Value* out) noexcept {
  int64_t result = 0;
  double quotient = 0;
  switch (op) {
    case nb::kAdd:
      return !__builtin_add_overflow(a, b, &result) && give(out, result);
    case nb::kSubtract:
      return !__builtin_sub_overflow(a, b, &result) && give(out, result);
    case nb::kMultiply:
      return !__builtin_mul_overflow(a, b, &result) && give(out, result);
    case nb::kTrueDivide:
      return cpython::true_quotient(a, b, &quotient) && give(out, quotient);
    case nb::kFloorDivide:
      return cpython::floor_quotient(a, b, &result) && give(out, result);
    case nb::kRemainder:
      return cpython::remainder(a, b, &result) && give(out, result);
    case nb::kAnd:
      return give(out, a & b);
    case nb::kOr:
      return give(out, a | b);
    case nb::kXor:
      return give(out, a ^ b);
    case nb::kLeftShift:
      return shift(true, a, b, out);
    case nb::kRightShift:
      return shift(false, a, b, out);
    case nb::kPower:
      return power_of_ints(a, b, out);
    default:
      return false;
  }
}

bool divide(double a, double b, bool quotient, Value* out) noexcept {
  if (b == 0) return false;
  double rest = std::fmod(a, b);
  double whole = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      whole -= 1.0;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (!quotient) return give(out, rest);
  if (whole == 0) return give(out, std::copysign(0.0, a / b));
  double floored = std::floor(whole);
  if (whole - floored > 0.5) floored += 1.0;
  return give(out, floored);
}

bool power_of_floats(double base, double exponent, Value* out) noexcept {
  if (exponent == 0) return give(out, 1.0);
  if (!std::isfinite(base) || !std::isfinite(exponent) || base == 0) return false;
  bool negates = false;
  if (base < 0) {
    if (exponent != std::floor(exponent)) return false;  // a complex number
    base = -base;
    negates = std::fmod(std::fabs(exponent), 2.0) == 1.0;
  }
  const double result = base == 1.0 ? 1.0 : std::pow(base, exponent);
  // Where it is too large or too small, CPython asks errno.
  if (!std::isfinite(result) || result == 0) return false;
  return give(out, negates ? -result : result);
}

bool of_floats(int op, double a, double b, Value* out) noexcept {
  switch (op) {
    case nb::kAdd:
      return give(out, a + b);
    case nb::kSubtract:
      return give(out, a - b);
    case nb::kMultiply:
      return give(out, a * b);
    case nb::kTrueDivide:
      return b != 0 && give(out, a / b);
    case nb::kFloorDivide:
    case nb::kRemainder:
      return divide(a, b, op == nb::kFloorDivide, out);
    case nb::kPower:
      return power_of_floats(a, b, out);
    default:
      return false;
  }
}

bool as_complex(const Value& value, cpython::Complex* out) noexcept {
  if (value.tag == Tag::kComplex) return *out = {value.number, value.imaginary}, true;
  if (!value.is_number() || !cpython::kRealsBecomeComplex) return false;
  return *out = {number(value), 0.0}, true;
}

bool give(Value* out, cpython::Complex value) noexcept {
  *out = Value::of(value.real, value.imag);
  return true;
}

// CPython multiplies, too, where the exponent is a small whole number.
bool square(cpython::Complex a, const Value& exponent, Value* out) noexcept {
  if (exponent.tag != Tag::kInt || exponent.integer != 2) return false;
  const cpython::Complex result = cpython::product({1.0, 0.0}, cpython::product(a, a));
  return std::isfinite(result.real) && std::isfinite(result.imag) && give(out, result);
}

bool of_complex(int op, const Value& left, const Value& right, Value* out) noexcept {
  cpython::Complex a, b;
  if (left.tag == Tag::kComplex && op == nb::kPower) return square({left.number, left.imaginary}, right, out);
  if (!as_complex(left, &a) || !as_complex(right, &b)) return false;
  switch (op) {
    case nb::kAdd:
      return give(out, cpython::sum(a, b));
    case nb::kSubtract:
      return give(out, cpython::difference(a, b));
    case nb::kMultiply:
      return give(out, cpython::product(a, b));
    case nb::kTrueDivide:
      return (b.real != 0 || b.imag != 0) && give(out, cpython::quotient(a, b));
    default:
      return false;
  }
}

template <typename T>
bool compare_as(int op, T a, T b) noexcept {
  switch (op) {
    case Py_LT:
      return a < b;
    case Py_LE:
      return a <= b;
    case Py_EQ:
      return a == b;
    case Py_NE:
      return a != b;
    case Py_GT:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace

bool binary(int op, const Value& a, const Value& b, Value* out) noexcept {
  if (a.tag == Tag::kComplex || b.tag == Tag::kComplex) return of_complex(op, a, b, out);
  if (!a.is_number() || !b.is_number()) return false;
  if (a.tag == Tag::kFloat || b.tag == Tag::kFloat) return of_floats(op, number(a), number(b), out);
  const bool bits = op == nb::kAnd || op == nb::kOr || op == nb::kXor;
  if (!of_ints(op, a.integer, b.integer, out)) return false;
  if (bits && a.tag == Tag::kBool && b.tag == Tag::kBool) out->tag = Tag::kBool;
  return true;
}

// CPython compares an int with a float without rounding.
bool compare(int op, const Value& a, const Value& b, bool* out) noexcept {
  if (a.tag == Tag::kComplex && b.tag == Tag::kComplex && (op == Py_EQ || op == Py_NE))
    return *out = (a.number == b.number && a.imaginary == b.imaginary) == (op == Py_EQ), true;
  if (!a.is_number() || !b.is_number()) return false;
  if (a.tag != Tag::kFloat && b.tag != Tag::kFloat) return *out = compare_as(op, a.integer, b.integer), true;
  for (const Value* value : {&a, &b})
    if (value->tag != Tag::kFloat && !cpython::is_exact(value->integer)) return false;
  return *out = compare_as(op, number(a), number(b)), true;
}

bool truth(const Value& value, bool* out) noexcept {
  if (value.tag == Tag::kFloat) return *out = value.number != 0, true;
  if (value.is_number()) return *out = value.integer != 0, true;
  if (value.tag != Tag::kObject) return false;
  if (value.object == Py_None) return *out = false, true;
  if (PyList_CheckExact(value.object)) return *out = PyList_GET_SIZE(value.object) != 0, true;
  if (PyTuple_CheckExact(value.object)) return *out = PyTuple_GET_SIZE(value.object) != 0, true;
  return false;
}

bool negative(const Value& a, Value* out) noexcept {
  if (a.tag == Tag::kComplex) return give(out, cpython::Complex{-a.number, -a.imaginary});
  if (a.tag == Tag::kFloat) return give(out, -a.number);
  return a.is_number() && a.integer != INT64_MIN && give(out, -a.integer);
}

bool positive(const Value& a, Value* out) noexcept {
  if (a.tag == Tag::kFloat) return give(out, a.number);
  return a.is_number() && give(out, a.integer);
}

bool invert(const Value& a, Value* out) noexcept {
  return a.tag == Tag::kInt && give(out, ~a.integer);  // that of a bool warns from 3.12 on
}

bool range(const Value* const* arguments, size_t count, Value* out) noexcept {
  if (count < 1 || count > 3) return false;
  for (size_t i = 0; i < count; ++i)
    if (arguments[i]->tag != Tag::kInt || arguments[i]->integer < -kFar || arguments[i]->integer > kFar) return false;
  const int64_t start = count == 1 ? 0 : arguments[0]->integer, stop = arguments[count == 1 ? 0 : 1]->integer;
  const int64_t step = count == 3 ? arguments[2]->integer : 1;
  if (step == 0) return false;
  int64_t left = 0;
  if (step > 0 && start < stop) left = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) left = (start - stop - 1) / -step + 1;
  *out = Value::of(start);
  out->step = step;
  out->left = left;
  out->tag = Tag::kRange;
  return true;
}

}  // namespace pijit::scalar
