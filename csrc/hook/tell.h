// What is worth saying to the user, handed to Python, which says each distinct cause once (pijit/_messages.py).
#pragma once
#include "cache/root.h"

namespace pijit {

enum class Told {
  kStopped,  // replays keep ending where the recording stopped
  kLeft,     // calls of the root run in CPython from now on
  kLeaving,  // most replays are left before their end
};

// Options of what is said; Python reads them.
struct Switches {
  uint8_t quiet = 0, debug = 0;
};
Switches& switches() noexcept;

// Who is told; null: nobody. Kept until it is replaced.
void set_listener(PyObject* callable);
// Runs Python. Where the cause names no place, the root's own is told; `because` is the code of what led to it, or
// null; `seconds` what CPython takes at each call because of it, 0 where that is not known.
void tell(Told kind, const Root& root, const StopInfo& cause, double seconds, const char* because = nullptr);

}  // namespace pijit
