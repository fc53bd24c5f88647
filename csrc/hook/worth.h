// Whether the hook is worth what it costs under enable(): it keeps CPython from calling Python functions in its own,
// quicker way, so that each call takes some hundredths of a microsecond more.
//
// 1. What replays gain is weighed against what all calls lose, a window of many calls at a time.
// 2. A program that has lost more than its share of the process's time, and lost in the last window, too, gets its own
//    way: the hook goes out until the loss is within the share again (hook/rest.h), which is less of what comes later
//    (hook/allowance.h). Time in which nothing was lost, such as that of imports, makes up for no later loss. After a
//    rest the next window decides: where it loses, too, the next rest is twice as long. So a program that gains nothing
//    is slowed by less than the share, and one that gains later is found.
// 3. What a replay gains is known from the ledger of its root (cache/ledger.h). As long as nothing is known of a root,
//    its replays are thought to gain a little: else the hook would be out before they were compared. Replays that are left count as all calls of their root do on the average, and turns
//    of a loop as they were measured (cache/turns.h).
// 4. What a user gave to jit needs the hook at any price, where functions have no entrances.
#pragma once
#include <cstdint>

namespace pijit {

struct Root;

// Percent of the process's time that the hook may take beyond what replays gain; 0: any. An option.
uint64_t& hook_share() noexcept;

// A replay of the root came to its end, or was left.
void note_gain(const Root& root, bool ended) noexcept;
// Replays gained so many seconds; negative: they lost.
void note_gained(double seconds) noexcept;
// Seconds that replays have gained so far.
double all_gains() noexcept;

// A call has come; true: so many that what they lost is to be weighed.
inline constexpr uint64_t kCallsOfWindow = 32'768;
inline constinit uint64_t calls_of_window = 0;
inline bool is_window_over() noexcept {
  return ++calls_of_window >= kCallsOfWindow;
}
// Seconds for which the hook goes out now; 0: it stays.
double weigh_hook() noexcept;

}  // namespace pijit
