// What fresh dicts and sets hold no more.
#pragma once
#include "ir/trace.h"

namespace pijit {

// The key of an entry of a dict, the item of one of a set.
inline Val key_of(const LogEntry& entry) noexcept {
  return entry.key.is_null() ? entry.value : entry.key;
}

// A fresh object that was a key or an item of a set and is not any more at that time; the entry put it in or took it
// out. It may be dead: who builds the dict or set passes over the entry.
bool is_removed(const Trace& trace, const Virtual& object, uint32_t entry, uint32_t time) noexcept;

}  // namespace pijit
