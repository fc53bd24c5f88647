// Counts calls and adds up gains.
#include "hook/worth.h"

#include <algorithm>

#include "cache/root.h"
#include "common/clock.h"

namespace pijit {
namespace {

constexpr uint64_t kCallsOfWindow = 32'768;  // calls
constexpr double kLossOfCall = 80e-9;  // seconds that a call takes more: measured with CPython 3.11, for f(x) in a loop
constexpr double kLossAtFirst = 0.05;  // seconds that may be lost beside the share
constexpr double kKeptGain = 1;        // seconds of gains that later losses may use up
constexpr double kLongestRest = 10;    // seconds of one rest

uint64_t g_hook_share = 2;
uint64_t g_calls_of_window = 0;
double g_gained_in_window = 0;  // in this window
double g_lost_so_far = 0;       // all in all, less what was gained
double g_weighed_first = -1;    // of the process's time: when the first window was over; negative: none was

}  // namespace

uint64_t& hook_share() noexcept {
  return g_hook_share;
}

void note_gain(const Root& root) noexcept {
  if (root.ledger.replay_ratio() > 0) g_gained_in_window += root.ledger.plain() * (1 - root.ledger.replay_ratio());
}

bool is_window_over() noexcept {
  return ++g_calls_of_window >= kCallsOfWindow;
}

double weigh_hook() noexcept {
  const double lost = kLossOfCall * static_cast<double>(g_calls_of_window) - g_gained_in_window;
  g_calls_of_window = 0;
  g_gained_in_window = 0;
  if (g_hook_share == 0) return 0;
  const double time = process_seconds();
  if (g_weighed_first < 0) g_weighed_first = time;
  g_lost_so_far = std::max(g_lost_so_far + lost, -kKeptGain);
  const double share = 0.01 * static_cast<double>(g_hook_share);
  const double over = g_lost_so_far - kLossAtFirst - share * (time - g_weighed_first);
  return over > 0 && lost > 0 ? std::min(over / share, kLongestRest) : 0;
}

}  // namespace pijit
