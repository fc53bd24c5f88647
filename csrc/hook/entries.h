// Traces that are entered in the middle of a function.
//
// Where a replay is left, its frames are rebuilt, and CPython goes on in them (exec/side_exit.h). A frame that is left
// often at the same instruction, or anywhere in a loop that has entries, gets an entry there: a root of its own, whose
// inputs are all that the frame holds. What CPython would do from there on is recorded, and replayed when a frame of
// the same function comes to the instruction again.
//
//   a branch   what is behind it is recorded once for each way, however many ways lead to it
//   a loop     a trace takes one turn and is left at the head, where the next one is entered; a long loop is left to
//              such traces when it is first recorded (record/step/loops.cpp)
//
// An entry's traces are those of the roots whose calls come to it, in all that people are told; compilers are asked for
// their segments as for those of the root.
//
// Only under the option loops="auto" or "body" (Loops); without it CPython goes on.
//
// 1. An entry belongs to the function and the instruction, and to which of the frame's slots are empty.
// 2. One frame after the other goes on in a loop, not by recursion: however many turns there are, the C stack stays.
// Only a recording that ends at the head of a loop goes on in a new frame inside, from CPython 3.12 on (hand_back.h).
// 3. A frame that handles an exception, and one that something else holds, or a generator's that something else than
// who resumed it holds, go on in CPython. A generator's frame ends its replays where it yields: CPython does that.
// 4. A replay takes what the frame holds out of it (Trace::takes_inputs): it dies when CPython would let it go.
// 5. An entry's trace that is left where the entry begins leaves the frame to the entry's other traces.
// 6. Where no operator runs in the traces of a loop, CPython runs the loop (hook/payoff.h).
#pragma once
#include "cache/root.h"
#include "cpython/frame.h"
#include "cpython/hand_back.h"
#include "exec/replay.h"

namespace pijit {

// While it lives, calls of the root come to the entries; of an entry itself nothing changes.
class Serves {
 public:
  explicit Serves(Root& root) noexcept;
  ~Serves();
  Serves(const Serves&) = delete;
  Serves& operator=(const Serves&) = delete;

 private:
  Root* outer_;
};

// While it lives, a frame that a replay of it rebuilds is handed back to whoever made this: resume() goes on then.
class Resumed {
 public:
  explicit Resumed(cpython::Frame* frame) noexcept;
  ~Resumed();
  Resumed(const Resumed&) = delete;
  Resumed& operator=(const Resumed&) = delete;
  // *result is of the frame's replay, and becomes what the frame returns in the end. False: it was that.
  bool finish(PyThreadState* ts, PyObject** result);
  // CPython had nothing of it to do.
  bool stayed_native() const noexcept { return native_; }

 private:
  friend void note_left(cpython::Frame*, const Trace&, const Left&);
  friend bool was_tried(cpython::Frame*, const Trace&) noexcept;
  friend bool is_resumed(cpython::Frame*) noexcept;
  friend PyObject* go_on_from_here(PyThreadState*, cpython::Frame*);
  friend PyObject* go_on_in_loop(PyThreadState*, cpython::HandBack*);
  friend PyObject* resume(const Trace&, const FrameState&, PyThreadState*, cpython::Frame*);

  cpython::Frame* frame_;
  Resumed* outer_;
  bool native_ = true;
  int from_ = -1;                    // the instruction at which the last replay began; -1: the function's beginning
  uint32_t turns_ = 0;               // of a loop that it took
  bool stuck_ = false;               // that replay ended neither at a fault of its trace nor after a turn of a loop
  std::vector<const Trace*> tried_;  // those that were left where the frame stands, and had begun there
  std::vector<bool> same_;           // by slot of the frame: it holds what it holds in each call
};

// The frame's function has traces that begin at the instruction.
bool has_entry(cpython::Frame* frame, int index);
// Goes on in a frame that came back at the head of a loop; what a replay, or a recording, of the frame returns.
PyObject* go_on_in_loop(PyThreadState* ts, cpython::HandBack* back);
// Goes on in a frame that no replay has rebuilt, from where it stands; what it returns.
PyObject* go_on_from_here(PyThreadState* ts, cpython::Frame* frame);
// Some Resumed of this thread takes the frame back.
bool is_resumed(cpython::Frame* frame) noexcept;
// A replay of the frame has ended.
void note_left(cpython::Frame* frame, const Trace& trace, const Left& left);
// The trace has come no further than to where the frame stands.
bool was_tried(cpython::Frame* frame, const Trace& trace) noexcept;
// What an exit does with a frame that it has rebuilt.
PyObject* resume(const Trace& trace, const FrameState& state, PyThreadState* ts, cpython::Frame* frame);

}  // namespace pijit
