// Counts turns, asks for frames, and compares.
#include "hook/in_loop.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cache/code_state.h"
#include "cpython/bytecode.h"
#include "hook/aftermath.h"
#include "hook/automatic.h"
#include "hook/entries.h"
#include "hook/evaluate.h"
#include "hook/log.h"
#include "hook/payoff.h"
#include "hook/running.h"
#include "hook/serve.h"
#include "hook/share.h"
#include "hook/worth.h"
#include "record/limits.h"
#include "record/pace.h"
#include "record/reasons.h"

namespace pijit {
namespace {

constexpr uint64_t kNever = UINT64_MAX;

// What disturbs a block of turns.
uint64_t recordings() noexcept {
  return stats().records + stats().aborts + first_replays;
}

bool is_left_alone(cpython::Frame* frame, int head) noexcept {
  const CodeState* state = code_state(cpython::code(frame), false);
  PyObject* function = cpython::function(frame);
  return state != nullptr && std::any_of(state->entries.begin(), state->entries.end(), [&](const EntryPoint& each) {
           return each.index == head && each.function == function && each.root != nullptr &&
                  each.root->standing.is_disabled();
         });
}

bool handles_nothing(PyThreadState* ts) noexcept {
  PyObject* exception = cpython::topmost_exception(ts);
  return exception == nullptr || exception == Py_None;
}

// By slot: it holds the same in each turn of all loops around the call.
std::vector<bool> kept_slots(cpython::Frame* frame, cpython::Loop outermost) {
  PyCodeObject* code = cpython::code(frame);
  std::vector<bool> same;
  for (int i = 0; i < cpython::local_count(frame); ++i) {
    PyObject* object = cpython::slot(frame, i);
    same.push_back(object != nullptr && !PyCell_Check(object));
  }
  for (int slot : cpython::assigned_locals(code, outermost.head, outermost.last))
    same[static_cast<size_t>(slot)] = false;
  return same;
}

}  // namespace

bool& enters_loops() noexcept {
  static bool value = false;
  return value;
}

bool& enters_steps() noexcept {
  static bool value = true;
  return value;
}

bool InLoop::may_be_of(cpython::Frame* frame) noexcept {
  return (enters_loops() || enters_steps()) && loops() != Loops::kUnrolled &&
         (cpython::is_function_body(cpython::code(frame)) || cpython::is_module_body(frame)) &&
         may_come_back(frame) != nullptr;
}

// A turn has passed. A call that comes again and again before the one by which turns were counted is in a loop further
// inside, or in a later one. C code that is called once may call twice.
bool InLoop::counts(int site) noexcept {
  if (site == site_) {
    other_ = -1;
    turns_ += 1;
    return true;
  }
  if (site_ >= 0) {
    if (site != other_ && (other_ < 0 || ++absent_ > kAbsent)) {
      other_ = site;
      others_ = absent_ = 0;
    }
    if (site != other_) return false;
    absent_ = 0;
    if (++others_ < kOthers) return false;
  }
  site_ = site;
  other_ = -1;
  turns_ = 0;
  from_ = kSettle;
  plain_ = TurnTimes();
  return false;
}

// The same of the call that computes gradients. Where it comes no more, the frame is in another loop.
bool InLoop::counts_step(int site) noexcept {
  if (site != site_) {
    if (++absent_ > kOtherCalls) {
      is_step_ = false;
      absent_ = 0;
      give_up_trial();
    }
    return false;
  }
  absent_ = others_ = 0;
  turns_ += 1;
  if (keeps_role_ && ++trial_ >= kTrial) give_up_trial();
  return true;
}

void InLoop::note_engine(cpython::Frame* frame) noexcept {
  const int site = cpython::instruction_index(frame);
  if (!enters_steps() || (is_step_ && (site == site_ || ++others_ < kOthers))) return;  // a turn may have several
  is_step_ = true;
  absent_ = others_ = 0;
  if (std::exchange(site_, site) == site && from_ == kNever) return;
  turns_ = 0;
  from_ = kSettleStep;
  plain_ = TurnTimes();
  keeps_role_ = gives_up() && trial_ < kTrial;
}

void InLoop::give_up_trial() noexcept {
  keeps_role_ = false;
  plain_ = TurnTimes();
}

void InLoop::note_call(PyThreadState* ts, cpython::Frame* frame) noexcept {
  if (!is_step_ && !enters_loops()) return;
  const int site = cpython::instruction_index(frame);
  if (back_ != nullptr) {
    if (site != site_ || ++missed_ < 2) return;
    back_ = nullptr;  // it should have come back by now: a tracer came in between
    missed_ = 0;
  }
  if (!(is_step_ ? counts_step(site) : counts(site)) || turns_ < from_) return;
  const bool is_decided = entry_ != nullptr && entry_->entry.rounds.verdict() != TurnRounds::Verdict::kNone;
  if (!is_decided && gives_up()) {
    if (!plain_.note(1, recordings(), block())) return;
    compares_ = true;
  }
  try {
    ask(ts, frame);
  } catch (const std::exception&) {  // memory is short
  }
  if (back_ == nullptr) plain_ = TurnTimes();
}

bool InLoop::wants(cpython::Frame* frame, int head) noexcept {
  if (is_left_alone(frame, head)) return false;
  const bool is_compared = compares_ && plain_.mean() > kLongTurn;
  const CodeState* state = code_state(cpython::code(frame), false);
  return !is_compared && stance() == Stance::kOn && (is_step_ || (state != nullptr && state->has_operators));
}

void InLoop::ask(PyThreadState* ts, cpython::Frame* frame) {
  const std::vector<cpython::Loop> around = cpython::loops_around(cpython::code(frame), site_);
  if (around.empty() || !wants(frame, around.back().head)) {
    from_ = kNever;
    give_up_trial();
    return;
  }
  const bool few = entry_ != nullptr && entry_->counts.replays - replays_ < kFewReplays;
  pause_ = few ? std::min(2 * pause_, kRarest) : kSoon;
  from_ = turns_ + pause_;
  const double next = entry_ != nullptr ? entry_->recordings.last_cost : 0;
  const bool has_traces = entry_ != nullptr && !entry_->traces.empty();
  if (!has_traces && record_budget() != 0 && !has_time_to_record(next)) return;
  if (cpython::is_held(frame) || !handles_nothing(ts)) return;
  if (root_ == nullptr) root_ = root_of_running(frame);
  if (root_ == nullptr) return;
  back_ = std::make_unique<cpython::HandBack>(frame);
  back_->same = kept_slots(frame, around.front());
  if (std::exchange(head_, around.back().head) != around.back().head) entry_ = nullptr;
  replays_ = entry_ != nullptr ? entry_->counts.replays : 0;
  if (!back_->ask_at(ts, head_)) back_ = nullptr;
}

bool InLoop::note_arrival(Root& entry, uint32_t turns) {
  if (entry.entry.at != head_) return false;
  if (entry_.get() != &entry) entry_ = find_root(entry.id);
  TurnRounds& rounds = entry.entry.rounds;
  if (rounds.verdict() != TurnRounds::Verdict::kLoses) note_gained(turns * rounds.gain());
  if (!gives_up()) return rounds.begin(0), false;
  if (std::exchange(compares_, false)) {
    rounds.begin(plain_.mean());
    plain_ = TurnTimes();
  }
  switch (rounds.note(turns, recordings(), block())) {
    case TurnRounds::Verdict::kPays:
      keeps_role_ = false;
      break;
    case TurnRounds::Verdict::kLoses: {
      char text[80];
      std::snprintf(text, sizeof text, "a turn takes %.2f times as long as in CPython", rounds.ratio());
      log_line(Channel::kRecord, "record " + entry.written.name + ": given up, " + text);
      leave_alone(entry, kDoesNotPay, text);
      give_up_trial();
      return true;
    }
    case TurnRounds::Verdict::kNone:
      if (!keeps_role_ || !rounds.any()) break;
      give_up_trial();
      rounds.restart();
  }
  if (!rounds.wants_plain()) return false;
  from_ = turns_;
  return true;
}

void InLoop::interrupt() noexcept {
  if (entry_ != nullptr) entry_->entry.rounds.interrupt();
}

PyObject* run_to_loop(PyThreadState* ts, cpython::Frame* frame, int throwflag, bool began) {
  const auto run = [&] { return began ? cpython::eval_default(ts, frame, 0) : plain(ts, frame, throwflag); };
  Running* const running = Running::of(frame);
  if (running == nullptr) return run();
  if (began && running->loops() != nullptr) running->loops()->interrupt();
  running->set_in_cpython(true);
  PyObject* result = run();
  running->set_in_cpython(false);
  InLoop* const loop = running->loops();
  if (loop == nullptr) return result;
  const std::unique_ptr<cpython::HandBack> back = loop->take_back();
  if (back == nullptr || !back->is_done()) return result;
  drop_reference(result);
  const Serves serves(loop->root());
  return go_on_in_loop(ts, back.get());
}

}  // namespace pijit
