// What a profiler of the framework shows of pijit: a range around each replay and each run of compiled code, with the
// operators inside.
#pragma once
#include <memory>
#include <string>

#include "adapter.h"
#include "ir/adapter_slot.h"

namespace pijit {

inline bool is_profiled() noexcept {
  const Adapter* adapter = current_adapter();
  return adapter != nullptr && adapter->is_profiled();
}

using ProfiledRange = std::unique_ptr<Adapter::Range>;

// Null: no profiler is on.
inline ProfiledRange open_range(const std::string& name) noexcept {
  return is_profiled() ? current_adapter()->open_range("pijit: " + name) : nullptr;
}

}  // namespace pijit
