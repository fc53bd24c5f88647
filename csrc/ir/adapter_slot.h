// The adapter in use: set when a framework's adapter registers, read everywhere. Guarded by the GIL.
#pragma once

namespace pijit {

class Adapter;

inline Adapter* adapter_in_use = nullptr;

// Null while no framework is there.
inline Adapter* current_adapter() noexcept {
  return adapter_in_use;
}
inline void set_adapter(Adapter* adapter) noexcept {
  adapter_in_use = adapter;
}

}  // namespace pijit
