// Arithmetic on numbers in registers, with CPython's results bit for bit.
#pragma once
#include "ir/trace.h"

namespace pijit {

// Operands are kInt, kFloat or kBool; `b` is not looked at where there is one. False: CPython is to do it (overflow,
// division by zero, a NaN, an int that no float equals).
bool compute_scalar(ScalarOp op, const Reg& a, const Reg& b, Reg* out) noexcept;
// The same for a kScalar node. An operand that is Null is the constant in `imm`, of representation `rep`.
bool run_scalar(const Node& node, Reg* regs) noexcept;

// A number that a register can hold; false: not exactly an int, float or bool, or too large.
bool number_of(PyObject* object, Reg* out) noexcept;

// The payload, as guards and nodes keep it.
uint64_t number_bits(const Reg& number) noexcept;

// The number as a new reference; null with an error set if memory is short.
PyObject* number_object(const Reg& reg) noexcept;

// How many operands it has.
int scalar_arity(ScalarOp op) noexcept;

}  // namespace pijit
