// The reasons why calls of a root are not replayed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "ir/trace.h"

namespace pijit {

// The reason to be told why calls of a root are left to CPython from now on.
struct Farewell {
  StopInfo cause;
  const char* because = nullptr;  // code of what led to it, or null
};

// A root may be left alone: CPython runs its calls.
struct Standing {
  std::string disabled;              // why it is left alone; empty: it is not
  StopInfo given_up;                 // the same
  std::optional<Farewell> farewell;  // to be said once it is known what the calls take
  bool gave_up = false;              // it was left alone before, because its replays lost
  bool closed = false;               // what it calls is not looked at while it is left alone
  bool passes = false;               // the role of root has passed to what it calls

  bool is_disabled() const noexcept { return !disabled.empty(); }
};

// Calls that CPython ran because of a tracer, a profiler or a mode that was on.
struct Aside {
  StopInfo why;  // of the last call; no code: it was none of these
  uint64_t times = 0;
};

// The stop that ended the last recording, and the reason why no trace took the last call.
struct Last {
  StopInfo stop;
  std::string miss;
};

}  // namespace pijit
