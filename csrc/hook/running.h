// Calls that run, under a function that enable() watches: those that have run long pass the role of root on.
//
// A call in CPython stands on the C stack as a Running while a function around it is watched. Now and then all of them
// are looked at. One that was there at the look before has run for long_call() at least, and passes the role on: what
// it calls from then on is looked at. So a chain of functions that are called once (main -> fit -> loop -> step) is
// passed through at one look, however long it is.
//
// 1. What an import takes does not count for the calls around it: a first call is long because it imports.
// 2. A function whose call was long, and that called roots again and again, is a driver: its role goes to them for good.
//    Any other function is recorded at its second call, whatever its first one passed on: first calls are long.
//
// Where such a call turns in a loop, the loop may be entered while the function runs (hook/in_loop.h).
#pragma once
#include <cstdint>
#include <memory>

#include "common/clock.h"
#include "common/ref.h"
#include "cpython/frame.h"
#include "hook/in_loop.h"

namespace pijit {

// Milliseconds; an option.
uint64_t& long_call() noexcept;

// A call in CPython, while it runs.
class Running {
 public:
  // Not `counts`: the frame is part of another call, or nothing around it passes the role on. `passes`: it does so
  // itself from the beginning.
  inline Running(cpython::Frame* frame, bool counts, bool passes = false) noexcept;
  inline ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The innermost one of this thread, if it is of the frame; else null.
  static inline Running* of(cpython::Frame* frame) noexcept;
  // CPython runs the frame itself, or something else goes on in it.
  void set_in_cpython(bool is) noexcept { in_cpython_ = is; }
  // Its loops, once it has passed the role on and made a call; else null.
  InLoop* loops() const noexcept { return loops_.get(); }
  // CPython runs the frame, which makes a call and has passed the role on: its turns are counted.
  void note_call(PyThreadState* ts) noexcept {
    if (makes_call(ts)) count_call(ts);
  }
  // It tries its loop, and makes the next frame.
  bool tries_loop(PyThreadState* ts) const noexcept;
  // What the frame held goes on in this one.
  void move_to(cpython::Frame* frame) noexcept { frame_ = frame; }

 private:
  friend bool passes_on(PyThreadState*) noexcept;
  friend void note_turn() noexcept;
  friend void note_engine_call(PyThreadState*) noexcept;
  friend void look_at_running() noexcept;

  bool makes_call(PyThreadState* ts) const noexcept {
    return code_ && in_cpython_ && cpython::current_frame(ts) == frame_;
  }
  void count_call(PyThreadState* ts) noexcept;
  InLoop* find_loops() noexcept;
  void pass(double time) noexcept;
  void tell_if_driver() const noexcept;

  cpython::Frame* frame_;  // null: it does not count
  Running* outer_ = nullptr;
  bool in_cpython_ = false;
  uint64_t began_ = 0;  // frames of this thread before it
  uint32_t turns_ = 0;  // calls of roots that it made
  double passed_ = 0;   // when it passed the role on, if it has
  Ref code_;            // the same
  std::unique_ptr<InLoop> loops_;
};

// While it lives, calls that run already are not looked at; their time begins anew when it ends.
class Unlooked {
 public:
  Unlooked() noexcept;
  ~Unlooked();
  Unlooked(const Unlooked&) = delete;
  Unlooked& operator=(const Unlooked&) = delete;

 private:
  Running* const outer_;
};

void look_at_running() noexcept;

// The calls that run on this thread.
struct RunningCalls {
  static constexpr uint64_t kGlance = 8;  // frames between two glances at the clock

  Running* innermost = nullptr;
  uint64_t frames = 0;
  uint64_t before = 0;  // of them, at the last look
  double looked = 0;    // when that was; 0: calls that run have run for no time
};
extern constinit thread_local RunningCalls running_calls;

inline Running::Running(cpython::Frame* frame, bool counts, bool passes) noexcept : frame_(counts ? frame : nullptr) {
  if (!counts) return;
  RunningCalls& calls = running_calls;
  outer_ = calls.innermost;
  if (outer_ == nullptr) calls.looked = 0;
  began_ = calls.frames;
  calls.innermost = this;
  if (passes) pass(now());
}

inline Running::~Running() {
  if (frame_ == nullptr) return;
  running_calls.innermost = outer_;
  if (code_) tell_if_driver();
}

inline Running* Running::of(cpython::Frame* frame) noexcept {
  Running* const innermost = running_calls.innermost;
  return innermost != nullptr && innermost->frame_ == frame ? innermost : nullptr;
}

// A frame comes in while something is watched: what runs is looked at, if it is time.
inline void note_frame() noexcept {
  RunningCalls& calls = running_calls;
  if (++calls.frames % RunningCalls::kGlance == 0 && calls.innermost != nullptr) look_at_running();
}
// The call that makes the next frame passes the role on.
bool passes_on(PyThreadState* ts) noexcept;
bool is_comprehension(PyCodeObject* code) noexcept;  // its frame is part of the one that it stands in
// A frame comes in, which a call that has passed the role on may have made: its turns are counted.
inline void note_call(PyThreadState* ts) noexcept {
  if (running_calls.innermost != nullptr) running_calls.innermost->note_call(ts);
}
// A root is called.
void note_turn() noexcept;
// A call that tries its loop makes the next frame.
inline bool tries_loop(PyThreadState* ts) noexcept {
  return running_calls.innermost != nullptr && running_calls.innermost->tries_loop(ts);
}
// The call that has just ended, or is about to begin, computes gradients and does little else. Who makes it turns in a
// loop of training steps, if it has passed the role on.
void note_engine_call(PyThreadState* ts) noexcept;

}  // namespace pijit
