// The stress switch: under enable() every function body that is entered is recorded, which no program is spared by what
// it does.
//
//   record-all   each is a root by its function object from its first call on, and no root is ever left alone
//   observe      each is recorded at its first calls and nothing is kept, so that the recorder alone is on trial; then
//                it is left alone, so that what it calls has its turn
//   exits        as record-all, and every recording makes an exit point of each instruction: a replay is left at one of
//                them, each at another one (exec/replay.h)
//   faults       as record-all, and the recorder's own checks fail at one instruction or another: the recording is
//                given up and the program goes on; in a checked build the process stops
//
// With `observe` the others are `observe`. pijit's own Python is left alone. Memory stays bounded: a root goes with its
// function, a code object has at most kStressRoots of them, and a root has as many traces as ever.
#pragma once
#include <cstdint>

#include "cache/root.h"

namespace pijit {

// Bit i is word i of STRESS_WORDS in pijit/_config.py.
enum class Stress : uint32_t { kRecordAll = 1, kObserve = 2, kExits = 4, kFaults = 8 };

inline constexpr size_t kStressRoots = 16;
inline constexpr uint32_t kObservedCalls = 3;

inline uint32_t& stress_words() noexcept {
  static constinit uint32_t words = 0;
  return words;
}
inline bool stresses(Stress word) noexcept {
  return (stress_words() & static_cast<uint32_t>(word)) != 0;
}

// The frame runs Python of pijit itself, which works while recorders come and go.
bool is_own_python(cpython::Frame* frame) noexcept;
// The root for this frame's function, made if there is room for it; else null.
std::shared_ptr<Root> stress_root(cpython::Frame* frame);

}  // namespace pijit
