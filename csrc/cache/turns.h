// What turns of a loop take that was entered while its function ran, and whether its traces pay.
//
// CPython runs some turns, with all that is replayed of what they call, and then as many are taken by traces of the
// loop; this is done in rounds. A side of a round has kBlocks blocks of kTurns turns, of which the shorter one counts:
// what comes now and then, such as a line that is printed, is in one of them. Blocks in which something is recorded, or
// a trace is replayed first, are begun anew, a few times.
#pragma once
#include <cstdint>

#include "cache/comparison.h"

namespace pijit {

// One side of a round.
class TurnTimes {
 public:
  static constexpr uint32_t kTurns = 16, kBlocks = 2;

  // So many turns more; `recordings` were made so far. True: the side has ended, and mean() is known.
  bool note(uint32_t turns, uint64_t recordings, uint32_t block = kTurns) noexcept;
  // The next turn does not follow on the last one.
  void interrupt() noexcept;
  // Seconds of a turn.
  double mean() const noexcept { return mean_; }

 private:
  static constexpr uint32_t kAgain = 24;  // blocks that are begun anew

  uint32_t turns_ = 0, blocks_ = 0, again_ = 0;
  uint64_t recordings_ = 0;
  double began_ = 0, spent_ = 0, mean_ = 0;  // spent_: in the block, before it was interrupted
};

// The rounds of a loop.
class TurnRounds {
 public:
  enum class Verdict : uint8_t { kNone, kPays, kLoses };

  // CPython has run some turns, which took so many seconds each; traces are to take some now.
  void begin(double plain) noexcept {
    began_ = true;
    plain_ = plain;
    native_ = TurnTimes();
  }
  // Traces have taken so many turns.
  Verdict note(uint32_t turns, uint64_t recordings, uint32_t block = TurnTimes::kTurns) noexcept;
  // Rounds so far were compared with something else than those that are to come.
  void restart() noexcept {
    logs_ = plain_ = 0;
    rounds_ = 0;
  }
  bool any() const noexcept { return rounds_ > 0; }
  void interrupt() noexcept { native_.interrupt(); }
  // CPython is to run some turns, to compare.
  bool wants_plain() const noexcept { return verdict_ == Verdict::kNone && plain_ == 0; }
  Verdict verdict() const noexcept { return verdict_; }
  // How many times as long as in CPython a turn takes.
  double ratio() const noexcept;
  // Seconds by which a turn is shorter than in CPython; a little, as long as that is not known.
  double gain() const noexcept {
    if (verdict_ != Verdict::kNone) return compared_ * (1 - ratio());
    return (plain_ > 0 ? plain_ : compared_) * (1 - kHopedRatio);
  }
  // The same as the ledger tells it (cache/ledger.h).
  Comparison::Shift known() const noexcept;
  bool began() const noexcept { return began_; }

 private:
  static constexpr int kRounds = 4;
  static constexpr double kClearGain = 0.8, kClear = 0.95, kLoss = 1.03, kClearLoss = 1.5;

  Verdict judge() const noexcept;

  TurnTimes native_;
  double plain_ = 0, logs_ = 0;  // logs_: of the ratios
  double compared_ = 0;          // plain_ of the last round
  int rounds_ = 0;
  bool began_ = false;
  Verdict verdict_ = Verdict::kNone;
};

}  // namespace pijit
