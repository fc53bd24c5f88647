// The functions of builtins and math that a program over numbers calls.
//
// A function of math that gives an infinity or a NaN may have to raise: CPython does that.
#include <cmath>
#include <string>

#include "common/ref.h"
#include "cpython/complex.h"
#include "cpython/operators.h"
#include "scalar/arithmetic.h"

namespace pijit::scalar {
namespace {

using Arguments = const Value* const*;
using Function = bool (*)(Arguments arguments, size_t count, Value* out) noexcept;

constexpr double kFarFloat = 4e18;  // less than 2 ** 62

bool give(Value* out, const Value& value) noexcept {
  *out = value;
  return true;
}

bool as_float(const Value& value, double* out) noexcept {
  if (!value.is_number()) return false;
  *out = value.tag == Tag::kFloat ? value.number : static_cast<double>(value.integer);
  return std::isfinite(*out);
}

bool absolute(Arguments of, size_t, Value* out) noexcept {
  const Value& value = *of[0];
  if (value.tag == Tag::kFloat) return give(out, Value::of(std::fabs(value.number)));
  if (value.tag == Tag::kComplex) {
    const double size = cpython::magnitude({value.number, value.imaginary});
    return std::isfinite(size) && give(out, Value::of(size));
  }
  if (!value.is_number() || value.integer == INT64_MIN) return false;
  return give(out, Value::of(value.integer < 0 ? -value.integer : value.integer));
}

template <int kOperator>
bool extreme(Arguments of, size_t count, Value* out) noexcept {
  const Value* best = of[0];
  if (count < 2 || !best->is_number()) return false;
  for (size_t i = 1; i < count; ++i) {
    bool better = false;
    if (!compare(kOperator, *of[i], *best, &better)) return false;
    if (better) best = of[i];
  }
  return give(out, *best);
}

bool to_whole(double value, Value* out) noexcept {
  return std::fabs(value) < kFarFloat && give(out, Value::of(static_cast<int64_t>(value)));
}

template <double (*kRound)(double)>
bool whole(Arguments of, size_t, Value* out) noexcept {
  if (of[0]->tag == Tag::kFloat) return to_whole(kRound(of[0]->number), out);
  return of[0]->is_number() && give(out, Value::of(of[0]->integer));
}

bool to_float(Arguments of, size_t, Value* out) noexcept {
  if (of[0]->tag == Tag::kFloat) return give(out, *of[0]);
  return of[0]->is_number() && give(out, Value::of(static_cast<double>(of[0]->integer)));
}

bool to_bool(Arguments of, size_t, Value* out) noexcept {
  bool answer = false;
  return truth(*of[0], &answer) && give(out, Value::of(answer));
}

bool to_complex(Arguments of, size_t count, Value* out) noexcept {
  double parts[2] = {0, 0};
  for (size_t i = 0; i < count; ++i)
    if (!as_float(*of[i], &parts[i])) return false;
  return give(out, Value::of(parts[0], parts[1]));
}

bool length(Arguments of, size_t, Value* out) noexcept {
  if (of[0]->tag != Tag::kObject) return false;
  PyObject* object = of[0]->object;
  if (PyList_CheckExact(object)) return give(out, Value::of(static_cast<int64_t>(PyList_GET_SIZE(object))));
  if (PyTuple_CheckExact(object)) return give(out, Value::of(static_cast<int64_t>(PyTuple_GET_SIZE(object))));
  return false;
}

bool power(Arguments of, size_t, Value* out) noexcept {
  return binary(nb::kPower, *of[0], *of[1], out);
}

template <double (*kFunction)(double)>
bool math(Arguments of, size_t, Value* out) noexcept {
  double argument = 0;
  if (!as_float(*of[0], &argument)) return false;
  const double result = kFunction(argument);
  return std::isfinite(result) && give(out, Value::of(result));
}

// Of a number that is greater than zero: what is to be said of others differs.
template <double (*kFunction)(double)>
bool logarithm(Arguments of, size_t count, Value* out) noexcept {
  double argument = 0;
  return as_float(*of[0], &argument) && argument > 0 && math<kFunction>(of, count, out);
}

template <double (*kFunction)(double, double)>
bool math_of_two(Arguments of, size_t, Value* out) noexcept {
  double first = 0, second = 0;
  if (!as_float(*of[0], &first) || !as_float(*of[1], &second)) return false;
  const double result = kFunction(first, second);
  return std::isfinite(result) && give(out, Value::of(result));
}

bool math_power(Arguments of, size_t count, Value* out) noexcept {
  double first = 0, second = 0;
  if (!as_float(*of[0], &first) || !as_float(*of[1], &second) || first <= 0) return false;
  return math_of_two<std::pow>(of, count, out) && out->number != 0;
}

struct Row {
  const char* module;
  const char* name;
  size_t least, most;
  Function function;
};

constexpr Row kRows[] = {
    {"builtins", "range", 1, 3, range},
    {"builtins", "abs", 1, 1, absolute},
    {"builtins", "bool", 1, 1, to_bool},
    {"builtins", "complex", 1, 2, to_complex},
    {"builtins", "float", 1, 1, to_float},
    {"builtins", "int", 1, 1, whole<std::trunc>},
    {"builtins", "len", 1, 1, length},
    {"builtins", "max", 2, 16, extreme<Py_GT>},
    {"builtins", "min", 2, 16, extreme<Py_LT>},
    {"builtins", "pow", 2, 2, power},
    {"builtins", "round", 1, 1, whole<std::nearbyint>},
    {"math", "acos", 1, 1, math<std::acos>},
    {"math", "asin", 1, 1, math<std::asin>},
    {"math", "atan", 1, 1, math<std::atan>},
    {"math", "atan2", 2, 2, math_of_two<std::atan2>},
    {"math", "ceil", 1, 1, whole<std::ceil>},
    {"math", "cos", 1, 1, math<std::cos>},
    {"math", "cosh", 1, 1, math<std::cosh>},
    {"math", "exp", 1, 1, math<std::exp>},
    {"math", "fabs", 1, 1, math<std::fabs>},
    {"math", "floor", 1, 1, whole<std::floor>},
    {"math", "fmod", 2, 2, math_of_two<std::fmod>},
    {"math", "log", 1, 1, logarithm<std::log>},
    {"math", "log10", 1, 1, logarithm<std::log10>},
    {"math", "log2", 1, 1, logarithm<std::log2>},
    {"math", "pow", 2, 2, math_power},
    {"math", "sin", 1, 1, math<std::sin>},
    {"math", "sinh", 1, 1, math<std::sinh>},
    {"math", "sqrt", 1, 1, math<std::sqrt>},
    {"math", "tan", 1, 1, math<std::tan>},
    {"math", "tanh", 1, 1, math<std::tanh>},
};
constexpr size_t kCount = sizeof kRows / sizeof *kRows;

// The functions, in the order of the rows; null: it could not be imported.
PyObject* const* callables() noexcept {
  static PyObject* found[kCount];
  static bool looked = false;
  if (!std::exchange(looked, true)) {
    SavedError error;
    for (size_t i = 0; i < kCount; ++i) {
      const Ref module = Ref::steal(PyImport_ImportModule(kRows[i].module));
      found[i] = module ? PyObject_GetAttrString(module.get(), kRows[i].name) : nullptr;
    }
    PyErr_Clear();
  }
  return found;
}

}  // namespace

int function_number(PyObject* callable) noexcept {
  PyObject* const* found = callables();
  for (size_t i = 0; i < kCount; ++i)
    if (found[i] == callable) return static_cast<int>(i) + 1;
  return 0;
}

bool is_range(int function) noexcept {
  return function == 1;
}

bool call(int function, const Value* const* arguments, size_t count, Value* out) noexcept {
  if (function <= 1 || function > static_cast<int>(kCount)) return false;
  const Row& row = kRows[function - 1];
  return count >= row.least && count <= row.most && row.function(arguments, count, out);
}

}  // namespace pijit::scalar
