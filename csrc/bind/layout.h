// Whether the CPython of this process is laid out as the one that the core was compiled with.
#pragma once

namespace pijit {

// The type whose objects are laid out differently; null: all that are looked at fit.
const char* python_layout_trouble() noexcept;

}  // namespace pijit
