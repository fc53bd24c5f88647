// Predictions from plain calls, and what timed calls differ from them.
#include "cache/comparison.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace pijit {
namespace {

constexpr double kSame = 0.02;                             // amounts that differ by so little are the same
constexpr double kBeyond = 0.15;                           // how far beyond all plain calls an amount may be
constexpr double kBetter = 0.7;                            // an amount predicts: the error is so much smaller with it
constexpr size_t kNothing = 2;                             // in the place of an amount: none predicts
constexpr double kDeviation = 1.4826, kOfMedian = 1.2533;  // of a normal distribution

using Samples = std::vector<const Sample*>;

// The logarithm of what a plain call of the sample's form takes, from the plain calls but one.
std::optional<double> predict(const Samples& plain, const Sample& sample, size_t amount, const Sample* but) {
  std::vector<double> same;
  const Sample *below = nullptr, *above = nullptr;
  for (const Sample* other : plain) {
    if (other == but || other->way != sample.way) continue;
    const double beyond = amount == kNothing ? 0 : other->sizes[amount] - sample.sizes[amount];
    if (std::abs(beyond) <= kSame) {
      same.push_back(other->time);
    } else if (beyond < 0) {
      if (below == nullptr || below->sizes[amount] < other->sizes[amount]) below = other;
    } else if (above == nullptr || above->sizes[amount] > other->sizes[amount]) {
      above = other;
    }
  }
  if (!same.empty()) return median_of(std::move(same));
  if (below != nullptr && above != nullptr) {
    const double from = below->sizes[amount], to = above->sizes[amount];
    const double share = (sample.sizes[amount] - from) / (to - from);
    return below->time * (1 - share) + above->time * share;
  }
  const Sample* nearest = below != nullptr ? below : above;
  if (nearest == nullptr || std::abs(nearest->sizes[amount] - sample.sizes[amount]) > kBeyond) return std::nullopt;
  return nearest->time;
}

// How far plain calls are from what the others predict.
std::optional<double> error_of(const Samples& plain, size_t amount) {
  std::vector<double> errors;
  for (const Sample* sample : plain)
    if (const auto predicted = predict(plain, *sample, amount, sample))
      errors.push_back(std::abs(sample->time - *predicted));
  if (errors.size() < 2) return std::nullopt;
  return median_of(std::move(errors));
}

// The amount that predicts best, or kNothing.
size_t best_amount(const Samples& plain) {
  size_t best = kNothing;
  double least = kBetter * error_of(plain, kNothing).value_or(1e9);
  for (size_t amount = 0; amount < kNothing; ++amount) {
    const auto error = error_of(plain, amount);
    if (!error || *error >= least) continue;
    best = amount;
    least = *error;
  }
  return best;
}

Samples from_round(const std::vector<Sample>& samples, uint8_t first) {
  Samples found;
  for (const Sample& sample : samples)
    if (sample.round >= first) found.push_back(&sample);
  return found;
}

}  // namespace

// A clock may stand still for a short call.
Sample::Sample(double seconds, const CallForm& form, uint8_t round, bool ended) noexcept
    : time(std::log(std::max(seconds, 1e-9))),
      sizes{std::log1p(form.amounts[0]), std::log1p(form.amounts[1])},
      way(form.way),
      round(round),
      ended(ended) {}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Comparison::Comparison(const std::vector<Sample>& plain, const std::vector<Sample>& timed, uint8_t first_round) {
  const Samples known = from_round(plain, first_round);
  if (known.empty()) return;
  const size_t amount = best_amount(known);
  for (const Sample* sample : known) {
    const auto alone = predict(known, *sample, amount, sample), whole = predict(known, *sample, amount, nullptr);
    if (alone) plain_.push_back({sample->time - *alone, sample->round, false, sample->time - *whole});
  }
  for (const Sample* sample : from_round(timed, first_round))
    if (const auto predicted = predict(known, *sample, amount, nullptr))
      like_.push_back({sample->time - *predicted, sample->round, sample->ended});
}

Comparison::Residuals Comparison::of(const Residuals& all, uint8_t round) {
  Residuals found;
  for (const Residual& each : all)
    if (each.round == round) found.push_back(each);
  return found;
}

// Of timed calls from what is known of plain ones; the prediction errs by `from` there.
Comparison::Shift Comparison::shift(const Residuals& plain, const Residuals& timed, double from) {
  if (timed.empty()) return {};
  std::vector<double> values, away;
  for (const Residual& residual : timed) values.push_back(residual.value);
  const double now = median_of(std::move(values));
  for (const Residual& residual : timed) away.push_back(std::abs(residual.value - now));
  for (const Residual& residual : plain) away.push_back(std::abs(residual.value));
  const double spread = std::max(kFloor, kDeviation * median_of(std::move(away)));
  const auto count = static_cast<double>(timed.size()), others = static_cast<double>(std::max<size_t>(plain.size(), 1));
  const double of_few = 1 + 2 / count;  // a spread that is known from few
  return {timed.size(), now - from, of_few * kOfMedian * spread * std::sqrt(1 / count + 1 / others)};
}

Comparison::Shift Comparison::mean(const Residuals& timed) const {
  if (timed.empty()) return {};
  const double ended = ended_ratio();
  double sum = 0, squares = 0, plain = 0;
  const auto count = static_cast<double>(timed.size());
  const auto taken = [&](const Residual& each) { return each.ended ? ended : std::exp(each.value); };
  for (const Residual& each : timed) sum += taken(each);
  for (const Residual& each : timed) squares += (taken(each) - sum / count) * (taken(each) - sum / count);
  for (const Residual& each : plain_) plain += std::exp(each.value) / static_cast<double>(plain_.size());
  const double beside = plain_.size() < 2 || timed.size() < 2 ? 1 : std::max(plain, 1.0);
  return {timed.size(), sum / count / beside, std::sqrt(squares) / count};
}

Comparison::Shift Comparison::all() const {
  return shift(plain_, like_, 0);
}

Comparison::Shift Comparison::of_round(uint8_t round) const {
  std::vector<double> then;
  for (const Residual& each : of(plain_, round)) then.push_back(each.whole);
  return shift(plain_, of(like_, round), median_of(std::move(then)));
}

Comparison::Shift Comparison::ratio() const {
  return mean(like_);
}

Comparison::Shift Comparison::ratio_of_round(uint8_t round) const {
  return mean(of(like_, round));
}

double Comparison::least() const {
  double least = like_.empty() ? 0 : like_.front().value;
  for (const Residual& each : like_) least = std::min(least, each.value);
  return least;
}

double Comparison::ended_ratio() const {
  Residuals ended;
  for (const Residual& each : like_)
    if (each.ended) ended.push_back(each);
  return ended.empty() ? 0 : std::exp(shift(plain_, ended, 0).value);
}

}  // namespace pijit
