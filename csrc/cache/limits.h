// How often something happens to a root before something is done about it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace pijit {

struct Limits {
  int traces = 8;               // per root
  uint64_t aborted = 3;         // recordings in a row that gave nothing, before a root without traces is left alone
  uint64_t aborted_again = 32;  // the same, before a root with traces is
  uint64_t misses = 64;         // calls in a row that no trace took, before the root is left alone
  uint64_t stops = 8;           // times that one stop is reached in replays, before it is worth saying
  uint64_t exits = 32;          // times that a trace without a stop is left, before that is worth saying
  int wasted = 8;          // roots in a row, found by enable() in one code object, that died before they were worth it
  uint64_t worth = 8;      // replays for each recording, from which on a root was worth it
  size_t seen = 256;       // functions and objects that enable() remembers of one code object
  uint64_t hot = 3;        // times that a trace is left at one node, before a side trace is recorded
  int tries = 4;           // side traces that are tried for one node
  uint64_t useless = 2;    // replays of a trace, all left before its end, before it is forgotten
  uint64_t forgotten = 4;  // traces that are forgotten, for one root
  uint64_t stale = 8;      // replays in a row, all left, before a trace that has served is forgotten
  uint64_t turned = 32;    // replays in a row, all left, before any trace is forgotten for which no side trace came
  uint64_t recorded = 16;  // recordings of a root before it is recorded ever more rarely; 0: any number
  uint64_t pays = 16;      // replays for each recording, from which on it is not
  uint64_t pause = 32;     // calls without a recording then: at first, later ever twice as many
  int64_t served = 64;     // replays to the end, after which forgetting a trace does not count
  // The same where nobody asked for recordings (hook/payoff.h).
  int wasted_unasked = 3;
  uint64_t recorded_unasked = 6;
  uint64_t misses_unasked = 16;
};

Limits& limits() noexcept;

}  // namespace pijit
