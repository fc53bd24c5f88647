// Calls that traces leave to CPython, and that a training step has beside its operators.
#pragma once
#include "adapter.h"

namespace pijit::torch_adapter {

// Looked up once, in modules: not while something is recorded.
void find_foreign_calls() noexcept;
ForeignCall foreign_call(PyObject* callable) noexcept;
// The code of the function of Python in which the engine runs, whoever computes gradients; null: this torch has none.
PyObject* engine_code() noexcept;
PyObject* hash_code() noexcept;  // Adapter::hash_code

}  // namespace pijit::torch_adapter
