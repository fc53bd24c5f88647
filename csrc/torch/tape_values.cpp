// Finds the value that a tensor is.
#include "torch/tape_values.h"

namespace pijit::torch_adapter {

namespace {

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

}  // namespace

bool is_usual(const at::Tensor& tensor) {
  return is_plain(tensor.unsafeGetTensorImpl()) && !tensor.device().is_meta() && tensor.has_storage() &&
         !tensor.is_conj() && !tensor.is_neg();
}

bool may_gather(const at::Tensor& held, const at::Tensor& leaf) {
  return is_usual(held) && !held.requires_grad() && held.sizes() == leaf.sizes() &&
         held.scalar_type() == leaf.scalar_type();
}

void gather(const at::Tensor& held, const at::Tensor& gradient) {
  const c10::AutoGradMode no_gradients(false);
  at::Tensor(held).add_(gradient);
}

TapeValue::TapeValue(const at::Tensor& made, uint32_t at)
    : tensor(made.getIntrusivePtr()),
      storage(made.storage().getWeakStorageImpl()),
      offset(made.storage_offset()),
      sizes(made.sizes().begin(), made.sizes().end()),
      strides(made.strides().begin(), made.strides().end()),
      dtype(made.scalar_type()),
      node(at) {}

bool TapeValue::has_form_of(const at::Tensor& other) const {
  return offset == other.storage_offset() && dtype == other.scalar_type() && other.sizes() == c10::IntArrayRef(sizes) &&
         other.strides() == c10::IntArrayRef(strides) && !other.is_conj() && !other.is_neg();
}

uint32_t TapeValues::find(const at::Tensor& tensor) {
  const auto known = by_tensor_.find(tensor.unsafeGetTensorImpl());
  if (known != by_tensor_.end()) return known->second;
  const auto same = by_storage_.find(storage_of(tensor));
  if (same == by_storage_.end() || tensor.numel() == 0) return kNone;
  uint32_t found = kNone;
  for (auto value = same->second.rbegin(); value != same->second.rend(); ++value) {
    if (!all_[*value].has_form_of(tensor) || (found != kNone && all_[*value].plain)) continue;
    found = *value;
    if (!all_[found].plain) break;
  }
  if (found == kNone) return kNone;
  others_.emplace_back(tensor.getIntrusivePtr());
  return by_tensor_[tensor.unsafeGetTensorImpl()] = found;
}

uint32_t TapeValues::add(const at::Tensor& tensor, uint32_t node) {
  const uint32_t value = size();
  all_.emplace_back(tensor, node);
  by_tensor_[tensor.unsafeGetTensorImpl()] = value;
  by_storage_[storage_of(tensor)].push_back(value);
  return value;
}

}  // namespace pijit::torch_adapter
