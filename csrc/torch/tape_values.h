// The tensors that a maker of tapes has met, told apart by their memory.
//
// One tensor of the program may be several to torch: autograd saves a tensor as another one with the same memory. Two
// with the same memory, sizes and strides hold the same at any time, so they are one value.
#pragma once
#include <unordered_map>

#include "torch/tensor.h"

namespace pijit::torch_adapter {

// A tensor as a tape knows them: dense, with memory of the CPU or of another device.
bool is_usual(const at::Tensor& tensor);

// The leaf has this gradient, and the next one is added to it in place.
bool may_gather(const at::Tensor& held, const at::Tensor& leaf);
void gather(const at::Tensor& held, const at::Tensor& gradient);

struct TapeValue {
  // Held, so that no other tensor gets their addresses.
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  int64_t offset;
  c10::SmallVector<int64_t, 5> sizes, strides;
  c10::ScalarType dtype;
  uint32_t node;  // that has made it: of the stretch; kNone: it was there before, or a node without gradients made it
  bool plain = false;  // made by a node of which a tape needs nothing, mostly

  TapeValue(const at::Tensor& tensor, uint32_t node);
  bool has_form_of(const at::Tensor& tensor) const;
};

class TapeValues {
 public:
  uint32_t size() const noexcept { return static_cast<uint32_t>(all_.size()); }
  const TapeValue& operator[](uint32_t value) const noexcept { return all_[value]; }
  // kNone: it was never met. Of several in one memory it is the last one that is not plain.
  uint32_t find(const at::Tensor& tensor);
  void note_plain(uint32_t value) { all_[value].plain = true; }
  uint32_t add(const at::Tensor& tensor, uint32_t node);
  // All values in the memory of this one, it among them.
  const c10::SmallVector<uint32_t, 2>& sharing(uint32_t value) const {
    return by_storage_.at(all_[value].storage._unsafe_get_target());
  }

 private:
  std::vector<TapeValue> all_;
  std::unordered_map<const Impl*, uint32_t> by_tensor_;
  std::unordered_map<const c10::StorageImpl*, c10::SmallVector<uint32_t, 2>> by_storage_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> others_;
};

}  // namespace pijit::torch_adapter
