// Tensor handles that own no reference, for the time of one call: a register or an operation keeps the tensor.
#pragma once
#include "torch/lowered.h"

namespace pijit::torch_adapter {

// An argument of type Tensor.
class Lent {
 public:
  explicit Lent(void* impl) noexcept
      : tensor_(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(static_cast<Impl*>(impl))) {}
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { (void)tensor_.unsafeReleaseTensorImpl(); }
  operator const at::Tensor&() const noexcept { return tensor_; }

 private:
  at::Tensor tensor_;
};

// An argument that may be None.
class MaybeLent {
 public:
  explicit MaybeLent(void* impl) noexcept {
    if (impl != nullptr)
      tensor_.emplace(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(static_cast<Impl*>(impl)));
  }
  MaybeLent(const MaybeLent&) = delete;
  MaybeLent& operator=(const MaybeLent&) = delete;
  ~MaybeLent() {
    if (tensor_.has_value()) (void)tensor_->unsafeReleaseTensorImpl();
  }
  operator const std::optional<at::Tensor>&() const noexcept { return tensor_; }

 private:
  std::optional<at::Tensor> tensor_;
};

class LentList {
 public:
  LentList(const Part* parts, size_t count, const Reg* regs) {
    for (size_t i = 0; i < count; ++i)
      tensors_.emplace_back(
          c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(static_cast<Impl*>(regs[parts[i].value].tensor)));
  }
  LentList(const LentList&) = delete;
  LentList& operator=(const LentList&) = delete;
  ~LentList() {
    for (at::Tensor& tensor : tensors_) (void)tensor.unsafeReleaseTensorImpl();
  }
  operator at::TensorList() const noexcept { return tensors_; }
  operator at::ITensorListRef() const noexcept { return at::TensorList(tensors_); }

 private:
  c10::SmallVector<at::Tensor, 4> tensors_;
};

}  // namespace pijit::torch_adapter
