// MindSpore as it was loaded: its class of tensors, and which of its callables are calls of an operator.
//
// In PyNative mode an operator of MindSpore is a function of C below some layers of Python: `pyboost_...` with the
// primitive and a list of operands, a method of the class of C beneath Tensor, the `__call__` of a primitive of C, or the
// executor's function that is given a primitive and its name. With plain operands such a call runs no code of the
// program's, and writes to tensors alone. Plain are tensors of MindSpore's own classes, its dtypes, and what Python has
// for numbers, indices and names.
#pragma once
#include "common/python.h"

namespace pijit::mindspore {

// MindSpore is there. Runs no Python.
bool is_loaded() noexcept;
void find_library() noexcept;

bool is_tensor(PyObject* object) noexcept;  // of one of MindSpore's own classes
bool is_class_of_tensors(const PyTypeObject* type) noexcept;
bool is_dtype(PyObject* object) noexcept;
bool is_plain(PyObject* object, int depth = 0) noexcept;
// An attribute that C computes of what a tensor is.
bool is_known_attribute(PyObject* tensor, PyObject* name) noexcept;

enum class Call : uint8_t {
  kNone,
  kOperator,   // of plain operands
  kPrimitive,  // the same, but the first operand is a primitive
  kExecutor,   // (executor, primitive, its name, operands)
  kPython,     // a function for all objects: it is one of MindSpore where an operand is a tensor
};
Call call_of(PyObject* callable) noexcept;
// A primitive of MindSpore's own that runs no code of the program's.
bool is_own_primitive(PyObject* primitive, PyObject* name) noexcept;

}  // namespace pijit::mindspore
