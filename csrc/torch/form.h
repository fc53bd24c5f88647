// The form of a tensor: all that kernels may have been chosen by.
#pragma once
#include "torch/tensor.h"

namespace pijit::torch_adapter {

inline constexpr uintptr_t kAligned = 64;  // bytes: what kernels of compilers load at once, at most

// All that kernels may have been chosen by.
struct TensorForm {
  uint64_t keys;
  c10::ScalarType dtype;
  c10::Device device;
  bool aligned, requires_grad;
  c10::SmallVector<int64_t, 5> sizes, strides;

  explicit TensorForm(const Impl* tensor)
      : keys(tensor->key_set().raw_repr()),
        dtype(c10::typeMetaToScalarType(tensor->dtype())),
        device(tensor->device()),
        aligned(is_aligned(tensor)),
        requires_grad(tensor->requires_grad()),
        sizes(tensor->sizes().begin(), tensor->sizes().end()),
        strides(tensor->strides().begin(), tensor->strides().end()) {}

  static bool is_aligned(const Impl* tensor) noexcept {
    return reinterpret_cast<uintptr_t>(tensor->storage_initialized() ? tensor->data() : nullptr) % kAligned == 0;
  }
  bool matches_layout(const Impl* tensor) const noexcept {
    return tensor->key_set().raw_repr() == keys && c10::typeMetaToScalarType(tensor->dtype()) == dtype &&
           tensor->device() == device && tensor->sizes() == c10::IntArrayRef(sizes) &&
           tensor->strides() == c10::IntArrayRef(strides);
  }
  bool matches(const Impl* tensor) const noexcept {
    return matches_layout(tensor) && (!aligned || is_aligned(tensor)) && tensor->requires_grad() == requires_grad;
  }
};

}  // namespace pijit::torch_adapter
