// What differs between the releases of PyTorch that this room is compiled for: the only file that asks for the version.
//
// pijit/_torches.py lists the releases. What is written here for a release is tested by `make test-torch TORCH=...`.
#pragma once
#include "torch/pch.h"

#include <torch/version.h>

namespace pijit::torch_adapter {

// `x[index] = number`. From 2.15 on the binding hands the number on as it is: it calls fill_, masked_fill_ and
// index_fill_ where it can. Before, it makes a tensor of the dtype of x, below autograd, and calls what it calls for
// tensors. Which one is seen: the graph of autograd differs.
inline void write_number(const at::Tensor& self, at::ArrayRef<at::indexing::TensorIndex> indices,
                         const c10::Scalar& value) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  at::Tensor tensor;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    c10::Device device = self.is_cuda() ? c10::Device(at::kCPU) : self.device();
    tensor = at::indexing::scalarToTensor(value, self.options(), device);
  }
  at::indexing::set_item(self, indices, tensor);
#else
  at::indexing::set_item(self, indices, value);
#endif
}

}  // namespace pijit::torch_adapter
