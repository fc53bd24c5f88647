// enable(): finds the functions that become roots by themselves.
#pragma once
#include "cache/code_state.h"
#include "hook/running.h"
#include "record/marks.h"

namespace pijit {

// A function under which tensor operators ran, and which was not recorded.
struct Outermost {
  PyCodeObject* code;  // compared only
  std::string name, file;
  int line;
  uint64_t calls = 0;
  double seconds = 0;  // of these calls
};
// The first ones, in the order in which they were seen.
const std::vector<Outermost>& outermost() noexcept;
// Calls that were not looked at, because a tracer or profiler was on.
uint64_t traced_calls() noexcept;

void set_automatic(bool on) noexcept;
// They are to be found now: everywhere, or in what this thread runs.
bool automatic() noexcept;
bool finds_everywhere() noexcept;

// While it lives, roots are found in what this thread runs: the body of a jitted generator or coroutine function.
struct LooksInside {
  LooksInside() noexcept;
  ~LooksInside();
  LooksInside(const LooksInside&) = delete;
  LooksInside& operator=(const LooksInside&) = delete;
};

// A call on the C stack of this thread under which functions are not looked at: of a root, or of a function that is
// being watched. Calls that have run long are left out: what these call is looked at (hook/running.h).
struct Watch {
  Watch(cpython::Frame* frame, CodeState* state, bool closed = false) noexcept;
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  CodeState* const state;
  Watch* const outer;
  const bool closed;  // never passes the role on
  bool counting = false;
  // While operators are counted:
  uint32_t engine_runs = 0;  // calls of the engine that computes gradients
  uint64_t in_engine = 0;    // operators in them
  Running running;
};
// Nothing that comes could make calls of this function ones to look at.
inline bool is_idle(const CodeState& state, cpython::Frame* frame) noexcept {
  return state.idle.function == cpython::function(frame) && state.idle.marks == marks_set && !state.passes_on;
}
PyObject* run_idle(PyThreadState* ts, cpython::Frame* frame);
// CPython runs a frame that is no root's and not watched itself.
PyObject* run_unwatched(PyThreadState* ts, cpython::Frame* frame, int throwflag);

// A call on the C stack of this thread that has passed its role on: what it calls is looked at. `always`: even where
// enable() is off.
struct Passing {
  Passing(cpython::Frame* frame, bool always) noexcept;
  ~Passing();
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;

  Watch* const outer;
  const bool always;
  const Unlooked unlooked;
  const Running running;
};
// An import: functions that its module calls are looked at once it has run long.
bool is_import(cpython::Frame* frame) noexcept;
PyObject* run_import(PyThreadState* ts, cpython::Frame* frame);
// The engine that computes gradients runs under the frame. Its operators do not count for who calls it.
bool is_engine(cpython::Frame* frame) noexcept;
PyObject* run_engine(PyThreadState* ts, cpython::Frame* frame);
// The body of a module that nothing watched runs. It passes the role on from the beginning: what it calls is outermost.
bool is_outermost_module(cpython::Frame* frame) noexcept;
PyObject* run_module(PyThreadState* ts, cpython::Frame* frame);
// Nothing is looked at in the frame.
PyObject* run_unlooked(PyThreadState* ts, cpython::Frame* frame);
// Whether this fresh frame of a function is one to look at: the outermost, or called where the role is passed on.
bool is_candidate(PyThreadState* ts, cpython::Frame* frame) noexcept;
// Evaluates such a frame: watched, or as the root that it has become.
PyObject* enter_candidate(PyThreadState* ts, cpython::Frame* frame);

// The root that stands for a call that runs, whose loop is entered. What was not a root is none before its next call.
std::shared_ptr<Root> root_of_running(cpython::Frame* frame);

}  // namespace pijit
