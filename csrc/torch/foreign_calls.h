// Calls that traces leave to CPython, and that a training step has beside its operators.
#pragma once
#include "adapter.h"

namespace pijit::torch_adapter {

ForeignCall foreign_call(PyObject* callable) noexcept;

}  // namespace pijit::torch_adapter
