// Keeps and puts back the form of tensors that are written to, and the state of the generator.
#include "torch/undo.h"

namespace pijit::torch_adapter {

Undo::Undo(const OperatorInfo& info, const torch::jit::Stack& stack) {
  const size_t count = info.arguments.size();
  std::optional<at::Generator> given;
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& value = torch::jit::peek(stack, i, count);
    if (value.isGenerator()) given = value.toGenerator();
    if (!info.reshapes || !info.arguments[i].written) continue;
    if (value.isTensor()) keep(value.toTensor());
    if (value.isTensorList())
      for (const c10::IValue& item : value.toListRef()) keep(item.toTensor());
  }
  for (size_t i = 0; i < count && !forms_.empty(); ++i)
    if (!info.arguments[i].written) compare(torch::jit::peek(stack, i, count));
  if (!info.random) return;
  generator_ = given ? *given : at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator_->mutex());
  state_ = generator_->unsafeGetGeneratorImpl()->get_state();
}

void Undo::keep(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Form form;
  form.tensor = tensor;
  form.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  form.strides.assign(tensor.strides().begin(), tensor.strides().end());
  form.version = tensor.is_inference() ? 0 : tensor.unsafeGetTensorImpl()->version_counter().current_version();
  forms_.push_back(std::move(form));
  hopeless_ |= tensor.requires_grad() && c10::GradMode::is_enabled();  // its graph may change, too
}

void Undo::compare(const c10::IValue& read) {
  if (read.isList() && !read.isIntList() && !read.isDoubleList() && !read.isBoolList()) {
    for (const c10::IValue& item : read.toListRef()) compare(item);
    return;
  }
  if (!read.isTensor() || !read.toTensor().defined() || !read.toTensor().has_storage()) return;
  const at::Tensor& tensor = read.toTensor();
  for (const Form& form : forms_)
    hopeless_ |= !tensor.is_same(form.tensor) && tensor.storage().is_alias_of(form.tensor.storage());
}

void Undo::put_back() {
  for (Form& form : forms_) {
    Impl* impl = form.tensor.unsafeGetTensorImpl();
    if (impl->sizes() != c10::IntArrayRef(form.sizes) || impl->strides() != c10::IntArrayRef(form.strides))
      impl->set_sizes_and_strides(form.sizes, form.strides);
    if (form.tensor.is_inference()) continue;
    c10::VariableVersion counter = impl->version_counter();  // shares the count
    counter.set_version(form.version);
  }
  if (state_ == nullptr) return;
  std::lock_guard<std::mutex> lock(generator_->mutex());
  generator_->unsafeGetGeneratorImpl()->set_state(*state_);
}

}  // namespace pijit::torch_adapter
