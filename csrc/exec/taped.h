// Tapes at a replay: a forward and a backward pass run as operators beneath autograd, where nobody looks at the graph
// in between (plan/tapes.h).
//
// 1. Within a stretch the replay goes from node to node as everywhere. A node that the tape has is done by the tape:
//    its results are tensors without a graph. At the engine the tape runs the operators that compute gradients and
//    hands these to the leaves.
// 2. What is left before the engine needs the graph after all: a side exit, an error, another form of an operand. What
//    the tape has done is done once more with autograd then, on the same random numbers. Tensors that were seen stay,
//    and get the graph.
// 3. Once the engine was replaced nothing is done again. Tensors that somebody may see get the graph of the pass that
//    was watched, which the engine has gone through.
// 4. Stretches overlap where one begins before the engine of another. Each tape does its own nodes then, and is left
//    by itself.
// 5. The second replay of a trace is watched, and one later on where no tape has its forms.
#pragma once
#include <memory>

#include "exec/plans.h"
#include "plan/tapes.h"

namespace pijit {

class Taped {
 public:
  explicit Taped(Reg* regs) noexcept : regs_(regs) {}

  // The replay goes on in this trace, from this node on.
  void begin(const Trace& trace, size_t from) noexcept;
  // The next node at which arrive() is to be called.
  size_t stop() const noexcept { return stop_; }
  enum class Turn : uint8_t {
    kNative,   // the node is replayed
    kDone,     // a tape has done it
    kWatched,  // it is replayed, and observed() is to be called
    kFailed,   // memory is short
  };
  Turn arrive(size_t at) noexcept;
  void observed(size_t at) noexcept;
  // A tape has done something that a graph is needed for if the replay is left now.
  bool is_running() const noexcept { return !going_.empty() || maker_ != nullptr; }
  // Before frames are rebuilt: what the tape did is done with autograd. False: memory is short.
  bool restore() noexcept;

 private:
  // One of the stretches that the replay is in.
  struct Going {
    TapedStretch* stretch;
    size_t stop;                     // the next node at which something is to be done
    size_t index = 0;                // the next of Tape::nodes(), or of the nodes that are watched
    std::shared_ptr<Tape> tape;      // null: none has begun, or it is watched
    std::unique_ptr<Tape::Run> run;  // of that tape
  };

  void look_ahead() noexcept;
  void enter(TapedStretch* stretch);
  bool begin_tape(Going* going);
  Turn step(Going* going) noexcept;
  void begin_watching(size_t at);
  void end_watching() noexcept;
  bool restore(Going* going) noexcept;
  void remove_ended() noexcept;

  Reg* regs_;
  const Trace* trace_ = nullptr;
  std::shared_ptr<Tapes> tapes_;  // held: the market may be changed in the middle of a replay
  size_t next_ = 0;               // in tapes_: to be entered
  size_t stop_ = SIZE_MAX;
  std::vector<Going> going_;
  std::unique_ptr<TapeMaker> maker_;  // watches one stretch
  Going watched_ = {};
};

}  // namespace pijit
