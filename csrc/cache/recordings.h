// The recordings of a root: what they cost, and from which call on there is another.
#pragma once
#include <cstdint>
#include <vector>

#include "common/ref.h"

namespace pijit {

class Pace;

struct Recordings {
  double plain = 0;  // seconds of a call in CPython, as far as they are known without the ledger
  // Seconds of recordings that no call could use so far, but for the first of all: a first call often sets up what later
  // calls find there, such as the state of an optimizer, and then its trace serves no other.
  double owed = 0;
  double taken = 0;          // seconds of all recordings
  double last_cost = 0;      // seconds of the last recording
  std::vector<Ref> drivers;  // functions that took most of the last long recording, and were called once
  uint64_t pause = 0;        // calls without a recording; 0: there never was a pause
  uint64_t again = 0;        // the number of the call from which on one is recorded

  // So many replays have saved what the recordings took, if a replay saves a third of the call.
  bool are_paid(uint64_t replays) const noexcept { return static_cast<double>(replays) * plain >= 3 * taken; }
  // A recording has ended.
  void note(const Pace& pace) noexcept;
  // One is recorded after ever more calls. False: this call may be recorded.
  bool waits(uint64_t calls) noexcept;
};

// Traces that a root has lost to the budget of bytes (cache/memory.h).
struct Evictions {
  int times = 0;                // its traces gave way
  uint64_t waits_until = 0;     // the number of the call from which on one is recorded
  uint64_t replays_before = 0;  // of its traces, when some root last had to give way

  // All its traces give way, at the call of this number.
  void note(uint64_t calls) noexcept;
};

}  // namespace pijit
