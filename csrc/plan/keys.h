// The forms of a segment's inputs that are remembered, and which of them compilers are asked for.
//
// 1. At most kForms are remembered, each with a key that is exact. Under it a native replay has passed: what the checks
//    within the segment decide by sizes is known to hold, and so are its outputs that are numbers, and the form of the
//    others. So a plan of free sizes answers only under forms that were met, and where it has been compared.
// 2. At most kPlanned of them hold plans of their own. Compiling costs much more than a call: another form gets the
//    place of the one that was used longest ago only if it has come several times since, and ever more rarely.
// 3. Writes to bound tensors are counted for all forms together. A plan of free sizes is bound under one form and
//    answers under others: what one of them has seen last says nothing of what the plan holds.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/keyed.h"

namespace pijit {

class Keys {
 public:
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }
  size_t size() const noexcept { return all_.size(); }
  // A replay has come to the segment in this form lately.
  bool is_in_use(const Keyed& keyed) const noexcept;

  // A replay has come to the segment. The form that it has there; null: none that is remembered.
  std::shared_ptr<Keyed> arrive(const Reg* regs) noexcept;
  // Another form can be remembered now.
  bool has_room() const noexcept;
  void add(std::shared_ptr<Keyed> keyed);
  const Writes& writes() const noexcept { return writes_; }
  // The market is to be asked for plans under this one.
  bool is_to_offer(const Keyed& keyed);

 private:
  void note_writes(PlanKey::Match match) noexcept;
  bool may_replace() const noexcept { return arrivals_ - replaced_at_ >= gap_; }
  void note_replaced() noexcept;

  std::vector<std::shared_ptr<Keyed>> all_;
  std::shared_ptr<Keyed> last_;  // whose key has the bound tensors as they were found last
  Writes writes_;
  size_t likely_ = 0;  // the one that matched last
  uint64_t arrivals_ = 0;
  uint64_t replaced_at_ = 0;
  uint64_t gap_ = 32;  // arrivals between two replacements, at least
};

}  // namespace pijit
