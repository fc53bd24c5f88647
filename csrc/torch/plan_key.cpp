// Keys of plans: made at a native replay, matched before each run of a plan.
#include "torch/plan_key.h"

#include <algorithm>
#include <sstream>

#include "torch/accelerators.h"
#include "torch/plan_effects.h"
#include "torch/plan_outputs.h"
#include "torch/undo.h"

namespace pijit::torch_adapter {

namespace {

uint32_t version_of(const Impl* tensor) {
  return const_cast<Impl*>(tensor)->version_counter().current_version();
}

// A tensor whose content the code may know.
struct BoundTensor {
  // Held, so that no later storage has its address: memory that was given back is soon another tensor's.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  const void* data;
  uint32_t version;
  bool requires_grad;

  explicit BoundTensor(const Impl* tensor)
      : storage(tensor->storage().getWeakStorageImpl()),
        data(tensor->data()),
        version(version_of(tensor)),
        requires_grad(tensor->requires_grad()) {}
  bool is_moved(const Impl* tensor) const {
    return tensor->unsafe_storage().unsafeGetStorageImpl() != storage._unsafe_get_target() || tensor->data() != data;
  }
};

bool has_content(const Impl* tensor) noexcept {
  return tensor->storage_initialized() && !const_cast<Impl*>(tensor)->is_inference();
}

class KeptDraws final : public DrawStates {
 public:
  Draws draws;
  void put_back() const noexcept override {
    try {
      draws.put_back();
    } catch (...) {  // memory is short: the generator has its own state already, or none of the two
    }
  }
  bool same_as(const DrawStates& other) const noexcept override {
    return draws.same_as(static_cast<const KeptDraws&>(other).draws);
  }
};

class TorchPlanKey final : public PlanKey {
 public:
  TorchPlanKey(const PlanRegisters& registers, const Reg* regs)
      : bound_at_(registers.bound),
        free_at_(registers.free),
        numbers_at_(registers.numbers),
        shared_(registers.bound, registers.free, registers.outputs, regs) {
    for (uint32_t reg : bound_at_) bound_.emplace_back(impl(regs, reg));
    for (uint32_t reg : free_at_) free_.emplace_back(impl(regs, reg));
    for (uint32_t reg : numbers_at_) numbers_.push_back(regs[reg]);
    for (uint32_t reg : registers.outputs) outputs_at_.push_back(reg);
    if (registers.effects != nullptr)
      effects_ = std::make_unique<PlanEffects>(*registers.effects, registers.free, regs);
    recorded_ = is_recorded();
    if (registers.effects != nullptr && registers.effects->draws) note_devices(regs);
  }
  void note_outputs(const Reg* regs) override {
    for (uint32_t reg : outputs_at_) outputs_.emplace_back(impl(regs, reg));
    shared_.note(regs);
    if (effects_ != nullptr) effects_->note(outputs_at_, regs);
  }
  void hold(const Reg* regs) override {
    if (effects_ != nullptr) effects_->hold(regs);
  }
  Ref effects() noexcept override { return effects_ != nullptr ? effects_->copies() : Ref(); }
  bool write(PyObject* const* made, const Reg* regs) noexcept override {
    return effects_ == nullptr || effects_->write(made, regs);
  }
  bool gradients_on() const noexcept override { return effects_ != nullptr && effects_->gradients_on(); }
  std::unique_ptr<DrawStates> draw_states() const noexcept override {
    try {
      auto made = std::make_unique<KeptDraws>();
      const bool kept = std::all_of(draws_on_.begin(), draws_on_.end(),
                                    [&](c10::Device device) { return made->draws.keep_default(device); });
      return kept && !draws_on_.empty() ? std::move(made) : nullptr;
    } catch (...) {
      return nullptr;
    }
  }

  std::vector<bool> trained() const override {
    std::vector<bool> made;
    if (!recorded_) return made;
    for (const TensorForm& form : free_) made.push_back(form.requires_grad);
    for (const BoundTensor& tensor : bound_) made.push_back(tensor.requires_grad);
    for (const TensorForm& form : outputs_) made.push_back(form.requires_grad);
    return made;
  }

  Match match(const Reg* regs) noexcept override {
    try {
      for (size_t i = 0; i < free_.size(); ++i)
        if (!free_[i].matches(impl(regs, free_at_[i]))) return Match::kNo;
      for (size_t i = 0; i < numbers_.size(); ++i) {
        const Reg& now = regs[numbers_at_[i]];
        if (!same_number(now, numbers_[i])) return Match::kNo;
      }
      return has_bound(regs) ? match_bound(regs) : Match::kNo;
    } catch (...) {
      return Match::kNo;
    }
  }
  Match match_bound(const Reg* regs) noexcept override {
    bool written = false, moved = false;
    try {
      for (size_t i = 0; i < bound_.size(); ++i) {
        const Impl* tensor = impl(regs, bound_at_[i]);
        if (effects_ != nullptr && effects_->writes_to(tensor)) continue;  // it is an input of the code
        moved |= !has_content(tensor) || bound_[i].is_moved(tensor);
        written |= moved || version_of(tensor) != bound_[i].version;
      }
    } catch (...) {
      moved = true;
    }
    return moved ? Match::kMoved : written ? Match::kWritten : Match::kYes;
  }
  void refresh(const Reg* regs) noexcept override {
    try {
      for (size_t i = 0; i < bound_.size(); ++i) {
        BoundTensor now(impl(regs, bound_at_[i]));
        now.requires_grad = bound_[i].requires_grad;  // it belongs to the form
        bound_[i] = std::move(now);
      }
    } catch (...) {
    }
  }
  bool take(size_t output, PyObject* made, Reg* regs) noexcept override {
    if (output >= outputs_.size() || !is_plain_tensor(made)) return false;
    const Impl* tensor = impl_of(made);
    if (!outputs_[output].matches_layout(tensor)) return false;
    if (recorded_ && tensor->requires_grad() != outputs_[output].requires_grad) return false;
    try {
      at::Tensor taken = shared_.taken(output, made, regs, recorded_);
      if (!taken.defined()) return false;
      put(regs[outputs_at_[output]],
          effects_ != nullptr ? effects_->output(output, std::move(taken)) : std::move(taken));
      return true;
    } catch (...) {
      return refuse();
    }
  }
  std::string describe() const override {
    std::ostringstream text;
    for (size_t i = 0; i < free_.size(); ++i)
      text << (i != 0 ? ", " : "") << c10::toString(free_[i].dtype) << c10::IntArrayRef(free_[i].sizes);
    if (recorded_) text << (free_.empty() ? "" : ", ") << "gradients recorded";
    return text.str();
  }

 private:
  static Impl* impl(const Reg* regs, uint32_t reg) noexcept { return static_cast<Impl*>(regs[reg].tensor); }

  // What the segment computes gets a history.
  bool is_recorded() const {
    if (effects_ != nullptr || !c10::GradMode::is_enabled()) return false;
    const auto trained = [](const auto& tensor) { return tensor.requires_grad; };
    return std::any_of(free_.begin(), free_.end(), trained) || std::any_of(bound_.begin(), bound_.end(), trained);
  }
  // The accelerators that its tensors are on.
  void note_devices(const Reg* regs) {
    const auto note = [&](uint32_t reg) {
      const c10::Device device = impl(regs, reg)->device();
      if (is_accelerator(device) && std::find(draws_on_.begin(), draws_on_.end(), device) == draws_on_.end())
        draws_on_.push_back(device);
    };
    std::for_each(bound_at_.begin(), bound_at_.end(), note);
    std::for_each(free_at_.begin(), free_at_.end(), note);
  }
  // The tensors require gradients as they did, so that the mode alone decides whether they are recorded.
  bool has_bound(const Reg* regs) const {
    for (size_t i = 0; i < bound_.size(); ++i) {
      const Impl* tensor = impl(regs, bound_at_[i]);
      if (!has_content(tensor) || tensor->requires_grad() != bound_[i].requires_grad) return false;
    }
    return effects_ != nullptr ? effects_->match(regs) : is_recorded() == recorded_;
  }

  Vec<uint32_t> bound_at_, free_at_, numbers_at_, outputs_at_;
  std::vector<BoundTensor> bound_;
  std::vector<TensorForm> free_, outputs_;
  std::vector<Reg> numbers_;
  PlanOutputs shared_;
  std::unique_ptr<PlanEffects> effects_;
  std::vector<c10::Device> draws_on_;
  bool recorded_ = false;
};

}  // namespace

std::unique_ptr<PlanKey> make_plan_key(const PlanRegisters& registers, const Reg* regs) {
  bool grad = false;
  const auto look = [&](const Vec<uint32_t>& indices) {
    return std::all_of(indices.begin(), indices.end(), [&](uint32_t reg) {
      const Impl* tensor = static_cast<const Impl*>(regs[reg].tensor);
      grad |= tensor->requires_grad();
      return tensor->device().type() != c10::kMeta && tensor->storage_initialized();
    });
  };
  if (!look(registers.free) || (registers.effects != nullptr && grad) || !look(registers.bound)) return nullptr;
  for (uint32_t reg : registers.bound)
    if (!has_content(static_cast<const Impl*>(regs[reg].tensor))) return nullptr;
  return std::make_unique<TorchPlanKey>(registers, regs);
}

namespace {

// Of the layout: holes, axes of stride 0, and so many elements behind an aligned address. Undefined: it is mostly
// holes.
at::Tensor copy_with_layout(const at::Tensor& tensor, int64_t behind) {
  constexpr int64_t kHoles = 8;  // times as much memory as it has elements
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  std::vector<int64_t> sizes = tensor.sizes().vec();
  int64_t span = 1, elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t stride = tensor.strides()[i];
    if (stride == 0) sizes[i] = 1;  // all of them are one element, which is not to be written twice
    span += (sizes[i] - 1) * stride;
    elements *= sizes[i];
  }
  if (span / kHoles > elements) return at::Tensor();
  const at::Tensor memory = at::empty({span + behind}, tensor.options());
  memory.as_strided(sizes, tensor.strides(), behind).copy_(tensor.as_strided(sizes, tensor.strides()));
  return memory.as_strided(tensor.sizes(), tensor.strides(), behind);
}

}  // namespace

Ref copy_of(const Impl* tensor) noexcept {
  try {
    const at::NoGradGuard no_gradients;
    const at::Tensor shared = share(const_cast<Impl*>(tensor)).detach();
    const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor->data()) % kAligned);
    const auto item = static_cast<int64_t>(tensor->itemsize());
    const at::Tensor made = copy_with_layout(shared, beyond % item == 0 ? beyond / item : 0);
    return made.defined() ? Ref::steal(THPVariable_Wrap(made)) : Ref();
  } catch (...) {
    refuse();
    return Ref();
  }
}

}  // namespace pijit::torch_adapter
