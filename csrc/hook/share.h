// The share of the process's time that recordings may take, where nobody asked for them: of roots that enable() found.
//
// A recording is paid at once and may be worth nothing. So a program is slowed by little more than the share, whatever
// it does, and by less the longer it runs (hook/allowance.h). What replays were seen to gain (hook/worth.h) allows for more: half of it, so that a program in which little
// gains and much is recorded again and again is not slower for that. A recording that is too early waits: CPython runs
// the call.
#pragma once
#include <cstdint>

namespace pijit {

// Percent, and up to kMost times that more where replays gain; 0: any. An option.
uint64_t& record_share() noexcept;

// Recordings took so many more seconds.
void note_recorded(double seconds) noexcept;
// There is time for a recording that takes as long as `seconds`.
bool has_time_to_record(double seconds) noexcept;

}  // namespace pijit
