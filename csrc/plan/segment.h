// Segments: stretches of a trace that compiled code may take over, and the plans that do.
//
// A segment is laid over the nodes of a trace and changes none of them: native replay answers whenever no plan does.
//
// 1. Nodes of a segment are operators without effects outside of it, and what depends on the form of tensors only:
//    sizes, checks of metadata, arithmetic on numbers. The key of a plan fixes that form, so the latter hold again.
//    Stores into attributes and containers, such as those of a cache, are done in order when the plan has run. What
//    they store is an output, if the segment makes it.
// 2. A plan gives the outputs: what nodes behind the segment and the result read, or the frames that a trace without a
//    result ends in. What only another snapshot reads is computed natively from the inputs when a replay is left there
//    (exec/plans.h).
// 3. All members are guarded by the GIL.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/ref.h"
#include "ir/trace.h"
#include "plan/keys.h"

namespace pijit {

class Survey;

// Calls of functions that choose by data among functions of the program, and call these (ForeignCall::kSides). A plan
// has all sides in it. What is guarded behind such a call is asked before the plan runs.
struct Sides {
  Vec<uint32_t> calls;    // nodes
  Vec<uint32_t> epochs;   // behind them
  Vec<uint32_t> within;   // guards of these that are about what the segment makes: not asked
  Vec<uint32_t> results;  // registers that hold what the calls have given, and what guards find in it
};

struct Segment {
  uint32_t first = 0, last = 0;  // nodes [first, last)
  uint32_t operators = 0;
  Vec<uint32_t> bound;           // registers that it reads: tensors that guards find at the same place each time
  Vec<uint32_t> free;            // other tensors
  Vec<uint32_t> numbers;         // numbers
  Vec<uint32_t> given;           // what a plan is given: the free ones, then those that it writes to
  Vec<uint32_t> outputs;         // registers that it writes and that are read behind it, or stored: tensors
  Vec<uint32_t> number_outputs;  // numbers
  Vec<uint32_t> shown;           // other tensors that it writes and that snapshots behind it may read
  Vec<uint32_t> stores;          // nodes that write to objects of Python
  PyObject* region = nullptr;    // whose compilers are asked, kept by the trace; null: those of the root
  std::optional<Effects> effects;
  std::optional<Sides> sides;  // it spans calls that choose among functions of the program
  Keys keys;
  std::shared_ptr<Ref> memo;  // what the market remembers of it; null: nothing yet
  // Of a piece (plan/pieces.h), by output: only operators of the trace read it. A plan may give the same memory again
  // as soon as nothing has it any longer. Empty: the program may have all of them.
  Vec<bool> passed;
  bool arrays = false;             // of NumPy, in the place of tensors
  bool may_cut = false;            // it is left in pieces where its forms keep changing
  std::shared_ptr<Survey> survey;  // under way; null: none is
};

// Of one trace.
struct Segments {
  using List = std::vector<std::shared_ptr<Segment>>;
  // In order. Another list comes in the place of this one, which replays that are under way go on with.
  std::shared_ptr<const List> all;
  uint32_t operators = 0;   // of the whole trace
  bool has_market = false;  // of the root
  Vec<bool> varying;        // by node: it belongs to none, since its forms vary; empty: none does
  Ref arguments;            // of living_arguments(), guard/proven.h; null: not asked for
};

// What a market needs to make plans: copies of the free inputs and of the outputs of one native replay. Or to judge
// one: what the plan made of the same inputs.
struct Offer {
  const Trace* trace = nullptr;  // alive while the offer is taken
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Keyed> keyed;
  Ref inputs, outputs;         // tuples
  std::shared_ptr<Plan> plan;  // null: plans are asked for
  Ref made;
};

// Finds the segments of a trace. `read`: by register, the last node that reads it, or whose snapshot does where foreign
// code may have written its inputs; `seen`: the last node that reads it or whose snapshot may. Without a market of the
// root, those of regions are found alone. What the snapshot at the trace's end reads counts as read. `varying`: as
// Segments has it.
std::shared_ptr<Segments> find_segments(const Trace& trace, const Vec<uint32_t>& read, const Vec<uint32_t>& seen,
                                        bool has_market, Vec<bool> varying = {});

}  // namespace pijit
