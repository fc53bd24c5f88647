// The boxed fallback beneath autograd.
#include "torch/below.h"

#include <torch/csrc/autograd/graph_task.h>

#include <atomic>

namespace pijit::torch_adapter {

namespace {

constexpr auto kBelow = c10::DispatchKey::Fake;

thread_local BelowAutograd* t_looks = nullptr;
std::atomic<BelowAutograd*> g_looks_at_engine{nullptr};
bool g_offered = false;

// Who looks at what this thread dispatches. A thread of the engine has no one of its own, and the key for as long as it
// works for a thread that looks.
BelowAutograd* who_looks() noexcept {
  if (t_looks != nullptr) return t_looks;
  return torch::autograd::get_current_graph_task_id() != -1 ? g_looks_at_engine.load() : nullptr;
}

// While an operator runs, what it dispatches is part of it.
class Away {
 public:
  explicit Away(BelowAutograd* looks) : looks_(looks) { c10::impl::tls_set_dispatch_key_included(kBelow, false); }
  ~Away() { c10::impl::tls_set_dispatch_key_included(kBelow, looks_ != nullptr); }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  BelowAutograd* looks_;
};

// A thread that has the key but nobody who looks has got it with a saved state of another one.
void show(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kBelow);
  BelowAutograd* const looks = who_looks();
  const Away away(looks);
  if (looks == nullptr) return op.redispatchBoxed(rest, stack);
  const OperatorInfo& info = operator_info(op);
  looks->before(info, *stack);
  op.redispatchBoxed(rest, stack);
  looks->after(info, *stack);
}

}  // namespace

void offer_below() {
  if (g_offered || c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kBelow)) return;
  static torch::Library library(torch::Library::IMPL, "_", kBelow, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&show>());
  g_offered = true;
}

bool can_look_below() noexcept {
  return g_offered;
}

LookBelow::LookBelow(BelowAutograd* who, bool and_engine) noexcept : before_(t_looks), and_engine_(and_engine) {
  t_looks = who;
  if (and_engine_) g_looks_at_engine = who;
  c10::impl::tls_set_dispatch_key_included(kBelow, who != nullptr);
}

LookBelow::~LookBelow() {
  t_looks = before_;
  if (and_engine_) g_looks_at_engine = nullptr;
  c10::impl::tls_set_dispatch_key_included(kBelow, before_ != nullptr);
}

}  // namespace pijit::torch_adapter
