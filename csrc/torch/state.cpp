// A snapshot of modes, compared value by value.
#include "torch/state.h"

#include <torch/csrc/PyInterpreter.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <utility>

#include "common/ref.h"
#include "torch/accelerators.h"
#include "torch/literals.h"
#include "torch/tensor.h"
#include "torch/watch.h"

namespace pijit::torch_adapter {
namespace {

int64_t included_keys() {
  return static_cast<int64_t>(c10::impl::tls_local_dispatch_key_set().included_.raw_repr());
}
int64_t excluded_keys() {
  return static_cast<int64_t>(c10::impl::tls_local_dispatch_key_set().excluded_.raw_repr());
}

// Changes when an attribute of the class or of a base is set: Python operators on tensors go through them.
int64_t class_version(const PyTypeObject* type) {
  return type->tp_version_tag;
}

enum Mode : size_t {
#define PIJIT_STATE(name, value, words) name,
#include "torch/state.def"
#undef PIJIT_STATE
  kModes
};

constexpr const char* kWords[] = {
#define PIJIT_STATE(name, value, words) words,
#include "torch/state.def"
#undef PIJIT_STATE
};

int64_t read_mode(size_t mode) {
  switch (mode) {
#define PIJIT_STATE(name, value, words) \
  case name:                            \
    return static_cast<int64_t>(value);
#include "torch/state.def"
#undef PIJIT_STATE
    default:
      return 0;
  }
}

// A version tag is given at the first lookup.
void give_version(PyTypeObject* type) {
  Ref name = Ref::steal(PyUnicode_InternFromString("__torch_function__"));
  if (name) _PyType_Lookup(type, name.get());
}

class ModeGuard;
thread_local ModeGuard* t_latest = nullptr;  // captured by the recording under way

class ModeGuard final : public StateGuard {
 public:
  ModeGuard() {
    for (size_t i = 0; i < kModes; ++i) saved_[i] = read_mode(i);
    t_latest = this;
  }
  ~ModeGuard() override {
    if (t_latest == this) t_latest = nullptr;
  }

  const char* touch(c10::Device device) {
    if (accelerators_ == nullptr) accelerators_ = std::make_unique<AcceleratorModes>();
    return accelerators_->touch(device);
  }
  bool touches(c10::DeviceType type) const noexcept { return accelerators_ != nullptr && accelerators_->touches(type); }

  bool check() noexcept override {
    bool same = true;
#define PIJIT_STATE(name, value, words) same &= static_cast<int64_t>(value) == saved_[name];
#include "torch/state.def"
#undef PIJIT_STATE
    return same && (accelerators_ == nullptr || accelerators_->check());
  }

  std::string describe() const override {
    std::ostringstream text;
    for (size_t i = 0; i < kModes; ++i) text << (i != 0 ? ", " : "") << kWords[i] << "=" << saved_[i];
    if (accelerators_ != nullptr) text << accelerators_->describe();
    return text.str();
  }

  bool keep(Words& words) const override {
    if (accelerators_ != nullptr) return false;
    Writing each(words);
    for (size_t i = 0; i < kModes; ++i) each.number(is_class(i) ? 0 : saved_[i]);
    return true;
  }
  // The classes of tensors are told apart by the trace, which names them.
  bool take(Reading& each) {
    for (size_t i = 0; i < kModes; ++i) {
      int64_t kept = 0;
      each.number(kept);
      if (!is_class(i)) saved_[i] = kept;
    }
    return each.at_end();
  }

  std::string summary() const override {
    std::string text = saved_[kGrad] != 0 ? "grad on" : "grad off";
    const auto say = [&](const std::string& words) { text += ", " + words; };
    if (saved_[kInference] != 0) say("inference mode");
    const c10::DispatchKeySet excluded(c10::DispatchKeySet::RAW, static_cast<uint64_t>(saved_[kExcluded]));
    for (const auto& [key, mode, device] : {std::tuple(c10::DispatchKey::AutocastCPU, kAutocastCpu, " on cpu"),
                                            std::tuple(c10::DispatchKey::AutocastCUDA, kAutocastCuda, " on cuda")})
      if (!excluded.has(key)) say("autocast to " + type_words(static_cast<c10::ScalarType>(saved_[mode])) + device);
    const auto dtype = static_cast<c10::ScalarType>(saved_[kDefaultDtype]);
    if (dtype != at::kFloat) say("default dtype " + type_words(dtype));
    if (saved_[kDeterministic] != 0) say("deterministic algorithms");
    if (saved_[kCudnn] == 0) say("cudnn off");
    if (saved_[kForwardGrad] == 0) say("forward-mode grad off");
    if (saved_[kMultithreading] == 0) say("one-threaded backward");
    return accelerators_ == nullptr ? text : text + accelerators_->summary();
  }

  std::string explain() override {
    for (size_t i = 0; i < kModes; ++i)
      if (read_mode(i) != saved_[i]) {
        const std::string autocast = i == kExcluded ? autocast_words() : "";
        if (!autocast.empty()) return autocast;
        return std::string(kWords[i]) + ": " + word(i, read_mode(i)) + " now, " + word(i, saved_[i]) + " before";
      }
    return accelerators_ == nullptr ? "" : accelerators_->explain();
  }

 private:
  // The mode is the version of a class, which is another in each process.
  static bool is_class(size_t mode) { return mode == kTensorClass || mode == kParameterClass; }
  // Autocast is off where its key is excluded. Empty: it is as it was.
  std::string autocast_words() const {
    const c10::DispatchKeySet now = c10::impl::tls_local_dispatch_key_set().excluded_;
    const c10::DispatchKeySet before(c10::DispatchKeySet::RAW, static_cast<uint64_t>(saved_[kExcluded]));
    for (const auto& [key, device] :
         {std::pair(c10::DispatchKey::AutocastCPU, "cpu"), std::pair(c10::DispatchKey::AutocastCUDA, "cuda")}) {
      if (now.has(key) == before.has(key)) continue;
      const bool off = now.has(key);
      return std::string("autocast on ") + device + ": " + (off ? "off now, on before" : "on now, off before");
    }
    return "";
  }
  static std::string word(size_t mode, int64_t value) {
    switch (mode) {
      case kAutocastCpu:
      case kAutocastCuda:
      case kDefaultDtype:
        return c10::toString(static_cast<at::ScalarType>(value));
      case kIncluded:
      case kExcluded:
        return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, static_cast<uint64_t>(value)));
      case kFunctionModes:
      case kDispatchModes:
      case kTensorClass:
      case kParameterClass:
        return std::to_string(value);
      default:
        return value != 0 ? "on" : "off";
    }
  }

  std::array<int64_t, kModes> saved_;
  std::unique_ptr<AcceleratorModes> accelerators_;  // null: the trace touches none
};

// Functions of Python that get what operators save, and change nothing but what they and their likes made.
struct Pack {
  const char *module, *name;
};
constexpr Pack kPacks[] = {{"torch.utils.checkpoint", "_checkpoint_hook.__init__.<locals>.pack_hook"},
                           {"torch.autograd.graph", "save_on_cpu.__init__.<locals>.pack_to_cpu"}};

bool keeps_to_itself(PyObject* pack) noexcept {
  if (pack == nullptr || !PyFunction_Check(pack)) return false;
  const auto* function = reinterpret_cast<PyFunctionObject*>(pack);
  const auto is = [](PyObject* text, const char* expected) {
    return text != nullptr && PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, expected) == 0;
  };
  return std::any_of(std::begin(kPacks), std::end(kPacks), [&](const Pack& each) {
    return is(function->func_module, each.module) && is(function->func_qualname, each.name);
  });
}

// Keys that a thread includes when nothing special is going on.
const c10::DispatchKeySet& usual_keys() {
  static const c10::DispatchKeySet keys({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView});
  return keys;
}

// Keys that a thread includes, too, while a level of torch.func is open.
const c10::DispatchKeySet& levels() {
  static const c10::DispatchKeySet keys(
      {c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::FuncTorchDynamicLayerBackMode});
  return keys;
}

}  // namespace

std::unique_ptr<StateGuard> capture_state() {
  give_version(tensor_type());
  give_version(reinterpret_cast<PyTypeObject*>(ParameterClass));
  return std::make_unique<ModeGuard>();
}

std::unique_ptr<StateGuard> make_state(const Words& words) {
  const CapturedAside aside;
  give_version(tensor_type());
  give_version(reinterpret_cast<PyTypeObject*>(ParameterClass));
  auto made = std::make_unique<ModeGuard>();
  const std::vector<Rep> no_registers;
  Reading each(words, no_registers);
  return made->take(each) ? std::move(made) : nullptr;
}

CapturedAside::CapturedAside() noexcept : latest_(std::exchange(t_latest, nullptr)) {}

CapturedAside::~CapturedAside() {
  t_latest = static_cast<ModeGuard*>(latest_);
}

const char* touch_device(c10::Device device) noexcept {
  return t_latest == nullptr ? nullptr : t_latest->touch(device);
}

bool has_autocast_dtype(c10::DeviceType type) noexcept {
  return type == c10::kCPU || type == c10::kCUDA || (t_latest != nullptr && t_latest->touches(type));
}

bool has_saved_hooks() noexcept {
  return c10::GradMode::is_enabled() && !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

bool runs_saved_hooks() noexcept {
  return has_saved_hooks() &&
         !keeps_to_itself(at::SavedTensorDefaultHooks::get_tls_state().stack.top().first.ptr(getPyInterpreter()));
}

const char* must_step_aside(bool recording, bool has_levels) noexcept {
  using at::impl::PythonTorchFunctionTLS;
  if (torch::jit::tracer::isTracing()) return "torch.jit is tracing";
  if (PythonTorchFunctionTLS::stack_len() != 0) return "a __torch_function__ mode is active";
  // Disabled for subclasses is as good: none of them is recorded.
  if (PythonTorchFunctionTLS::get_disabled_state() == at::impl::TorchFunctionDisabledState::ALL_DISABLED)
    return "__torch_function__ is disabled";
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) return "a __torch_dispatch__ mode is active";
  if (torch::autograd::AnomalyMode::is_enabled()) return "anomaly mode is on";
  // A recording that is under way leaves the operators that call them to CPython.
  if (!recording && !at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return "saved-tensor hooks are set";
  if (is_profiled()) return "a profiler is on";  // replays go on under it
  c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  if (has_levels) included = included - levels();
  if (!(included - usual_keys()).empty()) return "a transformation of torch.func or another dispatcher mode is active";
  return capture_under_way();
}

}  // namespace pijit::torch_adapter
