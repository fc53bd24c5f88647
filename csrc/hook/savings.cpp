// Which calls count, and how one runs in CPython as it would without pijit.
#include "hook/savings.h"

#include "hook/automatic.h"
#include "hook/evaluate.h"
#include "hook/hook.h"

namespace pijit {
namespace {

bool g_measures = false;
thread_local bool t_within = false;

}  // namespace

void measure_savings() noexcept {
  g_measures = true;
}

bool measures_savings() noexcept {
  return g_measures;
}

Served::Served(Root& root) noexcept : root_(root), start_(g_measures && !t_within ? now() : 0) {}

void Served::ends_recorded() const noexcept {
  if (start_ != 0) root_.served.since(start_);
}

void Served::ends_replayed() const noexcept {
  if (start_ == 0) return;
  root_.replayed.seconds += root_.served.since(start_);
  root_.replayed.times += 1;
}

WithinServed::WithinServed() noexcept : outer_(g_measures && t_within) {
  if (g_measures) t_within = true;
}

WithinServed::~WithinServed() {
  if (g_measures) t_within = outer_;
}

PyObject* run_compared(Root& root, PyThreadState* ts, cpython::Frame* frame) {
  const Watch watch(frame, nullptr, true);
  if (!g_measures) return plain(ts, frame, 0);
  const bool counts = root.ledger.is_settled();
  Spent& spent = root.ledger.in_first_round() ? root.compared_early : root.compared;
  const bool alone = evaluator_before() == nullptr && hook_installed();
  const double start = now();
  PyObject* result = alone ? evaluate_without_pijit(ts, frame) : plain(ts, frame, 0);
  if (counts) spent.since(start);
  return result;
}

}  // namespace pijit
