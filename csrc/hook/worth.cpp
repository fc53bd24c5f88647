// Counts calls and adds up gains.
#include "hook/worth.h"

#include <algorithm>
#include <utility>

#include "cache/root.h"
#include "common/clock.h"
#include "hook/allowance.h"

namespace pijit {
namespace {

// Seconds that a call takes more, where programs call many functions. For f(x) in a loop it is less than half of that,
// since all that the hook reads is in the cache.
constexpr double kLossOfCall = 60e-9;
constexpr double kLossAtFirst = 0.05;  // seconds that may be lost beside the share
constexpr double kKeptGain = 1;        // seconds of gains that later losses may use up
constexpr double kLongestRest = 10;    // seconds of one rest

uint64_t g_hook_share = 3;
double g_gained_in_window = 0;  // in this window
double g_gained = 0;            // before it
double g_rest = 0;              // seconds of the last rest; 0: a window has gained since
double g_owed = 0;              // lost beyond what was gained and what the share made up for
double g_since = -1;            // of the process's time: when the first window was over; negative: none was
double g_weighed = 0;           // seconds from then to the end of the last one

}  // namespace

uint64_t& hook_share() noexcept {
  return g_hook_share;
}

void note_gain(const Root& root, bool ended) noexcept {
  double ratio = ended ? root.ledger.replay_ratio() : root.ledger.ratio();
  if (ratio == 0) ratio = ended ? kHopedRatio : 1;
  note_gained(root.plain_call() * (1 - ratio));
}

void note_gained(double seconds) noexcept {
  g_gained_in_window += seconds;
}

double all_gains() noexcept {
  return g_gained + g_gained_in_window;
}

double weigh_hook() noexcept {
  const double lost = kLossOfCall * static_cast<double>(calls_of_window) - g_gained_in_window;
  calls_of_window = 0;
  g_gained += std::exchange(g_gained_in_window, 0);
  if (g_hook_share == 0) return 0;
  const double time = process_seconds();
  if (g_since < 0) g_since = time;
  const double share = 0.01 * static_cast<double>(g_hook_share), since = time - g_since;
  const double allowed = allowance(share, since) - allowance(share, std::exchange(g_weighed, since));
  g_owed = std::max(g_owed - std::clamp(g_owed, 0.0, allowed) + lost, -kKeptGain);
  const double over = g_owed - kLossAtFirst;
  if (lost <= 0) g_rest = 0;
  if (over <= 0 || lost <= 0) return 0;
  return g_rest = std::min(std::max(seconds_for(over, share, since), 2 * g_rest), kLongestRest);
}

}  // namespace pijit
