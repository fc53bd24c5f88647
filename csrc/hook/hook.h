// The eval-frame hook: which frames are recorded, which replayed, which left to CPython.
#pragma once
#include "common/python.h"

namespace pijit {

void install_hook() noexcept;
void remove_hook() noexcept;
bool hook_installed() noexcept;

}  // namespace pijit
