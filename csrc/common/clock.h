// Time, in seconds: of the wall, the thread and the process.
#pragma once
#include <ctime>

#include <chrono>
#include <cstdint>

namespace pijit {

inline double now() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that this thread has computed: other processes, and waiting, do not count.
inline double computed() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds that all threads of the process have computed. To ask takes about a microsecond.
inline double process_seconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What something took that was done a number of times.
struct Spent {
  double seconds = 0;
  uint64_t times = 0;
  double each() const noexcept { return times == 0 ? 0 : seconds / static_cast<double>(times); }
};

}  // namespace pijit
