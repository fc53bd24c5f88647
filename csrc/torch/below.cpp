// The boxed fallback beneath autograd.
#include "torch/below.h"

namespace pijit::torch_adapter {

namespace {

constexpr auto kBelow = c10::DispatchKey::Fake;

thread_local BelowAutograd* t_looks = nullptr;
bool g_offered = false;

// While an operator runs, what it dispatches is part of it.
class Away {
 public:
  Away() { c10::impl::tls_set_dispatch_key_included(kBelow, false); }
  ~Away() { c10::impl::tls_set_dispatch_key_included(kBelow, t_looks != nullptr); }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;
};

// A thread that has the key but nobody who looks has got it with a saved state of another one.
void show(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kBelow);
  const Away away;
  BelowAutograd* const looks = t_looks;
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

LookBelow::LookBelow(BelowAutograd* who) noexcept : before_(t_looks) {
  t_looks = who;
  c10::impl::tls_set_dispatch_key_included(kBelow, who != nullptr);
}

LookBelow::~LookBelow() {
  t_looks = before_;
  c10::impl::tls_set_dispatch_key_included(kBelow, before_ != nullptr);
}

}  // namespace pijit::torch_adapter
