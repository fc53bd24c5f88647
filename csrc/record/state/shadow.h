// The shadow of the running frames: for every slot where its content came from, and what the current instruction waits
// for.
//
// Provenance belongs to the slot and owns nothing: a shadow may outlive the object that it stands for, so the object is
// looked into only while the slot that holds it is known to be alive.
#pragma once
#include <memory>
#include <vector>

#include "cpython/frame.h"
#include "ir/trace.h"
#include "record/recording.h"
#include "record/state/key_list.h"
#include "record/state/pending.h"

namespace pijit {

using cpython::Instruction;
using cpython::Operation;

struct Arguments;

// C code that calls Python: record/mirror/drive.h.
class Drive;
template <class T>
class Task;
using Driven = Task<Val> (*)(Drive&, Arguments);
struct DriveDeleter {
  void operator()(Drive* drive) const noexcept;
};
using DrivePointer = std::unique_ptr<Drive, DriveDeleter>;

// The shadow is not that of the frame. Caught at the border of the event (Recorder::guarded).
[[noreturn]] void throw_wrong_shadow();

// C code has drawn an item and not asked for the next one: where CPython executes the instruction again with `instead`
// in the slot `operand` (-1: it cannot), it is given the item again.
struct Drawn {
  int operand = -1;
  Val instead;
  uint32_t time = 0;
};

// A frame as it was when it began the instruction that raised what it handles now.
struct BeforeRaise {
  Vals slots;
  int sp, instruction, operation, call_start;
  TraceMark mark;
};

// What a call calls, and what comes before its arguments: the self of a method.
struct Callee {
  Val callable, self;
};

// Loads that borrow, one after the other, up to an instruction. An exit there goes on at the first of them: a stack
// that it filled would own what CPython borrows, and references can be counted.
struct Loads {
  int at = -1;            // the instruction
  int start = 0, sp = 0;  // where they start, and the stack there; the instruction itself where there are none
  int end = -1;           // the instruction after it, if it is such a load itself
};

// Jumps back to an instruction: how much the trace had at the first one, the last but one, the last.
struct Arrival {
  struct Place {
    uint32_t nodes, guards, epochs;
    uint64_t bytecodes;
  };
  int instruction;
  Place first, earlier, before, last;
};

// The shadow of one Python frame.
struct ShadowFrame : FromPool {
  cpython::Frame* frame = nullptr;
  PyCodeObject* code = nullptr;
  Val function;               // Const or virtual function; Null for the root
  Val names;                  // a class body: the dict of its variables
  int locals = 0;             // nlocalsplus
  int sp = 0;                 // stack entries in use
  int instruction = 0;        // unit index of the instruction under way, EXTENDED_ARG included
  int operation = 0;          // unit index of the operation itself
  TraceMark mark;             // the trace when the instruction began
  int sp_mark = 0;            // and the stack
  uint32_t snapshot = kNone;  // of the instruction under way, once taken
  uint32_t repeatable = 0;    // the nodes before this one, from its first, may run once more
  bool changed = false;       // the shadow was changed by the instruction under way
  Loads loads;
  Vec<Arrival> arrivals;
  uint32_t decisions = 0;  // Heads::decisions when it was entered
  int taken_at = -1;       // the head of a loop whose range gives its numbers in registers, in this turn (heads.h)
  int call_start = -1;     // where the call under way begins: its kKeywordNames or kPrepareCall
  Vals slots;              // localsplus, then the stack
  Pending pending;
  Val result;  // shadow of the value it returns or yields
  bool yielded = false;
  PyObject* kwnames = nullptr;     // set by kKeywordNames for the next call
  PyObject* call_names = nullptr;  // the names that the call has taken
  std::vector<int> loose;          // slots of methods that are bound in the shadow and taken apart in the frame
  uint32_t generator = kNone;      // the virtual generator that this frame is
  Val self;                        // the kFrame that stands for it, if a traceback names it
  uint32_t followed = kNone;       // in Trace::followed
  uint32_t outer_state = kNone;    // FrameState of the caller, made at the first snapshot inside
  Vals collected;                  // items of the result under way
  Drawn drawn;
  DrivePointer drive;  // the C code under way, while it waits for a frame
  Vals handled;        // innermost last: exceptions being handled (kPushException without kPopException)
  std::unique_ptr<BeforeRaise> before_raise;  // of the outermost of them

  // The instruction under way.
  bool does(Operation what) const noexcept { return cpython::operation_at(code, operation) == what; }
  // What it raises was raised before: CPython adds no entry to the traceback.
  bool raises_again() const noexcept { return does(Operation::kReraise) || does(Operation::kEndThrow); }
  Instruction current() const noexcept { return cpython::instruction_at(code, instruction); }
  // What a call of so many arguments calls, and its first argument (Null: nothing comes before those on the stack).
  Callee callee(int count) {
    const Val lower = top(count + 2), upper = top(count + 1);
    if (upper.is_null() || lower.is_null()) return {lower.is_null() ? upper : lower, Val()};
    return {lower, upper};
  }
  // The __exit__ that kExitWith calls.
  Callee exit_callee() { return cpython::kExitHasSelf ? callee(3) : Callee{top(4), Val()}; }
  void set_callee(int count, Val callable, Val self) {
    top(count + 2) = callable;
    top(count + 1) = self;
  }
  // Pushes what is to be called, and where CPython has NULL for a call: the same as callee() has it.
  void push_callee(Val callable, Val self) {
    if (!self.is_null()) {
      push(callable);
      push(self);
    } else if (cpython::kNullBelowCallable) {
      push(Val());
      push(callable);
    } else {
      push(callable);
      push(Val());
    }
  }

  Val& local(int i) { return slots[checked(i)]; }
  Val& top(int depth = 1) { return slots[checked(locals + sp - depth)]; }
  bool is_loose(int slot) const {
    for (int at : loose)
      if (slot == at || slot == at + 1) return true;
    return false;
  }
  void push(Val value) {
    slots[checked(locals + sp)] = value;
    sp += 1;
  }
  Val pop() {
    if (sp <= 0) [[unlikely]]
      throw_wrong_shadow();
    sp -= 1;
    return slots[checked(locals + sp)];
  }
  // A place of the shadow. Whatever else is wrong, nothing is written beside it.
  size_t checked(int place) const {
    if (static_cast<size_t>(place) >= slots.size()) [[unlikely]]
      throw_wrong_shadow();
    return static_cast<size_t>(place);
  }
};

// use(value) of all that a frame has.
template <class Use>
void each_value(ShadowFrame& frame, const Use& use) {
  for (Val& value : frame.slots) use(value);
  for (Val& value : frame.collected) use(value);
  for (Val* value : {&frame.function, &frame.result, &frame.pending.result, &frame.pending.x, &frame.pending.y})
    use(*value);
  if (auto* entering = std::get_if<Entering>(&frame.pending.awaited)) use(entering->shadow);
  if (auto* resuming = std::get_if<Resuming>(&frame.pending.awaited)) use(resuming->instead);
}

// An entry of a traceback.
struct TracedFrame {
  Val frame;  // a kFrame
  PyCodeObject* code;
  int instruction;
};

struct Arguments {
  Vals values;    // positional, then keyword values
  Objects names;  // names of the last ones
  size_t positional() const { return values.size() - names.size(); }
};

}  // namespace pijit
