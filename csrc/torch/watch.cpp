// The callback, and what the thread has of them.
#include "torch/watch.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "torch/eye.h"

namespace pijit::torch_adapter {
namespace {

// Such callbacks are told of the functions of torch.autograd.Function, too, by the names of their classes.
bool is_operator(const at::RecordFunction& call) {
  return std::strstr(call.name(), "::") != nullptr;
}

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& call) {
  if (Eye* eye = Eye::of_thread_if_any(); eye != nullptr && is_operator(call)) eye->begin_operator(call.name());
  return nullptr;
}

void on_end(const at::RecordFunction& call, at::ObserverContext*) {
  if (Eye* eye = Eye::of_thread_if_any(); eye != nullptr && is_operator(call)) eye->end_operator();
}

bool is_ours(const at::RecordFunctionCallbacksEntry& entry) noexcept {
  return entry.callback_.start() == on_begin;
}

}  // namespace

void watch_operators(bool on) noexcept {
  try {
    static const at::RecordFunctionCallback callback =
        at::RecordFunctionCallback(on_begin, on_end).scopes({at::RecordScope::FUNCTION});
    const auto& now = at::get_record_function_tls_().sorted_tls_callbacks_;
    if (std::any_of(now.begin(), now.end(), is_ours) == on) return;
    if (on) {
      at::addThreadLocalCallback(callback);
      return;
    }
    at::RecordFunctionTLS rest = at::get_record_function_tls_();
    auto& callbacks = rest.sorted_tls_callbacks_;
    callbacks.erase(std::remove_if(callbacks.begin(), callbacks.end(), is_ours), callbacks.end());
    at::set_record_function_tls_(rest);
  } catch (const std::exception&) {  // memory is short; whoever needs it asks watches_operators()
  }
}

bool watches_operators() noexcept {
  const at::RecordFunctionTLS& tls = at::get_record_function_tls_();
  const auto& callbacks = tls.sorted_tls_callbacks_;
  return tls.tls_record_function_enabled_ && std::any_of(callbacks.begin(), callbacks.end(), is_ours);
}

bool is_profiled() noexcept {
  const auto& callbacks = at::get_record_function_tls_().sorted_tls_callbacks_;
  return at::hasGlobalCallbacks() || !std::all_of(callbacks.begin(), callbacks.end(), is_ours);
}

}  // namespace pijit::torch_adapter
