// The loop is the one that NumPy calls for such operands, with the same strides, once for all elements: so are the bits.
//
// 1. Operands have one dtype, of the machine's byte order; a Python number takes the dtype of the arrays, if that has
// its value. All arrays have the same sizes, and lie in one piece in the order of C.
// 2. Floating point errors are those that the loop leaves in the processor. Where the program would hear of one, the
// result is thrown away, and CPython does the instruction again.
#include "numpy/loops.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "numpy/errors.h"

namespace pijit::numpy {
namespace {

constexpr int kErrors = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID;
constexpr size_t kMostInputs = 2;
// NumPy lets other threads run beside longer loops.
constexpr Py_ssize_t kMostElements = 1 << 14;

struct Operator {
  const char *function, *ufunc;
};
// Functions of the module operator, and what arrays make of them.
constexpr Operator kOperators[] = {
    {"add", "add"},          {"sub", "subtract"},     {"mul", "multiply"},     {"truediv", "divide"},
    {"and_", "bitwise_and"}, {"or_", "bitwise_or"},   {"xor", "bitwise_xor"},  {"lt", "less"},
    {"le", "less_equal"},    {"gt", "greater"},       {"ge", "greater_equal"}, {"eq", "equal"},
    {"ne", "not_equal"},     {"neg", "negative"},     {"invert", "invert"},    {"iadd", "add"},
    {"isub", "subtract"},    {"imul", "multiply"},    {"itruediv", "divide"},  {"iand", "bitwise_and"},
    {"ior", "bitwise_or"},   {"ixor", "bitwise_xor"},
};

const Ufunc* ufunc_of(PyObject* callable) noexcept {
  if (is_known_ufunc(callable)) return as_ufunc(callable);
  if (!PyCFunction_CheckExact(callable)) return nullptr;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  if (module == nullptr || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "_operator") != 0)
    return nullptr;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [&](const Operator& each) { return name == each.function; });
  if (found == std::end(kOperators)) return nullptr;
  const Ref ufunc = ufunc_named(found->ufunc);
  return ufunc && is_known_ufunc(ufunc.get()) ? as_ufunc(ufunc.get()) : nullptr;  // NumPy holds it
}

// The loop of which all inputs have the dtype; -1: there is none.
int loop_of(const Ufunc& ufunc, int dtype) noexcept {
  for (int i = 0; i < ufunc.count; ++i) {
    const char* types = ufunc.types + i * ufunc.operands;
    if (std::all_of(types, types + ufunc.inputs, [&](char each) { return each == dtype; }))
      return ufunc.loops[i] != nullptr ? i : -1;
  }
  return -1;
}

bool is_direct(int dtype) noexcept {
  return dtype == kDouble || dtype == kFloat || dtype == kLong || dtype == kBoolean;
}

bool is_simple(const Array& array) noexcept {
  const int order = array.nd == 1 ? 0 : kColumns;  // in both orders: the strides of the result are for NumPy to say
  return (array.flags & (kContiguous | kAligned | order)) == (kContiguous | kAligned) &&
         array.descr->byteorder != '>' && is_direct(array.descr->type_num);
}

union Number {
  double real;
  float single;
  int64_t whole;
};

// A Python number as the dtype has it; false: it has not, or NumPy takes another dtype.
bool take_number(PyObject* object, int dtype, Number* out) noexcept {
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const int64_t whole = PyLong_AsLongLongAndOverflow(object, &overflow);
    constexpr int64_t kExact = int64_t{1} << 24;
    if (overflow != 0) return false;
    if (dtype == kLong) return out->whole = whole, true;
    if (std::abs(whole) > kExact) return false;
    if (dtype == kDouble) return out->real = static_cast<double>(whole), true;
    return dtype == kFloat && (out->single = static_cast<float>(whole), true);
  }
  if (!PyFloat_CheckExact(object)) return false;
  const double real = PyFloat_AS_DOUBLE(object);
  if (dtype == kDouble) return out->real = real, true;
  if (dtype != kFloat) return false;
  const double size = std::abs(real);  // to make it a float raises no flag of the processor that counts
  if (size != 0 && !(size < std::numeric_limits<float>::max() && size >= std::numeric_limits<float>::min()))
    return false;
  out->single = static_cast<float>(real);
  return true;
}

bool same_sizes(const Array& a, const Array& b) noexcept {
  return a.nd == b.nd && std::equal(a.sizes, a.sizes + a.nd, b.sizes);
}

}  // namespace

Elementwise::Elementwise(PyObject* callable) noexcept {
  const Ufunc* ufunc = ufunc_of(callable);
  // A power has ways of its own for some exponents.
  if (ufunc == nullptr || std::string_view(ufunc->name) == "power" || ufunc->outputs != 1 || ufunc->inputs < 1 ||
      ufunc->inputs > static_cast<int>(kMostInputs) || ufunc->generalized != 0)
    return;
  ufunc_ = ufunc;
}

PyObject* Elementwise::run(PyObject* const* operands) const noexcept {
  const Library& numpy = *library();
  const Array* first = nullptr;
  char* data[kMostInputs + 1];
  Py_ssize_t steps[kMostInputs + 1];
  Number numbers[kMostInputs];
  for (size_t i = 0; i < inputs(); ++i) {
    if (Py_TYPE(operands[i]) != numpy.array) continue;
    const Array* array = as_array(operands[i]);
    if (!is_simple(*array) || array->nd == 0) return nullptr;
    if (first == nullptr) first = array;
    if (array->descr->type_num != first->descr->type_num || !same_sizes(*array, *first)) return nullptr;
    data[i] = array->data;
  }
  if (first == nullptr) return nullptr;
  const int dtype = first->descr->type_num;
  const int loop = loop_of(*ufunc_, dtype);
  if (loop < 0) return nullptr;
  const auto width = static_cast<Py_ssize_t>(dtype == kBoolean ? 1 : dtype == kFloat ? sizeof(float) : sizeof(double));
  for (size_t i = 0; i < inputs(); ++i) {
    const bool array = Py_TYPE(operands[i]) == numpy.array;
    if (!array && !take_number(operands[i], dtype, &numbers[i])) return nullptr;
    if (!array) data[i] = reinterpret_cast<char*>(&numbers[i]);
    steps[i] = array ? width : 0;
  }
  Py_ssize_t count = 1;
  for (int i = 0; i < first->nd; ++i) count *= first->sizes[i];
  if (count == 0 || count > kMostElements) return nullptr;
  const int made = ufunc_->types[loop * ufunc_->operands + ufunc_->inputs];
  if (!is_direct(made)) return nullptr;
  PyObject* result =
      numpy.make(numpy.array, numpy.dtype_of(made), first->nd, first->sizes, nullptr, nullptr, 0, nullptr);
  if (result == nullptr) return PyErr_Clear(), nullptr;
  data[inputs()] = as_array(result)->data;
  steps[inputs()] = made == kBoolean ? 1 : made == kFloat ? 4 : 8;
  if (std::fetestexcept(kErrors) != 0) std::feclearexcept(kErrors);
  ufunc_->loops[loop](data, &count, steps, ufunc_->data != nullptr ? ufunc_->data[loop] : nullptr);
  const int errors = std::fetestexcept(kErrors);
  if (errors == 0) return result;
  std::feclearexcept(kErrors);
  if (!tells_of(errors)) return result;
  drop_reference(result);
  return nullptr;
}

bool take_content(PyObject* into, PyObject* made) noexcept {
  const Array &to = *as_array(into), &from = *as_array(made);
  const int dtype = to.descr->type_num;
  if (!is_simple(to) || dtype != from.descr->type_num || !same_sizes(to, from)) return false;
  size_t bytes = dtype == kBoolean ? 1 : dtype == kFloat ? sizeof(float) : sizeof(double);
  for (int i = 0; i < to.nd; ++i) bytes *= static_cast<size_t>(to.sizes[i]);
  std::memcpy(to.data, from.data, bytes);
  return true;
}

}  // namespace pijit::numpy
