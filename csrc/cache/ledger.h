// What the calls of a root take, replayed and in CPython, and whether replays pay.
//
// A few calls are timed in rounds: CPython runs every other one of them. The clock counts what the thread computes, so
// that a busy machine slows neither side. Between rounds nothing is timed.
//
// 1. A clear gain or a clear loss decides after one round. What lies between takes up to kRounds of them, of which the
//    first is left out: CPython specialises code at its first plain calls.
// 2. A recording is paid once and used for long: it counts only where calls are still being recorded, many of them, in
//    the second half of the rounds.
// 3. The lower median stands for the replays, and for the plain calls. What came of missed guards, exits and recordings
//    is counted in full.
// 4. A root that was given up is tried again after many calls, with the traces that it has; each time it loses, after
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
    return turn_ % 2 == 0 ? Turn::kTimed : Turn::kPlain;
  }
  void begin() noexcept { busy_ = true; }
  Verdict end(Kind kind, double seconds) noexcept;

  // Of the last verdict: how many times CPython's time a call takes, and one that is replayed to its end.
  double ratio() const noexcept { return ratio_; }
  double replay_ratio() const noexcept { return replay_ratio_; }
  // Seconds of a plain call, 0: not known.
  double plain() const noexcept { return plain_; }

  // A call of a root that was given up; true: it is tried again.
  bool rested() noexcept;
  // It is being tried again: nothing is recorded.
  bool retries() const noexcept { return retries_; }

 private:
  static constexpr size_t kPairs = 4;   // of a timed and a plain call, in a round
  static constexpr size_t kRounds = 4;  // without a clear result
  static constexpr size_t kMost = kPairs * kRounds;
  static constexpr uint8_t kMany = 3;     // recordings in the second half of the rounds
  static constexpr uint32_t kBefore = 3;  // calls before the first round
  static constexpr uint64_t kNext = 64;   // calls before the next round, at first ...
  static constexpr uint64_t kRarer = 4;   // ... and how much rarer they become
  static constexpr uint64_t kRarest = uint64_t{1} << 20;
  static constexpr uint64_t kRest = 1000;  // calls in CPython before a root is tried again
  static constexpr double kClearGain = 0.8, kClearLoss = 1.5, kLoss = 1.03, kGainAgain = 0.95;

  void weigh(size_t first, bool all) noexcept;
  Verdict judge() noexcept;
  void begin_rounds() noexcept;

  std::array<float, kMost> replayed_{}, plain_times_{}, others_{};
  uint8_t replays_ = 0, plains_ = 0, other_count_ = 0, recordings_ = 0,
          late_ = 0;  // of recordings: all, those of the second half
  uint8_t turn_ = 0, rounds_ = 0;
  bool busy_ = false, retries_ = false;
  float recorded_ = 0;  // seconds of the late ones
  uint64_t wait_ = kBefore, gap_ = kNext, rest_ = 0, rests_ = 0;
  double ratio_ = 0, replay_ratio_ = 0, plain_ = 0;
};

}  // namespace pijit
