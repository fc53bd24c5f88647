// The adapter in use: set when a framework's adapter registers, read everywhere. Guarded by the GIL.
#pragma once

namespace pijit {

class Adapter;

// Null while no framework is there.
Adapter* current_adapter() noexcept;
void set_adapter(Adapter* adapter) noexcept;

}  // namespace pijit
