// Segments: stretches of a trace that compiled code may take over, and the plans that do.
//
// A segment is laid over the nodes of a trace and changes none of them: native replay answers whenever no plan does.
//
// 1. Nodes of a segment are operators without effects outside of it, and what depends on the form of tensors only:
//    sizes, checks of metadata, arithmetic on numbers. The key of a plan fixes that form, so the latter hold again.
// 2. A plan gives the outputs: what nodes behind the segment and the result read. What only a snapshot reads is
// computed
//    natively from the inputs when a replay is left there (exec/plans.h).
// 3. All members are guarded by the GIL. A plan is Python code: others may add plans while it runs.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/ref.h"
#include "ir/trace.h"

namespace pijit {

// How often bound tensors were found written, and found with their data elsewhere.
struct Writes {
  uint64_t written = 0, moved = 0;
};

// Compiled code for a segment under one key.
struct Plan {
  std::string name;
  Ref call;             // callable: the tensors of Segment::free, in order, to a tuple of those of Segment::outputs
  Ref rebind;           // callable without arguments: bound tensors hold something else
  bool shares = false;  // it reads bound tensors where they lie: only where their data moved it is to be told
  Writes knows;         // those that it was told of

  bool is_stale(const Writes& now) const noexcept {
    return knows.moved != now.moved || (!shares && knows.written != now.written);
  }
  uint64_t runs = 0;
  std::vector<double> times;  // seconds of the first runs
};

// A segment under one key, and who answers there.
struct Keyed {
  enum class State : uint8_t {
    kOffered,  // native replay, until a plan is there
    kInTurns,  // plans and native replay in turns, each timed
    kSettled,  // the first plan; native replay if there is none
  };
  std::unique_ptr<PlanKey> key;
  std::vector<std::pair<uint32_t, Reg>> given;    // inputs that are numbers
  std::vector<std::pair<uint32_t, Reg>> numbers;  // outputs that are numbers: the same under the key
  std::vector<std::shared_ptr<Plan>> plans;
  Writes writes;  // since the key was made
  State state = State::kOffered;
  uint64_t turn = 0;
  uint64_t native_runs = 0;
  std::vector<double> native_times;
  std::string dropped;  // why the last plan that raised is gone
  bool settled_natively = false;

  // Who has the next turn; null: native replay.
  std::shared_ptr<Plan> next() noexcept;
  // Ends the turns: the fastest stays.
  void settle();
};

struct Segment {
  uint32_t first = 0, last = 0;  // nodes [first, last)
  uint32_t operators = 0;
  Vec<uint32_t> bound;           // registers that it reads: tensors that guards find at the same place each time
  Vec<uint32_t> free;            // other tensors
  Vec<uint32_t> numbers;         // numbers
  Vec<uint32_t> outputs;         // registers that it writes and that are read behind it: tensors
  Vec<uint32_t> number_outputs;  // numbers
  PyObject* region = nullptr;    // whose compilers are asked, kept by the trace; null: those of the root
  std::optional<Effects> effects;
  std::vector<std::shared_ptr<Keyed>> keys;
};

// Of one trace.
struct Segments {
  std::vector<Segment> all;  // in order
  uint32_t operators = 0;    // of the whole trace
};

// What a market needs to make plans: copies of the free inputs and of the outputs of one native replay.
struct Offer {
  const Trace* trace = nullptr;  // alive while the offer is taken
  std::shared_ptr<Segments> segments;
  size_t index = 0;
  std::shared_ptr<Keyed> keyed;
  Ref inputs, outputs;  // tuples
};

// Finds the segments of a trace. `read`: by register, the last node that reads it, or whose snapshot does where foreign
// code may have written its inputs; `seen`: the last node that reads it or whose snapshot may. Without a market of the
// root, those of regions are found alone.
std::shared_ptr<Segments> find_segments(const Trace& trace, const Vec<uint32_t>& read, const Vec<uint32_t>& seen,
                                        bool has_market);

}  // namespace pijit
