// What the calls of a root take, replayed and in CPython, and whether replays pay.
//
// A few calls are timed in rounds: CPython runs some, then the same number is replayed; in every second round it is the
// other way round, so that what drifts slows neither side. The clock counts what the thread computes, so that a busy
// machine slows neither side. Between rounds nothing is timed. Like is compared with like (cache/comparison.h).
//
// 1. Calls of one kind come one after the other, and the first of them is left out. A plain call among replays takes up
//    to half as much again as one among plain calls: its code and its data are in no cache any more.
// 2. A clear gain decides after one round. A loss needs a difference of kSure standard errors, and two rounds that both
//    say that it is clear, or three of four that say so at all: in one round the machine may be slower for the replays
//    alone. Where nobody asked for replays, one round that says that it is clear decides. The first round of all counts
//    only for what is clear, since CPython specialises code at its first plain calls. After kRounds what is no loss
//    pays; a loss that is not sure has up to kMostRounds.
//    Where nobody asked for replays and calls are long, some of them lose much before a round is over: kMuchLost
//    seconds, in which each call that counts was clearly slower, decide at once.
// 3. A recording is paid once and used for long: it counts only where calls keep being recorded, many of them, in the
//    second half of the rounds. The first replays of a trace do not count.
// 4. Medians stand for replays, and for plain calls. What came of missed guards, exits and recordings is counted in
//    full: where that is much of the calls, they lose if the sum does, in three of four rounds.
// 5. A root that was given up is tried again after many calls, with the traces that it has; each time it loses, after
//    twice as many.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cache/comparison.h"

namespace pijit {

class Ledger {
 public:
  // What is done with a call.
  enum class Turn : uint8_t { kFree, kTimed, kPlain };
  // What a timed call came to: kLeft: a replay that CPython took to its end; kFresh: a replay that was among the first
  // ones of a trace.
  enum class Kind : uint8_t { kPlain, kReplayed, kLeft, kFresh, kRecorded, kOther };
  enum class Verdict : uint8_t { kNone, kPays, kLoses };

  // Of the next call, once the root has been recorded.
  Turn next() noexcept {
    if (busy_) return Turn::kFree;  // a call inside a timed one
    if (wait_ > 0) return --wait_, Turn::kFree;
    return (turn_ < kRun) == (rounds_ % 2 == 0) ? Turn::kPlain : Turn::kTimed;
  }
  void begin() noexcept { busy_ = true; }
  // Of the call that next() spoke of: it is the first of its kind in the round.
  bool warms_up() const noexcept { return turn_ % kRun == 0; }
  // It is one of the last of its kind in the round: it takes what it takes among calls of its kind.
  bool is_settled() const noexcept { return turn_ % kRun + kSettled >= kRun; }
  // The first round of all: CPython specialises the code.
  bool in_first_round() const noexcept { return first_; }
  // `hasty`: a clear loss of one round decides.
  Verdict end(Kind kind, double seconds, const CallForm& form, bool hasty) noexcept;

  // Of the last verdict: how many times CPython's time a call takes, and one that is replayed to its end.
  double ratio() const noexcept { return ratio_; }
  double replay_ratio() const noexcept { return replay_ratio_; }
  // The same of calls that are like plain ones, from all rounds so far: the logarithm, and its standard error. No
  // count: not known.
  const Comparison::Shift& known() const noexcept { return known_.count > 0 ? known_ : latest_; }
  // Seconds of a plain call, 0: not known.
  double plain() const noexcept { return plain_; }

  // Seconds that the calls lost that were timed before the last verdict, if it was a loss.
  double lost() const noexcept { return lost_; }

  // What was measured so far is of other code.
  void restart() noexcept;
  // A plain call takes so many seconds, and nobody asked for replays: those of long calls are compared from the first on,
  // since each may lose much.
  void begin_soon(double plain) noexcept {
    if (plain >= kLongCall && starts_ && rounds_ == 0) wait_ = 0;
  }

  // A call of a root that was given up; true: it is tried again.
  bool rested() noexcept;
  // It is being tried again: nothing is recorded.
  bool retries() const noexcept { return retries_; }
  // Between two rounds, of which those so far look like a loss.
  bool doubts() const noexcept { return rounds_ > 0 && turn_ == 0 && ratio_ > kDoubt; }

 private:
  static constexpr size_t kPairs = 4;         // of a replayed and a plain call that count, in a round
  static constexpr size_t kRun = kPairs + 1;  // calls of one kind, the first one included
  static constexpr size_t kSettled = 2;       // of these, the last ones
  static constexpr uint8_t kRounds = 4;       // without a clear result
  static constexpr uint8_t kMostRounds = 8;   // without a sure one
  static constexpr size_t kFew = 3;           // timed calls that are like plain ones, at least
  static constexpr size_t kEnough = 12;       // of these, for a sum
  static constexpr uint8_t kMany = 3;         // recordings in the second half of the rounds
  static constexpr uint32_t kBefore = 3;      // calls before the first round
  static constexpr uint64_t kBetween = 4;     // and between two rounds, unless a clear loss is to be confirmed
  static constexpr uint64_t kNext = 64;       // calls before the next rounds, at first
  static constexpr uint64_t kRarer = 2;       // how much rarer rounds become
  static constexpr uint64_t kRarest = uint64_t{1} << 20;
  static constexpr uint64_t kRest = 300;                       // calls in CPython before a root is tried again
  static constexpr double kLongCall = 5e-3, kMuchLost = 0.02;  // seconds
  static constexpr size_t kFewLost = 2;                        // calls of each kind before they can lose much
  static constexpr double kEachLost = 1.15;                    // times a plain call, that each of these takes
  static constexpr double kClearGain = 0.8, kClearLoss = 1.5, kDoubt = 1.1, kLoss = 1.03, kGainAgain = 0.95;
  static constexpr double kSure = 3.5, kSureInSum = 3.5;  // standard errors

  // Whether the rounds say that calls lose.
  struct Rounds {
    uint8_t seen = 0, lost = 0, clear = 0;
  };

  void note(Kind kind, const Sample& sample);
  Verdict judge(bool hasty);
  bool loses(const Comparison& comparison, uint8_t first, bool hasty) const;
  bool loses_in_sum(const Comparison& comparison, uint8_t first) const;
  bool loses_much();
  void tell(const Comparison& comparison);
  Verdict judge_again() const;
  Rounds look_at(const Comparison& comparison, uint8_t first) const;
  void learn(Comparison::Shift shift) noexcept;
  void begin_rounds(Verdict verdict) noexcept;
  void forget_rounds() noexcept;

  std::vector<Sample> plains_, timed_, late_;  // late_: recordings of the second half
  uint8_t recordings_ = 0, others_ = 0;
  uint8_t turn_ = 0, rounds_ = 0;
  bool busy_ = false, retries_ = false, first_ = true, starts_ = true;  // starts_: these are the first rounds of all
  Comparison::Shift known_, latest_;                                    // latest_: of the rounds since the last verdict
  size_t alike_ = 0;                                                    // timed calls that are like plain ones
  uint64_t wait_ = kBefore, gap_ = kNext, rest_ = 0, rests_ = 0;
  double ratio_ = 0, replay_ratio_ = 0, plain_ = 0, lost_ = 0;
};

}  // namespace pijit
