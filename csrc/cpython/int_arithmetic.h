// What CPython's operators on ints give, where operands and result have at most 64 bits.
//
// False: the result has more bits, or CPython raises, or an operand is no double exactly.
#pragma once
#include <cstdint>

namespace pijit::cpython {

// Every int up to there, in either direction, is a double.
inline bool is_exact(int64_t value) noexcept {
  constexpr int64_t kExact = int64_t{1} << 53;
  return value >= -kExact && value <= kExact;
}

inline bool true_quotient(int64_t a, int64_t b, double* out) noexcept {
  if (b == 0 || !is_exact(a) || !is_exact(b)) return false;
  return *out = static_cast<double>(a) / static_cast<double>(b), true;
}

// Rounded down.
inline bool floor_quotient(int64_t a, int64_t b, int64_t* out) noexcept {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  return *out = a / b - static_cast<int64_t>(a % b != 0 && (a < 0) != (b < 0)), true;
}

// It has the sign of the divisor.
inline bool remainder(int64_t a, int64_t b, int64_t* out) noexcept {
  if (b == 0 || b == -1) return *out = 0, b != 0;  // the processor traps where INT64_MIN is divided by -1
  const int64_t rest = a % b;
  return *out = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest, true;
}

}  // namespace pijit::cpython
