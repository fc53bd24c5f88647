// How much was done, in steps that do not depend on the machine: for tests of what a recording costs.
//
// What walks over things that there may be many of says how many it looked at; the pool adds what it hands out, so that
// copies of long vectors count. It is cheap enough to stay in every build. Rejected: counting each straight piece of
// code (the compilers' coverage), which needs a build of its own.
#pragma once
#include <cstdint>

namespace pijit {

inline uint64_t work_done = 0;  // of all threads; none of them needs it to be exact

inline void note_work(uint64_t steps = 1) noexcept {
  work_done += steps;
}

}  // namespace pijit
