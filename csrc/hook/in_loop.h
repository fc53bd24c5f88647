// The loop of a function that runs is entered in its middle.
//
// A call that has passed the role on (hook/running.h) may turn in a loop whose body is inline: for x in data: net(x);
// loss.backward(); step(). What the loop calls is recorded piece by piece; traces of the loop itself take all of it. So
// once the pieces have been recorded, CPython is asked to hand the frame back at the head of the loop
// (cpython/hand_back.h), and traces that begin there take the turns (hook/entries.h). Where they lose against CPython
// with the pieces (cache/turns.h), the loop is left to that.
//
// A turn that calls the engine which computes gradients, and what comes before and behind that in functions of their own,
// is a training step in pieces. It gains most in one trace: the graph of autograd need not be built (plan/tapes.h). So
// such a loop is tried at once, before its pieces are recorded, against CPython without them. Where it does not clearly
// gain, it is compared once more as any other loop, with the pieces.
//
// 1. Turns are counted by a call of the frame that comes again. A loop that makes no calls of Python is not entered.
// 2. The innermost loop around that call is entered: an outer one turns more rarely. It belongs to the traces all the
// same: where the inner one ends, its traces go on to its next beginning.
// 3. A frame that CPython runs again, since a replay was left where no trace goes on, is asked for again, ever more
// rarely if that keeps coming.
// 4. Nothing is asked for while somebody traces, in a handler, in a generator, or where turns take long.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "cache/root.h"
#include "cpython/frame.h"
#include "cpython/hand_back.h"

namespace pijit {

// Loops of functions that run are entered; an option that has to be asked for. Programs of a few seconds take some
// hundredths longer with it, since recordings of turns come on top of those of functions. From CPython 3.12 on each time
// takes C stack (hand_back.h).
bool& enters_loops() noexcept;
// The same of loops whose turns are training steps, for which it need not be asked: an option.
bool& enters_steps() noexcept;

// The loop of a call that runs.
class InLoop {
 public:
  static bool may_be_of(cpython::Frame* frame) noexcept;

  // The frame makes a call.
  void note_call(PyThreadState* ts, cpython::Frame* frame) noexcept;
  // The call that it makes computes gradients, and does little else.
  void note_engine(cpython::Frame* frame) noexcept;
  // What the frame calls is not looked at: its loop is tried first.
  bool keeps_role() const noexcept { return keeps_role_; }
  // What the frame was asked for by, if it was.
  std::unique_ptr<cpython::HandBack> take_back() noexcept {
    missed_ = 0;
    return std::move(back_);
  }
  // Whose traces those of the loop are.
  Root& root() const noexcept { return *root_; }

  // The frame, which CPython does not run, stands at an instruction where an entry begins, after so many turns. True:
  // CPython is to run it all the same.
  bool note_arrival(Root& entry, uint32_t turns);
  // CPython goes on in the frame, in its middle.
  void interrupt() noexcept;

 private:
  static constexpr uint64_t kSettle = 64;               // turns before the first that count
  static constexpr uint64_t kSoon = 2, kRarest = 4096;  // turns before it is asked for again, least and most
  static constexpr uint64_t kFewReplays = 3;            // and after fewer replays it is asked for more rarely
  static constexpr uint32_t kOthers = 16;               // times that another call comes, before turns are counted by it
  static constexpr uint32_t kAbsent = 64;               // other calls, after which it is not awaited any more
  static constexpr double kLongTurn = 0.5;              // seconds
  // Of training steps: turns before the first that counts, of a block that is timed, and before what the loop calls is
  // looked at all the same; other calls, after which it is another loop.
  static constexpr uint64_t kSettleStep = 1, kTrial = 64;
  static constexpr uint32_t kStepBlock = 4, kOtherCalls = 1024;

  bool counts(int site) noexcept;
  bool counts_step(int site) noexcept;
  void give_up_trial() noexcept;
  uint32_t block() const noexcept { return keeps_role_ ? kStepBlock : TurnTimes::kTurns; }
  bool wants(cpython::Frame* frame, int head) noexcept;
  void ask(PyThreadState* ts, cpython::Frame* frame);

  int site_ = -1, other_ = -1;  // the call by which turns are counted, and another one that came since
  uint32_t others_ = 0;         // times that it came
  uint32_t absent_ = 0;         // calls of neither since
  bool is_step_ = false;        // turns are training steps, counted by the call that computes gradients
  bool keeps_role_ = false;
  uint64_t trial_ = 0;       // turns for which it kept the role
  uint64_t turns_ = 0;       // that were counted
  uint64_t from_ = kSettle;  // of these, before the next one counts
  uint64_t pause_ = kSoon;   // turns before it is asked for again
  int head_ = -1;            // of the loop that was asked for last
  uint64_t replays_ = 0;     // of its entry, when it was asked for
  bool compares_ = false;    // turns that CPython runs were compared
  TurnTimes plain_;          // those turns
  std::shared_ptr<Root> root_, entry_;
  std::unique_ptr<cpython::HandBack> back_;
  uint32_t missed_ = 0;  // turns that have begun since it was asked for
};

// CPython runs the frame, which may come back at the head of its loop; what goes on there is what the frame returns.
// `began`: it stands in its middle.
PyObject* run_to_loop(PyThreadState* ts, cpython::Frame* frame, int throwflag, bool began = false);

}  // namespace pijit
