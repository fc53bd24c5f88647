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

// While it lives the thread's operators are shown, but those that an operator dispatches itself. With `and_engine` so are
// those that threads of the engine dispatch for it: the engine has one for each device but the CPU, to which it hands
// the state of the thread that calls it. One of all threads looks that way at a time.
class LookBelow {
 public:
  explicit LookBelow(BelowAutograd* who, bool and_engine = false) noexcept;
  ~LookBelow();
  LookBelow(const LookBelow&) = delete;
  LookBelow& operator=(const LookBelow&) = delete;

 private:
  BelowAutograd* before_;
  bool and_engine_;
};

}  // namespace pijit::torch_adapter
