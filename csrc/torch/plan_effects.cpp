// Writes what compiled code gives, and gives its results the history of eager execution.
#include "torch/plan_effects.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "torch/accelerators.h"
#include "torch/plan_key.h"
#include "torch/spent.h"
#include "torch/tape_values.h"

namespace pijit::torch_adapter {

namespace {

// A result that shares memory with something else, or that the plan keeps, is copied: what it is for has memory of its
// own.
at::Tensor own(PyObject* made) {
  const at::Tensor& tensor = THPVariable_Unpack(made);
  const bool is_alone = tensor.storage().use_count() == 1 && tensor.use_count() == 1 && Py_REFCNT(made) == 1;
  return is_alone ? tensor : tensor.clone();
}

at::Tensor tensor_at(const Reg* regs, uint32_t reg) noexcept {
  return share(regs[reg].tensor);
}

// Dense tensors of the CPU that are laid out alike: their bytes are copied, and the write is noted. An operator takes ten
// times as long for a parameter of a small model.
bool copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  const Impl *target = to.unsafeGetTensorImpl(), *value = from.unsafeGetTensorImpl();
  const bool alike = is_usual(to) && is_usual(from) && to.is_cpu() && from.is_cpu() && !to.is_inference() &&
                     target->dtype() == value->dtype() && target->sizes() == value->sizes() &&
                     target->strides() == value->strides() && target->is_non_overlapping_and_dense();
  if (!alike) return false;
  if (from.numel() != 0) std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  to.unsafeGetTensorImpl()->bump_version();
  return true;
}

// A device other than the CPU copies all of one dtype at once, which launches less.
void copy_all(const std::vector<at::Tensor>& to, std::vector<at::Tensor>::const_iterator from) {
  struct Group {
    std::vector<at::Tensor> to, from;
  };
  std::map<std::pair<int, c10::ScalarType>, Group> groups;  // by number of the accelerator, and dtype
  for (const at::Tensor& each : to) {
    if (!is_accelerator(each.device()) || from->device() != each.device() ||
        from->scalar_type() != each.scalar_type()) {
      if (!copy_bytes(each, *from)) at::Tensor(each).copy_(*from);
      ++from;
      continue;
    }
    Group& group = groups[{each.device().index(), each.scalar_type()}];
    group.to.push_back(each);
    group.from.push_back(*from++);
  }
  for (auto& [kind, group] : groups) at::_foreach_copy_(group.to, group.from);
}

}  // namespace

PlanEffects::PlanEffects(const Effects& effects, const Vec<uint32_t>& free, const Reg* regs)
    : gradients_on_(c10::GradMode::is_enabled()), written_at_(effects.written), free_at_(free), spent_(effects.spent) {
  for (uint32_t reg : written_at_) {
    held_.push_back(tensor_at(regs, reg));
    own_.push_back(held_.back().unsafeGetTensorImpl());
    written_.emplace_back(own_.back());
  }
  for (uint32_t reg : effects.leaves) {
    held_.push_back(tensor_at(regs, reg));
    PyObject* object = object_of(held_.back().unsafeGetTensorImpl());
    leaves_.push_back({reg, held_.back().requires_grad(), effects.cleared.count(object) != 0, std::nullopt});
    refused_ |= held_.back().requires_grad() && !held_.back().is_leaf();
  }
  refused_ |= !is_apart(effects.leaves, regs) || !is_apart(written_at_, regs);
}

// None of these, but those written to themselves, has memory of one written to.
bool PlanEffects::is_apart(const Vec<uint32_t>& registers, const Reg* regs) const {
  std::vector<const c10::StorageImpl*> storages;
  for (uint32_t reg : written_at_) storages.push_back(tensor_at(regs, reg).storage().unsafeGetStorageImpl());
  std::sort(storages.begin(), storages.end());
  if (std::adjacent_find(storages.begin(), storages.end()) != storages.end()) return false;
  return std::none_of(registers.begin(), registers.end(), [&](uint32_t reg) {
    const at::Tensor tensor = tensor_at(regs, reg);
    return !writes_to(tensor.unsafeGetTensorImpl()) &&
           std::binary_search(storages.begin(), storages.end(), tensor.storage().unsafeGetStorageImpl());
  });
}

void PlanEffects::hold(const Reg* regs) {
  held_.clear();
  for (uint32_t reg : written_at_) held_.push_back(tensor_at(regs, reg));
  for (const Leaf& leaf : leaves_) held_.push_back(tensor_at(regs, leaf.reg));
}

bool PlanEffects::writes_to(const Impl* tensor) const noexcept {
  return std::find(own_.begin(), own_.end(), tensor) != own_.end();
}

bool PlanEffects::match(const Reg* regs) const {
  if (c10::GradMode::is_enabled() != gradients_on_ || !is_apart(free_at_, regs)) return false;
  for (size_t i = 0; i < written_.size(); ++i)
    if (!written_[i].matches(static_cast<const Impl*>(regs[written_at_[i]].tensor))) return false;
  return std::all_of(leaves_.begin(), leaves_.end(), [&](const Leaf& leaf) {
    const at::Tensor tensor = tensor_at(regs, leaf.reg);
    if (tensor.requires_grad() != leaf.trained) return false;
    return !leaf.trained || (tensor.is_leaf() && is_unwatched(tensor));
  });
}

void PlanEffects::note(const Vec<uint32_t>& outputs, const Reg* regs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor tensor = tensor_at(regs, outputs[i]);
    functions_.push_back(tensor.grad_fn() ? tensor.grad_fn()->name() : "");
    refused_ |= tensor.requires_grad() && !spent_[i];
  }
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const at::Tensor& leaf = held_[written_at_.size() + i];
    if (!leaves_[i].trained || !leaf.grad().defined()) continue;
    refused_ |= !is_unwatched(leaf) || leaf.grad().grad_fn() != nullptr;
    leaves_[i].gradient.emplace(leaf.grad().unsafeGetTensorImpl());
  }
}

Ref PlanEffects::copies() noexcept {
  const std::vector<at::Tensor> held = std::move(held_);
  held_.clear();
  if (refused_) return Ref();
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(held.size())));
  for (size_t i = 0; tuple && i < held.size(); ++i) {
    const Impl* tensor = held[i].unsafeGetTensorImpl();
    if (i >= written_at_.size()) {
      const Leaf& leaf = leaves_[i - written_at_.size()];
      tensor = leaf.gradient ? held[i].grad().unsafeGetTensorImpl() : nullptr;
    }
    Ref copy = tensor != nullptr ? copy_of(tensor) : Ref::borrow(Py_None);
    if (!copy) return Ref();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), copy.release());
  }
  return tuple;
}

at::Tensor PlanEffects::output(size_t index, at::Tensor made) const {
  if (functions_[index].empty()) return made;
  at::Tensor tensor = made.detach();
  spend(tensor, functions_[index]);
  return tensor;
}

bool PlanEffects::fits(PyObject* const* made, const Reg* regs) const {
  for (size_t i = 0; i < written_at_.size(); ++i, ++made) {
    const Impl* target = static_cast<const Impl*>(regs[written_at_[i]].tensor);
    if (!is_plain_tensor(*made) || impl_of(*made)->sizes() != target->sizes() ||
        impl_of(*made)->dtype() != target->dtype())
      return false;
  }
  for (const Leaf& leaf : leaves_) {
    PyObject* gradient = *made++;
    const bool is_one = is_plain_tensor(gradient);
    if (leaf.gradient ? !is_one || !leaf.gradient->matches_layout(impl_of(gradient)) : is_one) return false;
  }
  return true;
}

bool PlanEffects::write(PyObject* const* made, const Reg* regs) const noexcept {
  try {
    if (!fits(made, regs)) return false;
    const at::NoGradGuard no_gradients;
    std::vector<at::Tensor> values;
    for (size_t i = 0; i < written_at_.size() + leaves_.size(); ++i)
      values.push_back(is_plain_tensor(made[i]) ? own(made[i]) : at::Tensor());
    auto value = values.begin();
    std::vector<at::Tensor> written;
    for (uint32_t reg : written_at_) written.push_back(tensor_at(regs, reg));
    copy_all(written, value);
    value += static_cast<std::ptrdiff_t>(written.size());
    for (const Leaf& leaf : leaves_) {
      const at::Tensor tensor = tensor_at(regs, leaf.reg);
      if (leaf.gradient || leaf.cleared) tensor.mutable_grad() = *value;
      ++value;
    }
    return true;
  } catch (...) {
    return refuse();
  }
}

}  // namespace pijit::torch_adapter
