// Code objects: instructions with their inline caches and specialisations undone, exception table, code extra.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "common/ref.h"
#include "cpython/instruction.h"
#include "cpython/internals.h"

namespace pijit::cpython {

// Facts of one opcode number; see opcodes_3XX.def.
struct OpcodeInfo {
  uint8_t base;    // the opcode without specialisation; itself when it has none
  uint8_t caches;  // inline cache entries after a base opcode
  Operation operation;
  Form form;
};
extern const std::array<OpcodeInfo, 256> kOpcodes;

// The opcode's own name ("LOAD_ATTR"), or "<unknown>".
const char* opcode_name(int opcode) noexcept;

inline const _Py_CODEUNIT* units(PyCodeObject* code) noexcept {
  return _PyCode_CODE(code);
}
// Number of code units.
inline int unit_count(PyCodeObject* code) noexcept {
  return static_cast<int>(Py_SIZE(code));
}
#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000
// The opcode at a code unit as it was compiled. What instrumentation for lines keeps of it has another layout
// in 3.13.18 than in 3.13.0, and one build is for both.
uint8_t compiled_opcode_at(PyCodeObject* code, int index) noexcept;
#endif
// The opcode at a code unit, without the instrumentation for events of lines and instructions.
inline uint8_t opcode_at(PyCodeObject* code, int index) noexcept {
  uint8_t opcode = _Py_OPCODE(units(code)[index]);
#if PY_VERSION_HEX >= 0x030c0000
  constexpr uint8_t kInstrumentedLine = 254;
#if PY_VERSION_HEX >= 0x030e0000
  constexpr uint8_t kInstrumentedInstruction = 238;
  if (opcode == kInstrumentedLine) {
    const _PyCoLineInstrumentationData* lines = code->_co_monitoring->lines;
    opcode = lines->data[index * lines->bytes_per_entry];
  }
#elif PY_VERSION_HEX >= 0x030d0000
  constexpr uint8_t kInstrumentedInstruction = 247;
  if (opcode == kInstrumentedLine) return compiled_opcode_at(code, index);
#else
  constexpr uint8_t kInstrumentedInstruction = 253;
  if (opcode == kInstrumentedLine) opcode = code->_co_monitoring->lines[index].original_opcode;
#endif
  if (opcode == kInstrumentedInstruction) opcode = code->_co_monitoring->per_instruction_opcodes[index];
#endif
  return opcode;
}
// Facts of the opcode at a code unit.
inline const OpcodeInfo& opcode_info(PyCodeObject* code, int index) noexcept {
  return kOpcodes[opcode_at(code, index)];
}
// The argument byte of one unit; EXTENDED_ARG prefixes are not included.
inline int oparg(PyCodeObject* code, int index) noexcept {
  return _Py_OPARG(units(code)[index]);
}
// CPython's name of the instruction at a code unit, as it was compiled.
inline const char* instruction_name(PyCodeObject* code, int index) noexcept {
  return opcode_name(opcode_info(code, index).base);
}
// What the instruction at a code unit (after its EXTENDED_ARG prefixes) does.
inline Operation operation_at(PyCodeObject* code, int index) noexcept {
  return opcode_info(code, index).operation;
}
// Index of the next instruction's first unit.
inline int next_index(PyCodeObject* code, int index) noexcept {
  return index + 1 + opcode_info(code, index).caches;
}
#if PY_VERSION_HEX >= 0x030c0000
// What CALL_INTRINSIC_1 or 2 does, by its argument.
inline Operation intrinsic(int operands, int argument) noexcept {
  if (operands == 2) return argument == INTRINSIC_PREP_RERAISE_STAR ? Operation::kReraiseGroup : Operation::kUnknown;
  switch (argument) {
    case INTRINSIC_STOPITERATION_ERROR:
      return Operation::kStopIterationError;
    case INTRINSIC_UNARY_POSITIVE:
      return Operation::kPositive;
    case INTRINSIC_LIST_TO_TUPLE:
      return Operation::kListToTuple;
    default:
      return Operation::kUnknown;
  }
}
#endif
// What is fused in a kPair of that form: two local variables are loaded, one stored and one loaded, or two stored.
inline Instruction pair(uint8_t form, int argument) noexcept {
  return {form == 0 ? Operation::kLoadLocal : Operation::kStoreLocal, 0,
          form == 2 ? Operation::kStoreLocal : Operation::kLoadLocal, static_cast<uint8_t>(argument & 15),
          argument >> 4};
}
// The instruction that begins at *index, which becomes the unit after its EXTENDED_ARG prefixes.
inline Instruction decode(PyCodeObject* code, int* index) noexcept {
  const OpcodeInfo* info = &opcode_info(code, *index);
  int argument = oparg(code, *index);
  while (info->operation == Operation::kExtend) [[unlikely]] {
    ++*index;
    info = &opcode_info(code, *index);
    argument = (argument << 8) | oparg(code, *index);
  }
#if PY_VERSION_HEX >= 0x030c0000
  if (info->operation == Operation::kIntrinsic) [[unlikely]]
    return {intrinsic(info->form.flag_set, argument), 0, Operation::kNothing, 0, argument};
#endif
  if (info->operation == Operation::kPair) return pair(info->form.flag_set, argument);
#if PY_VERSION_HEX >= 0x030e0000
  constexpr int kSubscriptOperator = 26;  // NB_SUBSCR
  if (info->operation == Operation::kBinary && argument == kSubscriptOperator)
    return {Operation::kSubscript, 0, Operation::kNothing, 0, 0};
#endif
  const Form& form = info->form;
  return {info->operation, static_cast<uint8_t>((argument & form.flag_mask) | form.flag_set), Operation::kNothing, 0,
          argument >> form.shift};
}
// The instruction whose first unit is that one.
inline Instruction instruction_at(PyCodeObject* code, int index) noexcept {
  return decode(code, &index);
}
// Where the jump whose first unit is that one goes to, if it does.
inline int jump_target(PyCodeObject* code, int index) noexcept {
  const int distance = decode(code, &index).argument;
  const OpcodeInfo& info = opcode_info(code, index);
  return index + 1 + info.caches + info.form.jump * distance + info.form.past;
}

// close() of a generator that has yielded and would go on there ends it without running it: from 3.13 on, where only
// what makes a StopIteration another exception is around the yield.
inline bool closes_unrun([[maybe_unused]] PyCodeObject* code, [[maybe_unused]] int resume) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  const Instruction now = instruction_at(code, resume);
  return now.is(Operation::kResume) && now.argument != 0;
#else
  return false;
#endif
}

// From 3.14 on a load of a local variable may leave on the stack what it borrows from the variable.
inline constexpr bool kLoadsBorrow = PY_VERSION_HEX >= 0x030e0000;
inline bool borrows([[maybe_unused]] PyCodeObject* code, [[maybe_unused]] int index) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  constexpr uint8_t kOne = 86, kTwo = 87;  // LOAD_FAST_BORROW and LOAD_FAST_BORROW_LOAD_FAST_BORROW
  const uint8_t opcode = opcode_info(code, index).base;
  return opcode == kOne || opcode == kTwo;
#else
  return false;
#endif
}

// From its head to the last instruction that jumps back there.
struct Loop {
  int head = -1, last = -1;
};
// Those around the instruction, the outermost first.
std::vector<Loop> loops_around(PyCodeObject* code, int index);
// Where the last jump back to this instruction stands; -1: there is none, and it is no loop's head.
int loop_end(PyCodeObject* code, int head) noexcept;
// What follows only loads what is there and returns or yields it.
bool gives_back_at_once(PyCodeObject* code, int index) noexcept;
// The local variables that the instructions from `start` to `end` assign.
std::vector<int> assigned_locals(PyCodeObject* code, int start, int end);
std::vector<PyObject*> assigned_names(PyCodeObject* code, int start,
                                      int end);  // of variables that are globals; borrowed

// close() of a generator gives what the generator returned on that, not None.
inline constexpr bool kCloseGivesResult = PY_VERSION_HEX >= 0x030d0000;

// Index of kResume, behind the prologue.
inline int first_traceable(PyCodeObject* code) noexcept {
  return code->_co_firsttraceable;
}
// Index of the first instruction that has INSTRUCTION events: kResume has none.
inline int first_observed(PyCodeObject* code) noexcept {
  return first_traceable(code) + 1;
}

// Where a call has NULL because no self comes before its arguments: below what it calls, or above.
inline constexpr bool kNullBelowCallable = PY_VERSION_HEX < 0x030d0000;
// A kPrepareCall stands before every kCall.
inline constexpr bool kPreparesCalls = PY_VERSION_HEX < 0x030c0000;
// A receiver of kSend that has ended stays below its result (kEndSend drops it).
inline constexpr bool kEndedReceiverStays = PY_VERSION_HEX >= 0x030c0000;
// An iterator of kForIter that has ended stays, for a kPop.
inline constexpr bool kEndedIteratorStays = PY_VERSION_HEX >= 0x030e0000;
// The frame is left by it: it returns or yields.
inline bool gives_back(Instruction now) noexcept {
  return now.is(Operation::kYield) || now.is(Operation::kReturn) || now.is(Operation::kReturnConst);
}
// kExitWith finds __exit__ as a call does: what is called, and self above it.
inline constexpr bool kExitHasSelf = PY_VERSION_HEX >= 0x030e0000;

inline bool is_generator_code(PyCodeObject* code) noexcept {
  return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) != 0;
}
// Code of a function that runs to its end when it is called: no module, class body or generator.
inline bool is_function_body(PyCodeObject* code) noexcept {
  constexpr int kFlags = CO_OPTIMIZED | CO_NEWLOCALS;
  return (code->co_flags & kFlags) == kFlags && !is_generator_code(code);
}
// What a function of this code is born with as its __doc__, or null.
inline PyObject* docstring(PyCodeObject* code) noexcept {
#ifdef CO_HAS_DOCSTRING
  const bool first = (code->co_flags & CO_HAS_DOCSTRING) != 0;
#else
  const bool first =
      PyTuple_GET_SIZE(code->co_consts) > 0 && PyUnicode_Check(PyTuple_GET_ITEM(code->co_consts, 0)) != 0;
#endif
  return first ? PyTuple_GET_ITEM(code->co_consts, 0) : nullptr;
}
// Locals that a call fills: positional, keyword-only, *args, **kwargs.
inline int argument_slots(PyCodeObject* code) noexcept {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}
// Line of the instruction at a code index, or -1.
inline int line_of(PyCodeObject* code, int index) noexcept {
  return PyCode_Addr2Line(code, index * static_cast<int>(sizeof(_Py_CODEUNIT)));
}

// What a slot among the local variables is: a variable, one that inner functions see, both at once, or one from around.
enum class Local : uint8_t { kPlain, kCell, kPlainCell, kFree };
struct LocalName {
  PyObject* name;  // borrowed
  Local kind;
};
LocalName local_name(PyCodeObject* code, int index) noexcept;

// A code object of these names and sizes that does nothing, to stand for one of another process. Null with an error
// set.
Ref stand_in_code(PyObject* name, PyObject* qualname, const std::vector<LocalName>& locals, int stack, int units);

// The entry of the exception table that covers an instruction.
struct Handler {
  int target;       // code index
  int depth;        // stack depth to unwind to
  bool push_lasti;  // the index of the raising instruction is pushed before the exception
  bool operator==(const Handler&) const = default;
};
bool find_handler(PyCodeObject* code, int index, Handler* handler) noexcept;
// The same, passing by what 3.12 puts into generators, which hands on any exception but a StopIteration.
bool find_own_handler(PyCodeObject* code, int index, Handler* handler) noexcept;

// Code extra. CPython keeps it as a size and an array behind co_extra (private layout of 3.11).
struct CodeExtra {
  Py_ssize_t size;
  void* items[1];
};
inline void* code_extra(PyCodeObject* code, Py_ssize_t slot) noexcept {
  auto* extra = static_cast<const CodeExtra*>(code->co_extra);
  return extra == nullptr || extra->size <= slot ? nullptr : extra->items[slot];
}
// A slot of our own; negative: none is left.
inline Py_ssize_t request_code_extra(freefunc release) noexcept {
  return _PyEval_RequestCodeExtraIndex(release);
}
// Fills an empty slot; false when memory is short.
bool set_code_extra(PyCodeObject* code, Py_ssize_t slot, void* value) noexcept;

}  // namespace pijit::cpython
