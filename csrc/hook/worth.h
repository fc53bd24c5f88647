// Whether the hook is worth what it costs under enable(): it keeps CPython from calling Python functions in its own,
// quicker way, so that each call takes about a tenth of a microsecond more.
//
// 1. What replays gain is weighed against what all calls lose, a window of many calls at a time.
// 2. A program that has lost more than its share of the process's time, and lost in the last window, too, gets its own
//    way: the hook goes out until the loss is within the share again (hook/rest.h). Then the next window decides. So a
//    program that gains nothing is slowed by little more than the share, and one that gains later is found.
// 3. What a replay gains is known from the ledger of its root (cache/ledger.h). As long as nothing is known of a root,
//    its replays count for nothing.
// 4. What a user gave to jit needs the hook at any price, where functions have no entrances.
#pragma once
#include <cstdint>

namespace pijit {

struct Root;

// Percent of the process's time that the hook may take beyond what replays gain; 0: any. An option.
uint64_t& hook_share() noexcept;

// A replay of the root came to its end.
void note_gain(const Root& root) noexcept;

// A call has come; true: so many that what they lost is to be weighed.
bool is_window_over() noexcept;
// Seconds for which the hook goes out now; 0: it stays.
double weigh_hook() noexcept;

}  // namespace pijit
