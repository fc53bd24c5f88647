// A range is a torch::RecordFunction of the user's scope, as torch.profiler.record_function makes it.
#include "torch/profiled.h"

#include "torch/pch.h"
#include "torch/watch.h"

namespace pijit::torch_adapter {
namespace {

struct Recorded final : Adapter::Range {
  at::RecordFunction function{at::RecordScope::USER_SCOPE};
};

}  // namespace

std::unique_ptr<Adapter::Range> open_range(const std::string& name) noexcept {
  if (!is_profiled()) return nullptr;
  try {
    auto range = std::make_unique<Recorded>();
    if (range->function.isActive()) range->function.before(std::string_view(name));
    return range;
  } catch (...) {  // memory is short, or a listener failed
    return nullptr;
  }
}

}  // namespace pijit::torch_adapter
