// The modes of a thread under which a node of a tape has run, for the time that it runs once more.
//
// A replay may be left behind the block in which the node stands, as in one without gradients, or inside another. Modes
// are those that decide what operators do and what autograd saves: gradients, autocast, hooks of saved tensors.
#pragma once
#include <optional>

#include "torch/tensor.h"

namespace pijit::torch_adapter {

class NodeModes {
 public:
  // Those of the thread; `device`: that tensors are of beside the CPU.
  explicit NodeModes(std::optional<c10::Device> device);
  // The thread still has them.
  bool hold() const;

 private:
  friend class UnderModes;
  void set() const;
  c10::DeviceType type() const { return device_ ? device_->type() : c10::kCPU; }

  std::optional<c10::Device> device_;
  c10::impl::LocalDispatchKeySet keys_;
  c10::AutogradState autograd_;
  c10::ScalarType on_cpu_, on_device_;  // what autocast makes of floats
  at::impl::SavedTensorDefaultHooksTLS hooks_;
};

// The thread has them while the object lives.
class UnderModes {
 public:
  explicit UnderModes(const NodeModes& modes) : before_(modes.device_) { modes.set(); }
  ~UnderModes() { before_.set(); }
  UnderModes(const UnderModes&) = delete;
  UnderModes& operator=(const UnderModes&) = delete;

 private:
  const NodeModes before_;
};

// Behind operators that have run once more: no tensor that autocast has cast for them is taken for one of the program.
void forget_casts();

}  // namespace pijit::torch_adapter
