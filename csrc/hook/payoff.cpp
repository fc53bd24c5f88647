// Roots are given up, and the role of root passes to the functions that a root calls.
#include "hook/payoff.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "cache/code_state.h"
#include "exec/profiled.h"
#include "hook/aftermath.h"
#include "hook/automatic.h"
#include "hook/events.h"
#include "hook/log.h"
#include "hook/savings.h"
#include "hook/serve.h"
#include "hook/share.h"
#include "hook/stress.h"
#include "hook/verify.h"
#include "hook/worth.h"
#include "plan/segment.h"

namespace pijit {
namespace {

// Where no operator of the framework runs, what a replay gains is lost where its trace is entered and left. Such
// replays of an entry, more than others, after which it is left alone.
constexpr uint32_t kIdle = 32;
// Replays for each recording; where there are fewer, the recordings are of no use.
constexpr uint64_t kFewReplays = 4;

// Replays are not asked for, whatever they take.
bool may_give_up(const Root& root) noexcept {
  return gives_up() && stance() == Stance::kOn && !root.asked.strict && root.verification.every == 0 &&
         verify_every() == 0;
}

// Where calls lose because no trace serves them to their end, functions that the root calls may do better alone. Where
// calls lose that are replayed to their end, these would be as slow: they are not looked at.
void give_up(Root& root) {
  const Ledger& ledger = root.ledger;
  char text[80];
  std::snprintf(text, sizeof text, "a call takes %.2f times as long as in CPython", ledger.ratio());
  const bool again = root.standing.gave_up;
  root.standing.closed = ledger.replay_ratio() > 1;
  root.standing.gave_up = true;
  log_line(Channel::kRecord, "record " + root.written.name + ": given up, " + text);
  leave_alone(root, kDoesNotPay, text);
  if (root.asked.automatic && !root.standing.closed) pass_through_drivers(root);
  if (again || root.asked.automatic) root.standing.farewell.reset();  // nobody asked for it by name
}

}  // namespace

void pass_on(Root& root, const std::string& why) {
  leave_alone(root, kPassesOn, why, root.last.stop);
  if (!root.standing.is_disabled()) return;
  root.standing.passes = true;
  root.traces.clear();
  pass_through_drivers(root);
  if (root.asked.automatic) root.standing.farewell.reset();
  log_line(Channel::kRecord, "record " + root.written.name + ": what it calls is recorded instead");
}

void pass_through_drivers(Root& root) {
  const CodeState* own = code_state(root.owner.code, false);
  for (const Ref& code : root.recordings.drivers) {
    CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(code.get()), true);
    if (state != nullptr && state != own) state->passes_on = true;
  }
  root.recordings.drivers.clear();
}

bool& gives_up() noexcept {
  static bool value = true;
  return value;
}

bool is_asked_for(const Root& root) noexcept {
  return !root.asked.automatic || root.asked.strict || !finds_everywhere() || stress_words() != 0 ||
         record_budget() == 0;
}

bool is_measured(const Root& root) noexcept {
  return (may_give_up(root) || measures_savings()) && root.counts.records > 0 && stress_words() == 0 &&
         root.traces.wanted.from == nullptr && !is_profiled();  // a profiler costs more than what it looks at
}

bool awaits_plans(const Root& root) noexcept {
  for (const auto& trace : root.traces) {
    if (trace->segments == nullptr) continue;
    for (const auto& segment : *trace->segments->all)
      for (const auto& keyed : segment->keys)
        if (keyed->is_undecided()) return true;
  }
  for (const auto& each : root.entries)
    if (const std::shared_ptr<Root> entry = each.lock(); entry != nullptr && awaits_plans(*entry)) return true;
  return false;
}

Ledger::Turn next_turn(Root& root) noexcept {
  if (!is_measured(root)) return Ledger::Turn::kFree;
  if (std::exchange(root.variants.grew, false)) root.ledger.restart();
  if (!is_asked_for(root)) root.ledger.begin_soon(root.recordings.plain);
  const Ledger::Turn turn = root.ledger.next();
  if (turn == Ledger::Turn::kFree) return turn;
  const bool awaited = std::exchange(root.awaits_plans, awaits_plans(root));
  if (awaited && !root.awaits_plans) root.ledger.restart();
  return awaited || root.awaits_plans ? Ledger::Turn::kFree : turn;
}

bool is_tried_again(Root& root) {
  if (!root.ledger.rested() || !may_give_up(root) || !is_measured(root)) return false;
  root.standing.disabled.clear();
  note_event(root, Happened::kTakenUp);
  roots_changed();
  return true;
}

void note_timed(Root& root, Ledger::Kind kind, double seconds, const CallForm& form) {
  const Ledger::Verdict verdict = root.ledger.end(kind, seconds, form, !is_asked_for(root));
  if (verdict == Ledger::Verdict::kLoses) note_gained(-root.ledger.lost());
  if (verdict != Ledger::Verdict::kLoses || root.standing.is_disabled() || !may_give_up(root)) return;
  SavedError error;
  give_up(root);
}

void note_worth(Root& loop, const Trace& trace, size_t nodes) {
  const auto last = trace.nodes.begin() + static_cast<ptrdiff_t>(nodes);
  if (std::any_of(trace.nodes.begin(), last, [](const Node& node) { return node.op == Op::kAdapter; })) {
    loop.entry.idle -= loop.entry.idle != 0;
  } else if (++loop.entry.idle >= kIdle && may_give_up(loop)) {
    leave_alone(loop, kDoesNotPay, "no operator runs in them");
  }
}

bool records_too_often(const Root& root) noexcept {
  // Where a root may have more traces than usual, or has more that are replayed, two recordings are for each.
  constexpr size_t kUsual = Limits().traces;
  if (limits().recorded == 0 || root.asked.strict || stress_words() != 0) return false;
  const size_t many = std::max(static_cast<size_t>(limits().traces), replayed_traces(root));
  const uint64_t more = many > kUsual ? 2 * (many - kUsual) : 0;
  const uint64_t most = is_asked_for(root) ? limits().recorded : std::min(limits().recorded, limits().recorded_unasked);
  return root.counts.records >= most + more && !root.counts.pays();
}

bool may_record(Root& root) {
  if (records_too_often(root)) {
    // What the root calls may do better. Somebody who asked for the root is told why it waits.
    if (!is_asked_for(root) && root.counts.replays < kFewReplays * root.counts.records)
      return pass_on(root, "its recordings were of no use"), false;
    if (root.recordings.waits(root.counts.calls)) return false;
  }
  if (!is_asked_for(root) && !has_time_to_record(root.recordings.last_cost)) return false;
  if (root.recordings.owed == 0 || root.asked.strict ||
      Pace::allows(root.plain_call(), root.recordings.owed, root.recordings.last_cost))
    return true;
  pass_on(root, "its recordings were of no use");
  return false;
}

void begin_recording(const Root& root) noexcept {
  recording_pace().begin(!root.asked.strict && stress_words() == 0, root.plain_call(), root.recordings.owed);
}

void note_cost(Root& root) {
  const Pace& pace = recording_pace();
  root.recordings.note(pace);
  if (logs(Channel::kRecord)) {
    char text[80];
    std::snprintf(text, sizeof text, ": took %.2f ms beside the call's %.2f ms", 1e3 * pace.taken(),
                  1e3 * pace.plain());
    log_line(Channel::kRecord, "record " + root.written.name + text);
  }
  if (pace.is_over()) pass_on(root, "");
}

}  // namespace pijit
