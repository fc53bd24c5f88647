// The boxed fallback that notes operators, and its thread-local state.
#include "torch/eye.h"

#include "torch/watch.h"

namespace pijit::torch_adapter {
namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Null: no recording and no count was ever started on this thread.
thread_local Eye* t_eye = nullptr;

// Counts warnings and hands them on.
class CountWarnings final : public c10::WarningHandler {
 public:
  CountWarnings(c10::WarningHandler* next, uint32_t& count) : next_(next), count_(count) {}
  void process(const c10::Warning& warning) override {
    ++count_;
    next_->process(warning);
  }

 private:
  c10::WarningHandler* next_;
  uint32_t& count_;
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  if (t_eye != nullptr) {
    t_eye->dispatch(op, rest, stack);
    return;
  }
  c10::impl::tls_set_dispatch_key_included(kKey, false);
  op.redispatchBoxed(rest, stack);
}

}  // namespace

Eye& Eye::of_thread() {
  struct Owner {
    std::unique_ptr<Eye> eye = std::make_unique<Eye>();
    Owner() { t_eye = eye.get(); }
    ~Owner() { t_eye = nullptr; }
  };
  static thread_local Owner owner;
  return *owner.eye;
}

Eye* Eye::of_thread_if_any() noexcept {
  return t_eye;
}

// While an operator runs, the key is no key of its thread: kernels may be Python code.
class Eye::KeyAway {
 public:
  explicit KeyAway(const Eye& eye) : eye_(eye) { c10::impl::tls_set_dispatch_key_included(kKey, false); }
  ~KeyAway() { eye_.set_key(); }
  KeyAway(const KeyAway&) = delete;
  KeyAway& operator=(const KeyAway&) = delete;

 private:
  const Eye& eye_;
};

void Eye::set_key() const {
  c10::impl::tls_set_dispatch_key_included(kKey, recording_ && open_ && !paused_ && closed_ == 0);
}

bool Eye::has_key() const {
  return c10::impl::tls_is_dispatch_key_included(kKey);
}

void Eye::set_watch() const noexcept {
  watch_operators(recording_ || counting_);
}

bool Eye::is_watching() const {
  return watches_operators();
}

void Eye::start() {
  close();
  recording_ = true;
  paused_ = false;
  unexpected = depth_ = 0;  // an operator may be under way whose kernel is Python code
  expected.clear();
  set_watch();
}

void Eye::stop() noexcept {
  recording_ = false;
  paused_ = false;
  close();
  set_watch();
}

void Eye::count(bool on) {
  if (on) counted_ = 0;
  counting_ = on;
  set_watch();
}

void Eye::open() {
  open_ = true;
  warnings = 0;
  set_key();
}

void Eye::close() noexcept {
  open_ = false;
  set_key();
  ops.clear();
  values.clear();
  items.clear();
  held_.clear();
}

void Eye::pause(bool away) noexcept {
  paused_ = away;
  set_key();
}

void Eye::begin_operator(const char* name) noexcept {
  if (!recording_ && !counting_) {  // the callback came back with a saved state of the thread
    set_watch();
    return;
  }
  if (depth_++ > 0 || closed_ > 0) return;
  counted_ += 1;
  if (!recording_ || (open_ && !paused_)) return;
  if (!expected.empty() && expected.front()->handle.schema().name() == name)
    expected.erase(expected.begin());
  else
    ++unexpected;
}

void Eye::note(const c10::IValue& value) {
  SeenValue& seen = values.emplace_back();
  if (value.isTensor()) {
    seen.kind = SeenKind::kTensor;
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return;
    seen.tensor = tensor.unsafeGetTensorImpl();
    seen.wrapped = seen.tensor->is_wrapped_number();
    if (seen.wrapped) seen.value = value;
    return;
  }
  if (value.isStorage()) return;
  if (value.isList()) {
    c10::ArrayRef<c10::IValue> list = value.toListRef();
    bool tensors = false;
    for (const c10::IValue& item : list) tensors |= item.isTensor();
    if (tensors) {
      seen.kind = SeenKind::kTensorList;
      seen.first = static_cast<uint32_t>(items.size());
      seen.count = static_cast<uint32_t>(list.size());
      for (const c10::IValue& item : list) {
        bool defined = item.isTensor() && item.toTensor().defined();
        items.push_back(defined ? item.toTensor().unsafeGetTensorImpl() : nullptr);
      }
      return;
    }
  }
  seen.value = value;
}

void Eye::dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const KeyAway away(*this);
  if (!recording_ || !open_ || paused_) {  // the key came back with a saved state of the thread
    op.redispatchBoxed(keys, stack);
    return;
  }
  const OperatorInfo& info = operator_info(op);
  size_t count = info.arguments.size();
  SeenOp seen{&info, static_cast<uint32_t>(values.size()), 0};
  for (size_t i = 0; i < count; ++i) note(torch::jit::peek(*stack, i, count));
  {
    CountWarnings handler(c10::WarningUtils::get_warning_handler(), warnings);
    c10::WarningUtils::WarningHandlerGuard guard(&handler);
    op.redispatchBoxed(keys, stack);
  }
  seen.results = static_cast<uint32_t>(values.size());
  for (size_t i = 0; i < info.returns; ++i) {
    const c10::IValue& value = torch::jit::peek(*stack, i, info.returns);
    note(value);
    if (value.isTensor() && value.toTensor().defined()) held_.emplace_back(value.toTensor().getIntrusivePtr());
    if (value.isTensorList())
      for (const c10::IValue& item : value.toListRef())
        if (item.toTensor().defined()) held_.emplace_back(item.toTensor().getIntrusivePtr());
  }
  ops.push_back(seen);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace pijit::torch_adapter
