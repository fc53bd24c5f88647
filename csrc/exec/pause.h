// Another thread has the GIL in the middle of a replay, as it may between any two instructions in CPython.
//
// 1. Only where all that the replay has done was to compute, and to set variables of its own context: a trace knows
//    what its own writes have left, and could not tell them from those of the other thread.
// 2. What the registers hold without owning it is held meanwhile.
// 3. Afterwards the guards of the entry are checked once more. They have to hold, and to lead to the same objects.
#pragma once
#include <vector>

#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

class Pause {
 public:
  Pause() = default;
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  // The replay has come to the node `at`. False: it cannot pause there, or something has changed: it has to leave at
  // the node's snapshot.
  bool take(const Trace& trace, size_t at, Reg* regs, cpython::Frame* root);

 private:
  void release();

  std::vector<Reg> held_;
};

}  // namespace pijit
