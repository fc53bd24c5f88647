// Who answers for a segment under one key: plans, native replay, and their turns.
//
// All members are guarded by the GIL. A plan is Python code: others may add and drop plans while it runs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/ref.h"
#include "ir/executable.h"
#include "ir/value.h"

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

}  // namespace pijit
