// Calls are counted by what became of them, and the user is told where that is worth it.
#include "hook/aftermath.h"

#include <bit>
#include <string>
#include <utility>

#include "cache/code_state.h"
#include "exec/registers.h"
#include "guard/check.h"
#include "hook/events.h"
#include "hook/keep.h"
#include "hook/log.h"
#include "hook/payoff.h"
#include "hook/savings.h"
#include "hook/stress.h"
#include "hook/tell.h"
#include "hook/words.h"
#include "hook/worth.h"
#include "ir/print.h"

namespace pijit {
namespace {

void note_replayed(const Root& root) noexcept {
  CodeState* state = code_state(root.owner.code, true);
  if (state == nullptr) return;
  stats().replayed_codes += !std::exchange(state->replayed, true);
}

// A replay was left before the end of its trace.
void note_exit(Root& root, const Left& left) {
  const Trace& trace = *left.trace;
  root.counts.exits += 1;
  stats().exits += !root.is_entry();
  leaving_at(trace, left.node).all += 1;
  if (logs(Channel::kExits)) {
    const Node& node = trace.nodes[left.node];
    const Printer printer(trace, false);
    log_line(Channel::kExits, "exit " + root.written.name + ": a replay went on in CPython at " + printer.node(node) +
                                  ", " + printer.site(node.site) + (left.why.empty() ? "" : ": " + left.why));
  }
  if (root.is_entry() || left.native || trace.exits % limits().exits != 0 || 2 * trace.exits < trace.replays) return;
  StopInfo cause;
  cause.code = kKeepsLeaving.code;
  cause.reason = kKeepsLeaving.text;
  tell(Told::kLeaving, root, cause, trace.left.each());
}

}  // namespace

void leave_alone(Root& root, const Reason& reason, const std::string& why, StopInfo cause) {
  if (stress_words() != 0) return;
  root.standing.disabled = why.empty() ? reason.text : std::string(reason.text) + ": " + why;
  const char* because = cause.code;
  cause.code = reason.code;
  cause.reason = root.standing.disabled;
  root.standing.given_up = root.written.placed(cause);
  root.standing.farewell = Farewell{std::move(cause), because};
  root.savings.plain = Spent();
  note_event(root, &reason == &kPassesOn ? Happened::kPassedOn : Happened::kLeft);
  roots_changed();
}

void say_farewell(Root& root) {
  const auto farewell = std::exchange(root.standing.farewell, std::nullopt);
  if (farewell) tell(Told::kLeft, root, farewell->cause, root.savings.plain.each(), farewell->because);
}

void note_abort(Root& root, StopInfo stop) {
  root.counts.aborts += 1;
  stats().aborts += 1;
  root.last.stop = root.written.placed(std::move(stop));
  log_line(Channel::kRecord, "record " + root.written.name + ": nothing was kept" + stop_text(root.last.stop));
  root.in_a_row.aborts += 1;
  if (root.in_a_row.aborts >= (root.traces.empty() ? limits().aborted : limits().aborted_again))
    leave_alone(root, kNothingRecorded, root.last.stop.reason, root.last.stop);
}

void note_failure(Root& root, const char* what) {
  StopInfo stop;
  stop.code = kAborts[static_cast<size_t>(Abort::kFailed)].code;
  stop.reason = kAborts[static_cast<size_t>(Abort::kFailed)].text;
  stop.reason.append(": ").append(what);
  note_abort(root, std::move(stop));
}

void note_replay(Root& root, const Trace& trace, const Left& left) {
  root.counts.replays += 1;
  if (root.counts.replays == 1) {
    note_replayed(root);
    note_event(root, Happened::kReplayed);
  }
  if (root.asked.automatic && root.counts.replays == limits().worth * root.counts.records &&
      root.recordings.are_paid(root.counts.replays))
    if (CodeState* state = code_state(root.owner.code, false)) state->wasted = 0;
  root.counts.stopped += left.stopped;
  const uint32_t opaque = left.opaque_calls - left.replaced_calls;
  root.counts.opaque_calls += opaque;
  if (!is_within_served()) root.savings.after += left.seconds;
  stats().replays += !root.is_entry();  // calls are counted
  stats().opaque_calls += opaque;
  root.in_a_row.misses = root.in_a_row.aborts = 0;
  const bool gone_on = left.trace != nullptr && left.native;
  const uint32_t node = left.trace != nullptr ? left.node : 0;
  root.in_a_row.gone_on = !gone_on ? 0 : node == root.in_a_row.node ? root.in_a_row.gone_on + 1 : 1;
  root.in_a_row.node = node;
  if (left.trace == nullptr || left.native) {
    root.in_a_row.left = 0;
    root.counts.ended += 1;
  } else {
    root.in_a_row.left += !left.interrupted;
  }
  if (root.entry.is_loop && !root.entry.rounds.began())
    note_worth(root, trace, left.trace == nullptr ? trace.nodes.size() : left.node);
  note_gain(root, left.trace == nullptr);
  if (left.trace != nullptr) {
    note_exit(root, left);
    return go_on_from(root, left);
  }
  root.recordings.owed = 0;
  if (!root.is_entry() && !left.interrupted && trace.stop.code != nullptr &&
      trace.replays - trace.exits == limits().stops) {
    tell(Told::kStopped, root, trace.stop, trace.left.each());
  }
}

void note_miss(Root& root, cpython::Frame* frame, bool is_used) {
  root.counts.misses += 1;
  stats().guard_failures += 1;
  root.in_a_row.misses += 1;
  if (!is_used && !logs(Channel::kGuards) && !std::has_single_bit(root.counts.misses)) return;
  const std::shared_ptr<Trace> trace = root.traces.back();  // stays alive while it is described
  RegisterFile registers(trace->regs.size());
  if (registers.get() == nullptr) return;
  load_inputs(*trace, frame, registers.get());
  root.last.miss = explain_miss(*trace, root.owner.object(), registers.get());
  log_line(Channel::kGuards, "miss " + root.written.name + ": " + root.last.miss);
}

}  // namespace pijit
