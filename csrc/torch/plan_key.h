// The form of tensors for which a plan was compiled.
//
// Free inputs are compared in full: dtype, device, dispatch keys, sizes, strides, alignment, requires_grad. Bound ones
// are the same objects each time, as guards say; looked at are where their data lies and their version. Where gradients
// are recorded the key is another one, and the code has to give outputs that require gradients as native replay's do.
#pragma once
#include "adapter.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

// Null: a tensor has no version, or a training step is given one that requires gradients.
std::unique_ptr<PlanKey> make_plan_key(const PlanRegisters& registers, const Reg* regs);
// A copy with the strides and the alignment of the tensor, without history; null: memory is short, or the tensor has
// more holes than elements by far.
Ref copy_of(const Impl* tensor) noexcept;

}  // namespace pijit::torch_adapter
