// Runs a trace: the node program over a register file.
//
// 1. The caller loads the inputs, checks the guards on the same registers, and then calls replay; nothing may run in
// between.
// 2. The GIL is held throughout. What wants the evaluator's attention, such as a signal, makes the replay leave at the
//    next snapshot, and CPython attends to it there. Another thread that wants the GIL waits a few milliseconds first;
//    then it has the GIL for a while, if the replay may pause (exec/pause.h).
// 3. A node that fails leaves at the start of its instruction, so CPython executes the original. A call that raises has
//    had its effects: its exception is raised at the instruction instead.
#pragma once
#include "cpython/frame.h"
#include "exec/registers.h"
#include "ir/trace.h"

namespace pijit {

class Varying;

// A replay that is among the first ones of its trace takes more than later ones: nothing of the trace is in any cache.
inline constexpr uint64_t kFirstReplays = 2;
inline uint64_t first_replays = 0;  // how many there were, of all traces
inline void count_replay(const Trace& trace) noexcept {
  first_replays += ++trace.replays <= kFirstReplays;
}

// To be called once on a trace that was recorded and not installed yet: what is looked up in objects that the trace
// names, all of which are alive then.
void finish_trace(Trace& trace);
// To be called once after that and before the first replay: when registers die, what must be held. It is most of the
// work, and the call that is recorded need not wait for it.
void prepare_replays(Trace& trace);
// After that: finds what compiled code may take over; without a market of the root, only where a region has one.
void find_segments(Trace& trace, bool has_market);
// The first step of finish_trace: fills Trace::undone.
void find_undone(Trace& trace);
// The last step of prepare_replays: drops what no replay comes to.
void drop_unseen(Trace& trace);

// A node that computes a number of numbers, or has one as an object of Python, apart from the rest of a replay; others do
// nothing. False: it would leave.
bool compute_number(const Trace& trace, const Node& node, Reg* regs) noexcept;

// It would not tell where its coroutines were made.
inline bool misses_origins(bool coroutines, PyThreadState* ts) noexcept {
  return coroutines && cpython::tracks_coroutine_origins(ts);
}
// The thread has the recursion headroom for so many levels, and nothing that cannot wait wants the evaluator's
// attention.
inline bool may_replay(uint32_t depth, bool coroutines, PyThreadState* ts) noexcept {
  return cpython::has_recursion_headroom(ts, depth + 2) && !misses_origins(coroutines, ts) &&
         (!cpython::eval_breaker_set(ts) || cpython::attention_can_wait(ts));
}
inline bool may_replay(const Trace& trace, PyThreadState* ts) noexcept {
  return trace.prepared && may_replay(trace.depth, trace.coroutines, ts);
}

// Where a replay was left to CPython before the end of its trace, and what it did on the way.
struct Left {
  bool interrupted = false;      // something wanted the evaluator's attention: the trace is not to blame
  const Trace* trace = nullptr;  // null: it came to the end
  bool stopped = false;          // the end that it came to is where the recording had stopped
  bool turned = false;           // it is the head of a loop, after a turn
  bool native = false;           // other traces did the rest
  uint32_t node = 0;
  uint32_t opaque_calls = 0;           // that were passed, those included in whose place a tape did something
  uint32_t replaced_calls = 0;         // of these, by a tape
  double seconds = 0;                  // in CPython, from there on
  Varying* varying = nullptr;          // takes in the numbers because of which an epoch's guards did not hold
  uint64_t compare_every = 0;          // of so many turns of a plan one is compared with native replay; 0: none
  const std::string* range = nullptr;  // how a profiler shows the replay; null: none is on
  bool learned = false;                // `varying` took some in
  bool explains = false;               // `why` is asked for
  std::string why;                     // of an epoch: the guard that did not hold, with both values
};

// Under stress: at which exit point replays leave; kAnywhere: each replay of a trace at another one, spread evenly.
// Returns how often one was left at an exit point since the last choice.
inline constexpr uint64_t kAnywhere = UINT64_MAX;
uint64_t choose_exit(uint64_t point) noexcept;

// All of it: true when the trace was entered, *result is then what the root frame returns.
bool try_replay(const Trace& trace, cpython::Frame* root, PyThreadState* ts, PyObject** result, Left* left);
// The node of the trace because of which a replay cannot be done beside the call: it changes something, or the
// recording stopped there. Null: there is none.
const Node* first_effect(const Trace& trace) noexcept;
// What a replay of such a trace gives, whose guards hold, with nothing changed. Null: it would be left to CPython.
Ref rehearse(const Trace& trace, cpython::Frame* root, PyThreadState* ts);
// The guards of the trace hold for this frame.
bool would_replay(const Trace& trace, cpython::Frame* root);

}  // namespace pijit
