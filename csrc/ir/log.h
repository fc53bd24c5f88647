// What the entries of a virtual object's log say of its content.
#pragma once
#include <algorithm>

#include "ir/trace.h"

namespace pijit {

// The key of an entry of a dict, the item of one of a set.
inline Val key_of(const LogEntry& entry) noexcept {
  return entry.key.is_null() ? entry.value : entry.key;
}

// What an entry of a list does to the items, each of which is kept as an `Item`; false: they do not follow from it.
// `taken` receives the item that it overwrites or deletes.
template <class Item>
bool apply_item(Vec<Item>& items, const LogEntry& entry, Item item, Item* taken = nullptr) {
  const auto at = items.begin() + static_cast<ptrdiff_t>(std::min<size_t>(entry.index, items.size()));
  switch (entry.op) {
    case LogOp::kItem:
      items.push_back(item);
      return true;
    case LogOp::kInsert:
      items.insert(at, item);
      return true;
    case LogOp::kSetItem:
    case LogOp::kDelItem:
      if (at == items.end()) return false;
      if (taken != nullptr) *taken = *at;
      if (entry.op == LogOp::kSetItem) {
        *at = item;
      } else {
        items.erase(at);
      }
      return true;
    default:
      return false;
  }
}

// What a virtual object holds at some time, as far as its log says it.
struct Content {
  Vals items;                              // of sequences; the iterators of a zip
  std::vector<std::pair<Val, Val>> pairs;  // of dicts and instances of these; of a set the keys, with Null
  std::vector<std::pair<Val, Val>> attributes;
  Vals fields;  // kField
  Val field(size_t index) const { return index < fields.size() ? fields[index] : Val(); }
};
Content content_of(const Trace& trace, const Virtual& object, uint32_t time);

// A fresh object that was a key or an item of a set and is not any more at that time; the entry put it in or took it
// out. It may be dead: who builds the dict or set passes over the entry.
bool is_removed(const Trace& trace, const Virtual& object, uint32_t entry, uint32_t time) noexcept;

}  // namespace pijit
