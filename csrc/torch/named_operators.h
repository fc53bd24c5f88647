// Operators that the program calls by their names: torch.ops.aten.add.Tensor(x, y), or torch.ops.aten.add(x, y).
#pragma once
#include "torch/callables.h"

namespace pijit::torch_adapter {

// Where torch keeps such operators; false with a Python error set.
bool find_operator_space(PyObject* torch);

// The row of the function behind a named operator, made where it is first asked for; null: it is no such function.
const Callable* find_named_operator(PyObject* function) noexcept;

}  // namespace pijit::torch_adapter
