// Pieces of a segment: what of it keeps its form while the forms of its inputs change from call to call.
//
// 1. Replays under new forms are surveyed: which form each register has when it is read. A node varies if a register
//    that it reads or writes does.
// 2. With the third form the segment is left in pieces: the stretches between the nodes that vary are segments of their
//    own, and native replay does what varies. So compiled code without free sizes serves all forms.
// 3. A piece of a few kernels only is none: calling a plan costs as much as they do. A segment most of which varies is
//    left whole, and its forms have plans of their own.
// 4. What a piece gives to operators of the trace alone, the program does not see unless a replay is left before them.
//    A plan may give it in the same memory again, when nothing has that any longer (`Segment::passed`).
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "plan/segment.h"
#include "plan/steps.h"

namespace pijit {

class Survey {
 public:
  static constexpr uint32_t kReplays = 2;  // at least, before nodes are told apart
  static constexpr size_t kForms = 3;      // of a segment, before it is cut

  Survey(const Trace& trace, const Segment& segment);
  // Another replay comes to the first node.
  void begin();
  // The replay is at this node of the segment, or behind the last one.
  void look(uint32_t at, const Reg* regs);
  // That have come from the first node to the last.
  uint32_t replays() const noexcept { return replays_; }
  Vec<uint32_t> varying() const;

 private:
  void look_at(uint32_t reg, const Reg* regs);

  const Segment& segment_;  // which has this
  std::vector<Step> steps_;
  std::map<uint32_t, std::unique_ptr<PlanKey>> forms_;  // of registers; null: it has none
  std::set<uint32_t> seen_, varied_;
  uint32_t replays_ = 0;
};

// Nodes that read registers for operators alone, and write to none: by node.
Vec<bool> nodes_of_operators(const Trace& trace);
// Of what was found without the nodes that vary: the pieces in the place of `whole`, and the other segments as they
// were. False: the pieces have too few of its operators. `others`: by register, the last node that reads it and is
// none of operators, or the one that writes it.
bool keep_pieces(const Trace& trace, const Segments& before, const Segment& whole, const Vec<uint32_t>& others,
                 Segments* found);

}  // namespace pijit
