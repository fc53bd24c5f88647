// A callback of torch's profiler: the only thing in torch that sees the operators of all threads.
#include "torch/waking.h"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <optional>

namespace pijit::torch_adapter {
namespace {

constexpr double kSome = 0.02;  // of the operators

std::atomic<void (*)() noexcept> g_wake{nullptr};
std::optional<at::CallbackHandle> g_handle;

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction&) {
  if (auto* wake = g_wake.load()) wake();
  return nullptr;
}

}  // namespace

// Without the callback nothing is told: the hook rests until something else asks for it.
void wake_on_operator(void (*wake)() noexcept, bool some) noexcept {
  g_wake = wake;
  try {
    if (wake != nullptr && !g_handle) {
      auto callback = at::RecordFunctionCallback(on_operator).scopes({at::RecordScope::FUNCTION});
      if (some) callback.samplingProb(kSome);
      g_handle = at::addGlobalCallback(callback);
    } else if (wake == nullptr && g_handle) {
      at::removeCallback(*g_handle);
      g_handle.reset();
    }
  } catch (const std::exception&) {
  }
}

}  // namespace pijit::torch_adapter
