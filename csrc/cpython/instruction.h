// One instruction in pijit's own words: what it does and its arguments, the same for every version of CPython.
//
// A table by version (opcodes_3XX.def) says which operation an opcode is and how its argument is written; decode()
// (bytecode.h) reads both. So the recorder speaks one language, and another CPython is another table.
//
// 1. What CPython fuses into one instruction is two steps of one event: `operation`, then `then` with
//    `then_argument`. Both only move values (step_move): neither raises, and no snapshot falls between them.
// 2. An index of a name, constant or slot is that of the code object; places on the stack count from 1, the top.
#pragma once
#include <cstddef>
#include <cstdint>

namespace pijit::cpython {

enum class Operation : uint8_t {
#define PIJIT_OPERATION(name, sees, call, pops, pushes, doc) name,
#include "cpython/operations.def"
#undef PIJIT_OPERATION
};

// How the argument of an opcode is written: no branch, since this is read before every instruction.
struct Form {
  uint8_t shift = 0;      // what is above so many bits is the argument
  uint8_t flag_mask = 0;  // these bits are the flag
  uint8_t flag_set = 0;   // what the opcode itself says of it
  int8_t jump = 0;        // the argument is how many units to jump: 1 forward, -1 backward
  uint8_t past = 0;       // and so many more
};
inline constexpr Form kPlain{}, kSet{0, 0, 1, 0, 0}, kFlag{0, 1, 0, 0, 0}, kFlagUnderName{1, 1, 0, 0, 0},
    kTwoFlags{2, 3, 0, 0, 0}, kThreeFlags{3, 7, 0, 0, 0}, kTwoSet{0, 0, 2, 0, 0}, kFourSet{0, 0, 4, 0, 0},
    kAboveFour{4, 0, 0, 0, 0}, kAboveFlag{5, 16, 0, 0, 0}, kForward{0, 0, 0, 1, 0}, kForwardSet{0, 0, 1, 1, 0},
    kForwardPast{0, 0, 0, 1, 1}, kForwardPastTwo{0, 0, 0, 1, 2}, kBackward{0, 0, 0, -1, 0}, kOneOperand{0, 0, 1, 0, 0},
    kTwoOperands{0, 0, 2, 0, 0}, kBackwardSet{0, 0, 1, -1, 0};

// By value: it fits a register.
struct Instruction {
  Operation operation = Operation::kUnknown;
  uint8_t flag = 0;
  Operation then = Operation::kNothing;
  uint8_t then_argument = 0;
  int argument = 0;

  bool is(Operation other) const noexcept { return operation == other; }
};
static_assert(sizeof(Instruction) == sizeof(uint64_t));

// The operands that an instruction looks into: from the first place to the last one, counted from the top.
struct Looks {
  int first = 1, last = 0;
  bool with_argument = false, with_flag = false;  // so many more places
  bool passes = false;                            // only which object it is matters, not what is in it
};

constexpr int kVaries = -1;  // argument, flag or the version of CPython decide how many

// What an instruction does to the stack, and as a call of a function that is given its operands and nothing else.
struct CallForm {
  const char* arguments = "";  // their places, a digit each; "": there is no such function
  int pops = kVaries, pushes = kVaries;
};

namespace looks {
inline constexpr Looks kNone{}, kTop{1, 1}, kTopTwo{1, 2}, kTopThree{1, 3}, kSecond{2, 2}, kThird{3, 3},
    kTopAsItIs{1, 1, false, false, true}, kTopTwoAsTheyAre{1, 2, false, false, true}, kArguments{1, 0, true},
    kCallee{1, 1, true}, kNamedCallee{2, 2, true}, kSpread{1, 2, false, true};
}  // namespace looks

inline constexpr Looks kLooks[] = {
#define PIJIT_OPERATION(name, sees, call, pops, pushes, doc) looks::sees,
#include "cpython/operations.def"
#undef PIJIT_OPERATION
};
inline constexpr CallForm kCallForms[] = {
#define PIJIT_OPERATION(name, sees, call, pops, pushes, doc) {call, pops, pushes},
#include "cpython/operations.def"
#undef PIJIT_OPERATION
};

inline Looks looks_of(Instruction now) noexcept {
  Looks found = kLooks[static_cast<size_t>(now.operation)];
  found.last += (found.with_argument ? now.argument : 0) + (found.with_flag ? now.flag : 0);
  return found;
}
inline const CallForm& call_form_of(Operation operation) noexcept {
  return kCallForms[static_cast<size_t>(operation)];
}

}  // namespace pijit::cpython
