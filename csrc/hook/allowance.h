// Seconds that something may take of a program of which nobody knows whether it gains: of all its time a share, less
// of what comes later.
//
// What gains shows in the first seconds. A program that has not gained by then is tried ever more rarely: as a whole it
// is slowed by less than a quarter of the share, the longer it runs.
#pragma once
#include <algorithm>

namespace pijit {

constexpr double kEarly = 3;          // seconds of a program to which the whole share belongs
constexpr double kLaterShare = 0.25;  // of the share: what belongs to those that follow

// Of so many seconds.
inline double allowance(double share, double seconds) noexcept {
  const double early = std::clamp(seconds, 0.0, kEarly);
  return share * (early + kLaterShare * (std::max(seconds, 0.0) - early));
}

// Seconds, the next one of which allows for `share` of itself or less, that allow for so much.
inline double seconds_for(double allowed, double share, double seconds) noexcept {
  return allowed / (seconds < kEarly ? share : kLaterShare * share);
}

}  // namespace pijit
