// Holds the adapter in use.
#include "ir/adapter_slot.h"

namespace pijit {

namespace {
Adapter* adapter_in_use = nullptr;
}  // namespace

Adapter* current_adapter() noexcept {
  return adapter_in_use;
}
void set_adapter(Adapter* adapter) noexcept {
  adapter_in_use = adapter;
}

}  // namespace pijit
