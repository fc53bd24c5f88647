// What the calls of a root take, replayed and in CPython, and whether replays pay.
//
// A few calls are timed in rounds: CPython runs some, then the same number is replayed. The clock counts what the
// thread computes, so that a busy machine slows neither side. Between rounds nothing is timed.
//
// 1. Calls of one kind come one after the other, and the first of them is left out. A plain call among replays takes up
//    to half as much again as one among plain calls: its code and its data are in no cache any more.
// 2. A clear gain or a clear loss decides after one round. What lies between takes up to kRounds of them, of which the
//    first is left out: CPython specialises code at its first plain calls.
// 3. A recording is paid once and used for long: it counts only where calls are still being recorded, many of them, in
//    the second half of the rounds.
// 4. The lower median stands for the replays, and for the plain calls. What came of missed guards, exits and recordings
//    is counted in full.
// 5. A root that was given up is tried again after many calls, with the traces that it has; each time it loses, after
//    twice as many.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace pijit {

class Ledger {
 public:
  // What is done with a call.
  enum class Turn : uint8_t { kFree, kTimed, kPlain };
  // What a timed call came to.
  enum class Kind : uint8_t { kPlain, kReplayed, kRecorded, kOther };
  enum class Verdict : uint8_t { kNone, kPays, kLoses };

  // Of the next call, once the root has been recorded.
  Turn next() noexcept {
    if (busy_) return Turn::kFree;  // a call inside a timed one
    if (wait_ > 0) return --wait_, Turn::kFree;
    return turn_ < kRun ? Turn::kPlain : Turn::kTimed;
  }
  void begin() noexcept { busy_ = true; }
  // Of the call that next() spoke of: it is the first of its kind in the round.
  bool warms_up() const noexcept { return turn_ % kRun == 0; }
  // It is one of the last of its kind in the round: it takes what it takes among calls of its kind.
  bool is_settled() const noexcept { return turn_ % kRun + kSettled >= kRun; }
  // The first round of all: CPython specialises the code.
  bool in_first_round() const noexcept { return first_; }
  Verdict end(Kind kind, double seconds) noexcept;

  // Of the last verdict: how many times CPython's time a call takes, and one that is replayed to its end.
  double ratio() const noexcept { return ratio_; }
  double replay_ratio() const noexcept { return replay_ratio_; }
  // Seconds of a plain call, 0: not known.
  double plain() const noexcept { return plain_; }

  // What was measured so far is of other code.
  void restart() noexcept;

  // A call of a root that was given up; true: it is tried again.
  bool rested() noexcept;
  // It is being tried again: nothing is recorded.
  bool retries() const noexcept { return retries_; }

 private:
  static constexpr size_t kPairs = 4;         // of a replayed and a plain call that count, in a round
  static constexpr size_t kRun = kPairs + 1;  // calls of one kind, the first one included
  static constexpr size_t kSettled = 2;       // of these, the last ones
  static constexpr size_t kRounds = 4;        // without a clear result
  static constexpr size_t kMost = kPairs * kRounds;
  static constexpr uint8_t kMany = 3;     // recordings in the second half of the rounds
  static constexpr uint32_t kBefore = 3;  // calls before the first round
  static constexpr uint64_t kNext = 64;   // calls before the next round, at first
  static constexpr uint64_t kRarer = 2;   // how much rarer rounds become
  static constexpr uint64_t kRarest = uint64_t{1} << 20;
  static constexpr uint64_t kRest = 1000;  // calls in CPython before a root is tried again
  static constexpr double kClearGain = 0.8, kClearLoss = 1.5, kLoss = 1.03, kGainAgain = 0.95;

  void weigh(size_t first, bool all) noexcept;
  Verdict judge() noexcept;
  void begin_rounds() noexcept;
  void forget_round() noexcept;

  std::array<float, kMost> replayed_{}, plain_times_{}, others_{};
  uint8_t replays_ = 0, plains_ = 0, other_count_ = 0, recordings_ = 0,
          late_ = 0;  // of recordings: all, those of the second half
  uint8_t turn_ = 0, rounds_ = 0;
  bool busy_ = false, retries_ = false, first_ = true;
  float recorded_ = 0;  // seconds of the late ones
  uint64_t wait_ = kBefore, gap_ = kNext, rest_ = 0, rests_ = 0;
  double ratio_ = 0, replay_ratio_ = 0, plain_ = 0;
};

}  // namespace pijit
