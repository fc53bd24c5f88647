// enable(): finds the functions that become roots by themselves.
//
// A root is the outermost function under which tensor operators ran, at its second call. What comes a second time is
// the function, or for a method the function with this object: a loop over layers calls one function for each of them,
// and each has traces of its own.
//
//   for x in data: step(x)              step is outermost; its second call is recorded
//   def main(): for x in data: step(x)  main is, and has no second call: once it has run long, what it calls a second
//                                       time is recorded instead (hook/running.h)
//
// 1. Module and class bodies, generators and coroutines are not looked at; what they call is outermost. Comprehensions
//    are part of the frame that they stand in. So are imports, whose operators do not count for who imports.
// 2. A code object is left alone after kPlainCalls calls without operators, or limits().wasted roots in a row that died
//    before they were worth their recordings, such as those of objects that are made anew at each call. So is an object
//    of a class, two objects of which were given up.
// 3. Nor is a function that calls the engine that computes gradients and does little else, such as Tensor.backward: the
// engine is one node of a trace, and each loss is another object. Where a loop calls it the loop may become the root
// (hook/in_loop.h).
// 4. A root whose recordings cost more than their budget passes the role on to what it calls, through the functions
//    that it calls once (record/pace.h); a jitted one, too.
#include "hook/automatic.h"

#include <algorithm>
#include <utility>

#include "adapter.h"
#include "hook/evaluate.h"
#include "hook/hook.h"
#include "hook/in_loop.h"
#include "hook/rest.h"
#include "hook/savings.h"
#include "hook/serve.h"
#include "ir/adapter_slot.h"
#include "record/marks.h"
#include "record/recorder.h"

namespace pijit {
namespace {

constexpr uint32_t kPlainCalls = 3;
constexpr uint64_t kFewOperators = 2;    // beside those of the engine: the gradient that it begins with, a factor
constexpr size_t kMostEngineCalls = 16;  // functions of one code object, such as that of a decorator
constexpr size_t kNoted = 32;            // functions of which outermost() tells

bool g_automatic = false;
uint64_t g_traced = 0;
PyObject* g_engine_code = nullptr;  // once a call was watched
std::vector<Outermost> g_outermost;
thread_local Watch* t_watch = nullptr;
thread_local int t_looks = 0;    // LooksInside that live, and Passing
thread_local int t_imports = 0;  // that run

// The call computes gradients, and does little else.
bool only_calls_engine(const Watch& watch, uint64_t operators) noexcept {
  return watch.engine_runs > 0 && operators - watch.in_engine <= kFewOperators;
}

void stop_counting(Watch& watch) noexcept {
  if (!watch.counting) return;
  watch.counting = false;
  Adapter* adapter = current_adapter();
  const uint64_t operators = adapter->operators_counted();
  if (operators > 0) {
    watch.state->has_operators = watch.state->has_operators || !only_calls_engine(watch, operators);
    note_use();
  }
  adapter->count_operators(false);
}

// The object whose method this frame is a call of, if its class has the function under the function's own name.
PyObject* method_object(cpython::Frame* frame) noexcept {
  PyCodeObject* code = cpython::code(frame);
  PyObject* self = code->co_argcount > 0 ? cpython::slot(frame, 0) : nullptr;
  if (self == nullptr || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(self)) || PyType_Check(self)) return nullptr;
  return cpython::lookup_type(Py_TYPE(self), code->co_name) == cpython::function(frame) ? self : nullptr;
}

// Notes a call; whether this function, or object, was seen before. One that has died since is another.
bool comes_again(CodeState& state, PyObject* key) {
  for (const Ref& seen : state.seen)
    if (PyWeakref_GET_OBJECT(seen.get()) == key) return true;
  Ref weak = Ref::steal(PyWeakref_NewRef(key, nullptr));
  if (!weak) return PyErr_Clear(), false;
  if (state.seen.size() < limits().seen) {
    state.seen.push_back(std::move(weak));
  } else {
    state.seen[state.next_seen++ % state.seen.size()] = std::move(weak);
  }
  return false;
}

// Roots of this code have died again and again before they were worth their recordings.
bool is_wasted(const CodeState& state) noexcept {
  const Limits& most = limits();
  return state.wasted >= (g_automatic ? std::min(most.wasted, most.wasted_unasked) : most.wasted);
}

// Other objects of this class have been such roots, and were given up before they were worth it: so would this one be.
bool is_given_up_for(const CodeState& state, PyObject* object) {
  constexpr int kMostGivenUp = 2;
  if (object == nullptr) return false;
  const auto given_up = std::count_if(state.roots.begin(), state.roots.end(), [&](const auto& root) {
    PyObject* other = root->owner.instance;
    return other != nullptr && other != object && Py_TYPE(other) == Py_TYPE(object) && root->asked.automatic &&
           root->standing.is_disabled() && !root->counts.is_worth();
  });
  return given_up >= kMostGivenUp;
}

std::string text_of(PyObject* unicode) {
  const char* text = PyUnicode_AsUTF8(unicode);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "?" : text;
}

// Notes a call that was watched and not recorded.
void note_outermost(PyCodeObject* code, double seconds) {
  const SavedError error;
  for (Outermost& seen : g_outermost)
    if (seen.code == code) {
      seen.calls += 1;
      seen.seconds += seconds;
      return;
    }
  if (g_outermost.size() == kNoted) return;
  g_outermost.push_back(
      {code, text_of(code->co_qualname), text_of(code->co_filename), code->co_firstlineno, 1, seconds});
}

// Of the function that CPython calls for each import of a module that is not there yet; null: there is none. It is found
// without an import, which a program may have replaced by a function that comes here.
PyObject* import_code() noexcept {
  static PyObject* code = nullptr;
  static bool is_found = false;
  if (std::exchange(is_found, true)) return code;
  const SavedError error;
  const Ref name = Ref::steal(PyUnicode_FromString("_frozen_importlib"));
  const Ref module = name ? Ref::steal(PyImport_GetModule(name.get())) : Ref();
  Ref function = module ? Ref::steal(PyObject_GetAttrString(module.get(), "_find_and_load")) : Ref();
  if (function && PyFunction_Check(function.get())) code = PyFunction_GET_CODE(function.release());
  PyErr_Clear();
  return code;
}

bool is_engine_call(const CodeState& state, PyObject* function) noexcept {
  return std::any_of(state.engine_calls.begin(), state.engine_calls.end(),
                     [&](const Ref& each) { return PyWeakref_GET_OBJECT(each.get()) == function; });
}

void note_engine_call_of(CodeState& state, PyObject* function) {
  if (state.engine_calls.size() >= kMostEngineCalls) return;
  const SavedError error;
  Ref weak = Ref::steal(PyWeakref_NewRef(function, nullptr));
  if (!weak) return PyErr_Clear();
  state.engine_calls.push_back(std::move(weak));
}

// The function computes gradients: as a root it would pay nothing.
PyObject* run_engine_call(PyThreadState* ts, cpython::Frame* frame) {
  note_engine_call(ts);
  const Watch watch(frame, nullptr);
  return plain(ts, frame, 0);
}

PyObject* watch_frame(CodeState* state, PyThreadState* ts, cpython::Frame* frame, bool* computes_gradients) {
  PyCodeObject* const frame_code = cpython::code(frame);
  if (g_engine_code == nullptr) {
    const SavedError error;
    g_engine_code = current_adapter()->engine_code();
  }
  Watch watch(frame, state);
  if (!state->has_operators) {
    current_adapter()->count_operators(true);
    watch.counting = true;
  }
  const double began = computed();
  PyObject* result = run_to_loop(ts, frame, 0);
  state->plain_seconds = computed() - began;
  if (measures_savings()) state->watched = {state->plain_seconds, 1};
  if (watch.counting) {
    const uint64_t operators = current_adapter()->operators_counted();
    if (operators == 0) state->plain_calls += 1;
    *computes_gradients = only_calls_engine(watch, operators);
  }
  stop_counting(watch);
  if (state->has_operators) {
    note_use();
    note_outermost(frame_code, state->plain_seconds);
  }
  return result;
}

PyObject* watch_call(CodeState* state, PyThreadState* ts, cpython::Frame* frame) {
  const Ref code = Ref::borrow(reinterpret_cast<PyObject*>(cpython::code(frame)));
  const Ref function = Ref::borrow(cpython::function(frame));
  bool computes_gradients = false;
  PyObject* result = watch_frame(state, ts, frame, &computes_gradients);
  if (!computes_gradients) return result;
  note_engine_call_of(*state, function.get());
  note_engine_call(ts);
  return result;
}

// As jit names it: an object that is called by its class.
std::string root_name(PyObject* object, cpython::Frame* frame) {
  if (object != nullptr && cpython::lookup_type(Py_TYPE(object), names().call) == cpython::function(frame))
    return Py_TYPE(object)->tp_name;
  PyObject* function = undecorated(cpython::function(frame));
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  const char* name = PyUnicode_AsUTF8(code->co_qualname);
  if (name == nullptr) PyErr_Clear();
  return name == nullptr ? "?" : name;
}

// A root that stands for calls that ran; null: there is none.
std::shared_ptr<Root> waiting_root(PyCodeObject* code, cpython::Frame* frame) {
  for (const auto& root : all_roots())
    if (root->owner.code == code && root->owner.matches(frame)) return root;
  return nullptr;
}

// It is a root from now on; false: it cannot be.
bool make_root(PyObject* object, cpython::Frame* frame) {
  if (auto root = waiting_root(cpython::code(frame), frame)) {
    code_state(cpython::code(frame), true)->roots.push_back(std::move(root));
    return true;
  }
  PyObject* function = object == nullptr ? cpython::function(frame) : nullptr;
  if (add_root(cpython::code(frame), function, object, root_name(object, frame), false, true) < 0) {
    PyErr_Clear();
    return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<Root> root_of_running(cpython::Frame* frame) {
  PyCodeObject* code = cpython::code(frame);
  if (std::shared_ptr<Root> root = waiting_root(code, frame)) return root;
  CodeState* state = code_state(code, true);
  if (state == nullptr || !make_root(method_object(frame), frame)) return nullptr;
  std::shared_ptr<Root> root = std::move(state->roots.back());
  state->roots.pop_back();
  root->counts.calls += 1;
  return root;
}

void set_automatic(bool on) noexcept {
  g_automatic = on;
}

const std::vector<Outermost>& outermost() noexcept {
  return g_outermost;
}

uint64_t traced_calls() noexcept {
  return g_traced;
}

bool automatic() noexcept {
  return g_automatic || t_looks > 0;
}

bool finds_everywhere() noexcept {
  return g_automatic;
}

LooksInside::LooksInside() noexcept {
  t_looks += 1;
}

LooksInside::~LooksInside() {
  t_looks -= 1;
}

Watch::Watch(cpython::Frame* frame, CodeState* state, bool closed) noexcept
    : state(state), outer(t_watch), closed(closed), running(frame, !closed) {
  t_watch = this;
}

Watch::~Watch() {
  stop_counting(*this);
  t_watch = outer;
}

PyObject* run_unwatched(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  const bool counts = t_watch != nullptr && !t_watch->closed && !is_comprehension(cpython::code(frame));
  const Running running(frame, counts);
  return run_to_loop(ts, frame, throwflag);
}

PyObject* run_idle(PyThreadState* ts, cpython::Frame* frame) {
  if (t_watch != nullptr && !t_watch->closed) note_frame();
  return run_unwatched(ts, frame, 0);
}

Passing::Passing(cpython::Frame* frame, bool always) noexcept
    : outer(t_watch), always(always), running(frame, !is_comprehension(cpython::code(frame)), true) {
  for (Watch* open = outer; open != nullptr; open = open->outer) stop_counting(*open);
  t_watch = nullptr;
  t_looks += always;
}

Passing::~Passing() {
  t_looks -= always;
  t_watch = outer;
}

bool is_import(cpython::Frame* frame) noexcept {
  return automatic() && reinterpret_cast<PyObject*>(cpython::code(frame)) == import_code();
}

PyObject* run_import(PyThreadState* ts, cpython::Frame* frame) {
  const Unlooked unlooked;
  Watch* const outer = t_watch;
  const bool counts = outer != nullptr && outer->counting;
  if (counts && current_adapter()->operators_counted() > 0) stop_counting(*outer);
  if (counts) current_adapter()->count_operators(false);
  PyObject* result = nullptr;
  {
    const Watch watch(frame, nullptr);
    t_imports += 1;
    result = plain(ts, frame, 0);
    t_imports -= 1;
  }
  if (t_imports == 0) wake_hook();  // imports make many calls; what they were for is still to come
  if (outer != nullptr && outer->counting) current_adapter()->count_operators(true);
  return result;
}

bool is_outermost_module(cpython::Frame* frame) noexcept {
  return t_watch == nullptr && t_imports == 0 && automatic() && cpython::is_module_body(frame);
}

PyObject* run_module(PyThreadState* ts, cpython::Frame* frame) {
  const Passing passing(frame, false);
  return run_to_loop(ts, frame, 0);
}

PyObject* run_unlooked(PyThreadState* ts, cpython::Frame* frame) {
  const Watch watch(frame, nullptr, true);
  return plain(ts, frame, 0);
}

bool is_engine(cpython::Frame* frame) noexcept {
  return automatic() && g_engine_code != nullptr && reinterpret_cast<PyObject*>(cpython::code(frame)) == g_engine_code;
}

PyObject* run_engine(PyThreadState* ts, cpython::Frame* frame) {
  Watch* const open = t_watch;
  const bool counts = open != nullptr && open->counting;
  const uint64_t before = counts ? current_adapter()->operators_counted() : 0;
  PyObject* result = nullptr;
  {
    const Watch watch(frame, nullptr);
    result = plain(ts, frame, 0);
  }
  if (!counts || !open->counting) return result;
  open->in_engine += current_adapter()->operators_counted() - before;
  open->engine_runs += 1;
  return result;
}

bool is_candidate(PyThreadState* ts, cpython::Frame* frame) noexcept {
  if (!automatic()) return false;
  if (t_watch != nullptr) {
    if (t_watch->closed) return false;
    note_frame();
    if (!passes_on(ts)) return false;
    for (Watch* open = t_watch; open != nullptr; open = open->outer) stop_counting(*open);
  }
  if (!cpython::untraced(ts)) return g_traced += 1, false;
  PyCodeObject* code = cpython::code(frame);
  return current_adapter() != nullptr && cpython::is_function_body(code) && !is_comprehension(code);
}

PyObject* enter_candidate(PyThreadState* ts, cpython::Frame* frame) {
  const Mark mark = mark_of_frame(frame);
  if (mark == Mark::kSkip) return run_unwatched(ts, frame, 0);
  if (mark == Mark::kOpaque) {
    const Watch watch(frame, nullptr, true);
    return plain(ts, frame, 0);
  }
  CodeState* state = code_state(cpython::code(frame), true);
  if (tries_loop(ts)) {
    if (state != nullptr && is_engine_call(*state, cpython::function(frame))) note_engine_call(ts);
    return run_unlooked(ts, frame);
  }
  if (state != nullptr && state->passes_on) {
    const Passing passing(frame, false);
    return run_to_loop(ts, frame, 0);
  }
  if (state == nullptr || is_wasted(*state)) return run_unwatched(ts, frame, 0);
  if (state->plain_calls >= kPlainCalls) {
    state->idle = {cpython::function(frame), marks_set};
    return run_unwatched(ts, frame, 0);
  }
  if (is_engine_call(*state, cpython::function(frame))) return run_engine_call(ts, frame);
  PyObject* object = method_object(frame);
  const bool again = comes_again(*state, object != nullptr ? object : cpython::function(frame));
  if (again && is_given_up_for(*state, object)) return run_unwatched(ts, frame, 0);
  if (!again || !state->has_operators || stance() == Stance::kReplayOnly || !make_root(object, frame))
    return watch_call(state, ts, frame);
  std::shared_ptr<Root> root = state->roots.back();
  root->savings.first = state->watched;
  root->recordings.plain = state->plain_seconds;
  Watch watch(frame, state);
  return enter_root(root, ts, frame);
}

}  // namespace pijit
