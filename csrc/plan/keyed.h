// Who answers for a segment under one key: plans, native replay, and their turns.
//
// 1. Where several may answer they take turns, each timed: several runs in a row, since what the one before it left in
//    the caches is not its own. The fastest stays, and what lost is dropped; the best plan is kept a second time even
//    if native replay was faster.
// 2. While the market still compiles, times are those of a busy machine: the fastest answers, and who comes near it
//    stays. When the market is done they take turns again.
// 3. Who won is watched (`Drift`): when it has become slower, and after ever more runs, the turns begin again.
// 4. All members are guarded by the GIL. A plan is Python code: others may add and drop plans while it runs.
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
  Ref call;               // callable: the tensors of Segment::free, in order, to a tuple of those of Segment::outputs
  Ref rebind;             // callable without arguments: bound tensors hold something else; one for all keys of a plan
  bool shares = false;    // it reads bound tensors where they lie: only where their data moved it is to be told
  Writes knows;           // those that it was told of
  bool on_trial = false;  // a result is compared with native replay before one answers
  uint64_t since_compared = 0;
  int lost = 0;  // how often native replay was faster

  bool is_stale(const Writes& now) const noexcept {
    return knows.moved != now.moved || (!shares && knows.written != now.written);
  }
  // In this turn native replay answers, and the plan is compared with it. `every`: of so many turns one is; 0: none.
  bool is_to_compare(uint64_t every) noexcept { return on_trial || (every != 0 && ++since_compared >= every); }
  uint64_t runs = 0;
  std::vector<double> times;  // seconds of the first runs
};

// Tells when who won is to be measured again.
class Drift {
 public:
  // It won, and its runs take so long.
  void begin(double seconds);
  // After a run. True: it has become slower, or a look is due.
  bool is_due(double seconds);

 private:
  double won_with_ = 0;
  uint64_t runs_ = 0;
  uint64_t next_ = 1000;        // runs until it is looked at again, drifting or not: ten times as many each time
  std::vector<double> recent_;  // of every so many runs
};

// A plan that lost the turns, for who asks.
struct Loser {
  std::string name;
  uint64_t runs;
  double seconds;  // of a run, at the median
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
  // By output: the form of one that only operators of the trace read; null, or none at all: `key` takes it.
  std::vector<std::unique_ptr<PlanKey>> passed;
  std::vector<std::shared_ptr<Plan>> plans;
  State state = State::kOffered;
  uint64_t turn = 0;
  uint64_t native_runs = 0;
  std::vector<double> native_times;
  std::string dropped;  // why the last plan that raised or was wrong is gone
  std::vector<Loser> losers;
  bool settled_natively = false;
  bool contested = false;           // plans and native replay have taken turns
  bool awaits = false;              // the market still compiles for the key
  std::weak_ptr<const void> asked;  // alive as long as the market has an offer of this key in its hands
  Drift drift;
  // Of Keys (plan/keys.h).
  uint64_t offers = 0;   // to the market; an older one than the last is void
  bool offered = false;  // the market has been asked, and may have been given plans
  bool shared = false;   // they are of free sizes: compiled once for many keys
  bool unfit = false;    // a tensor cannot be copied: it is not offered
  bool draws = false;    // native replay was seen to leave generators in other states
  static constexpr size_t kUses = 4;
  uint64_t uses[kUses] = {};  // the last arrivals under the key, a ring
  uint64_t uses_count = 0;

  // Another may answer soon. Of a form that came once only the market may never think.
  bool is_undecided() const noexcept { return state == State::kInTurns || (native_runs > 1 && !asked.expired()); }
  // Who has the next turn; null: native replay.
  std::shared_ptr<Plan> next() noexcept;
  // One more contender; with `turns` they take turns from now on, else the first plan answers.
  void add(std::shared_ptr<Plan> plan, bool turns);
  // Nobody else comes: those that are there take turns once more, and one of them stays.
  void complete() noexcept;
  // After a run of who was next, the plan or null for native replay.
  void note(const Plan* plan, double seconds);
  void remove(const Plan& plan, std::string why);

 private:
  void take_turns() noexcept;
  // After a turn. At the end of a round who is far behind is dropped; after the last one the fastest stays.
  void settle();
  // The plans from there on have lost.
  void drop_from(size_t first);

  uint64_t rounds_ = 0;
};

}  // namespace pijit
