// What CPython's operators and functions give for numbers, bit for bit.
//
// Each gives false where CPython does something else: a larger int, an exception, a complex number, or a NaN, of
// which the compiler chooses the bits.
#pragma once
#include "scalar/value.h"

namespace pijit::scalar {

// An operator of cpython/operators.h that is no in-place one.
bool binary(int op, const Value& a, const Value& b, Value* out) noexcept;
bool compare(int op, const Value& a, const Value& b, bool* out) noexcept;
bool truth(const Value& value, bool* out) noexcept;
bool negative(const Value& a, Value* out) noexcept;
bool positive(const Value& a, Value* out) noexcept;
bool invert(const Value& a, Value* out) noexcept;

// Functions of Python that are known, by their numbers; 0: it is another. Imports once.
int function_number(PyObject* callable) noexcept;
bool is_range(int function) noexcept;
bool call(int function, const Value* const* arguments, size_t count, Value* out) noexcept;
// The iterator of a range.
bool range(const Value* const* arguments, size_t count, Value* out) noexcept;

}  // namespace pijit::scalar
