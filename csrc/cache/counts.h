// Numbers of calls of a root, by what became of them.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cache/limits.h"

namespace pijit {

struct Counts {
  uint64_t calls = 0;
  uint64_t records = 0;  // recordings that came to their end
  uint64_t aborts = 0;   // calls that were to be recorded and gave no trace
  uint64_t replays = 0;
  uint64_t ended = 0;         // replays that traces did to their end, be it several traces
  uint64_t exits = 0;         // replays that were left before
  uint64_t stopped = 0;       // replays that came to where the recording had stopped
  uint64_t opaque_calls = 0;  // that replays made
  uint64_t misses = 0;        // calls that no trace took
  uint64_t forgotten = 0;     // traces that were forgotten, without those that had served

  // Replays are many for the recordings that there were.
  bool pays() const noexcept { return replays >= limits().pays * records; }
  bool is_worth() const noexcept { return replays >= limits().worth * std::max<uint64_t>(records, 1); }
};

// The same, of the latest calls: how many of one kind came one after the other.
struct InARow {
  uint64_t misses = 0, aborts = 0;
  uint64_t left = 0;     // replays that CPython has ended, whatever became of the trace
  uint64_t gone_on = 0;  // replays that were left at one node, and that other traces have ended
  uint32_t node = 0;     // that one
};

}  // namespace pijit
