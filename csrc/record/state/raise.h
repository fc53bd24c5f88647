// The exception under way, and what was being handled at entry.
//
// Where an instruction is taken back each member is taken back with it, is kept for a reason, or is computed anew.
#pragma once
#include "record/recording.h"
#include "record/state/shadow.h"

namespace pijit {

struct Raise {
  void undo(const TraceMark&) { snapshot = kNone; }

  bool is_foreseen() const { return foreseen && type != nullptr; }
  bool is_of(PyObject* base) const {  // the exception that left the inner frame is of this built-in class
    return type != nullptr && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base));
  }
  void note_sought(const Pending& pending) {  // the innermost lookup is told
    if (sought.is_null()) sought = pending.sought;
  }
  void caught() { foreseen = event = false; }  // C code clears the exception of the inner frame

  // Taken back: where the exception under way was raised. A node before it may be gone.
  uint32_t snapshot = kNone;

  // Computed anew where something is raised (begin_raise), and read from there to the handler.
  PyTypeObject* type = nullptr;  // class of the exception that left the inner frame
  Val value;                     // the exception under way, if it is not a new one
  Val cause;                     // what the exception was raised `from`
  Val context;                   // what was handled where the exception was raised
  bool again = false;            // the exception is raised as it is
  bool thrown = false;           // it is thrown into a generator: what callers handle is not its context
  bool entry_due = false;        // the traceback gets an entry where the exception leaves the frame
  Operation operation{};         // the instruction that raised; below, what it was given
  Vec<Operand> operands;
  Val sought;             // of what it was to be an attribute, at first: (object, name)
  Vec<TracedFrame> path;  // the frames that the exception has left
  uint32_t nodes = 0;     // how many there were; read with `snapshot`

  // Computed anew at each event, and by whoever resolves the stop.
  bool event = false;       // an exception event since the last instruction
  bool foreseen = false;    // that exception follows from guarded facts
  bool unforeseen = false;  // the recording stops because of an exception that nothing foresaw

  // Kept: with them the trace takes a snapshot where the root returns, which costs little.
  bool any_traced = false;        // some exception was caught
  bool any_traced_built = false;  // some caught exception was built

  // The same from the first look to the end.
  Val entry_handled;                    // what was being handled at entry
  PyObject* entry_exception = nullptr;  // the object handled at entry, or None or null
};

}  // namespace pijit
