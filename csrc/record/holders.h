// Which models mention a virtual object or a register, and where: found without a look at all models.
//
// 1. A mention is noted where it is logged, and only added to: one that has gone is a look in vain.
// 2. There are as many mentions in a holder as places that hold the part. Items move, so a place may be wrong: whoever
//    finds something else there looks through the holder, and thereby finds all. A mention that is noted twice in a row
//    is kept once, for the whole holder: the first may have moved on, and both places hold the part then.
// 3. The lists of an object and of its register share their ends, so that an object that foreign code keeps seeing is
//    not noted anew each time.
#pragma once
#include "ir/trace.h"

namespace pijit {

class Holders {
 public:
  static constexpr uint32_t kSuspended = kNone;     // the place of what the frame of a generator has
  static constexpr uint32_t kAnywhere = kNone - 1;  // in the items and attributes

  void note(Val part, uint32_t holder, uint32_t place) {
    if (!part.is_virtual() && !part.is_reg()) return;
    uint32_t& first = head(part);
    if (first != kNone && mentions_[first].holder == holder) {
      uint32_t& last = mentions_[first].place;
      if (place != kSuspended && last == place) last = kAnywhere;
      if (last == place || (place != kSuspended && last == kAnywhere)) return;
    }
    mentions_.push_back({holder, place, first});
    first = static_cast<uint32_t>(mentions_.size() - 1);
  }

  // Whatever mentions `from` mentions `to` from now on.
  void move(Val from, Val to) {
    if (!to.is_virtual() && !to.is_reg()) return;
    const uint32_t mine = head(to);
    uint32_t at = head(from);
    if (mine == kNone) {
      head(to) = at;
      return;
    }
    for (; at != kNone && at != mine; at = mentions_[at].next) note(to, mentions_[at].holder, mentions_[at].place);
  }

  // use(holder, place) of all that may mention it.
  template <class Use>
  void each(Val part, const Use& use) {
    for (uint32_t at = head(part); at != kNone; at = mentions_[at].next) use(mentions_[at].holder, mentions_[at].place);
  }

 private:
  struct Mention {
    uint32_t holder, place, next;
  };

  uint32_t& head(Val part) {
    Vec<uint32_t>& heads = part.is_virtual() ? of_virtuals_ : of_registers_;
    if (part.index() >= heads.size()) heads.resize(part.index() + 1, kNone);
    return heads[part.index()];
  }

  Vec<Mention> mentions_;
  Vec<uint32_t> of_virtuals_, of_registers_;
};

}  // namespace pijit
