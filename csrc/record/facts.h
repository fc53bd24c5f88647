// What the recording has guarded already, by container: an open-addressing table from (address, kind) to the guard.
//
// One lookup per guarded read, so it is flat and never shrinks. Addresses are those of objects proven alive by earlier
// guards.
#pragma once
#include <cstdint>
#include <vector>

namespace pijit {

enum class FactKind : uint8_t {
  kTypeVersion,
  kInstance,
  kDict,
  kDictWhole,
  kList,
  kSet,
  kFunction,
  kCell,
  kSlot,
  kTensor,
  kContextVar,
  kOwned,
  kNoInline
};

struct Fact {
  const void* key = nullptr;
  FactKind kind = FactKind::kDict;
  uint32_t guard = 0;  // index of the guard, or of the register for kTensor
  uint64_t stamp = 0;  // version tag last seen
};

class Facts {
 public:
  Facts() : table_(4096) {}

  // The fact about `key`; `created` says that it is new and to be filled in.
  Fact& find(const void* key, FactKind kind, bool* created) {
    if (used_ * 2 > table_.size()) grow();
    size_t mask = table_.size() - 1;
    for (size_t i = hash(key, kind) & mask;; i = (i + 1) & mask) {
      Fact& fact = table_[i];
      if (fact.key == nullptr) {
        fact.key = key;
        fact.kind = kind;
        ++used_;
        *created = true;
        return fact;
      }
      if (fact.key == key && fact.kind == kind) {
        *created = false;
        return fact;
      }
    }
  }

 private:
  static size_t hash(const void* key, FactKind kind) {
    uint64_t bits = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(kind);
    return static_cast<size_t>(bits >> 20);
  }
  void grow() {
    std::vector<Fact> old(table_.size() * 2);
    old.swap(table_);
    used_ = 0;
    bool created;
    for (const Fact& fact : old)
      if (fact.key != nullptr) find(fact.key, fact.kind, &created) = fact;
  }

  std::vector<Fact> table_;
  size_t used_ = 0;
};

}  // namespace pijit
