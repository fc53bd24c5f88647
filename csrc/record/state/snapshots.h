// Which snapshots can be rebuilt.
//
// Where an instruction is taken back each member is taken back with it, is kept for a reason, or is computed anew.
#pragma once
#include "record/recording.h"
#include "record/state/usable.h"

namespace pijit {

struct Snapshots {
  void undo(const TraceMark&) {}

  // Taken back by Heap::undo, which knows whether an object was changed.
  Usable usable;
  // Kept: per FrameState why it cannot be rebuilt, or null. Frame states keep their numbers.
  Vec<const char*> unusable;
  // Computed anew by each visit.
  Vec<uint32_t> visited;  // per virtual object, the last visit
  uint32_t visit = 0;
  const char* unusable_reason = "";
};

}  // namespace pijit
