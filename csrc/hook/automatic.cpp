// enable(): finds the functions that become roots by themselves.
//
// A root is the outermost function under which tensor operators ran, at its second call. What comes a second time is
// the function, or for a method the function with this object: a loop over layers calls one function for each of them,
// and each has traces of its own.
//
//   for x in data: step(x)              step is outermost; its second call is recorded
//   def main(): for x in data: step(x)  main is, and has no second call: after kLong calls inside it, what it calls a
//                                       second time is recorded instead, and main is not looked at again
//
// 1. Module and class bodies, generators and coroutines are not looked at; what they call is outermost. Comprehensions
//    are part of the frame that they stand in.
// 2. A code object is left alone after kPlainCalls calls without operators, or limits().wasted roots in a row that died
//    before they were worth their recordings, such as those of objects that are made anew at each call.
// 3. A root whose recordings cost more than their budget passes the role on to what it calls, through the functions
//    that it calls once (record/pace.h); a jitted one, too.
#include "hook/automatic.h"

#include "adapter.h"
#include "hook/evaluate.h"
#include "hook/rest.h"
#include "hook/savings.h"
#include "hook/serve.h"
#include "ir/adapter_slot.h"
#include "record/marks.h"
#include "record/recorder.h"

namespace pijit {
namespace {

constexpr uint32_t kPlainCalls = 3;
constexpr size_t kNoted = 32;  // functions of which outermost() tells

bool g_automatic = false;
uint64_t g_traced = 0;
std::vector<Outermost> g_outermost;
thread_local Watch* t_watch = nullptr;
thread_local int t_looks = 0;        // LooksInside that live, and Passing
thread_local uint64_t t_frames = 0;  // entered while something was watched

bool is_comprehension(PyCodeObject* code) noexcept {
  if (PyUnicode_READ_CHAR(code->co_name, 0) != '<') return false;
  for (const char* name : {"<listcomp>", "<setcomp>", "<dictcomp>"})
    if (cpython::equals_ascii(code->co_name, name)) return true;
  return false;
}

void stop_counting(Watch& watch) noexcept {
  if (!watch.counting) return;
  watch.counting = false;
  Adapter* adapter = current_adapter();
  if (adapter->operators_counted() > 0) {
    watch.state->has_operators = true;
    note_use();
  }
  adapter->count_operators(false);
}

// The frame is called by the one that is watched, which has run long.
bool is_passed_on(PyThreadState* ts) noexcept {
  Watch& watch = *t_watch;
  if (watch.closed || ++t_frames - watch.began < kLong) return false;
  cpython::Frame* caller = cpython::current_frame(ts);
  while (caller != nullptr && is_comprehension(cpython::code(caller))) caller = cpython::previous(caller);
  if (caller != watch.frame) return false;
  for (Watch* open = &watch; open != nullptr; open = open->outer) stop_counting(*open);
  return true;
}

// The object whose method this frame is a call of, if its class has the function under the function's own name.
PyObject* method_object(cpython::Frame* frame) noexcept {
  PyCodeObject* code = cpython::code(frame);
  PyObject* self = code->co_argcount > 0 ? cpython::slot(frame, 0) : nullptr;
  if (self == nullptr || !PyType_SUPPORTS_WEAKREFS(Py_TYPE(self)) || PyType_Check(self)) return nullptr;
  return cpython::lookup_type(Py_TYPE(self), code->co_name) == cpython::function(frame) ? self : nullptr;
}

// Notes a call; whether this function, or object, was seen before.
bool comes_again(CodeState& state, const void* key) {
  for (const void* seen : state.seen)
    if (seen == key) return true;
  if (state.seen.size() < limits().seen) {
    state.seen.push_back(key);
  } else {
    state.seen[state.next_seen++ % state.seen.size()] = key;
  }
  return false;
}

std::string text_of(PyObject* unicode) {
  const char* text = PyUnicode_AsUTF8(unicode);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "?" : text;
}

// Notes a call that was watched and not recorded.
void note_outermost(PyCodeObject* code, uint64_t inside) {
  const SavedError error;
  for (Outermost& seen : g_outermost)
    if (seen.code == code) {
      seen.calls += 1;
      seen.inside += inside;
      return;
    }
  if (g_outermost.size() == kNoted) return;
  g_outermost.push_back(
      {code, text_of(code->co_qualname), text_of(code->co_filename), code->co_firstlineno, 1, inside});
}

PyObject* watch_call(CodeState* state, PyThreadState* ts, cpython::Frame* frame) {
  PyCodeObject* const frame_code = cpython::code(frame);
  Ref keep = Ref::borrow(reinterpret_cast<PyObject*>(frame_code));
  Watch watch(frame, state);
  if (!state->has_operators) {
    current_adapter()->count_operators(true);
    watch.counting = true;
  }
  const double began = computed();
  PyObject* result = plain(ts, frame, 0);
  state->plain_seconds = computed() - began;
  if (measures_savings()) state->watched = {state->plain_seconds, 1};
  if (watch.counting && current_adapter()->operators_counted() == 0) state->plain_calls += 1;
  stop_counting(watch);
  if (state->has_operators) {
    note_use();
    note_outermost(frame_code, t_frames - watch.began);
  }
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

// It is a root from now on; false: it cannot be.
bool make_root(PyObject* object, cpython::Frame* frame) {
  PyObject* function = object == nullptr ? cpython::function(frame) : nullptr;
  if (add_root(cpython::code(frame), function, object, root_name(object, frame), false, true) < 0) {
    PyErr_Clear();
    return false;
  }
  if (t_watch != nullptr && t_watch->state != nullptr) t_watch->state->passes_on = true;
  return true;
}

}  // namespace

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

LooksInside::LooksInside() noexcept {
  t_looks += 1;
}

LooksInside::~LooksInside() {
  t_looks -= 1;
}

Watch::Watch(cpython::Frame* frame, CodeState* state, bool closed) noexcept
    : frame(frame), state(state), outer(t_watch), began(t_frames), closed(closed) {
  t_watch = this;
}

Watch::~Watch() {
  stop_counting(*this);
  t_watch = outer;
}

Passing::Passing(bool always) noexcept : outer(t_watch), always(always) {
  for (Watch* open = outer; open != nullptr; open = open->outer) stop_counting(*open);
  t_watch = nullptr;
  t_looks += always;
}

Passing::~Passing() {
  t_looks -= always;
  t_watch = outer;
}

bool is_candidate(PyThreadState* ts, cpython::Frame* frame) noexcept {
  if (!automatic() || (t_watch != nullptr && !is_passed_on(ts))) return false;
  if (!cpython::untraced(ts)) return g_traced += 1, false;
  PyCodeObject* code = cpython::code(frame);
  return current_adapter() != nullptr && cpython::is_function_body(code) && !is_comprehension(code);
}

PyObject* enter_candidate(PyThreadState* ts, cpython::Frame* frame) {
  const Mark mark = mark_of_frame(frame);
  if (mark == Mark::kSkip) return plain(ts, frame, 0);
  if (mark == Mark::kOpaque) {
    Watch watch(frame, nullptr, true);
    return plain(ts, frame, 0);
  }
  CodeState* state = code_state(cpython::code(frame), true);
  if (state != nullptr && state->passes_on) {
    const Passing passing(false);
    return plain(ts, frame, 0);
  }
  if (state == nullptr || state->plain_calls >= kPlainCalls || state->wasted >= limits().wasted)
    return plain(ts, frame, 0);
  PyObject* object = method_object(frame);
  const bool again = comes_again(*state, object != nullptr ? object : cpython::function(frame));
  if (!again || !state->has_operators || stance() == Stance::kReplayOnly || !make_root(object, frame))
    return watch_call(state, ts, frame);
  std::shared_ptr<Root> root = state->roots.back();
  root->savings.first = state->watched;
  root->recordings.plain = state->plain_seconds;
  Watch watch(frame, state);
  return enter_root(root, ts, frame);
}

}  // namespace pijit
