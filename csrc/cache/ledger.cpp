// How samples become a verdict.
#include "cache/ledger.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace pijit {
namespace {

// Seconds; 0: there are none.
double median_time(const std::vector<Sample>& samples) {
  std::vector<double> times;
  for (const Sample& sample : samples) times.push_back(sample.time);
  return times.empty() ? 0 : std::exp(median_of(std::move(times)));
}

}  // namespace

Ledger::Verdict Ledger::end(Kind kind, double seconds, const CallForm& form, bool hasty) noexcept {
  if (!std::exchange(busy_, false)) return Verdict::kNone;  // it was reset meanwhile
  Verdict verdict = Verdict::kNone;
  try {
    note(kind, Sample(seconds, form, rounds_, kind == Kind::kReplayed));
    const bool is_over = ++turn_ >= 2 * kRun;
    if (!is_over && !(hasty && loses_much())) return Verdict::kNone;
    turn_ = 0;
    first_ = false;
    rounds_ += 1;
    verdict = is_over ? judge(hasty) : Verdict::kLoses;
  } catch (const std::exception&) {  // memory is short
    rounds_ = kMostRounds;
  }
  if (verdict != Verdict::kNone || rounds_ >= kMostRounds) begin_rounds(verdict);
  return verdict;
}

void Ledger::note(Kind kind, const Sample& sample) {
  if (kind == Kind::kRecorded) {
    recordings_ = static_cast<uint8_t>(recordings_ + 1);
    if (2 * rounds_ >= kRounds || retries_) late_.push_back(sample);
  } else if (!warms_up() && kind != Kind::kFresh) {
    (kind == Kind::kPlain ? plains_ : timed_).push_back(sample);
    others_ = static_cast<uint8_t>(others_ + (kind == Kind::kLeft || kind == Kind::kOther));
  }
}

// The rounds from the first one on in which both sides were compared.
Ledger::Rounds Ledger::look_at(const Comparison& comparison, uint8_t first) const {
  Rounds rounds;
  for (uint8_t round = first; round < rounds_; ++round) {
    const Comparison::Shift shift = comparison.of_round(round);
    if (shift.count < 2) continue;
    ++rounds.seen;
    if (shift.value > std::log(kLoss)) ++rounds.lost;
    if (shift.value > std::log(kClearLoss)) ++rounds.clear;
  }
  return rounds;
}

Ledger::Verdict Ledger::judge(bool hasty) {
  const uint8_t first = starts_ && rounds_ > 2 ? 1 : 0;
  const bool keep_coming = rounds_ >= kRounds && late_.size() >= kMany && 2 * late_.size() >= recordings_;
  std::vector<Sample> counted = timed_;
  if (keep_coming || retries_) counted.insert(counted.end(), late_.begin(), late_.end());
  const Comparison comparison(plains_, counted, first);
  tell(comparison);
  alike_ = latest_.count;
  const Rounds rounds = look_at(comparison, first);
  wait_ = rounds.seen == rounds_ && rounds.clear == rounds_ ? 0 : kBetween;
  if (retries_) return judge_again();
  if (ratio_ == 0 || (recordings_ > 0 && rounds_ < kRounds)) return Verdict::kNone;
  if (ratio_ < kClearGain && alike_ >= kFew) return Verdict::kPays;
  const size_t others = others_ + (keep_coming ? late_.size() : 0);
  const bool lost = 8 * others < counted.size() ? loses(comparison, first, hasty)
                                                : rounds_ >= kRounds && loses_in_sum(comparison, first);
  if (lost) return Verdict::kLoses;
  return rounds_ >= kRounds && ratio_ <= kLoss ? Verdict::kPays : Verdict::kNone;
}

// Calls that are like plain ones lose.
bool Ledger::loses(const Comparison& comparison, uint8_t first, bool hasty) const {
  const Comparison::Shift shift = comparison.all();
  if (ratio_ <= kLoss || shift.value - std::log(kLoss) < kSure * shift.error) return false;
  const Rounds rounds = look_at(comparison, first);
  const bool clear = rounds.seen >= (hasty ? 1 : 2) && rounds.clear == rounds.seen;
  return clear || (rounds.seen >= 3 && 4 * rounds.lost >= 3 * rounds.seen);
}

// The calls of the rounds so far have lost much, all that are like plain ones.
bool Ledger::loses_much() {
  double taken = 0;
  for (const Sample& sample : timed_) taken += std::exp(sample.time);
  if (taken < kMuchLost || timed_.size() < kFewLost || plains_.size() < kFewLost) return false;
  const Comparison comparison(plains_, timed_, 0);
  const Comparison::Shift ratio = comparison.ratio();
  const double lost = (ratio.value - 1) * static_cast<double>(ratio.count) * median_time(plains_);
  if (ratio.count < kFewLost || lost < kMuchLost || comparison.least() < std::log(kEachLost)) return false;
  tell(comparison);
  return true;
}

// What a verdict is about.
void Ledger::tell(const Comparison& comparison) {
  plain_ = median_time(plains_);
  ratio_ = comparison.ratio().value;
  replay_ratio_ = comparison.ended_ratio();
  latest_ = comparison.all();
}

// Calls that no replay took to its end, or that were recorded, take more than all others gain.
bool Ledger::loses_in_sum(const Comparison& comparison, uint8_t first) const {
  const Comparison::Shift ratio = comparison.ratio();
  if (ratio.count < kEnough || ratio.value - kLoss < kSureInSum * ratio.error) return false;
  int seen = 0, lost = 0;
  for (uint8_t round = first; round < rounds_; ++round) {
    const Comparison::Shift part = comparison.ratio_of_round(round);
    seen += part.count > 0;
    lost += part.value > kLoss;
  }
  return 4 * lost >= 3 * seen;
}

// It was given up before.
Ledger::Verdict Ledger::judge_again() const {
  if (alike_ < kFew && rounds_ < kRounds && others_ + late_.size() < kFew) return Verdict::kNone;
  return ratio_ == 0 || ratio_ > kGainAgain ? Verdict::kLoses : Verdict::kPays;
}

// Adds what rounds came to. In the first one alone CPython may have been specialising code.
void Ledger::learn(Comparison::Shift shift) noexcept {
  if (shift.count == 0 || !(shift.error > 0)) return;
  if (starts_ && rounds_ <= 2) shift.error *= 3;
  if (known_.count == 0) {
    known_ = shift;
    return;
  }
  const double before = 1 / (known_.error * known_.error), now = 1 / (shift.error * shift.error);
  known_.value = (before * known_.value + now * shift.value) / (before + now);
  known_.error = std::sqrt(1 / (before + now));
  known_.count += shift.count;
}

void Ledger::restart() noexcept {
  forget_rounds();
  busy_ = false;
  turn_ = 0;
  wait_ = kBefore;
}

void Ledger::forget_rounds() noexcept {
  plains_ = {};
  timed_ = {};
  late_ = {};
  recordings_ = others_ = rounds_ = 0;
}

// After a verdict, or without one.
void Ledger::begin_rounds(Verdict verdict) noexcept {
  if (verdict == Verdict::kLoses) {
    lost_ = std::max(ratio_ - 1, 0.0) * plain_ * static_cast<double>(timed_.size());
    rest_ = static_cast<uint64_t>(static_cast<double>(kRest << std::min<uint64_t>(rests_, 20)) *
                                  std::clamp(ratio_, 1.0, 1e6));
    rests_ += 1;
  }
  learn(std::exchange(latest_, {}));
  wait_ = gap_;
  gap_ = std::min(gap_ * kRarer, kRarest);
  starts_ = retries_ = false;
  forget_rounds();
}

bool Ledger::rested() noexcept {
  if (rest_ == 0 || --rest_ > 0) return false;
  retries_ = true;
  wait_ = 0;
  return true;
}

}  // namespace pijit
