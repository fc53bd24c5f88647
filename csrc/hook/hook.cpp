// The eval-frame function and its policy.
//
//   frame -> recorder live on this thread? -> followed frame: evaluated under events; any other: evaluated without
//         -> root of its code?             -> a trace whose guards hold: replay; else record, while that may pay
//         -> enable() under stress?        -> a root from its first call on, or recorded for nothing (hook/stress.h)
//         -> enable() and outermost?       -> evaluated while operators are counted; a second call makes it a root
//         -> CPython
//
// 1. Everything here runs with the GIL; the switches are plain globals.
// 2. A foreign evaluator that was installed before ours is what frames are handed on to.
// 3. The hook makes every Python call take C stack, so near the end of the stack it takes itself off until the stack
// unwinds.
#include "hook/hook.h"

#include "cache/root.h"
#include "exec/registers.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "hook/log.h"
#include "hook/stack.h"
#include "hook/stress.h"
#include "ir/adapter_slot.h"
#include "ir/verify.h"
#include "record/recorder.h"

namespace pijit {
namespace {

bool g_automatic = false;
cpython::FrameEval g_before = nullptr;  // what was installed before; null: CPython's own
thread_local int t_outermost = 0;       // a function watched by enable() runs on this thread
constexpr uint32_t kPlainCalls = 3;     // outermost calls without operators after which a code object is left alone

PyObject* eval_frame(PyThreadState* ts, cpython::Frame* frame, int throwflag);

PyObject* plain(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  if (g_before == nullptr) return cpython::eval_default(ts, frame, throwflag);
  try {
    return g_before(ts, frame, throwflag);
  } catch (abi::__forced_unwind&) {
    cpython::park_thread();
  }
}

// A frame while a recorder watches this thread.
PyObject* watched(Recorder& recorder, PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  if (recorder.enter_frame(frame, throwflag)) {
    PyObject* result = plain(ts, frame, throwflag);
    if (active_recorder() == &recorder) recorder.leave_frame(frame, result);
    return result;
  }
  cpython::EventsSuspended quiet(ts);
  return plain(ts, frame, throwflag);
}

void raise_strict(const StopInfo& stop) {
  Ref module = Ref::steal(PyImport_ImportModule("pijit.errors"));
  Ref type = module ? Ref::steal(PyObject_GetAttrString(module.get(), "StrictError")) : Ref();
  if (!type) return;
  std::string text = stop.file + ":" + std::to_string(stop.line) + " in " + stop.function + "(): " + stop.reason;
  if (stop.code != nullptr) text += std::string(" [") + stop.code + "]";
  PyErr_SetString(type.get(), text.c_str());
}

std::string stop_text(const StopInfo& stop) {
  if (stop.code == nullptr) return "";
  return ": stopped at " + stop.file + ":" + std::to_string(stop.line) + " in " + stop.function + "(): " + stop.reason +
         " [" + stop.code + "]";
}

// The root is left to CPython from now on.
void give_up(Root& root, std::string reason) {
  if (stress_words() == 0) root.disabled = std::move(reason);
}

void note_recorded(const Trace& trace) noexcept {
  CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(trace.code.get()), true);
  if (state == nullptr || state->recorded) return;
  state->recorded = true;
  stats().codes += 1;
}

// PIJIT_CHECKED: a trace that contradicts itself is a bug and stops the process.
void check_trace([[maybe_unused]] const Trace& trace) {
#if PIJIT_CHECKED
  const std::string wrong = verify_trace(trace);
  if (!wrong.empty()) Py_FatalError(wrong.c_str());
#endif
}

void install_trace(Root& root, std::unique_ptr<Trace> trace, const Recorder& recorder) {
  root.records += 1;
  stats().records += 1;
  if (trace == nullptr) {
    root.aborts += 1;
    stats().aborts += 1;
    root.last_stop = recorder.stop_info_or_none();
    log_line(Channel::kRecord, "record " + root.name + ": nothing was kept" + stop_text(root.last_stop));
    root.aborts_in_a_row += 1;
    if (root.aborts_in_a_row >= (root.traces.empty() ? limits().aborted : limits().aborted_again))
      give_up(root, "nothing could be recorded: " + root.last_stop.reason);
    return;
  }
  root.last_stop = trace->stop;
  root.aborts_in_a_row = 0;
  check_trace(*trace);
  finish_trace(*trace);
  check_trace(*trace);
  note_recorded(*trace);
  log_line(Channel::kRecord, "record " + root.name + ": " + std::to_string(trace->operations) + " operations, " +
                                 std::to_string(trace->guards.size()) + " guards, " +
                                 std::to_string(trace->nodes.size()) + " nodes" + stop_text(trace->stop));
  root.traces.push_back(std::move(trace));
}

PyObject* record(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame) {
  Recorder recorder(ts, frame, current_adapter());
  if (!recorder.start()) {
    root->aborts += 1;
    root->aborts_in_a_row += 1;
    if (root->aborts_in_a_row >= (root->traces.empty() ? limits().aborted : limits().aborted_again))
      give_up(*root, "its arguments cannot be guarded, or the framework is in a state that is not recorded");
    return plain(ts, frame, 0);
  }
  PyObject* result = plain(ts, frame, 0);
  if (active_recorder() == &recorder) recorder.leave_frame(frame, result);
  {
    SavedError error;
    install_trace(*root, recorder.finish(), recorder);
  }
  if (root->strict && result != nullptr && (root->traces.empty() || root->last_stop.code != nullptr)) {
    drop_reference(result);
    result = nullptr;
    raise_strict(root->last_stop);
  }
  return result;
}

// The trace that the root's guards choose runs; false: none.
bool run_trace(Root& root, PyThreadState* ts, cpython::Frame* frame, PyObject** result) {
  for (size_t i = 0; i < root.traces.size(); ++i) {
    std::shared_ptr<Trace> trace = root.traces[i];
    uint64_t exits = trace->exits;
    if (!try_replay(*trace, frame, ts, result)) continue;
    root.replays += 1;
    stats().replays += 1;
    root.exits += trace->exits - exits;
    if (trace->exits != exits) log_line(Channel::kExits, "exit " + root.name + ": a replay went on in CPython");
    stats().exits += trace->exits - exits;
    root.misses_in_a_row = root.aborts_in_a_row = 0;
    return true;
  }
  return false;
}

void note_miss(Root& root, cpython::Frame* frame) {
  root.misses += 1;
  stats().guard_failures += 1;
  root.misses_in_a_row += 1;
  const Trace& trace = *root.traces.back();
  RegisterFile registers(trace.regs.size());
  if (registers.get() == nullptr) return;
  load_inputs(trace, frame, registers.get());
  root.last_miss = explain_miss(trace, registers.get());
  log_line(Channel::kGuards, "miss " + root.name + ": " + root.last_miss);
}

PyObject* enter_root(const std::shared_ptr<Root>& root, PyThreadState* ts, cpython::Frame* frame) {
  if (!root->disabled.empty() || !cpython::untraced(ts)) return plain(ts, frame, 0);
  PyObject* result = nullptr;
  for (auto& trace : root->traces)
    if (!may_replay(*trace, ts)) return plain(ts, frame, 0);
  if (run_trace(*root, ts, frame, &result)) return result;
  if (root->traces.size() >= static_cast<size_t>(limits().traces)) {
    note_miss(*root, frame);
    if (root->misses_in_a_row >= limits().misses)
      give_up(*root, "its calls keep differing from every recorded one: " + root->last_miss);
    return plain(ts, frame, 0);
  }
  if (!root->traces.empty()) note_miss(*root, frame);
  return record(root, ts, frame);
}

bool is_function_body(PyCodeObject* code) {
  constexpr int kFlags = CO_OPTIMIZED | CO_NEWLOCALS;
  return (code->co_flags & kFlags) == kFlags && !cpython::is_generator_code(code);
}

// enable(): the outermost function that runs tensor operators becomes a root at its second call.
PyObject* outermost(PyThreadState* ts, cpython::Frame* frame) {
  PyCodeObject* code = cpython::code(frame);
  CodeState* state = code_state(code, true);
  Adapter* adapter = current_adapter();
  if (state == nullptr || adapter == nullptr || state->plain_calls >= kPlainCalls) return plain(ts, frame, 0);
  if (state->has_operators) {
    const char* name = PyUnicode_AsUTF8(code->co_qualname);
    if (add_root(code, cpython::function(frame), nullptr, name == nullptr ? "?" : name, false, true) < 0) {
      PyErr_Clear();
      return plain(ts, frame, 0);
    }
    std::shared_ptr<Root> root = state->roots.back();
    t_outermost += 1;
    PyObject* result = enter_root(root, ts, frame);
    t_outermost -= 1;
    return result;
  }
  Ref keep = Ref::borrow(reinterpret_cast<PyObject*>(code));
  t_outermost += 1;
  adapter->count_operators(true);
  uint64_t before = adapter->operators_counted();
  PyObject* result = plain(ts, frame, 0);
  uint64_t ran = adapter->operators_counted() - before;
  adapter->count_operators(false);
  t_outermost -= 1;
  if (ran > 0) {
    state->has_operators = true;
  } else {
    state->plain_calls += 1;
  }
  return result;
}

// Recorded, and the trace thrown away.
PyObject* observe(PyThreadState* ts, cpython::Frame* frame) {
  Recorder recorder(ts, frame, current_adapter());
  const bool started = recorder.start();
  PyObject* result = plain(ts, frame, 0);
  if (!started) return result;
  if (active_recorder() == &recorder) recorder.leave_frame(frame, result);
  SavedError error;
  std::unique_ptr<Trace> trace = recorder.finish();
  if (trace == nullptr) return result;
  check_trace(*trace);
  finish_trace(*trace);
  check_trace(*trace);
  note_recorded(*trace);
  return result;
}

PyObject* stressed(PyThreadState* ts, cpython::Frame* frame) {
  if (is_own_python(frame)) return plain(ts, frame, 0);
  if (stresses(Stress::kObserve)) {
    CodeState* state = code_state(cpython::code(frame), true);
    if (state == nullptr || state->observed == kObservedCalls) return plain(ts, frame, 0);
    state->observed += 1;
    return observe(ts, frame);
  }
  std::shared_ptr<Root> root = stress_root(frame);
  return root == nullptr ? plain(ts, frame, 0) : enter_root(root, ts, frame);
}

PyObject* eval_frame(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  if (near_stack_end()) return without_hook(ts, frame, throwflag, eval_frame);
  Recorder* recorder = active_recorder();
  if (recorder != nullptr) return watched(*recorder, ts, frame, throwflag);
  PyCodeObject* code = cpython::code(frame);
  CodeState* state = code_state(code, false);
  if (throwflag != 0 || !cpython::is_fresh(frame) || cpython::is_generator_frame(frame))
    return plain(ts, frame, throwflag);
  if (state != nullptr && !state->roots.empty()) {
    for (auto& candidate : state->roots) {
      if (!candidate->matches(frame) || (candidate->automatic && !g_automatic)) continue;
      std::shared_ptr<Root> root = candidate;
      t_outermost += 1;
      PyObject* result = enter_root(root, ts, frame);
      t_outermost -= 1;
      return result;
    }
  }
  if (g_automatic && stress_words() != 0 && is_function_body(code) && cpython::untraced(ts)) return stressed(ts, frame);
  if (g_automatic && t_outermost == 0 && is_function_body(code) && cpython::untraced(ts)) return outermost(ts, frame);
  return plain(ts, frame, throwflag);
}

}  // namespace

void install_hook() noexcept {
  PyThreadState* ts = PyThreadState_Get();
  cpython::FrameEval now = cpython::get_eval_frame(ts);
  if (now == eval_frame) return;
  g_before = now == cpython::default_eval_frame() ? nullptr : now;
  cpython::set_eval_frame(ts, eval_frame);
}

void remove_hook() noexcept {
  PyThreadState* ts = PyThreadState_Get();
  if (cpython::get_eval_frame(ts) != eval_frame) return;
  cpython::set_eval_frame(ts, g_before != nullptr ? g_before : cpython::default_eval_frame());
  g_before = nullptr;
}

bool hook_installed() noexcept {
  return cpython::get_eval_frame(PyThreadState_Get()) == eval_frame;
}

void set_automatic(bool on) noexcept {
  g_automatic = on;
}

}  // namespace pijit
