// Calls of NumPy that compiled code may stand for, and the forms of arrays under which it does.
#pragma once
#include <memory>

#include "ir/executable.h"
#include "ir/trace.h"

namespace pijit::numpy {

// A call whose result is an array or number of NumPy in memory of its own, and hangs on the numbers in its operands alone.
// No constant array is among them: its content may change.
bool computes_anew(const Trace& trace, const Node& node) noexcept;
// An array or number of NumPy.
bool is_kind(const RegInfo& reg) noexcept;

// Null: no code may answer for such arrays.
std::unique_ptr<PlanKey> make_key(const PlanRegisters& registers, const Reg* regs) noexcept;
// A copy that nothing else holds; null: memory is short, and the error is set.
Ref copy_of(PyObject* object) noexcept;

}  // namespace pijit::numpy
