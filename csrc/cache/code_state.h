// The state that a code object carries: its roots, and calls of it that enable() has watched.
#pragma once
#include <memory>
#include <vector>

#include "cache/root.h"
#include "common/clock.h"
#include "cpython/bytecode.h"

namespace pijit {

// A place in the middle of a function to which frames come that replays have left.
struct EntryPoint {
  Ref weak;            // of the function
  PyObject* function;  // borrowed, compared only
  int index;           // the instruction
  uint64_t shape;      // which slots of the frame are empty
  int counted_for;     // the root whose call came to it last
  uint32_t arrivals;
  std::shared_ptr<Root> root;  // null: it has no traces yet
};

// A function whose calls were watched often enough: no operators ran in them.
struct Idle {
  PyObject* function = nullptr;  // compared only
  uint32_t marks = 0;            // how many marks had been set when it was found to have none
};

struct CodeState {
  std::vector<std::shared_ptr<Root>> roots;
  // Under enable():
  std::vector<Ref> seen;  // weak: functions and objects whose calls were watched
  size_t next_seen = 0;
  std::vector<Ref> engine_calls;  // weak: functions that call the engine that computes gradients, and do little else
  uint32_t plain_calls = 0;       // watched calls without tensor operators
  int wasted = 0;                 // roots in a row that died before they were worth it
  Spent watched;                  // the last of these calls, while savings are measured
  bool has_operators = false;     // or it has called roots again and again
  bool recorded = false;          // a trace was made of it
  bool replayed = false;          // a trace of it ran
  uint32_t observed = 0;          // under PIJIT_STRESS=observe: calls that were recorded
  bool passes_on = false;         // what it calls is looked at instead
  Idle idle;
  double plain_seconds = 0;  // of the last call that was watched
  std::vector<EntryPoint> entries;
  int wasted_entries = 0;  // in a row, whose functions died before they were worth it
};

inline constinit Py_ssize_t code_state_slot = -1;

// Null if none.
inline CodeState* code_state(PyCodeObject* code) noexcept {
  return static_cast<CodeState*>(cpython::code_extra(code, code_state_slot));
}
// Null if none (or, with create, on memory trouble).
CodeState* code_state(PyCodeObject* code, bool create) noexcept;
// Asks for room on code objects. False with an error set.
bool start_cache() noexcept;

}  // namespace pijit
