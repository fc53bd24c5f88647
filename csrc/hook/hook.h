// The eval-frame hook: which frames are recorded, which replayed, which left to CPython.
#pragma once
#include "common/python.h"

namespace pijit {

void install_hook() noexcept;
void remove_hook() noexcept;
bool hook_installed() noexcept;

// enable(): outermost functions under which tensor operators ran become roots by themselves.
void set_automatic(bool on) noexcept;

// What is done with the calls of roots, everywhere and on all threads.
enum class Stance : uint8_t {
  kOn,
  kOff,           // as under plain CPython
  kReplayOnly,    // nothing is recorded
  kFailOnRecord,  // a call that would be recorded raises StrictError instead
};
void set_stance(Stance stance) noexcept;
Stance stance() noexcept;

}  // namespace pijit
