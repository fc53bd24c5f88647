// The owners of the state of a recording, and going back: each takes itself back, and none can be forgotten.
#pragma once
#include "record/recording.h"
#include "record/state/foreign.h"
#include "record/state/frames.h"
#include "record/state/heap.h"
#include "record/state/loading.h"
#include "record/state/raise.h"
#include "record/state/read_set.h"
#include "record/state/snapshots.h"

namespace pijit {

struct Owners {
  Owners(Kernel& recording, cpython::Frame* root)
      : heap(recording, frames, snapshots),
        frames(root, !cpython::is_fresh(root), cpython::resume_index(root)),
        reads(recording),
        foreign(recording, heap) {}

  // The heap lives longer than the frames: what they wait for is in it.
  Heap heap;
  FrameStack frames;
  Snapshots snapshots;
  ReadSet reads;
  Foreign foreign;
  Raise raise;
  Loading loading;
  Numbers numbers;
  Question question;
};

// All owners, in the order in which they are taken back: foreign code asks the heap what it is about to forget. The last
// comes the trace: those of them that look at it see it as it was. A member of Owners that is not named here does not
// compile.
template <class Use>
void each_owner(Owners& owners, const Use& use) {
  auto& [heap, frames, snapshots, reads, foreign, raise, loading, numbers, question] = owners;
  const auto all = [&](auto&... owner) { (use(owner), ...); };
  all(reads, foreign, frames, heap, snapshots, raise, loading, numbers, question);
}

}  // namespace pijit
