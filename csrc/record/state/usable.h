// Which virtual objects could be built when a snapshot was last looked at: they still can, unless something is put into
// them that cannot, so that the next snapshot looks at what is new.
//
// 1. Times only rise: a snapshot as of an earlier time is looked at without this.
// 2. What may become unbuildable by itself (iterators over what changes, generators, exceptions, addresses), and what
//    holds such an object, is looked at each time.
// 3. An object that gets a part that is nested more deeply than its own parts were makes all that was known doubtful.
//    So does one that is taken back.
#pragma once
#include "ir/trace.h"

namespace pijit {

class Usable {
 public:
  // The height of an object that is known to be buildable, with all that it holds; 0: it is not known.
  uint32_t height(uint32_t object) const {
    return object < known_.size() && known_[object].round == round_ ? known_[object].height : 0;
  }
  void add(uint32_t object, uint32_t height) {
    if (object >= known_.size()) known_.resize(object + 1);
    known_[object] = {round_, height};
  }
  void forget() { round_ += 1; }
  // Forgets, and times begin anew.
  void restart() {
    forget();
    time = 0;
    entries = 0;
  }

  uint32_t time = 0;   // as of which it is known
  size_t entries = 0;  // of the log that were looked at

 private:
  struct Known {
    uint32_t round = 0, height = 0;
  };
  Vec<Known> known_;
  uint32_t round_ = 1;  // what earlier ones found is forgotten
};

}  // namespace pijit
