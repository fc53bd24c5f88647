// How samples become a verdict.
#include "cache/ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pijit {
namespace {

// Of the samples from `first` on; 0: there are none.
template <size_t N>
double lower_median(std::array<float, N> samples, size_t first, size_t count) noexcept {
  if (first >= count) return 0;
  const auto begin = samples.begin() + static_cast<ptrdiff_t>(first);
  const auto end = samples.begin() + static_cast<ptrdiff_t>(count);
  const auto middle = begin + (end - begin - 1) / 2;
  std::nth_element(begin, middle, end);
  return static_cast<double>(*middle);
}

// After a reset within a timed call on another thread a round may have more calls of a kind than its share.
template <size_t N>
void add(std::array<float, N>* samples, uint8_t* count, float sample) noexcept {
  if (*count < N) (*samples)[(*count)++] = sample;
}

}  // namespace

Ledger::Verdict Ledger::end(Kind kind, double seconds) noexcept {
  if (!std::exchange(busy_, false)) return Verdict::kNone;  // it was reset meanwhile
  const auto taken = static_cast<float>(seconds);
  const bool counts = !warms_up();
  switch (kind) {
    case Kind::kPlain:
      if (counts) add(&plain_times_, &plains_, taken);
      break;
    case Kind::kReplayed:
      if (counts) add(&replayed_, &replays_, taken);
      break;
    case Kind::kRecorded:
      recordings_ += 1;
      if (2 * rounds_ < static_cast<int>(kRounds) && !retries_) break;
      late_ += 1;
      recorded_ += taken;
      break;
    case Kind::kOther:
      add(&others_, &other_count_, taken);
  }
  if (++turn_ < 2 * kRun) return Verdict::kNone;
  turn_ = 0;
  first_ = false;
  rounds_ += 1;
  const Verdict verdict = judge();
  if (verdict != Verdict::kNone) begin_rounds();
  return verdict;
}

// Of all samples, or of those behind the first ones; with what late recordings took, or without.
void Ledger::weigh(size_t first, bool all) noexcept {
  plain_ = lower_median(plain_times_, first, plains_);
  const double replay = lower_median(replayed_, replays_ > first ? first : 0, replays_);
  const double others = std::accumulate(others_.begin(), others_.begin() + other_count_, 0.0);
  const double sum = replay * replays_ + others + (all ? static_cast<double>(recorded_) : 0);
  const int count = replays_ + other_count_ + (all ? late_ : 0);
  ratio_ = plain_ == 0 || count == 0 ? 0 : sum / count / plain_;
  replay_ratio_ = plain_ == 0 ? 0 : replay / plain_;
}

Ledger::Verdict Ledger::judge() noexcept {
  if (retries_) {
    weigh(0, true);
    return ratio_ > kGainAgain ? Verdict::kLoses : Verdict::kPays;
  }
  const bool last = rounds_ == kRounds;
  weigh(last ? kPairs : 0, last && late_ >= kMany);
  if (last) return ratio_ > kLoss ? Verdict::kLoses : Verdict::kPays;
  if (ratio_ == 0 || recordings_ > 0) return Verdict::kNone;
  return ratio_ < kClearGain ? Verdict::kPays : ratio_ > kClearLoss ? Verdict::kLoses : Verdict::kNone;
}

void Ledger::restart() noexcept {
  forget_round();
  busy_ = false;
  turn_ = 0;
  wait_ = kBefore;
}

void Ledger::forget_round() noexcept {
  replays_ = plains_ = other_count_ = recordings_ = late_ = rounds_ = 0;
  recorded_ = 0;
}

// After a verdict.
void Ledger::begin_rounds() noexcept {
  const bool loses = ratio_ > (retries_ ? kGainAgain : kLoss);
  if (loses) {
    rest_ = (kRest << std::min<uint64_t>(rests_, 20)) * static_cast<uint64_t>(std::max(1.0, ratio_));
    rests_ += 1;
  }
  wait_ = gap_;
  gap_ = std::min(gap_ * kRarer, kRarest);
  forget_round();
  retries_ = false;
}

bool Ledger::rested() noexcept {
  if (rest_ == 0 || --rest_ > 0) return false;
  retries_ = true;
  wait_ = 0;
  return true;
}

}  // namespace pijit
