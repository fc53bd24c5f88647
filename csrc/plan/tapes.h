// Stretches of a trace for which a tape may stand: a forward pass and the call of the engine that computes its
// gradients.
//
// 1. A stretch ends with a call of the engine that frees the graph. The engine keeps the gradients of leaves, or gives
//    those of inputs to its caller (`torch.autograd.grad`). The stretch begins at the first node from which on nothing
//    else computes gradients, and no code runs of which the trace knows nothing but its frames.
// 2. Nobody sees the graph of autograd in between: no call is given a tensor that gradients flow through, and none is
//    kept in an object. Who may see one behind the stretch finds a graph that was freed.
// 3. A gradient may flow through what was made before another call of the engine, as a generator's pictures behind a
//    step of the discriminator. Its stretch begins sooner once that was seen, and overlaps others.
// 4. Which nodes a tape does, and whether there can be one, is found by watching a native replay (Adapter::make_tape).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ir/trace.h"
#include "plan/tape_turns.h"

namespace pijit {

// One of these stretches, and the tapes that were made for it.
struct TapedStretch {
  TapeStretch nodes;
  uint32_t first = 0, last = 0;              // nodes of the trace: the first one, and the engine
  std::vector<std::shared_ptr<Tape>> tapes;  // each for other forms
  uint32_t watched = 0;                      // replays
  bool wanted = false;                       // the last replay found no tape of its forms
  uint64_t runs = 0, left = 0;               // replays that a tape has served, or was left in
  std::string why;                           // no tape came of the last replay that was watched
  bool too_late = false;                     // it has to begin sooner

  // Tapes are left too often: other forms come each time, or somebody looks.
  bool spoils() const noexcept;
  // The next replay may be watched, and a tape made of it.
  bool may_watch() const noexcept;
};

// Of one trace, in the order of their first nodes.
struct Tapes {
  std::vector<TapedStretch> all;
  TapeTurns turns;
  Vec<uint32_t> seen;  // as find_tapes() was given it

  // Those that began too late begin sooner; to be called while no replay is among them.
  void widen(const Trace& trace);

  // A tape answers, or may come.
  bool are_useful() const noexcept;
  // A tape does what this call of the engine would do, as long as tensors have its forms.
  bool replace(uint32_t engine) const noexcept;
  // Part of the segment stands in one of the stretches.
  bool overlap(const Segment& segment) const noexcept;
};

bool& records_tapes() noexcept;

// `seen`: by register, the last node that reads it or whose snapshot may. Null: the trace computes no gradients.
std::shared_ptr<Tapes> find_tapes(const Trace& trace, const Vec<uint32_t>& seen);

// The trace calls the engine.
bool computes_gradients(const Trace& trace);

}  // namespace pijit
