// What foreign code returned, had, or may have changed.
//
// Where an instruction is taken back each member is taken back with it, is kept for a reason, or is computed anew.
// Registers keep their numbers, so what is noted by register needs no taking back unless a guard or node made it true.
#pragma once
#include "record/recording.h"
#include "record/state/heap.h"

namespace pijit {

// A container that existed before, or that foreign code returned, of which the recorder loads the content (found.cpp).
struct Found {  // or the __dict__ of such an instance
  uint32_t reg;
  PyObject* object;
  PyTypeObject* type;
  uint32_t dict;    // of an instance: where its __dict__ is
  uint32_t seen;    // it is written: up to which guard it was told apart from what is read
  size_t told;      // from how many objects that are written it was told apart, always
  size_t argument;  // how many containers were known before
};

struct Foreign {
  Foreign(Kernel& of, const Heap& objects) : recording(of), heap(objects) {}

  void undo(const TraceMark& mark);  // before the heap forgets what was adopted since then

  void note_holders(uint32_t reg, PyObject* object);  // it was returned: whether something else holds it, too
  bool is_held(Val reg) const;
  bool is_loaded(Val reg) const;           // by a guard of this epoch
  bool is_found(PyObject* object) const;   // it is one of `found`
  void note_written(Found& it);            // it is to be told apart from all objects of its class
  void note_write_here(PyObject* object);  // the trace writes it
  bool is_written_here(PyObject* object) const;
  void forget_types();                          // an instance may have another class now
  void set_type(Val reg, PyTypeObject* type) {  // it is known now, until foreign code runs
    recording.trace().regs[reg.index()].type = type;
    if (type != nullptr && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0) typed.push_back(reg.index());
  }
  void begin_finding();                    // an epoch begins
  void look_for_writes();                  // what the nodes write since it was called last
  bool is_new_here(PyObject* object);      // none of the containers that this epoch found, and none that was written
  static constexpr size_t kMaxFound = 64;  // of one epoch: each is told apart from all others

  bool is_any_due() const noexcept { return epoch_due || !library_result.is_null(); }  // at the next instruction

  Kernel& recording;
  const Heap& heap;
  // Taken back: containers whose content the trace loads. Those that stay are told apart anew.
  Vec<Found> found;
  // Taken back: nodes that look_for_writes has seen.
  uint32_t looked_nodes = 0;
  // Taken back: register, and the node that checks its type.
  Vec<std::pair<uint32_t, uint32_t>> learned;
  // Taken back with `learned`: registers known to hold None, True, ...
  Map<uint32_t, PyObject*> singletons;
  // Taken back: values of which to guard the class where the epoch begins.
  Vals taken;
  // Kept: an opaque call comes after each instruction that is taken back, or the trace ends.
  bool epoch_due = false;         // foreign code ran: an epoch begins at the next instruction
  bool only_tensors = false;      // the opaque call under way writes to tensors alone: none begins behind it
  Val epoch_result, none_result;  // registers to look at there
  Val library_result;  // of a call that wrote to tensors alone: what it is, is checked at the next instruction
  // Kept: they only make the recording more careful. Addresses in them may be those of other objects by now.
  ObjectSet known;  // instances, functions and classes met before foreign code ran
  Vec<std::pair<PyObject*, PyTypeObject*>> written_here;  // what the nodes of this epoch write, with its class
  ObjectSet are_written_here;                             // the same, to be found
  bool any_written = false;                               // of `found`
  // Kept, by register.
  Vec<uint32_t> of_library;  // what calls of MindSpore have made: no object of it has attributes of its own
  Vec<bool> held;            // results that something else holds
  Vec<bool> loaded;          // registers that guards load
  Vec<uint32_t> typed;       // registers whose class may change
  // Kept: a bound on how often the recording goes on with an opaque call.
  uint32_t opaque_calls = 0;
  // The same from the beginning to the end: cpython::thread_switches() when it began.
  unsigned long switches = 0;
};

}  // namespace pijit
