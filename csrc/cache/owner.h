// The function or object whose calls a root has, and what was asked for when it was jitted.
//
// The owner is one function object or one instance (the first local of the frame), so that what a trace takes for
// granted about closure and self holds at entry. It is held weakly: when it dies the root and its traces go.
#pragma once
#include <cstdint>
#include <string>

#include "cache/turns.h"
#include "common/ref.h"
#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

struct Owner {
  PyCodeObject* code = nullptr;
  Ref held_code;  // the same: the function may be given another, and this one is asked for its roots when they go
  PyObject* function = nullptr;  // borrowed, compared only; null: an instance is the owner
  PyObject* instance = nullptr;  // borrowed, compared only; null: a function is the owner
  Ref weak;                      // its callback removes the root
  bool dead = false;             // the root is removed
  bool dying = false;            // the root is looked at for the last time
  bool suspends = false;         // a generator or coroutine function: its body is CPython's, and the root has no traces

  void set_code(PyCodeObject* its) noexcept;
  bool matches(cpython::Frame* frame) const noexcept {
    return function != nullptr ? cpython::function(frame) == function : cpython::slot(frame, 0) == instance;
  }
  // The function or the instance; it may be gone.
  PyObject* object() const noexcept { return function != nullptr ? function : instance; }
  // The same; null if it is gone.
  PyObject* living() const noexcept;
};

// The place that stands for a root in messages, where the user wrote it: the function under its decorators, or a method
// of the object's class.
struct Written {
  std::string name, file;
  int line = 0;

  // A stop that is in no frame is here.
  StopInfo placed(StopInfo stop) const;
};

// Some replays are compared with CPython.
struct Verification {
  uint64_t every = 0;  // how many calls there are for one that is compared; 0: as for all roots
  uint64_t since = 0;  // calls since the last one

  // The next call is to be compared, which comes after so many others; 0: none is.
  bool is_due(uint64_t after) noexcept { return after != 0 && ++since >= after; }
};

// Options that jit() or enable() was given.
struct Asked {
  bool strict = false, automatic = false;
  bool fixed_sizes = false;  // of tensors (SizePolicy)
  Ref market;                // asked for plans of segments: callable; null: native replay alone answers
};

// The place where traces begin that are entered in the middle of a function (hook/entries.h).
struct Entry {
  int at = -1;           // the instruction; -1: the root is no entry
  bool is_loop = false;  // the instruction is the head of a loop
  uint32_t idle = 0;     // of a loop: replays in which no operator ran, more than others (hook/payoff.h)
  int entered_for = 0;   // the root whose call came to it last
  TurnRounds rounds;     // of a loop that was entered while its function ran
};

}  // namespace pijit
