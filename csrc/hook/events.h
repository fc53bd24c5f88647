// When something happened to roots, for the timeline of `python -m pijit --report`.
//
// Noted is what happens a few times to a root, and each replay only where that was asked for. The list is bounded, and
// its room is taken when it is asked for: to note an event allocates nothing. What comes when it is full is only
// counted. Replays take half of the room at most, so that they leave room for the rest.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/root.h"

namespace pijit {

enum class Happened : uint8_t {
  kRecorded,     // a recording gave a trace
  kNothingKept,  // a recording gave none
  kReplayed,     // for the first time
  kLeft,         // calls are CPython's from now on
  kPassedOn,     // the same, and what the root calls is recorded instead
  kTakenUp,      // replays are tried again
  kPlanned,      // compiled code was installed
  kEachReplay,   // any replay
};

struct Event {
  double time;     // of now(), when it had happened
  double seconds;  // that it took; 0: a moment
  int root;
  Happened what;
};

// From now on events are noted.
void note_events(bool replays);
bool notes_replays() noexcept;
void note_event(const Root& root, Happened what, double seconds = 0) noexcept;
const std::vector<Event>& events() noexcept;
// How many came when the list was full.
uint64_t events_left_out() noexcept;

}  // namespace pijit
