// What is left of a graph of autograd that a backward pass has gone through, and who looks at gradients of a leaf.
#pragma once
#include <string>

#include "torch/tensor.h"

namespace pijit::torch_adapter {

// Gives the tensor, which has no graph, a function of autograd of this name whose saved tensors are freed.
void spend(const at::Tensor& tensor, const std::string& name);

// Nobody looks at the gradient of the leaf while it is computed.
bool is_unwatched(const at::Tensor& leaf);

}  // namespace pijit::torch_adapter
