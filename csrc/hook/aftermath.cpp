// What calls came to is counted, and said where that is worth it.
#include "hook/aftermath.h"

#include <bit>
#include <string>
#include <utility>

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
#include "ir/print.h"

namespace pijit {
namespace {

void note_replayed(const Root& root) noexcept {
  CodeState* state = code_state(root.code, true);
  if (state == nullptr) return;
  stats().replayed_codes += !std::exchange(state->replayed, true);
}

// A replay was left before the end of its trace.
void note_exit(Root& root, const Left& left) {
  const Trace& trace = *left.trace;
  root.exits += 1;
  stats().exits += root.entered_at < 0;
  leaving_at(trace, left.node).all += 1;
  if (logs(Channel::kExits)) {
    const Node& node = trace.nodes[left.node];
    const Printer printer(trace, false);
    log_line(Channel::kExits, "exit " + root.name + ": a replay went on in CPython at " + printer.node(node) + ", " +
                                  printer.site(node.site));
  }
  if (root.entered_at >= 0 || left.native || trace.exits % limits().exits != 0 || 2 * trace.exits < trace.replays)
    return;
  StopInfo cause;
  cause.code = kKeepsLeaving.code;
  cause.reason = kKeepsLeaving.text;
  tell(Told::kLeaving, root, cause, trace.left.each());
}

}  // namespace

StopInfo placed(StopInfo stop, const Root& root) {
  if (stop.code == nullptr || !stop.file.empty()) return stop;
  stop.file = root.file;
  stop.line = root.line;
  stop.function = root.name;
  return stop;
}

void leave_alone(Root& root, const Reason& reason, const std::string& why, StopInfo cause) {
  if (stress_words() != 0) return;
  root.disabled = why.empty() ? reason.text : std::string(reason.text) + ": " + why;
  const char* because = cause.code;
  cause.code = reason.code;
  cause.reason = root.disabled;
  root.given_up = placed(cause, root);
  root.farewell = Farewell{std::move(cause), because};
  root.plain = Spent();
  note_event(root, &reason == &kPassesOn ? Happened::kPassedOn : Happened::kLeft);
  roots_changed();
}

void say_farewell(Root& root) {
  const auto farewell = std::exchange(root.farewell, std::nullopt);
  if (farewell) tell(Told::kLeft, root, farewell->cause, root.plain.each(), farewell->because);
}

void note_abort(Root& root, StopInfo stop) {
  root.aborts += 1;
  stats().aborts += 1;
  root.last_stop = placed(std::move(stop), root);
  log_line(Channel::kRecord, "record " + root.name + ": nothing was kept" + stop_text(root.last_stop));
  root.aborts_in_a_row += 1;
  if (root.aborts_in_a_row >= (root.traces.empty() ? limits().aborted : limits().aborted_again))
    leave_alone(root, kNothingRecorded, root.last_stop.reason, root.last_stop);
}

void note_failure(Root& root, const char* what) {
  StopInfo stop;
  stop.code = kAborts[static_cast<size_t>(Abort::kFailed)].code;
  stop.reason = kAborts[static_cast<size_t>(Abort::kFailed)].text;
  stop.reason.append(": ").append(what);
  note_abort(root, std::move(stop));
}

void note_replay(Root& root, const Trace& trace, const Left& left) {
  root.replays += 1;
  if (root.replays == 1) {
    note_replayed(root);
    note_event(root, Happened::kReplayed);
  }
  if (root.automatic && root.replays == limits().worth * root.records)
    if (CodeState* state = code_state(root.code, false)) state->wasted = 0;
  root.stopped += left.stopped;
  root.opaque_calls += left.opaque_calls;
  if (!is_within_served()) root.after += left.seconds;
  stats().replays += root.entered_at < 0;  // calls are counted
  stats().opaque_calls += left.opaque_calls;
  root.misses_in_a_row = root.aborts_in_a_row = 0;
  if (left.trace == nullptr || left.native) {
    root.left_in_a_row = 0;
    root.ended += 1;
  } else {
    root.left_in_a_row += !left.interrupted;
  }
  if (root.is_loop) note_worth(root, trace, left.trace == nullptr ? trace.nodes.size() : left.node);
  if (left.trace != nullptr) {
    note_exit(root, left);
    return go_on_from(root, left);
  }
  root.owed = 0;
  if (root.entered_at < 0 && !left.interrupted && trace.stop.code != nullptr &&
      trace.replays - trace.exits == limits().stops) {
    tell(Told::kStopped, root, trace.stop, trace.left.each());
  }
}

void note_miss(Root& root, cpython::Frame* frame, bool is_used) {
  root.misses += 1;
  stats().guard_failures += 1;
  root.misses_in_a_row += 1;
  if (!is_used && !logs(Channel::kGuards) && !std::has_single_bit(root.misses)) return;
  const std::shared_ptr<Trace> trace = root.traces.back();  // describing numbers lets signal handlers run: may reset
  RegisterFile registers(trace->regs.size());
  if (registers.get() == nullptr) return;
  load_inputs(*trace, frame, registers.get());
  root.last_miss = explain_miss(*trace, root.function != nullptr ? root.function : root.instance, registers.get());
  log_line(Channel::kGuards, "miss " + root.name + ": " + root.last_miss);
}

}  // namespace pijit
