// The hook goes out while nothing wants it: it keeps CPython from calling Python functions in its own, quicker way, and
// a program of small functions takes half as long again.
//
// 1. It rests after many calls in a row in which no root was called and no operator was seen, if no root is live.
// 2. It is back when an import has ended during which it went out: a call that begins without it is missed for good.
// 3. The next tensor operator of any thread brings it back, and so does what a user asks of pijit. The call that the
//    operator ran in has been missed.
// 4. A function that is called ever again after so many other calls would always be missed. So each time that an
//    operator has brought it back, the hook stays for twice as many calls.
// 4. Where it loses more than replays gain it rests for a time, whatever roots there are (hook/worth.h). Then one of the
//    next operators brings it back.
#pragma once
#include <cstdint>

#include "common/python.h"

namespace pijit {

// Calls that the hook had no use for.
struct QuietCalls {
  // More than a call that is watched makes before it passes its role on.
  static constexpr uint64_t kEnough = 40'000, kMost = kEnough << 10;

  uint64_t in_a_row = 0, enough = kEnough;
};
inline constinit QuietCalls quiet_calls;

// The hook had no use for a call. True: enough have come in a row.
inline bool is_quiet_call() noexcept {
  if (++quiet_calls.in_a_row < quiet_calls.enough) return false;
  quiet_calls.in_a_row = 0;
  return true;
}
// A root was called, or operators were seen: the calls begin to be counted anew.
inline void note_use() noexcept {
  quiet_calls.in_a_row = 0;
}

// The hook may go out now.
bool may_rest() noexcept;
// It has gone out; `back` puts it in again, with the GIL.
void begin_rest(void (*back)() noexcept) noexcept;
// The same for so many seconds of the process's time; false: it may not.
bool may_rest_for_a_time() noexcept;
void begin_rest_for(double seconds, void (*back)() noexcept) noexcept;
// It does not rest any more, if it did.
void end_rest() noexcept;
bool hook_rests() noexcept;

}  // namespace pijit
