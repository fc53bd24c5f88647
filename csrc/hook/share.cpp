// Adds up what recordings take, and compares it with the time of the process.
#include "hook/share.h"

#include <algorithm>

#include "common/clock.h"
#include "hook/allowance.h"
#include "hook/worth.h"

namespace pijit {
namespace {

constexpr double kFirst = 0.04;   // seconds that recordings may take beside the share
constexpr double kMostShare = 3;  // times the share
constexpr double kOfGain = 0.5;   // of what replays gained
constexpr double kPause = 0.005;  // seconds between two times that the process's time is asked for, which takes long

double g_recorded = 0;
double g_began = -1;   // of the process's time: when the first recording was asked for; negative: none was
double g_refused = 0;  // of the clock: when one was refused last

}  // namespace

uint64_t& record_share() noexcept {
  static uint64_t value = 3;
  return value;
}

void note_recorded(double seconds) noexcept {
  g_recorded += seconds;
}

bool has_time_to_record(double seconds) noexcept {
  if (record_share() == 0) return true;
  const double asked = now();
  if (g_refused > 0 && asked - g_refused < kPause) return false;
  const double time = process_seconds();
  if (g_began < 0) g_began = time;
  const double share = 0.01 * static_cast<double>(record_share());
  const double earned = std::clamp(kOfGain * all_gains(), 0.0, kMostShare * share * (time - g_began));
  const bool has_time = g_recorded + seconds <= kFirst + allowance(share, time - g_began) + earned;
  g_refused = has_time ? 0 : asked;
  return has_time;
}

}  // namespace pijit
