// Chooses what is done with a call of a root: replay, else record while that may pay, else CPython.
#include "hook/serve.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "cache/memory.h"
#include "common/call_clock.h"
#include "cpython/hand_back.h"
#include "exec/profiled.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "hook/aftermath.h"
#include "hook/aside.h"
#include "hook/asked_again.h"
#include "hook/automatic.h"
#include "hook/beside.h"
#include "hook/entries.h"
#include "hook/evaluate.h"
#include "hook/events.h"
#include "hook/hook.h"
#include "hook/in_loop.h"
#include "hook/keep.h"
#include "hook/kept.h"
#include "hook/log.h"
#include "hook/numbers.h"
#include "hook/payoff.h"
#include "hook/profile.h"
#include "hook/savings.h"
#include "hook/stack.h"
#include "hook/stress.h"
#include "hook/strict.h"
#include "hook/verify.h"
#include "hook/words.h"
#include "ir/adapter_slot.h"
#include "record/captures.h"
#include "record/reasons.h"
#include "record/recorder.h"

namespace pijit {
namespace {

// Calls of a root in CPython that are timed.
constexpr uint64_t kTimed = 64;
// Seconds of replays after which other threads of the program have the GIL.
constexpr double kTurn = 0.02;

// The root whose guards are to be timed, and how long they took.
struct Timing {
  int root = 0, repeats = 0;
  GuardTimes times;
};
Timing g_timing;

// CPython runs the call, or what is left of it.
PyObject* evaluate(const Root& root, PyThreadState* ts, cpython::Frame* frame) {
  return run_to_loop(ts, frame, 0, root.is_entry());
}

// The same, and it is timed.
PyObject* run_plain(Root& root, PyThreadState* ts, cpython::Frame* frame) {
  if (root.is_entry()) return evaluate(root, ts, frame);
  const bool alone = root.standing.gave_up && (root.standing.closed || !automatic());
  const LeftAlone left(root);
  const auto run = [&] { return alone ? evaluate_alone(ts, frame) : run_to_loop(ts, frame, 0); };
  if (root.savings.plain.times >= kTimed) return run();
  const double start = call_clock();
  PyObject* result = run();
  add_since(&root.savings.plain, start);
  say_farewell(root);
  return result;
}

// CPython runs the call while a tracer, a profiler or a mode of the framework lasts.
PyObject* step_aside(Root& root, PyThreadState* ts, cpython::Frame* frame, StopInfo why) {
  root.aside.why = std::move(why);
  if (root.asked.strict) return raise_strict(root.aside.why);
  if (!cpython::untraced(ts)) return evaluate(root, ts, frame);
  root.aside.times += 1;
  if (root.aside.times == limits().stops) root.standing.farewell = Farewell{root.aside.why};
  return run_plain(root, ts, frame);
}

// A recorder could not start, because of an argument.
PyObject* not_started(Root& root, PyThreadState* ts, cpython::Frame* frame) {
  const Reason& reason = kAborts[static_cast<size_t>(Abort::kInput)];
  StopInfo stop;
  stop.code = reason.code;
  stop.reason = reason.text;
  stop = root.written.placed(std::move(stop));
  if (root.asked.strict) return raise_strict(stop);
  note_event(root, Happened::kNothingKept);
  note_abort(root, std::move(stop));
  return run_plain(root, ts, frame);
}

// While the object lives, the recording under way is only read, or it is not.
class OnlyRead {
 public:
  explicit OnlyRead(bool on) : before_(std::exchange(is_only_read(), on)) {}
  ~OnlyRead() { is_only_read() = before_; }
  OnlyRead(const OnlyRead&) = delete;
  OnlyRead& operator=(const OnlyRead&) = delete;

 private:
  bool before_;
};

// CPython runs the call, watched, and what was seen is kept.
PyObject* watch(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame, const Wanted& wanted) {
  const double start = call_clock(), began = now();
  const uint64_t aborts = root->counts.aborts;
  if (Adapter* adapter = current_adapter()) adapter->make_what_first_calls_make();
  note_arguments(*root, frame);
  const WithinServed within;
  const HookForFrames hook;
  begin_recording(*root);
  Recorder recorder(ts, frame, current_adapter(), &root->varying);
  recorder.sizes = {root->asked.fixed_sizes, &varying_sizes()};
  recorder.has_entry = has_entry;
  recorder.set_exit_points(stresses(Stress::kExits));
  recorder.set_faults(stresses(Stress::kFaults));
  if (keeps_inputs()) recorder.unroll_loops();  // who exports it wants all of it
  const OnlyRead only_read(root->id == root_only_read());
  if (keeps_decisions()) recorder.mark_loops();
  if (!recorder.start()) return not_started(*root, ts, frame);
  PyObject* result = evaluate(*root, ts, frame);
  if (active_recorder() == &recorder) recorder.leave_frame(frame, result);
  {
    SavedError error;
    recording_pace().end();
    const double ended = computed();
    root->recordings.drivers = recording_pace().drivers();
    try {
      install_trace(*root, recorder.finish(), recorder, wanted);
      note_unwritten();
      note_cost(*root);
    } catch (const std::exception& failure) {  // CPython has done the call
      note_failure(*root, failure.what());
    }
    note_recording_cost(recording_pace().taken() + computed() - ended);
  }
  add_since(&root->savings.recorded, start);
  const bool kept = root->counts.aborts == aborts && !root->traces.empty();
  note_event(*root, kept ? Happened::kRecorded : Happened::kNothingKept, now() - began);
  if (root->asked.strict) raise_instead(left_in_recording(*root), &result);
  return result;
}

// CPython runs the call, watched. Where a loop is left to traces of its own, they go on in this call.
PyObject* record(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame,
                 const Wanted& wanted = Wanted()) {
  const Serves serves(*root);
  if (root->asked.strict) return watch(root, ts, frame, wanted);
  cpython::HandBack back(root->is_entry() ? frame : may_come_back(frame));
  Ref result = Ref::steal(watch(root, ts, frame, wanted));
  if (!back.is_done()) return result.release();
  return go_on_in_loop(ts, &back);
}

// The first time is taken of the trace that lets the call in; the guards of those before it are not counted.
void take_times(const Root& root, cpython::Frame* frame) {
  g_timing.root = 0;
  for (const auto& trace : root.traces) {
    const double start = now();
    if (!would_replay(*trace, frame)) continue;
    const double once = now();
    for (int i = 0; i < g_timing.repeats; ++i) would_replay(*trace, frame);
    g_timing.times = {once - start, (now() - once) / std::max(g_timing.repeats, 1)};
    return;
  }
}

bool records() noexcept {
  return stance() == Stance::kOn || stance() == Stance::kVerify;
}

// CPython has run the call, and its replay was compared with that. False: it is to be replayed.
bool verified(Root& root, PyThreadState* ts, cpython::Frame* frame, PyObject** result) {
  if (root.traces.empty() || !is_verified(root, stance() == Stance::kVerify)) return false;
  root.verification.since = 0;
  for (size_t i = 0; i < root.traces.size(); ++i) {
    const std::shared_ptr<Trace> trace = root.traces[i];
    if (!may_replay(*trace, ts) || !would_replay(*trace, frame)) continue;
    std::string wrong;
    if (!verify_replay(root, *trace, ts, frame, result, &wrong)) return false;
    if (wrong.empty()) return true;
    leave_alone(root, kWrong, wrong);
    say_farewell(root);
    return true;
  }
  return false;
}

// One trace; where it is left, others may go on.
bool replay(const Trace& trace, PyThreadState* ts, cpython::Frame* frame, PyObject** result, Left* left) {
  const WithinServed within;
  std::optional<Resumed> own;
  if (!is_resumed(frame)) own.emplace(frame);
  if (!try_replay(trace, frame, ts, result, left)) return false;
  note_left(frame, trace, *left);
  const double start = call_clock();
  if (!own || !own->finish(ts, result)) return true;
  left->native = own->stayed_native();
  if (left->native) return true;
  const double taken = call_clock() - start;
  left->seconds += taken;
  trace.left.seconds += taken;
  return true;
}

// The trace that the guards choose runs; false: none does.
bool run_trace(Root& root, PyThreadState* ts, cpython::Frame* frame, PyObject** result) {
  const Serves serves(root);
  const size_t count = root.traces.size();
  const uint64_t signature = count > 1 ? call_signature(frame, root.owner.code, current_adapter()) : 0;
  const size_t likely = count > 1 ? root.traces.likely(signature) : 0;
  if (count > 1) root.traces[likely]->prefetch();
  const std::string range = count > 0 && is_profiled() ? range_name(root) : "";
  for (size_t i = 0; i < count; ++i) {
    const size_t place = i == 0 ? likely : i - (i <= likely);
    const std::shared_ptr<Trace> trace = root.traces[place];
    Left left;
    left.varying = &root.varying;
    left.compare_every = verified_each(root, stance() == Stance::kVerify);
    left.range = range.empty() ? nullptr : &range;
    left.explains = logs(Channel::kExits);
    const double start = notes_replays() ? now() : 0;
    if (was_tried(frame, *trace) || !replay(*trace, ts, frame, result, &left)) continue;
    if (notes_replays()) note_event(root, Happened::kEachReplay, now() - start);
    if (i != 0) root.traces.dispatch.taken(signature, place);
    note_replay(root, *trace, left);
    if (root.asked.strict) raise_instead(left_in_replay(root, *trace, left), result);
    return true;
  }
  return false;
}

// This call is to give a side trace.
bool is_wanted(Root& root, cpython::Frame* frame) {
  if (root.traces.wanted.from == nullptr || !records() || root.traces.wanted.wait-- > 0) return false;
  for (const auto& trace : root.traces)
    if (would_replay(*trace, frame)) return true;
  return false;
}

// The stance forbids recording.
PyObject* not_recorded(const Root& root, PyThreadState* ts, cpython::Frame* frame) {
  const bool fails = stance() == Stance::kFailOnRecord;
  if (!fails && !root.asked.strict) return evaluate(root, ts, frame);
  std::string text = place_text(root.written.file, root.written.line, root.written.name) +
                     "this call would be recorded, and the stance is " +
                     (fails ? "\"fail_on_record\"" : "\"replay_only\"");
  if (!root.last.miss.empty()) text += " (" + root.last.miss + ")";
  return raise_strict(text);
}

// There are as many traces as cost nothing, and no call has been replayed for long.
bool keeps_differing(const Root& root) noexcept {
  const uint64_t most = is_asked_for(root) ? limits().misses : std::min(limits().misses, limits().misses_unasked);
  return root.traces.size() >= static_cast<size_t>(limits().traces) && root.in_a_row.misses + 1 >= most;
}

// There is no room for one more trace.
PyObject* differs(Root& root, PyThreadState* ts, cpython::Frame* frame) {
  const bool ends = keeps_differing(root);
  note_miss(root, frame, ends || root.asked.strict);
  if (ends) {
    leave_alone(root, kDiffers, root.last.miss);
    if (root.asked.automatic) pass_through_drivers(root);
  }
  if (!root.asked.strict) return run_plain(root, ts, frame);
  StopInfo stop;
  stop.code = kDiffers.code;
  stop.reason = kDiffers.text;
  stop.reason += ": " + root.last.miss;
  return raise_strict(root.written.placed(std::move(stop)));
}

// Another thread of the program that waits for the GIL has it now and then; those that compile have turns of their own.
// Nothing of the call has been looked at yet: CPython would change threads here, too. A thread asks for the GIL after
// 5 ms in which it was never free. Where each call frees it for a moment, as torch does when a tensor dies, no thread
// ever asks, and none is quick enough to take it.
void share_gil(PyThreadState* ts) noexcept {
  static double given = 0;
  give_turn(ts);
  const double time = now();
  write_if_due(time);
  if (lend_gil(ts)) return;
  const bool is_asked = cpython::attention_can_wait(ts) && !put_off_compilers(ts);
  if (!is_asked && (time - given < kTurn || cpython::single_threaded(ts))) return;
  given = time;
  if (!is_asked && !has_other_threads(ts)) return;
  cpython::give_gil();
  note_wait(time);
}

// A thread that compiles and asked for the GIL during the call does not get it as soon as CPython goes on.
struct PutsOff {
  PyThreadState* ts;
  ~PutsOff() { put_off_compilers(ts); }
};

// Replays the call, or records it, or leaves it to CPython.
PyObject* serve(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame) {
  PyObject* result = nullptr;
  const PutsOff puts_off{ts};
  const Served served(*root);
  const bool ahead = std::exchange(root->kept.ahead, false);
  if (std::exchange(root->traces.unprepared, false)) {
    const double start = computed();
    for (const auto& trace : root->traces) prepare(*root, *trace);
    const double taken = computed() - start;
    root->savings.recorded.seconds += taken;
    note_recording_cost(taken);
  }
  if (g_timing.root != 0 && g_timing.root == root->id) take_times(*root, frame);
  if (!root->traces.empty()) share_gil(ts);
  if (!root->traces.empty() && !may_replay(root->traces.depth(), root->traces.coroutines(), ts)) {
    if (misses_origins(root->traces.coroutines(), ts)) return step_aside(*root, ts, frame, why_aside(*root, ts));
    return evaluate(*root, ts, frame);
  }
  if (is_wanted(*root, frame)) {
    const Wanted wanted = std::exchange(root->traces.wanted, Wanted());
    if (may_record(*root)) {
      if (logs(Channel::kRecompiles)) log_again(*root, left_there(wanted));
      result = record(root, ts, frame, wanted);
      return served.ends_recorded(), result;
    }
    if (root->standing.is_disabled()) return evaluate(*root, ts, frame);
  }
  if (verified(*root, ts, frame, &result) || run_trace(*root, ts, frame, &result))
    return served.ends_replayed(), result;
  if (ask_again(*root, frame) && run_trace(*root, ts, frame, &result)) return served.ends_replayed(), result;
  if (root->traces.empty() && begin_as_profiled(*root)) return evaluate(*root, ts, frame);
  if ((find_left(*root, frame) || ((root->traces.empty() || ahead) && find_kept(*root, frame))) &&
      may_replay(root->traces.depth(), root->traces.coroutines(), ts) &&
      (run_trace(*root, ts, frame, &result) || (ask_again(*root, frame) && run_trace(*root, ts, frame, &result))))
    return served.ends_replayed(), result;
  if (run_as_numbers(*root, ts, frame, !root->traces.empty(), &result)) return served.ends_replayed(), result;
  if (root->ledger.retries()) return evaluate(*root, ts, frame);
  if (StopInfo why = why_aside(*root, ts); why.code != nullptr) return step_aside(*root, ts, frame, std::move(why));
  if (keeps_differing(*root) || !has_room(*root, frame, current_adapter())) return differs(*root, ts, frame);
  const bool is_recorded = records() && !waits_for_memory(*root) && may_record(*root);
  if (!root->traces.empty()) {
    const double start = is_recorded ? computed() : 0;
    // Nobody reads why a function that nobody asked for is recorded again, and to find that takes as long as a recording.
    const bool is_told = is_asked_for(*root) || measures_savings() || logs(Channel::kRecompiles);
    note_miss(*root, frame, (is_recorded && is_told) || root->asked.strict || stance() == Stance::kFailOnRecord);
    if (is_recorded) note_recording_cost(computed() - start);
  }
  if (!records()) return not_recorded(*root, ts, frame);
  if (!is_recorded) return run_plain(*root, ts, frame);
  log_again(*root, root->last.miss);
  learn_numbers(*root, frame);
  result = record(root, ts, frame);
  return served.ends_recorded(), result;
}

// The form of the call; its way is the trace that takes it, or would if CPython did not run the call.
CallForm form_of(const Root& root, cpython::Frame* frame) noexcept {
  CallForm form = call_form(frame, root.owner.code, current_adapter());
  const size_t count = root.traces.size();
  const size_t likely = count < 2 ? 0 : root.traces.likely(call_signature(frame, root.owner.code, current_adapter()));
  for (size_t i = 0; i < count && form.way == 0; ++i) {
    const Trace& trace = *root.traces[i == 0 ? likely : i - (i <= likely)];
    if (would_replay(trace, frame)) form.way = reinterpret_cast<uintptr_t>(&trace);
  }
  return form;
}

// A call that is timed: it is replayed or recorded as any other, or CPython runs it, to compare.
PyObject* timed(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame, Ledger::Turn turn) {
  const bool is_plain = turn == Ledger::Turn::kPlain;
  const uint64_t replays = root->counts.replays, ended = root->counts.ended;
  const uint64_t recordings = stats().records + stats().aborts, firsts = first_replays;
  const CallForm form = form_of(*root, frame);
  root->ledger.begin();
  const double start = computed();
  PyObject* result = is_plain ? run_compared(*root, ts, frame) : serve(root, ts, frame);
  const double taken = computed() - start;
  Ledger::Kind kind = Ledger::Kind::kOther;
  if (is_plain) {
    kind = Ledger::Kind::kPlain;
  } else if (stats().records + stats().aborts != recordings) {
    kind = Ledger::Kind::kRecorded;
  } else if (first_replays != firsts) {
    kind = Ledger::Kind::kFresh;
  } else if (root->counts.replays != replays) {
    kind = root->counts.ended != ended ? Ledger::Kind::kReplayed : Ledger::Kind::kLeft;
  }
  note_timed(*root, kind, taken, form);
  return result;
}

}  // namespace

PyObject* enter_root(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame) {
  root->counts.calls += 1;
  if (!cpython::untraced(ts)) return step_aside(*root, ts, frame, why_aside(*root, ts));
  root->aside.why.code = nullptr;
  PyObject* computed = nullptr;
  if (root->numbers.state != NumberLoops::State::kNone && runs_as_numbers_first(*root) &&
      run_as_numbers(*root, ts, frame, true, &computed))
    return computed;
  if (root->standing.is_disabled() && !is_tried_again(*root))
    return root->asked.strict ? raise_strict(root->standing.given_up) : run_plain(*root, ts, frame);
  const Ledger::Turn turn = next_turn(*root);
  if (turn == Ledger::Turn::kFree && root->ledger.doubts() && !is_asked_for(*root)) return run_plain(*root, ts, frame);
  return turn == Ledger::Turn::kFree ? serve(root, ts, frame) : timed(root, ts, frame, turn);
}

PyObject* enter_in_the_middle(const std::shared_ptr<Root>& entry, PyThreadState* ts, cpython::Frame* frame) {
  entry->counts.calls += 1;
  entry->aside.why.code = nullptr;
  PyObject* result = serve(entry, ts, frame);
  entry->standing.farewell.reset();  // the root that was left has its own
  return result;
}

PyObject* observe(PyThreadState* ts, cpython::Frame* frame) {
  const HookForFrames hook;
  recording_pace().begin(false, 0, 0);
  Recorder recorder(ts, frame, current_adapter(), nullptr);
  recorder.set_exit_points(stresses(Stress::kExits));
  recorder.set_faults(stresses(Stress::kFaults));
  const bool started = recorder.start();
  PyObject* result = plain(ts, frame, 0);
  if (!started) return result;
  if (active_recorder() == &recorder) recorder.leave_frame(frame, result);
  SavedError error;
  std::unique_ptr<Trace> trace = recorder.finish();
  if (trace != nullptr) {
    finish(*trace);
    prepare_replays(*trace);
    check_trace(*trace);
  }
  return result;
}

void time_guards(int root, int repeats) noexcept {
  g_timing = {root, repeats, {}};
}

GuardTimes guard_times() noexcept {
  return g_timing.times;
}

}  // namespace pijit
