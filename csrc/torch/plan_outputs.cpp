// Tells memory that only the program holds from memory that somebody else holds, too.
#include "torch/plan_outputs.h"

#include "torch/plan_key.h"

namespace pijit::torch_adapter {

namespace {

const c10::StorageImpl* storage_of(const Impl* tensor) {
  return tensor->unsafe_storage().unsafeGetStorageImpl();
}

// A view holds the tensor that it is a view of, which nobody else has to hold.
bool is_view_of_nothing_else(const at::Tensor& tensor, size_t others) {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  return meta != nullptr && meta->has_bw_view() && meta->get_backward_view().base_.use_count() <= 1 + others;
}

// Nothing has the memory but this object, which a tuple alone holds, and so many others in that tuple.
bool is_alone(PyObject* made, size_t others) {
  const at::Tensor& tensor = THPVariable_Unpack(made);
  if (Py_REFCNT(made) > static_cast<Py_ssize_t>(1 + others) || tensor.use_count() > 1 + others) return false;
  return tensor.storage().use_count() <= 1 + others + (is_view_of_nothing_else(tensor, others) ? 1 : 0);
}

at::Tensor copied(const at::Tensor& tensor) {
  const Ref copy = copy_of(tensor.unsafeGetTensorImpl());
  return copy ? share(impl_of(copy.get())) : at::Tensor();
}

}  // namespace

PlanOutputs::PlanOutputs(const Vec<uint32_t>& bound, const Vec<uint32_t>& free, const Vec<uint32_t>& outputs,
                         const Reg* regs)
    : outputs_at_(outputs) {
  for (const Vec<uint32_t>* registers : {&bound, &free}) {
    for (uint32_t reg : *registers) {
      const at::Tensor tensor = share(regs[reg].tensor);
      inputs_.push_back({reg,
                         c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(tensor.getIntrusivePtr()),
                         tensor.storage().getWeakStorageImpl(), tensor.storage_offset()});
    }
  }
}

void PlanOutputs::note(const Reg* regs) {
  for (size_t i = 0; i < outputs_at_.size(); ++i) {
    const Impl* tensor = static_cast<const Impl*>(regs[outputs_at_[i]].tensor);
    Source source;
    for (const Input& input : inputs_) {
      if (input.storage._unsafe_get_target() != storage_of(tensor) || source.is_same) continue;
      source = {input.reg, tensor->storage_offset() - input.offset, input.tensor._unsafe_get_target() == tensor, 0};
    }
    for (size_t k = 0; k < i && !source.reg; ++k) {
      const Impl* other = static_cast<const Impl*>(regs[outputs_at_[k]].tensor);
      if (storage_of(other) != storage_of(tensor)) continue;
      source = {outputs_at_[k], tensor->storage_offset() - other->storage_offset(), other == tensor, 0};
      sources_[k].others += 1;
    }
    sources_.push_back(source);
  }
  inputs_.clear();
}

at::Tensor PlanOutputs::taken(size_t output, PyObject* made, const Reg* regs, bool has_history) const {
  const Source& source = sources_[output];
  const bool is_own = has_history || is_alone(made, source.others);  // asked before there is a handle more
  at::Tensor tensor = share(impl_of(made));
  if (!source.reg) {
    if (is_own && !is_repeated(output, tensor.unsafeGetTensorImpl(), regs)) return tensor;
    return tensor.requires_grad() ? at::Tensor() : copied(tensor);
  }
  at::Tensor other = share(regs[*source.reg].tensor);
  if (!tensor.storage().is_alias_of(other.storage())) return at::Tensor();
  if (tensor.storage_offset() - other.storage_offset() != source.offset) return at::Tensor();
  return source.is_same ? other : tensor;
}

// An output before it, which shared no memory with it, lies at the same address.
bool PlanOutputs::is_repeated(size_t output, const Impl* tensor, const Reg* regs) const noexcept {
  const void* data = tensor->unsafe_storage().data();
  for (size_t k = 0; k < output && data != nullptr; ++k)
    if (static_cast<const Impl*>(regs[outputs_at_[k]].tensor)->unsafe_storage().data() == data) return true;
  return false;
}

}  // namespace pijit::torch_adapter
