// Turns of plans and native replay: how they end, and why they begin again.
#include "plan/keyed.h"

#include <algorithm>

namespace pijit {

namespace {

constexpr size_t kTimes = 16;     // of a plan that are kept
constexpr size_t kBlock = 4;      // runs of a contender in a row; the first finds other caches, and is not counted
constexpr uint64_t kRounds = 2;   // of such runs
constexpr double kBehind = 2;     // times as slow as the fastest: dropped after a round
constexpr int kChances = 2;       // a plan that has lost to native replay so often is dropped
constexpr uint64_t kSample = 32;  // one of so many runs is watched
constexpr size_t kRecent = 5;     // of these are looked at
constexpr double kDrift = 1.3;    // times as slow as when it won
constexpr uint64_t kRarer = 10;

double middle_of(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double median(const std::vector<double>& times) {
  std::vector<double> counted;
  for (size_t i = 0; i < times.size(); ++i)
    if (i % kBlock != 0) counted.push_back(times[i]);
  return middle_of(counted.empty() ? times : counted);
}

void note_time(std::vector<double>* times, double seconds) {
  if (times->size() < kTimes) times->push_back(seconds);
}

}  // namespace

void Drift::begin(double seconds) {
  won_with_ = seconds;
  runs_ = 0;
  recent_.clear();
}

bool Drift::is_due(double seconds) {
  runs_ += 1;
  if (runs_ >= next_) return next_ *= kRarer, true;
  if (runs_ % kSample != 0) return false;
  recent_.push_back(seconds);
  if (recent_.size() > kRecent) recent_.erase(recent_.begin());
  return recent_.size() == kRecent && middle_of(recent_) > kDrift * won_with_;
}

std::shared_ptr<Plan> Keyed::next() noexcept {
  if (plans.empty() || settled_natively) return nullptr;
  if (state == State::kSettled) return plans.front();
  const size_t at = turn++ / kBlock % (plans.size() + 1);
  return at == 0 ? nullptr : plans[at - 1];
}

void Keyed::add(std::shared_ptr<Plan> plan, bool turns) {
  plans.push_back(std::move(plan));
  if (turns) return take_turns();
  state = State::kSettled;
  settled_natively = false;
}

void Keyed::take_turns() noexcept {
  for (const auto& plan : plans) plan->times.clear();
  native_times.clear();
  turn = rounds_ = 0;
  settled_natively = false;
  contested = true;
  state = State::kInTurns;
}

void Keyed::note(const Plan* plan, double seconds) {
  if (plan == nullptr) {
    native_runs += 1;
    note_time(&native_times, seconds);
  }
  if (state == State::kInTurns) return settle();
  const bool is_winner = settled_natively ? plan == nullptr : plan != nullptr;
  if (state != State::kSettled || !contested || !is_winner || plans.empty()) return;
  if (drift.is_due(seconds)) take_turns();
}

void Keyed::complete() noexcept {
  awaits = false;
  if (contested && !plans.empty()) take_turns();
}

void Keyed::settle() {
  if (plans.empty()) return;
  size_t fewest = native_times.size();
  for (const auto& plan : plans) fewest = std::min(fewest, plan->times.size());
  if (fewest < (rounds_ + 1) * kBlock) return;
  rounds_ += 1;
  turn = 0;
  std::sort(plans.begin(), plans.end(),
            [](const auto& a, const auto& b) { return median(a->times) < median(b->times); });
  const double fastest = median(plans.front()->times), native = median(native_times);
  const auto is_behind = [&](const auto& plan) { return median(plan->times) > kBehind * std::min(fastest, native); };
  drop_from(static_cast<size_t>(std::find_if(plans.begin() + 1, plans.end(), is_behind) - plans.begin()));
  if (rounds_ < kRounds) return;
  settled_natively = native <= fastest;
  state = State::kSettled;
  drift.begin(std::min(fastest, native));
  if (awaits) return;
  plans.front()->lost += settled_natively;
  drop_from(plans.front()->lost < kChances ? 1 : 0);
}

void Keyed::drop_from(size_t first) {
  const std::vector<std::shared_ptr<Plan>> lost(plans.begin() + static_cast<ptrdiff_t>(first), plans.end());
  plans.resize(first);
  for (const auto& plan : lost) losers.push_back({plan->name, plan->runs, median(plan->times)});
}

void Keyed::remove(const Plan& plan, std::string why) {
  const auto found = std::find_if(plans.begin(), plans.end(), [&](const auto& other) { return other.get() == &plan; });
  if (found == plans.end()) return;
  dropped = plan.name + ": " + std::move(why);
  const std::shared_ptr<Plan> gone = std::move(*found);
  plans.erase(found);
}

}  // namespace pijit
