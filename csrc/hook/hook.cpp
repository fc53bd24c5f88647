// The eval-frame function.
//
//   frame -> recorder live on this thread? -> followed frame: evaluated under events; any other: evaluated without
//         -> root of its code?             -> a trace whose guards hold: replay; else record, while that may pay
//         -> enable() under stress?        -> a root from its first call on, or recorded for nothing (hook/stress.h)
//         -> enable() and outermost?       -> evaluated while operators are counted; a second call makes it a root
//         -> CPython; after many such calls without the hook (hook/rest.h)
//
// 1. Everything here runs with the GIL; the switches are plain globals.
// 2. A foreign evaluator that was installed before ours is what frames are handed on to.
// 3. The hook makes every Python call take C stack, so near the end of the stack it takes itself off until the stack
// unwinds.
// 4. Where functions have entrances (cpython/entrance.h) those of roots do, and the hook stays out, so that all other
// calls are as fast and recurse as deep as ever. It is in place only while frames are asked for that no entrance tells
// of: while something is recorded, under enable(), for roots that need frames (cache/root.h), and while threads
// compile, which pause where they call functions (hook/beside.h).
#include "hook/hook.h"

#include <algorithm>
#include <new>
#include <optional>

#include "cache/code_state.h"
#include "cpython/entrance.h"
#include "cpython/hand_back.h"
#include "cpython/scarce_stack.h"
#include "hook/automatic.h"
#include "hook/beside.h"
#include "hook/entries.h"
#include "hook/evaluate.h"
#include "hook/rest.h"
#include "hook/serve.h"
#include "hook/stack.h"
#include "hook/stress.h"
#include "hook/worth.h"
#include "record/marks.h"
#include "record/put_aside.h"
#include "record/recorder.h"

namespace pijit {
namespace {

bool g_on = false;     // the hook is asked for
bool g_in = false;     // and was put in place
int g_recordings = 0;  // HookForFrames that live
int g_asleep = 0;      // calls under way that run as they would without pijit

PyObject* eval_frame(PyThreadState* ts, cpython::Frame* frame, int throwflag);
void take_out() noexcept;

// CPython was to run the loop of a frame, and its caller is being recorded.
PyObject* go_on_beside(PyThreadState* ts, cpython::HandBack* back) {
  std::optional<PutAside> aside;
  try {
    aside.emplace();
  } catch (const std::bad_alloc&) {
    const auto in_cpython = [](PyThreadState* state, cpython::Frame* frame, void*) {
      return cpython::eval_default(state, frame, 0);
    };
    return back->go_on(ts, in_cpython, nullptr);
  }
  return go_on_in_loop(ts, back);
}

// A frame while a recorder watches this thread.
PyObject* watched(Recorder& recorder, PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  if (recorder.enter_frame(frame, throwflag)) {
    const cpython::EventsInHook events(ts);
    cpython::HandBack back(may_come_back(frame));
    PyObject* result = plain(ts, frame, throwflag);
    if (back.is_done()) {
      drop_reference(result);
      result = go_on_beside(ts, &back);
    }
    if (active_recorder() == &recorder) recorder.leave_frame(frame, result);
    return result;
  }
  if (active_recorder() != &recorder) return plain(ts, frame, throwflag);
  recorder.step_aside();
  PyObject* result = plain(ts, frame, throwflag);
  if (active_recorder() == &recorder) recorder.come_back();
  return result;
}

// The root that this frame is a call of, if it is not left alone.
std::shared_ptr<Root> root_of_frame(CodeState& state, cpython::Frame* frame) {
  for (auto& candidate : state.roots)
    if (!candidate->owner.suspends && candidate->owner.matches(frame) && (!candidate->asked.automatic || automatic()))
      return candidate;
  return nullptr;
}

// Enough calls have come: the hook may have lost more than it may.
void weigh(PyThreadState* ts) noexcept {
  const double seconds = weigh_hook();
  if (seconds <= 0 || g_recordings > 0 || any_compiles() || !may_rest_for_a_time()) return;
  if (cpython::get_eval_frame(ts) != eval_frame) return;
  begin_rest_for(seconds, install_hook);
  take_out();
}

void rest(PyThreadState* ts) noexcept {
  if (cpython::get_eval_frame(ts) != eval_frame) return;
  begin_rest(install_hook);
  take_out();
}

// A frame that is no root's.
void note_quiet_call(PyThreadState* ts) noexcept {
  if (is_quiet_call() && may_rest()) rest(ts);
}

// A frame that goes on, or that cannot be a root's. The body of a jitted generator or coroutine function is CPython's;
// what it calls is looked at.
PyObject* not_looked_at(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  note_quiet_call(ts);
  if (!any_suspends() || !cpython::is_generator_frame(frame)) return run_unwatched(ts, frame, throwflag);
  CodeState* state = code_state(cpython::code(frame), false);
  if (state == nullptr) return run_unwatched(ts, frame, throwflag);
  const bool jitted = std::any_of(state->roots.begin(), state->roots.end(),
                                  [&](const auto& root) { return root->owner.suspends && root->owner.matches(frame); });
  if (!jitted) return run_unwatched(ts, frame, throwflag);
  const LooksInside looks;
  return plain(ts, frame, throwflag);
}

PyObject* stressed(PyThreadState* ts, cpython::Frame* frame) {
  if (is_own_python(frame) || mark_of_frame(frame) == Mark::kSkip) return plain(ts, frame, 0);
  if (stresses(Stress::kObserve)) {
    CodeState* state = code_state(cpython::code(frame), true);
    if (state == nullptr || state->observed == kObservedCalls) return plain(ts, frame, 0);
    state->observed += 1;
    return observe(ts, frame);
  }
  std::shared_ptr<Root> root = stress_root(frame);
  return root == nullptr ? plain(ts, frame, 0) : enter_root(root, ts, frame);
}

PyObject* decide(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  Recorder* recorder = active_recorder();
  if (recorder != nullptr) return watched(*recorder, ts, frame, throwflag);
  if (is_window_over()) weigh(ts);
  if (!g_on) {  // it was removed while something else stood before it, which has put it back
    remove_hook();
    return plain(ts, frame, throwflag);
  }
  if (stance() == Stance::kOff) return plain(ts, frame, throwflag);
  if (throwflag != 0 || !cpython::is_fresh(frame) || cpython::is_generator_frame(frame))
    return not_looked_at(ts, frame, throwflag);
  note_call(ts);
  CodeState* state = code_state(cpython::code(frame));
  if (state != nullptr && !state->roots.empty()) {
    if (std::shared_ptr<Root> root = root_of_frame(*state, frame)) {
      if (root->is_live()) note_use();
      note_turn();
      if (root->standing.is_disabled() && (root->standing.passes || (!root->standing.closed && automatic()))) {
        const Passing passing(frame, root->standing.passes);
        return enter_root(root, ts, frame);
      }
      Watch watch(frame, state, root->standing.closed);
      return enter_root(root, ts, frame);
    }
  }
  if (stress_words() != 0 && automatic() && cpython::untraced(ts) && cpython::is_function_body(cpython::code(frame)))
    return stressed(ts, frame);
  note_quiet_call(ts);
  if (state != nullptr && is_idle(*state, frame) && !tries_loop(ts)) return run_idle(ts, frame);
  if (is_import(frame)) return run_import(ts, frame);
  if (is_engine(frame)) return run_engine(ts, frame);
  if (is_outermost_module(frame)) return run_module(ts, frame);
  if (is_candidate(ts, frame)) return enter_candidate(ts, frame);
  return run_unwatched(ts, frame, throwflag);
}

PyObject* eval_frame(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  if (near_stack_end()) {
    const cpython::ScarceStack scarce(ts);
    return without_hook(ts, frame, throwflag, eval_frame);
  }
  pause_if_beside();
  const cpython::TurnEventsAside aside(ts);
  cpython::Evaluation evaluation(frame);
  return evaluation.finish(ts, decide(ts, frame, throwflag));
}

// The evaluator in place is what frames are handed on to.
void come_after(cpython::FrameEval now) noexcept {
  set_evaluator_before(now == cpython::default_eval_frame() ? nullptr : now);
}

PyObject* enter_by_call(PyThreadState* ts, cpython::Frame* frame, void*) {
  come_after(cpython::get_eval_frame(ts));
  PyObject* result = decide(ts, frame, 0);
  settle_hook();
  return result;
}

PyObject* entrance(PyObject* function, PyObject* const* arguments, size_t count, PyObject* names);

// Near the end of the C stack a function goes without its entrance until it returns: what it calls of itself takes no C
// stack then. Where its role as a root ends meanwhile it stays without.
PyObject* without_entrance(PyObject* function, PyObject* const* arguments, size_t count, PyObject* names) {
  const Ref kept = Ref::borrow(function);
  const cpython::ScarceStack scarce(PyThreadState_Get());
  cpython::set_entrance(function, nullptr);
  PyObject* result = cpython::call_past_entrance(function, arguments, count, names);
  if (root_of(function) >= 0) cpython::set_entrance(function, entrance);
  return result;
}

// The vectorcall of a root's function.
PyObject* entrance(PyObject* function, PyObject* const* arguments, size_t count, PyObject* names) {
  PyThreadState* ts = PyThreadState_Get();
  if (near_stack_end()) return without_entrance(function, arguments, count, names);
  if (!g_on || g_asleep > 0 || cpython::get_eval_frame(ts) == eval_frame)
    return cpython::call_past_entrance(function, arguments, count, names);
  return cpython::call_into_frame(ts, function, arguments, count, names, enter_by_call, nullptr);
}

bool needs_hook() noexcept {
  if (g_recordings > 0 || any_compiles()) return true;
  return !hook_rests() && (!cpython::kHasEntrances || automatic() || any_root_needs_frames());
}

void put_in() noexcept {
  PyThreadState* ts = PyThreadState_Get();
  cpython::FrameEval now = cpython::get_eval_frame(ts);
  g_in = true;
  if (now == eval_frame) return;
  near_stack_end();  // found now, not in the first call
  come_after(now);
  cpython::set_eval_frame(ts, eval_frame);
}

void take_out() noexcept {
  PyThreadState* ts = PyThreadState_Get();
  if (cpython::get_eval_frame(ts) != eval_frame) return;
  g_in = false;
  cpython::set_eval_frame(ts, evaluator_before() != nullptr ? evaluator_before() : cpython::default_eval_frame());
  set_evaluator_before(nullptr);
}

}  // namespace

void settle_hook() noexcept {
  if (!g_on || g_in == needs_hook()) return;
  if (g_in)
    take_out();
  else
    put_in();
}

HookForFrames::HookForFrames() noexcept {
  g_recordings += 1;
  settle_hook();
}

HookForFrames::~HookForFrames() {
  g_recordings -= 1;
  roots_changed();  // a guard may have given a root's function a version
  settle_hook();
}

void give_entrance(PyObject* function) noexcept {
  cpython::set_entrance(function, entrance);
}

void take_entrance(PyObject* function) noexcept {
  cpython::set_entrance(function, nullptr);
}

PyObject* evaluate_alone(PyThreadState* ts, cpython::Frame* frame) {
  if (any_live_root() || evaluator_before() != nullptr || cpython::get_eval_frame(ts) != eval_frame)
    return plain(ts, frame, 0);
  cpython::set_eval_frame(ts, cpython::default_eval_frame());
  PyObject* result = cpython::eval_default(ts, frame, 0);
  const bool is_wanted = g_on && !hook_rests();
  if (is_wanted && cpython::get_eval_frame(ts) == cpython::default_eval_frame())
    cpython::set_eval_frame(ts, eval_frame);
  return result;
}

PyObject* evaluate_without_pijit(PyThreadState* ts, cpython::Frame* frame) {
  g_asleep += 1;
  PyObject* result = without_hook(ts, frame, 0, cpython::get_eval_frame(ts));
  g_asleep -= 1;
  return result;
}

void install_hook() noexcept {
  g_on = true;
  end_rest();
  if (needs_hook()) put_in();
}

void wake_hook() noexcept {
  if (hook_rests()) install_hook();
}

void remove_hook() noexcept {
  g_on = false;
  end_rest();
  take_out();
}

bool hook_installed() noexcept {
  return g_on && !hook_rests() && (!needs_hook() || cpython::get_eval_frame(PyThreadState_Get()) == eval_frame);
}

}  // namespace pijit
