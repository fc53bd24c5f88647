// Counts calls, and waits for an operator.
#include "hook/rest.h"

#include <algorithm>
#include <atomic>

#include "adapter.h"
#include "cache/root.h"
#include "common/clock.h"
#include "hook/automatic.h"
#include "hook/evaluate.h"
#include "hook/savings.h"
#include "hook/serve.h"
#include "hook/stress.h"
#include "ir/adapter_slot.h"

namespace pijit {
namespace {

std::atomic<bool> g_rests{false};
std::atomic<bool> g_wakes{false};  // an operator has been seen since
std::atomic<double> g_until{0};    // of the process's time: before that no operator brings it back
void (*g_back)() noexcept = nullptr;

int come_back(void*) noexcept {
  if (!g_rests) return 0;
  if (g_until == 0) quiet_calls.enough = std::min(2 * quiet_calls.enough, QuietCalls::kMost);
  g_back();
  return 0;
}

// An operator runs, on any thread, with the GIL or without.
void wake() noexcept {
  if (g_until != 0 && process_seconds() < g_until) return;
  if (g_wakes.exchange(true)) return;
  if (PyGILState_Check() != 0) {
    come_back(nullptr);
  } else {
    Py_AddPendingCall(come_back, nullptr);
  }
}

}  // namespace

bool may_rest() noexcept {
  return !any_live_root() && !any_suspends() && stance() == Stance::kOn && stress_words() == 0 && !measures_savings() &&
         evaluator_before() == nullptr;
}

bool may_rest_for_a_time() noexcept {
  return automatic() && current_adapter() != nullptr && !any_live_root_of_user() && !any_suspends() &&
         stance() == Stance::kOn && stress_words() == 0 && evaluator_before() == nullptr;
}

namespace {

void go_to_rest(double until, Adapter::Waking waking, void (*back)() noexcept) noexcept {
  g_back = back;
  g_until = until;
  g_wakes = false;
  g_rests = true;
  if (Adapter* adapter = current_adapter()) adapter->wake_on_operator(wake, waking);
}

}  // namespace

void begin_rest(void (*back)() noexcept) noexcept {
  go_to_rest(0, Adapter::Waking::kNext, back);
}

void begin_rest_for(double seconds, void (*back)() noexcept) noexcept {
  go_to_rest(process_seconds() + seconds, Adapter::Waking::kSome, back);
}

void end_rest() noexcept {
  if (!g_rests.exchange(false)) return;
  note_use();
  if (Adapter* adapter = current_adapter()) adapter->wake_on_operator(nullptr, Adapter::Waking::kNext);
}

bool hook_rests() noexcept {
  return g_rests;
}

}  // namespace pijit
