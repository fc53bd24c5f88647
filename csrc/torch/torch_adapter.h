// The adapter object that this module hands to the core.
#pragma once
#include "adapter.h"

namespace pijit::torch_adapter {

Adapter* the_adapter();

}  // namespace pijit::torch_adapter
