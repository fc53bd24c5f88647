// Turns of tapes and plans: how they begin, and who wins.
#include "plan/tape_turns.h"

#include <algorithm>

#include "plan/segment.h"
#include "plan/tapes.h"

namespace pijit {

namespace {

constexpr uint32_t kOffering = 3;  // replays: one offers its form, and the market wants to see it come again
constexpr uint32_t kMostMisses = 8;
constexpr uint32_t kLookEvery = 8;  // replays between two looks at the plans
constexpr uint64_t kMoreEachTime = 10;

}  // namespace

// The first replay in each row is not counted.
double TapeTurns::median(Side side) const noexcept {
  std::array<double, (kInARow - 1) * kRows> counted;
  double* end = counted.data();
  for (size_t i = 0; i < counts_[static_cast<size_t>(side)]; ++i)
    if (i % kInARow != 0) *end++ = times_[static_cast<size_t>(side)][i];
  std::sort(counted.data(), end);
  return counted[static_cast<size_t>(end - counted.data()) / 2];
}

TapeTurns::Plans TapeTurns::look(const Segments& segments, const Tapes& tapes) noexcept {
  Plans found = Plans::kNone;
  uint64_t known = 0;
  for (const std::shared_ptr<Segment>& segment : *segments.all) {
    if (!tapes.overlap(*segment)) continue;
    for (const std::shared_ptr<Keyed>& keyed : segment->keys) {
      if (keyed->plans.empty() || !segment->keys.is_in_use(*keyed)) continue;
      if (keyed->state == Keyed::State::kInTurns || !keyed->contested) return Plans::kFirst;
      if (keyed->state != Keyed::State::kSettled || keyed->settled_natively) continue;
      found = Plans::kSettled;
      known = known * 31 + reinterpret_cast<uintptr_t>(keyed->plans.front().get());
    }
  }
  if (found == Plans::kSettled && known != known_) {
    known_ = known;
    begin();
  }
  return found;
}

void TapeTurns::begin() noexcept {
  in_turns_ = true;
  turn_ = 0;
  counts_[0] = counts_[1] = 0;
}

TapeTurns::Side TapeTurns::next(const Segments& segments, const Tapes& tapes) noexcept {
  if (offering_ > 0) return offering_ -= 1, Side::kPlans;
  if (!tapes.are_useful()) return Side::kPlans;
  if (looked_++ % kLookEvery == 0 || plans_ == Plans::kFirst) plans_ = look(segments, tapes);
  if (plans_ != Plans::kSettled) return plans_ == Plans::kNone ? Side::kTapes : Side::kPlans;
  if (!in_turns_ && ++settled_ >= next_turns_) {
    settled_ = 0;
    next_turns_ *= kMoreEachTime;
    begin();
  }
  if (!in_turns_) return winner_;
  return turn_++ / kInARow % 2 == 0 ? Side::kTapes : Side::kPlans;
}

void TapeTurns::note(Side side, double seconds) noexcept {
  if (!in_turns_ || plans_ != Plans::kSettled) return;
  size_t& count = counts_[static_cast<size_t>(side)];
  if (count < times_[0].size()) times_[static_cast<size_t>(side)][count++] = seconds;
  if (std::min(counts_[0], counts_[1]) < times_[0].size()) return;
  winner_ = median(Side::kTapes) <= median(Side::kPlans) ? Side::kTapes : Side::kPlans;
  in_turns_ = false;
  settled_ = 0;
}

void TapeTurns::miss() noexcept {
  if (misses_ >= kMostMisses) return;
  misses_ += 1;
  offering_ = kOffering;
}

}  // namespace pijit
