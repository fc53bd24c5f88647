// Which models mention a virtual object or a register, and where: found without a look at all models.
//
// 1. A mention is noted where it is logged, and only added to: one that has gone is a look in vain.
// 2. There are as many mentions in a holder as places that hold the part. Items move, so a place may be wrong: whoever
//    finds something else there looks through the holder, and thereby finds all. A mention that is noted twice in a row
//    is kept once, for the whole holder: the first may have moved on, and both places hold the part then.
// 3. What is mentioned as something else from now on hands its whole list over, at once: nothing is copied, however
//    often an object becomes a register and an object again.
#pragma once
#include <utility>

#include "ir/trace.h"

namespace pijit {

class Holders {
 public:
  static constexpr uint32_t kSuspended = kNone;     // the place of what the frame of a generator has
  static constexpr uint32_t kAnywhere = kNone - 1;  // in the items and attributes

  void note(Val part, uint32_t holder, uint32_t place) {
    if (part.is_virtual() || part.is_reg()) note_mention(part, holder, place);
  }

  // Whatever mentions `from` mentions `to` from now on, and `from` nobody.
  void move(Val from, Val to) {
    if (!to.is_virtual() && !to.is_reg()) return;
    const List moved = std::exchange(list_of(from), List());
    if (moved.first == kNone) return;
    List& list = list_of(to);
    mentions_[moved.last].next = list.first;
    if (list.last == kNone) list.last = moved.last;
    list.first = moved.first;
  }

  // use(holder, place) of all that may mention it.
  template <class Use>
  void each(Val part, const Use& use) {
    for (uint32_t at = list_of(part).first; at != kNone; at = mentions_[at].next)
      use(mentions_[at].holder, mentions_[at].place);
  }

 private:
  void note_mention(Val part, uint32_t holder, uint32_t place) {
    List& list = list_of(part);
    if (list.first != kNone && mentions_[list.first].holder == holder) {
      uint32_t& last = mentions_[list.first].place;
      if (place != kSuspended && last == place) last = kAnywhere;
      if (last == place || (place != kSuspended && last == kAnywhere)) return;
    }
    mentions_.push_back({holder, place, list.first});
    list.first = static_cast<uint32_t>(mentions_.size() - 1);
    if (list.last == kNone) list.last = list.first;
  }
  struct Mention {
    uint32_t holder, place, next;
  };
  struct List {
    uint32_t first = kNone, last = kNone;
  };

  List& list_of(Val part) {
    Vec<List>& lists = part.is_virtual() ? of_virtuals_ : of_registers_;
    if (part.index() >= lists.size()) lists.resize(part.index() + 1);
    return lists[part.index()];
  }

  Vec<Mention> mentions_;
  Vec<List> of_virtuals_, of_registers_;
};

}  // namespace pijit
