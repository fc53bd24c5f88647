// What the recording has guarded already, by container: an open-addressing table from (address, kind) to the guard.
//
// One lookup per guarded read, so it is flat; what an instruction learnt goes when it is taken back. Addresses are
// those of objects proven alive by earlier guards.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "common/pool.h"
#include "common/python.h"

namespace pijit {

enum class FactKind : uint8_t {
  kTypeVersion,
  kInstance,
  kDict,
  kDictWhole,
  kList,
  kSet,
  kParts,
  kFunction,
  kCell,
  kSlot,
  kTensor,
  kContextVar,
  kOwned,
  kNoInline,
  kSame,
  kWrittenKeys,
  kTouched,   // of a dict that is written
  kAdopted,   // the index of the model of a container that is written
  kArgument,  // the index of the model of an argument
  kResult,    // by number of the register
  kOwnDict,
  kNativeKeys,  // of a dict: stamp is the version for which that was looked at
};

struct Fact {
  uint32_t guard = 0;  // index of the guard, or of the register for kTensor
  uint64_t stamp = 0;  // version tag last seen
};

// A set that was asked for a key.
struct Member {
  uint32_t guard;
  PyObject *set, *key;
  int found;  // 1: it has the key; 0
};

class Facts {
 public:
  Facts() : places_(kFew) {}

  // The fact about `key`, at an address that stays; `created` says that it is new and to be filled in.
  Fact& find(const void* key, FactKind kind, bool* created) {
    const uint64_t wanted = name(key, kind);
    Place* found = &place(wanted);
    *created = found->name != wanted;
    if (*created) {
      if (names_.size() * 2 >= places_.size()) {
        fill(places_.size() * 4);
        found = &place(wanted);
      }
      *found = {wanted, &facts_.emplace_back()};
      names_.push_back(wanted);
    }
    return *found->fact;
  }

  // The fact about `key` if there is one, else null.
  Fact* get(const void* key, FactKind kind) { return place(name(key, kind)).fact; }

  size_t size() const { return names_.size(); }

  // use(key, kind) of all.
  template <class Use>
  void each(const Use& use) const {
    for (uint64_t name : names_)
      use(reinterpret_cast<const void*>(name & ((uint64_t{1} << 58) - 1)), static_cast<FactKind>((name >> 58) - 1));
  }

  void clear() {
    if (names_.size() * 8 < places_.size()) return truncate(0);
    places_.assign(kFew, Place());
    names_.clear();
    facts_.clear();
  }

  // Forgets all but the first `count`. The last one goes first: those that it was put behind are still there then.
  void truncate(size_t count) {
    for (; names_.size() > count; names_.pop_back()) place(names_.back()) = Place();
    if (count < facts_.size()) facts_.resize(count);
  }

 private:
  struct Place {
    uint64_t name = 0;  // 0: empty
    Fact* fact = nullptr;
  };

  // Addresses of user space leave the upper bits free.
  static uint64_t name(const void* key, FactKind kind) {
    return reinterpret_cast<uintptr_t>(key) | (static_cast<uint64_t>(kind) + 1) << 58;
  }
  Place& place(uint64_t wanted) {
    const size_t mask = places_.size() - 1;
    size_t i = static_cast<size_t>((wanted * 0x9E3779B97F4A7C15ull) >> 40) & mask;
    while (places_[i].name != wanted && places_[i].name != 0) i = (i + 1) & mask;
    return places_[i];
  }
  void fill(size_t size) {
    places_.assign(size, Place());
    size_t i = 0;
    for (Fact& fact : facts_) place(names_[i]) = {names_[i], &fact}, ++i;
  }

  static constexpr size_t kFew = 1024;
  Vec<Place> places_;
  std::deque<Fact, Pooled<Fact>> facts_;
  Vec<uint64_t> names_;
};

}  // namespace pijit
