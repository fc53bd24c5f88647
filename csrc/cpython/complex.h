// Arithmetic on complex numbers, by the functions that CPython's own operators call.
#pragma once
#include "common/python.h"

namespace pijit::cpython {

using Complex = ::Py_complex;

// From 3.14 on an operator of a complex number and a real one does not make the latter complex first.
inline constexpr bool kRealsBecomeComplex = PY_VERSION_HEX < 0x030e0000;

inline Complex sum(Complex a, Complex b) noexcept {
  return _Py_c_sum(a, b);
}
inline Complex difference(Complex a, Complex b) noexcept {
  return _Py_c_diff(a, b);
}
inline Complex product(Complex a, Complex b) noexcept {
  return _Py_c_prod(a, b);
}
// The divisor is not zero.
inline Complex quotient(Complex a, Complex b) noexcept {
  return _Py_c_quot(a, b);
}
// Infinite where it is too large.
inline double magnitude(Complex a) noexcept {
  return _Py_c_abs(a);
}

}  // namespace pijit::cpython
