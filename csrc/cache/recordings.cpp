// Pauses between the recordings of a root.
#include "cache/recordings.h"

#include <algorithm>

#include "cache/limits.h"
#include "record/pace.h"

namespace pijit {

void Recordings::note(const Pace& pace) noexcept {
  last_cost = pace.taken();
  if (taken > 0) owed += pace.taken();
  taken += pace.taken();
  plain = pace.plain();
}

bool Recordings::waits(uint64_t calls) noexcept {
  constexpr uint64_t kLongest = uint64_t{1} << 20;
  if (calls < again) return true;
  const bool first = pause == 0;
  pause = first ? limits().pause : std::min(2 * pause, kLongest);
  again = calls + pause;
  return first;
}

void Evictions::note(uint64_t calls) noexcept {
  // A root that has lost its traces a second time waits 16 calls before it is recorded again. Each time after that it
  // waits twice as long, up to 2^10 times kWait.
  constexpr uint64_t kWait = 8;
  constexpr int kMostDoublings = 10;
  replays_before = 0;
  if (times > 0) waits_until = calls + (kWait << std::min(times, kMostDoublings));
  times += 1;
}

}  // namespace pijit
