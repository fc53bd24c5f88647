// Which calls count, and how one runs in CPython as it would without pijit.
#include "hook/savings.h"

#include "common/call_clock.h"
#include "hook/automatic.h"
#include "hook/evaluate.h"
#include "hook/hook.h"
#include "hook/share.h"

namespace pijit {
namespace {

bool g_measures = false;
thread_local bool t_within = false;   // a call that counts
thread_local bool t_in_left = false;  // one that is left to CPython
thread_local double t_recording = 0;  // seconds, as note_recording_cost says
thread_local double t_served = 0;     // seconds of calls that counted

}  // namespace

void measure_savings() noexcept {
  g_measures = calls_by_thread = true;
}

bool measures_savings() noexcept {
  return g_measures;
}

void note_recording_cost(double seconds) noexcept {
  t_recording += seconds;
  note_recorded(seconds);
}

Served::Served(Root& root) noexcept : root_(root), counts_(g_measures && !t_within) {
  if (!counts_) return;
  const Spent& known = root.savings.replayed;
  const bool is_sampled = known.times >= kAllTimed && known.each() <= kLong;
  is_timed_ = !is_sampled || root.counts.calls % kSome == 0;
  weight_ = is_sampled ? kSome : 1;
  recording_ = t_recording;
  if (is_timed_) start_ = computed();
}

void Served::ends_recorded() const noexcept {
  if (!counts_) return;
  root_.savings.recording += t_recording - recording_;
  t_served += is_timed_ ? computed() - start_ : t_recording - recording_;
}

void Served::ends_replayed() const noexcept {
  if (!counts_) return;
  const double recording = t_recording - recording_;
  root_.savings.recording += recording;
  if (!is_timed_) {
    t_served += root_.savings.replayed.each() + recording;
    return;
  }
  const double taken = computed() - start_;
  root_.savings.replayed.seconds += static_cast<double>(weight_) * (taken - recording);
  root_.savings.replayed.times += weight_;
  t_served += taken;
}

WithinServed::WithinServed() noexcept : outer_(g_measures && t_within) {
  if (g_measures) t_within = true;
}

WithinServed::~WithinServed() {
  if (g_measures) t_within = outer_;
}

bool is_within_served() noexcept {
  return t_within;
}

LeftAlone::LeftAlone(Root& root) noexcept
    : root_(root), counts_(g_measures && !t_within && !t_in_left), outer_(t_in_left) {
  if (!counts_) return;
  t_in_left = true;
  const uint64_t times = root.savings.left.times++;
  timed_ = times < kAllTimed || times % kSome == 0;
  weight_ = times < kAllTimed ? 1 : kSome;
  if (!timed_) return;
  counted_ = t_served;
  start_ = computed();
}

LeftAlone::~LeftAlone() {
  if (!counts_) return;
  t_in_left = outer_;
  if (timed_) root_.savings.left.seconds += weight_ * (computed() - start_ - (t_served - counted_));
}

PyObject* run_compared(Root& root, PyThreadState* ts, cpython::Frame* frame) {
  const Watch watch(frame, nullptr, true);
  if (!g_measures) return plain(ts, frame, 0);
  const bool counts = root.ledger.is_settled();
  Spent& spent = root.ledger.in_first_round() ? root.savings.compared_early : root.savings.compared;
  const bool alone = evaluator_before() == nullptr && hook_installed();
  const double start = computed();
  PyObject* result = alone ? evaluate_without_pijit(ts, frame) : plain(ts, frame, 0);
  if (counts) add_since(&spent, start);
  return result;
}

}  // namespace pijit
