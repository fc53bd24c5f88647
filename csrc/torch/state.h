// The modes under which a trace was recorded, and those under which nothing is recorded at all.
#pragma once
#include "adapter.h"

namespace pijit::torch_adapter {

std::unique_ptr<StateGuard> capture_state();

// Why nothing is recorded now, or null. GIL held.
const char* must_step_aside() noexcept;

}  // namespace pijit::torch_adapter
