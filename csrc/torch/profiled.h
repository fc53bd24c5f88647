// Ranges for torch.profiler, and for whatever else listens to operators, such as torch.autograd.profiler.emit_nvtx.
#pragma once
#include "adapter.h"

namespace pijit::torch_adapter {

// The range ends with the object. Null: nobody listens, or memory is short.
std::unique_ptr<Adapter::Range> open_range(const std::string& name) noexcept;

}  // namespace pijit::torch_adapter
