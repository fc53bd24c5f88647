// Reads, compares and sets such modes.
#include "torch/node_modes.h"

#include <torch/csrc/PyInterpreter.h>

namespace pijit::torch_adapter {

NodeModes::NodeModes(std::optional<c10::Device> device)
    : device_(device),
      keys_(c10::impl::tls_local_dispatch_key_set()),
      autograd_(c10::AutogradState::get_tls_state()),
      on_cpu_(at::autocast::get_autocast_dtype(c10::kCPU)),
      on_device_(at::autocast::get_autocast_dtype(type())),
      hooks_(at::SavedTensorDefaultHooks::get_tls_state()) {}

bool NodeModes::hold() const {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const auto& hooks = at::SavedTensorDefaultHooks::get_tls_state();
  if (keys.included_ != keys_.included_ || keys.excluded_ != keys_.excluded_) return false;
  if (c10::GradMode::is_enabled() != autograd_.get_grad_mode() || hooks.stack.size() != hooks_.stack.size())
    return false;
  if (at::autocast::get_autocast_dtype(c10::kCPU) != on_cpu_ || at::autocast::get_autocast_dtype(type()) != on_device_)
    return false;
  const auto pack = [](const at::impl::SavedTensorDefaultHooksTLS& all) {
    return all.stack.top().first.ptr(getPyInterpreter());
  };
  return hooks.stack.empty() || pack(hooks) == pack(hooks_);
}

void NodeModes::set() const {
  c10::impl::_force_tls_local_dispatch_key_set(keys_);
  c10::AutogradState::set_tls_state(autograd_);
  at::autocast::set_autocast_dtype(c10::kCPU, on_cpu_);
  if (device_) at::autocast::set_autocast_dtype(type(), on_device_);
  at::SavedTensorDefaultHooks::set_tls_state(hooks_);
}

void forget_casts() {
  const int depth = at::autocast::increment_nesting();
  at::autocast::decrement_nesting();
  if (depth == 1) at::autocast::clear_cache();
}

}  // namespace pijit::torch_adapter
