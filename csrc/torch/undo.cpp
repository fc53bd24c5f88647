// Keeps and puts back the form of tensors that are written to, and the states of generators.
#include "torch/undo.h"

#include <algorithm>
#include <cstring>

#include "torch/accelerators.h"

namespace pijit::torch_adapter {

Undo::Undo(const OperatorInfo& info, const torch::jit::Stack& stack) {
  const size_t count = info.arguments.size();
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& value = torch::jit::peek(stack, i, count);
    if (!info.reshapes || !info.arguments[i].written) continue;
    if (value.isTensor()) keep(value.toTensor());
    if (value.isTensorList())
      for (const c10::IValue& item : value.toListRef()) keep(item.toTensor());
  }
  for (size_t i = 0; i < count && !forms_.empty(); ++i)
    if (!info.arguments[i].written) compare(torch::jit::peek(stack, i, count));
  if (info.random) keep_generators(info, stack);
}

// An operator draws from the generator that it is given, or from that of the devices of its tensors, or of the one that
// it is told.
void Undo::keep_generators(const OperatorInfo& info, const torch::jit::Stack& stack) {
  const size_t count = info.arguments.size();
  c10::SmallVector<c10::Device, 2> devices;
  const auto note = [&](c10::Device device) {
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  };
  const auto note_tensor = [&](const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) note(value.toTensor().device());
  };
  for (size_t i = 0; i < count; ++i) {
    const c10::IValue& value = torch::jit::peek(stack, i, count);
    if (value.isGenerator()) return draws_.keep(value.toGenerator());
    if (value.isDevice()) note(value.toDevice());
    note_tensor(value);
    if (value.isTensorList())
      for (const c10::IValue& item : value.toListRef()) note_tensor(item);
  }
  if (devices.empty()) devices.push_back(c10::kCPU);
  for (c10::Device device : devices) hopeless_ |= !draws_.keep_default(device);
}

void Draws::keep(at::Generator generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  kept_.push_back({generator, generator.unsafeGetGeneratorImpl()->get_state()});
}

bool Draws::keep_default(c10::Device device) {
  if (device.type() == c10::kMeta) return true;  // nothing is drawn there
  at::Generator generator = default_generator(device);
  if (!generator.defined()) return false;
  keep(std::move(generator));
  return true;
}

void Draws::put_back() const {
  for (const Kept& kept : kept_) {
    at::Generator generator = kept.generator;
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.unsafeGetGeneratorImpl()->set_state(*kept.state);
  }
}

bool Draws::same_as(const Draws& other) const {
  return std::equal(kept_.begin(), kept_.end(), other.kept_.begin(), other.kept_.end(),
                    [](const Kept& a, const Kept& b) {
                      return a.generator == b.generator && a.state->numel() == b.state->numel() && a.state->is_cpu() &&
                             b.state->is_cpu() &&
                             std::memcmp(a.state->data(), b.state->data(), static_cast<size_t>(a.state->numel())) == 0;
                    });
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
  draws_.put_back();
}

}  // namespace pijit::torch_adapter
