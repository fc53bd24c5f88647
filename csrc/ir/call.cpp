// Comparison of operations.
#include "ir/call.h"

#include <algorithm>

#include "cpython/objects.h"

namespace pijit {
namespace {

bool same_literal(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (cpython::is_scalar(a)) return cpython::same_scalar(a, b);
  if (cpython::is_value_type(Py_TYPE(a))) return cpython::equal_values(a, b);
  if (!PyTuple_CheckExact(a) || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
    if (!same_literal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

bool same_argument(const OperatorArgument& a, const OperatorArgument& b) noexcept {
  using Kind = OperatorArgument::Kind;
  if (a.kind != b.kind || a.name != b.name || a.written != b.written) return false;
  if (a.kind == Kind::kRegister) return a.reg == b.reg;
  if (a.kind != Kind::kLiteral) return std::ranges::equal(a.items, b.items, same_argument);
  return a.content.empty() ? same_literal(a.literal.get(), b.literal.get()) : a.content == b.content;
}

bool same_result(const OperatorResult& a, const OperatorResult& b) noexcept {
  return a.kind == b.kind && a.regs == b.regs;
}

}  // namespace

bool same_call(const OperatorCall& a, const OperatorCall& b) noexcept {
  return a.name == b.name && a.callable.get() == b.callable.get() &&
         std::ranges::equal(a.arguments, b.arguments, same_argument) &&
         std::ranges::equal(a.results, b.results, same_result);
}

}  // namespace pijit
