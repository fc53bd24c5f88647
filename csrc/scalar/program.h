// The bytecode of a function as a program over registers: what a loop over numbers does, without objects.
//
// The stack of the frame is resolved while the bytecode is read. Each local variable is a register, and so are each
// place of the stack, each constant and each global variable; a load of a variable costs nothing. An instruction that is
// not known ends the program where it stands: CPython goes on there, in the same frame.
//
// 1. Whatever a step cannot do as CPython does it, it does not do at all: the run is left at the start of the
//    instruction, with all that the frame holds there (Place).
// 2. A step looks at the kinds of its operands each time. So a program is made once for each beginning.
// 3. Registers of variables that may be unbound are asked for where they are read.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "common/ref.h"
#include "cpython/bytecode.h"

namespace pijit::scalar {

enum class Code : uint8_t {
  kMove,  // out = a
  kAdd,   // out = a + b; the commonest operators have steps of their own
  kSubtract,
  kMultiply,
  kTrueDivide,
  kBinary,    // out = a `more` b, an operator of cpython/operators.h
  kCompare,   // out = a `more` b: Py_LT, ...
  kIs,        // out = a is b, or where it is negated, is not
  kNegative,  // out = -a
  kPositive,
  kInvert,
  kNot,
  kTruth,        // out = bool(a)
  kJump,         // to the step `target`
  kJumpIf,       // where a is true, or where it is not (negated)
  kJumpCompare,  // where a `more` b, or where not (negated)
  kJumpIfNone,   // where a is None, or where it is not (negated)
  kDeref,        // out = what the cell a holds
  kBound,        // nothing, where the variable a is bound
  kIsList,       // nothing, where a is exactly a list
  kRange,        // out = the iterator of range(*arguments), where a is that class
  kCall,         // out = a(*arguments)
  kIterate,      // out = iter(a)
  kNext,         // out = next(a); jumps at the end
  kSubscript,    // out = a[b]
  kPart,         // out = a.real, or where it is negated, a.imag
  kStore,        // a[b] = out
  kAppend,       // out = a.append(b)
  kUnpack,       // out, out + 1, ... = a, which has `more` items
  kReturn,       // a
  kLeave,        // CPython goes on
};

struct Step {
  Code code;
  uint8_t more = 0;  // an operator, or a number of arguments or items
  bool negated = false;
  bool back = false;  // a jump that ends a turn
  uint16_t out = 0, a = 0, b = 0;
  int32_t target = -1;  // a step; of calls the first argument, in Program::arguments
  int32_t place = -1;   // where CPython goes on if the step cannot be done
};

// A frame at the start of an instruction: its variables are in their registers, its stack is in these.
struct Place {
  int instruction;
  std::vector<uint16_t> stack;
};

// What a register holds from the start on: a constant, a variable of the module, or an attribute of a module that such
// a variable holds. Names and constants are kept by the code.
struct Fixed {
  PyObject* constant = nullptr;
  PyObject* name = nullptr;
  PyObject* attribute = nullptr;
  bool operator==(const Fixed&) const = default;
};

struct Program {
  PyCodeObject* code = nullptr;  // borrowed
  int start = 0, depth = 0;      // the instruction where it begins, and the stack there
  bool loops = false;            // some turn of a loop stays in the program
  bool whole = false;            // all of its loops do, whatever way they go
  uint16_t locals = 0;           // registers of variables; those of the stack come after them
  uint16_t empty = 0;            // the register that is always empty; behind it those of `fixed`
  uint16_t registers = 0;
  std::vector<Step> steps;
  std::vector<int32_t> heads;  // by step: the place of the loop's head that it begins, or -1
  std::vector<Place> places;
  std::vector<uint16_t> arguments;
  std::vector<Fixed> fixed;
  std::vector<Ref> owned;  // constants that the code does not have
  uint16_t first_fixed() const noexcept { return static_cast<uint16_t>(empty + 1); }
};

// From that instruction on, where the stack holds `depth` values. Null: it is of no kind that a program can be.
std::unique_ptr<Program> translate(PyCodeObject* code, int start, int depth);
// That of a whole function, for calls in other programs: made once, and kept with its code. Null: there is none.
const Program* program_of(PyCodeObject* code);

}  // namespace pijit::scalar
