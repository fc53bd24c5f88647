// Binary operators on objects, from where the first method has been tried.
#pragma once
#include "common/python.h"

namespace pijit::cpython {

// BINARY_OP `op` after the first method of the left operand, written in Python, has returned NotImplemented: its
// in-place method where the operator is one of those and the class has it, else its plain one. New reference; null:
// raised.
PyObject* finish_binary(int op, PyObject* left, PyObject* right) noexcept;

}  // namespace pijit::cpython
