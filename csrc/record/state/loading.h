// Arguments and other inputs, as they are loaded.
//
// Where an instruction is taken back each member is kept for a reason, or is computed anew.
#pragma once
#include "record/recording.h"

namespace pijit {

struct Loading {
  struct TensorKey {
    uint32_t nodes;  // how many there were
    bool fixed;      // the object is the same in each call
    Val tensor;
    PyObject* object;
  };

  void undo(const TraceMark& mark) {
    while (!tensor_keys.empty() && tensor_keys.back().nodes > mark.nodes) tensor_keys.pop_back();
  }

  // Taken back: tensors that are keys (tensor_keys.cpp).
  Vec<TensorKey> tensor_keys;
  // Kept, by register: where an input tensor's object is.
  Map<uint32_t, Val> tensor_sources;
  // Kept: arguments that are these very objects. One too many is compared with the object, and not by kind.
  ObjectSet named;
  // Kept: a bound on work. Items of containers that foreign code returned or had.
  uint64_t items = 0;
  // Kept: the same of arguments.
  Py_ssize_t taken = 0;
  // Kept, by register: the way to what it holds, if that was asked for (way_of); 0: not yet.
  Vec<uint64_t> ways;
  // Computed anew by each load.
  bool by_kind = false;    // what a place holds is being loaded
  bool opening = false;    // what is being loaded is new in each call, and so are instances in it
  int adopting = 0;        // instances among them whose attributes are being loaded
  Py_ssize_t adopted = 0;  // how many of their attributes so far
};

// Numbers in registers that hold objects.
struct Numbers {
  struct Number {
    uint32_t guard = kNone;  // of its type, if it varies
    uint32_t node = kNone;   // that takes the number out of the object
  };

  struct Fixed {
    uint32_t guard;  // that asks for a value now
    PyObject* type;  // which it asked for before
  };

  void undo(const TraceMark&) {}

  // Computed anew by each attempt: the instruction is to be an opaque call with numbers as they are.
  bool stay_open = false;
  // Computed anew by each attempt: CPython is to run the frame, whose instruction needs a number that differs.
  bool leave_frame = false;
  // Kept, in order: an instruction that is given up opens those that it has fixed (open_again).
  Vec<Fixed> fixed;
  // Kept: numbers in classes that the trace changes, by the dict of the class and the name. One too many is only learnt
  // to vary.
  Vec<std::pair<PyObject*, PyObject*>> counts;
  // Kept, by register: whoever reads one asks the guard and the node whether they are still those of the register.
  Map<uint32_t, Number> of;
};

// What the adapter is asked.
struct Question {
  void undo(const TraceMark&) {}

  // Computed anew by each question.
  Vec<Operand> operands;
  CallSite site;
};

}  // namespace pijit
