// Shows the operators that a thread dispatches beneath autograd.
//
// It is a boxed fallback on a dispatch key between autograd and the kernels, switched on by the thread-local include
// set. The key is one for tensors without data that torch itself hardly uses; where something else has a fallback
// there, nothing is shown.
#pragma once
#include "torch/operators.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

// Who looks. Neither function throws.
class BelowAutograd {
 public:
  virtual ~BelowAutograd() = default;
  virtual void before(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept = 0;
  virtual void after(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept = 0;
};

// To be called once; with the GIL.
void offer_below();
bool can_look_below() noexcept;

// While it lives the thread's operators are shown, but those that an operator dispatches itself.
class LookBelow {
 public:
  explicit LookBelow(BelowAutograd* who) noexcept;
  ~LookBelow();
  LookBelow(const LookBelow&) = delete;
  LookBelow& operator=(const LookBelow&) = delete;

 private:
  BelowAutograd* before_;
};

}  // namespace pijit::torch_adapter
