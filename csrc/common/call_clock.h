// The clock by which calls are timed for people.
//
// While savings are measured (hook/savings.h), what calls take is what their thread computed: a busy machine, or a call
// that sleeps, is no loss. Else it is the clock that takes less to read.
#pragma once
#include "common/clock.h"

namespace pijit {

inline bool calls_by_thread = false;

inline double call_clock() noexcept {
  return calls_by_thread ? computed() : now();
}

// Adds one that began at this moment of call_clock(), and returns what it took.
inline double add_since(Spent* spent, double start) noexcept {
  const double taken = call_clock() - start;
  spent->seconds += taken;
  spent->times += 1;
  return taken;
}

}  // namespace pijit
