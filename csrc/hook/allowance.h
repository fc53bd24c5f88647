// Seconds that something may take of a program of which nobody knows whether it gains.
//
// It is a share of the program's time: the whole share of its first seconds, in which gains show, and a part of that
// share later. A program that has not gained by then is tried ever more rarely.
#pragma once
#include <algorithm>

namespace pijit {

constexpr double kEarly = 3;          // seconds of a program to which the whole share belongs
constexpr double kLaterShare = 0.25;  // of the share: what belongs to those that follow

// What so many seconds of the program allow for.
inline double allowance(double share, double seconds) noexcept {
  const double early = std::clamp(seconds, 0.0, kEarly);
  return share * (early + kLaterShare * (std::max(seconds, 0.0) - early));
}

// How many seconds more allow for so much, after so many.
inline double seconds_for(double allowed, double share, double seconds) noexcept {
  return allowed / (seconds < kEarly ? share : kLaterShare * share);
}

}  // namespace pijit
