// Binary operators by number, and on objects from where the first method has been tried.
#pragma once
#include "common/python.h"

namespace pijit {

// What `a op b` is; from kInPlaceAdd on `a op= b`, in the same order.
namespace nb {
enum : int {
  kAdd,
  kAnd,
  kFloorDivide,
  kLeftShift,
  kMatrixMultiply,
  kMultiply,
  kRemainder,
  kOr,
  kPower,
  kRightShift,
  kSubtract,
  kTrueDivide,
  kXor,
  kInPlaceAdd,
  kInPlaceAnd,
  kInPlaceFloorDivide,
  kInPlaceLeftShift,
  kInPlaceMatrixMultiply,
  kInPlaceMultiply,
  kInPlaceRemainder,
  kInPlaceOr,
  kInPlacePower,
  kInPlaceRightShift,
  kInPlaceSubtract,
  kInPlaceTrueDivide,
  kInPlaceXor,
};
}  // namespace nb

namespace cpython {

// BINARY_OP `op` after the first method of the left operand, written in Python, has returned NotImplemented: its
// in-place method where the operator is one of those and the class has it, else its plain one. New reference; null:
// raised.
PyObject* finish_binary(int op, PyObject* left, PyObject* right) noexcept;

// A function of C that takes an object and a name and gives the attribute that an instruction loads to call it, bound.
// Otherwise than getattr(), it does not tell the AttributeError of a property what was sought. Borrowed.
PyObject* method_loader() noexcept;

// A function of C that takes two objects and gives the truth of what their comparison gives; borrowed.
PyObject* comparison_truth(int op) noexcept;

}  // namespace cpython
}  // namespace pijit
