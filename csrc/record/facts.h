// What the recording has guarded already, by container: an open-addressing table from (address, kind) to the guard.
//
// One lookup per guarded read, so it is flat and never shrinks. Addresses are those of objects proven alive by earlier
// guards.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

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
  kAdopted,   // the index of the model of a container that is written
  kArgument,  // the index of the model of an argument
};

struct Fact {
  const void* key = nullptr;
  FactKind kind = FactKind::kDict;
  uint32_t guard = 0;  // index of the guard, or of the register for kTensor
  uint64_t stamp = 0;  // version tag last seen
};

class Facts {
 public:
  Facts() : table_(4096, kEmpty) {}

  // The fact about `key`, at an address that stays; `created` says that it is new and to be filled in.
  Fact& find(const void* key, FactKind kind, bool* created) {
    if (facts_.size() * 2 > table_.size()) grow();
    uint32_t& place = slot(key, kind);
    *created = place == kEmpty;
    if (*created) {
      place = static_cast<uint32_t>(facts_.size());
      facts_.emplace_back();
      facts_.back().key = key;
      facts_.back().kind = kind;
    }
    return facts_[place];
  }

  // The fact about `key` if there is one, else null.
  Fact* get(const void* key, FactKind kind) {
    const uint32_t place = slot(key, kind);
    return place == kEmpty ? nullptr : &facts_[place];
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;

  static size_t hash(const void* key, FactKind kind) {
    uint64_t bits = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15ull +
                    static_cast<uint64_t>(kind) * 0xD1B54A32D192ED03ull;
    return static_cast<size_t>(bits >> 20);
  }
  uint32_t& slot(const void* key, FactKind kind) {
    const size_t mask = table_.size() - 1;
    for (size_t i = hash(key, kind) & mask;; i = (i + 1) & mask)
      if (table_[i] == kEmpty || (facts_[table_[i]].key == key && facts_[table_[i]].kind == kind)) return table_[i];
  }
  void grow() {
    table_.assign(table_.size() * 2, kEmpty);
    for (size_t i = 0; i < facts_.size(); ++i) slot(facts_[i].key, facts_[i].kind) = static_cast<uint32_t>(i);
  }

  std::vector<uint32_t> table_;
  std::deque<Fact> facts_;
};

}  // namespace pijit
