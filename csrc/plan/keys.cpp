// Forms come, are found again, and make room for others.
#include "plan/keys.h"

#include <algorithm>

namespace pijit {

namespace {

constexpr size_t kForms = 64;
constexpr size_t kPlanned = 8;
constexpr uint64_t kLately = 16;    // arrivals
constexpr uint64_t kRarest = 4096;  // arrivals between two replacements, at most
constexpr size_t kUses = Keyed::kUses;

uint64_t last_use(const Keyed& keyed) noexcept {
  return keyed.uses_count == 0 ? 0 : keyed.uses[(keyed.uses_count - 1) % kUses];
}

// The first of its last uses; 0: there were fewer.
uint64_t first_use(const Keyed& keyed) noexcept {
  return keyed.uses_count < kUses ? 0 : keyed.uses[keyed.uses_count % kUses];
}

bool is_older(const std::shared_ptr<Keyed>& a, const std::shared_ptr<Keyed>& b) noexcept {
  return last_use(*a) < last_use(*b);
}

bool has_own_plan(const Keyed& keyed) noexcept {
  return keyed.offered && !keyed.shared;
}

}  // namespace

void Keys::note_writes(PlanKey::Match match) noexcept {
  writes_.written += match != PlanKey::Match::kYes;
  writes_.moved += match == PlanKey::Match::kMoved;
}

std::shared_ptr<Keyed> Keys::arrive(const Reg* regs) noexcept {
  arrivals_ += 1;
  for (size_t i = 0; i < all_.size(); ++i) {
    const size_t at = i == 0 ? likely_ : i - (i <= likely_);
    const PlanKey::Match match = all_[at]->key->match(regs);
    if (match == PlanKey::Match::kNo) continue;
    likely_ = at;
    Keyed& found = *all_[at];
    found.uses[found.uses_count++ % kUses] = arrivals_;
    note_writes(last_ == nullptr || last_ == all_[at] ? match : last_->key->match_bound(regs));
    last_ = all_[at];
    if (match != PlanKey::Match::kYes) found.key->refresh(regs);
    return all_[at];
  }
  if (last_ != nullptr) {
    note_writes(last_->key->match_bound(regs));
    last_->key->refresh(regs);
  }
  return nullptr;
}

bool Keys::is_in_use(const Keyed& keyed) const noexcept {
  return arrivals_ - last_use(keyed) < kLately;
}

bool Keys::has_room() const noexcept {
  return all_.size() < kForms || may_replace();
}

void Keys::note_replaced() noexcept {
  replaced_at_ = arrivals_;
  gap_ = std::min(gap_ * 2, kRarest);
}

void Keys::add(std::shared_ptr<Keyed> keyed) {
  if (last_ == nullptr) last_ = keyed;
  keyed->uses[keyed->uses_count++ % kUses] = arrivals_;
  if (all_.size() < kForms) return all_.push_back(std::move(keyed));
  const auto oldest = std::min_element(all_.begin(), all_.end(), is_older);
  note_replaced();
  (*oldest)->offers += 1;  // what is on its way there comes too late
  oldest->swap(keyed);
}

bool Keys::is_to_offer(const Keyed& keyed) {
  if (keyed.offered || keyed.unfit) return false;
  std::shared_ptr<Keyed> oldest;
  size_t planned = 0;
  for (const auto& other : all_) {
    if (!has_own_plan(*other)) continue;
    planned += 1;
    if (oldest == nullptr || is_older(other, oldest)) oldest = other;
  }
  if (planned < kPlanned) return true;
  if (!may_replace() || first_use(keyed) <= last_use(*oldest)) return false;
  note_replaced();
  oldest->offered = oldest->contested = oldest->settled_natively = false;
  oldest->offers += 1;
  oldest->state = Keyed::State::kOffered;
  const std::vector<std::shared_ptr<Plan>> gone = std::move(oldest->plans);
  oldest->plans.clear();
  return true;
}

}  // namespace pijit
