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

// The operands of a call as objects, those that are numbers in registers made anew, which `made` keeps. False, without an
// error: memory is short.
inline bool operands_of(const Vals& values, const Reg* regs, PyObject** operands, Ref* made) noexcept {
  for (size_t i = 0; i < values.size(); ++i) {
    operands[i] = values[i].object();
    if (operands[i] != nullptr) continue;
    const Reg& reg = regs[values[i].index()];
    if (reg.rep != Rep::kObject) made[i] = Ref::steal(number_object(reg));
    operands[i] = reg.rep == Rep::kObject ? reg.object : made[i].get();
    if (operands[i] == nullptr) return PyErr_Clear(), false;
  }
  return true;
}

// How many operands it has.
int scalar_arity(ScalarOp op) noexcept;

}  // namespace pijit
