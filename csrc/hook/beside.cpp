// Slices of work, and who waits for them.
#include "hook/beside.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/clock.h"
#include "cpython/frame.h"
#include "cpython/gil.h"
#include "hook/hook.h"

namespace pijit {

constinit thread_local bool t_compiles = false;

namespace {

// Seconds of work in a slice: as long as it takes to hand the GIL over and back, which is more on a loaded machine.
constexpr double kShortest = 0.002, kLongest = 0.008;
// Of the time that the program has between two slices, so much as it has waited for the first one; the second number
// is for work that is known to pay (hurry_compilers).
constexpr double kTimes = 9, kTimesInHurry = 1;
// Seconds that a call waits at most for a parked thread to begin, and for a slice that has become too long to end.
constexpr double kLatest = 0.02;
// Seconds between two looks at a slice that a call waits for, and between those of a parked thread.
constexpr double kLook = 0.001, kParkedLook = 0.005;
// Looks at whether a thread that compiles takes the GIL that it is lent, seconds between them, and seconds until it is
// lent again where none did: it waits for something else.
constexpr int kFirstLooks = 3;
constexpr double kFirstLook = 0.0001, kUnwanted = 0.02;
// Seconds without a call after which a parked thread asks for the GIL as any other thread does.
constexpr double kStale = 0.03;

struct Turns {
  std::mutex mutex;
  std::condition_variable granted;       // for the threads that are parked
  std::condition_variable over;          // for the call: a slice begins or ends
  int parked = 0;                        // threads
  bool is_granted = false;               // a slice to one of them, which has not taken it yet
  bool runs = false;                     // a slice that a call has given
  std::atomic<double> slice{kShortest};  // seconds
  std::atomic<double> last_call{0};      // when a call began
  std::atomic<double> due{0};            // when the next slice may begin
  double waited = 0;                     // seconds; guarded by the GIL
  std::atomic<double> hurry{0};          // seconds that calls still wait in a hurry
  bool is_awaited = false;               // a call waits for a slice; guarded by the GIL
  std::atomic<bool> is_lent{false};      // a thread may have the GIL for a slice, and has not seen so
};

// Never freed: threads may be parked at the end of the process. A child of a fork has another one.
Turns* g_turns = new Turns;
std::atomic<int> g_parked{0}, g_threads{0}, g_compiling{0};

thread_local int t_depth = 0;
thread_local double t_began = 0;        // the slice of this thread
thread_local bool t_was_given = false;  // by a call

std::chrono::duration<double> seconds(double count) noexcept {
  return std::chrono::duration<double>(count);
}

double times(const Turns& turns) noexcept {
  return turns.hurry > 0 ? kTimesInHurry : kTimes;
}

// The slice of this thread is over; a call may wait for that.
void end_slice(Turns& turns, double time) noexcept {
  if (t_was_given) {
    turns.runs = false;
    turns.over.notify_one();
  } else {
    turns.due = std::max(turns.due.load(), time + times(turns) * std::min(time - t_began, kLongest));
  }
  t_was_given = false;
}

// Waits for the next slice, without the GIL.
void park(PyThreadState* ts) {
  Turns& turns = *g_turns;
  std::unique_lock<std::mutex> lock(turns.mutex);
  end_slice(turns, now());
  const double since = now();
  turns.parked += 1;
  g_parked.store(turns.parked, std::memory_order_relaxed);
  for (;;) {
    if (turns.is_granted) {
      turns.is_granted = false;
      turns.runs = t_was_given = true;
      turns.over.notify_one();
      break;
    }
    if (!turns.runs && !cpython::gil_is_held(ts)) break;
    const double time = now();
    if (time > turns.due && time - std::max(turns.last_call.load(), since) > kStale) break;
    turns.granted.wait_for(lock, seconds(kParkedLook));
  }
  turns.parked -= 1;
  g_parked.store(turns.parked, std::memory_order_relaxed);
}

// Until the slice is over, or has been for `more` seconds.
void wait_while_it_runs(Turns& turns, PyThreadState* ts, std::unique_lock<std::mutex>& lock, double more) {
  const double begun = now();
  int free = 0;  // looks in a row at which nobody held the GIL: the thread waits for something else
  while (turns.runs && free < 2 && now() - begun < turns.slice + more) {
    turns.over.wait_for(lock, seconds(kLook));
    free = cpython::gil_is_held(ts) ? 0 : free + 1;
  }
  turns.runs = false;
}

// What a call does without the GIL, while a thread that compiles has it.
template <typename Wait>
void wait_without_gil(Turns& turns, PyThreadState* ts, double since, Wait wait) {
  turns.is_awaited = true;
  try {
    PyEval_SaveThread();
    wait();
    PyEval_RestoreThread(ts);
  } catch (abi::__forced_unwind&) {
    cpython::park_thread();
  }
  turns.is_awaited = false;
  note_wait(since);
}

// Lends the GIL for a slice. False: no thread has taken it.
bool lend(Turns& turns, PyThreadState* ts) {
  std::unique_lock<std::mutex> lock(turns.mutex);
  turns.runs = true;
  bool taken = false;
  for (int looks = 0; looks < kFirstLooks && !taken; ++looks) {
    turns.over.wait_for(lock, seconds(kFirstLook));
    taken = cpython::gil_is_held(ts) || !turns.is_lent;
  }
  if (taken) wait_while_it_runs(turns, ts, lock, 0);
  turns.runs = turns.is_lent = false;
  return taken;
}

// Waits for the slice that was granted. The caller has no GIL.
void wait_for_slice(Turns& turns, PyThreadState* ts) {
  std::unique_lock<std::mutex> lock(turns.mutex);
  turns.is_granted = true;
  turns.granted.notify_one();
  turns.over.wait_for(lock, seconds(kLatest), [&] { return !turns.is_granted; });
  turns.is_granted = false;
  wait_while_it_runs(turns, ts, lock, kLatest);
}

}  // namespace

void join_beside() noexcept {
  g_threads += 1;
}

void leave_beside() noexcept {
  g_threads -= 1;
}

void begin_compiling() noexcept {
  if (t_depth++ > 0) return;
  t_compiles = true;
  t_began = now();
  g_compiling += 1;
  settle_hook();
}

void end_compiling() noexcept {
  if (--t_depth > 0) return;
  t_compiles = false;
  g_compiling -= 1;
  settle_hook();
  const std::lock_guard<std::mutex> lock(g_turns->mutex);
  end_slice(*g_turns, now());
}

bool any_compiles() noexcept {
  return g_compiling.load(std::memory_order_relaxed) > 0;
}

void hurry_compilers(double seconds) noexcept {
  g_turns->hurry = seconds;
  if (seconds > 0) g_turns->due = 0;
}

double waited_for_compilers() noexcept {
  return g_turns->waited;
}

void forget_beside() noexcept {
  g_turns = new Turns;
  g_parked = g_threads = g_compiling = 0;
  t_compiles = t_was_given = false;
  t_depth = 0;
}

void end_slice_if_over() noexcept {
  if (g_turns->is_lent.load(std::memory_order_relaxed) && g_turns->is_lent.exchange(false)) {
    t_began = now();
    t_was_given = true;
    return;
  }
  if (now() - t_began < g_turns->slice) return;
  try {
    PyThreadState* ts = PyEval_SaveThread();
    park(ts);
    PyEval_RestoreThread(ts);
  } catch (abi::__forced_unwind&) {
    cpython::park_thread();
  }
  t_began = now();
}

void note_wait(double start) noexcept {
  if (!any_compiles()) return;
  const double end = now();
  g_turns->waited += end - start;
  g_turns->hurry = g_turns->hurry - (end - start);
  g_turns->due = std::max(g_turns->due.load(), end + times(*g_turns) * (end - start));
}

void give_turn(PyThreadState* ts) noexcept {
  if (g_parked.load(std::memory_order_relaxed) == 0) return;
  Turns& turns = *g_turns;
  const double time = now();
  turns.last_call = time;
  if (time < turns.due || t_compiles || turns.is_awaited) return;
  wait_without_gil(turns, ts, time, [&] { wait_for_slice(turns, ts); });
  turns.slice = std::clamp(now() - time - turns.slice, kShortest, kLongest);
}

bool lend_gil(PyThreadState* ts) noexcept {
  if (!any_compiles() || t_compiles || g_parked.load(std::memory_order_relaxed) > 0) return false;
  Turns& turns = *g_turns;
  const double time = now();
  if (time < turns.due || turns.is_awaited || has_other_threads(ts)) return false;
  bool taken = false;
  turns.is_lent = true;
  wait_without_gil(turns, ts, time, [&] { taken = lend(turns, ts); });
  if (!taken) turns.due = std::max(turns.due.load(), now() + kUnwanted);
  return true;
}

bool put_off_compilers(PyThreadState* ts) noexcept {
  return any_compiles() && now() < g_turns->due && cpython::attention_can_wait(ts) && !has_other_threads(ts) &&
         cpython::put_off_asking(ts);
}

bool has_other_threads(PyThreadState* ts) noexcept {
  int count = 0;
  for (PyThreadState* each = PyInterpreterState_ThreadHead(ts->interp); each != nullptr;
       each = PyThreadState_Next(each))
    count += each != ts;
  return count > g_threads.load(std::memory_order_relaxed);
}

}  // namespace pijit
