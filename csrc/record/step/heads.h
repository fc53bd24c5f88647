// Where the turns of loops begin, for a capture that keeps the decisions of a call as conditions and loops of a graph.
//
// A recording unrolls every loop. To find the loop again, a capture needs what the slots held at the beginning of each
// turn: a node Op::kLoopHead stands there. It also needs to know which numbers a turn has computed. Python's own
// numbers fold to constants; where the loop decides on the data of a tensor, or on a size, those in the variables that
// it assigns become registers at the second turn (ScalarOp::kSame), and so do the numbers of its range.
//
// CPython 3.11 compiles the test of a `while` twice, before the loop and at the end of its body, and jumps back to the
// body. Both copies have the same places in the source, so that a turn begins at the test, at either of the two.
//
// Where ways meet again, at the target of a jump forward, such a node says what the slots hold there, too, once the
// frame has decided on data: a capture makes one way of them again.
#pragma once
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>
#include "record/recorder.h"

#include "cpython/bytecode.h"

namespace pijit {

class Heads {
 public:
  struct Head {
    int at;      // the instruction where a turn begins
    int first;   // the first instruction of the loop, its first test included
    int last;    // the last one that jumps back
    bool again;  // it is the copy of the test at the end of the body, where only further turns begin
  };

  const std::vector<Head>& of(PyCodeObject* code);  // outer loops first where several turns begin at once
  bool any_at(PyCodeObject* code, int instruction);
  uint32_t seen = 0;       // nodes that were looked at so far
  uint32_t decisions = 0;  // nodes among them that decide on data
  struct Turn {
    uint32_t decisions = 0;  // when it began
    bool in_registers = false;
  };
  std::map<std::pair<uint32_t, int>, Turn> turns;  // the last ones, by the number of the frame and the last jump back
  std::vector<bool> of_data;                       // registers of numbers that data, or a turn, decides
  std::vector<bool> of_size;                       // registers of numbers that are sizes, or computed of them

 private:
  std::unordered_map<PyCodeObject*, std::vector<Head>> heads_;  // each is kept by the trace
};

Val as_register(Recorder&, Val number);  // a register that holds the constant; any other value stays as it is
void begin_turns(Recorder&, ShadowFrame& frame, int before);

}  // namespace pijit
