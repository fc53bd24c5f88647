// How the turns of a loop become a verdict.
#include "cache/turns.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/clock.h"

namespace pijit {

bool TurnTimes::note(uint32_t turns, uint64_t recordings, uint32_t block) noexcept {
  if (began_ == 0) {
    began_ = computed();
    recordings_ = recordings;
    return false;
  }
  turns_ += turns;
  const bool disturbed = recordings != recordings_ && again_ < kAgain;
  if (turns_ < block && !disturbed) return false;
  const double time = computed();
  if (!disturbed) {
    const double each = (spent_ + time - began_) / turns_;
    mean_ = blocks_ == 0 ? each : std::min(mean_, each);
    blocks_ += 1;
  }
  again_ += disturbed;
  began_ = time;
  spent_ = 0;
  turns_ = 0;
  recordings_ = recordings;
  return blocks_ == kBlocks;
}

void TurnTimes::interrupt() noexcept {
  if (began_ == 0) return;
  spent_ += computed() - began_;
  began_ = 0;
}

TurnRounds::Verdict TurnRounds::note(uint32_t turns, uint64_t recordings, uint32_t block) noexcept {
  if (plain_ == 0 || verdict_ != Verdict::kNone || !native_.note(turns, recordings, block)) return Verdict::kNone;
  logs_ += std::log(native_.mean() / plain_);
  rounds_ += 1;
  compared_ = std::exchange(plain_, 0);
  return verdict_ = judge();
}

TurnRounds::Verdict TurnRounds::judge() const noexcept {
  const double now = ratio();
  if (now > kClearLoss) return Verdict::kLoses;
  if (now < kClearGain) return Verdict::kPays;
  if (rounds_ < 2) return Verdict::kNone;
  if (now < kClear) return Verdict::kPays;
  if (now > kLoss || rounds_ == kRounds) return now < 1 ? Verdict::kPays : Verdict::kLoses;
  return Verdict::kNone;
}

double TurnRounds::ratio() const noexcept {
  return rounds_ == 0 ? 0 : std::exp(logs_ / rounds_);
}

Comparison::Shift TurnRounds::known() const noexcept {
  const auto count = static_cast<size_t>(rounds_);
  return {count, rounds_ == 0 ? 0 : logs_ / rounds_, Comparison::kFloor};
}

}  // namespace pijit
