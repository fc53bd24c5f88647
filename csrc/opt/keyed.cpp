// Turns of plans and native replay, and how they end.
#include "opt/keyed.h"

#include <algorithm>

namespace pijit {

namespace {

constexpr size_t kTurns = 7;  // of each contender; the first is not counted

double median(std::vector<double> times) {
  if (times.size() > 1) times.erase(times.begin());
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

std::shared_ptr<Plan> Keyed::next() noexcept {
  if (plans.empty() || settled_natively) return nullptr;
  if (state == State::kSettled) return plans.front();
  const size_t at = turn++ % (plans.size() + 1);
  return at == 0 ? nullptr : plans[at - 1];
}

void Keyed::settle() {
  if (state != State::kInTurns || native_times.size() < kTurns) return;
  for (const auto& plan : plans)
    if (plan->times.size() < kTurns) return;
  const auto best = std::min_element(plans.begin(), plans.end(),
                                     [](const auto& a, const auto& b) { return median(a->times) < median(b->times); });
  if (best == plans.end()) return;
  state = State::kSettled;
  std::iter_swap(plans.begin(), best);
  settled_natively = median(native_times) <= median(plans.front()->times);
}

}  // namespace pijit
