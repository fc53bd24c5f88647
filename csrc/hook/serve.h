// A call of a root is replayed, recorded, or left to CPython.
#pragma once
#include <memory>

#include "cache/root.h"

namespace pijit {

// How calls of roots are treated, everywhere and on all threads.
enum class Stance : uint8_t {
  kOn,
  kOff,           // as under plain CPython
  kReplayOnly,    // nothing is recorded
  kFailOnRecord,  // a call that would be recorded raises StrictError instead
  kVerify,        // as kOn, and each replay is compared with CPython
};
inline constinit Stance stance_in_force = Stance::kOn;
inline void set_stance(Stance stance) noexcept {
  stance_in_force = stance;
}
inline Stance stance() noexcept {
  return stance_in_force;
}

// Seconds that the guards of a trace took which let a call in: the first time, with the caches as the program left
// them, and the mean of so many more times.
struct GuardTimes {
  double first = 0, again = 0;
};
// Takes the time at the next call of the root; until then the times are zero.
void time_guards(int root, int repeats) noexcept;
GuardTimes guard_times() noexcept;

// Replays, records or evaluates a fresh frame of the root, and gives what the frame returns.
PyObject* enter_root(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame);
// The rest of a call whose frame stands where the entry begins (hook/entries.h).
PyObject* enter_in_the_middle(const std::shared_ptr<Root>& entry, PyThreadState* ts, cpython::Frame* frame);
// Records a fresh frame, and throws the trace away.
PyObject* observe(PyThreadState* ts, cpython::Frame* frame);

}  // namespace pijit
