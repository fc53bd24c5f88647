// New traces are installed, those that are of no use are forgotten, and side traces are asked for.
#include "hook/keep.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/code_state.h"
#include "cache/memory.h"
#include "cpython/bytecode.h"
#include "exec/links.h"
#include "exec/registers.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "hook/aftermath.h"
#include "hook/log.h"
#include "hook/payoff.h"
#include "hook/words.h"
#include "ir/checked.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "record/captures.h"

namespace pijit {
namespace {

void note_recorded(const Trace& trace) noexcept {
  CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(trace.code.get()), true);
  if (state == nullptr || state->recorded) return;
  state->recorded = true;
  stats().codes += 1;
}

void add_trace(Root& root, std::shared_ptr<Trace> trace) {
  if (exceeds_memory(*trace)) prepare(root, *trace);  // it takes less then
  if (exceeds_memory(*trace)) {
    root.traces.clear();
    return leave_alone(root, kTooLarge, std::to_string(bytes_of(*trace)) + " bytes");
  }
  root.traces.add(trace);
  const size_t gone = make_room(root, *trace);
  if (gone > 0) log_line(Channel::kRecord, "memory: the traces of " + std::to_string(gone) + " functions made room");
}

// A recording that was made because a trace kept being left is of use where it goes on from there.
void install_side_trace(Root& root, const Wanted& wanted, std::shared_ptr<Trace> trace) {
  const Joined joined = link_traces(*wanted.from, wanted.node, trace);
  constexpr const char* kOutcomes[] = {"is entered there", "took the same way", "differs before that"};
  log_line(Channel::kRecord, "side trace of " + root.written.name + " at node " + std::to_string(wanted.node) + ": " +
                                 kOutcomes[static_cast<size_t>(joined)]);
  if (joined == Joined::kOthers) leaving_at(*wanted.from, wanted.node).tries = limits().tries;
  if (joined != Joined::kLinked) return;
  add_trace(root, std::move(trace));
  root.traces.share_room();
}

// How many pieces a recording left to CPython; SIZE_MAX: all of it.
size_t left_over(const Trace* trace) noexcept {
  return trace == nullptr ? SIZE_MAX : trace->detours.size() + (trace->stop.code != nullptr);
}

// Numbers are better left to be constants: with them open, this recording came to less than one before that was of use.
// In a loop a trace with constants serves one turn.
bool refuse_numbers(Root& root, const Trace* trace) {
  if (root.entry.is_loop || !root.varying.has_missed() || left_over(trace) == 0) return false;
  const bool worse = std::any_of(root.traces.begin(), root.traces.end(), [&](const auto& other) {
    return other->replays > 0 && left_over(other.get()) < left_over(trace);
  });
  if (!worse) return false;
  root.varying.refuse_missed();
  for (const auto& other : root.traces) other->gives_way = false;
  log_line(Channel::kRecord, "record " + root.written.name + ": numbers that differ are constants again");
  return true;
}

bool is_behind_foreign_code(const Trace& trace, uint32_t node) {
  for (uint32_t i = 0; i <= node; ++i)
    if (is_opaque(trace.nodes[i].op)) return true;
  return false;
}

// Replays that came to the end of the trace.
int64_t ended(const Trace& trace) noexcept {
  return static_cast<int64_t>(trace.replays - trace.exits - trace.interruptions);
}

// It asks what state a tensor is in, not of which form it is: has it a gradient yet?
bool asks_for_state(const Node& node) noexcept {
  return node.op == Op::kCheck && !node.adapter_op->is_of_form();
}

// A replay was left there since another number is needed at each time: after a few times the traces that need one are
// forgotten, as a trace for each number is too much. True: they are.
bool forget_numbers(Root& root, const Trace& trace, const Node& node) {
  const Site site = trace.sites[node.site];
  if (!root.varying.miss_at(site.code, site.instruction)) return false;
  for (size_t i = root.traces.size(); i-- > 0;) {
    const Trace& other = *root.traces[i];
    const bool asks = std::any_of(other.nodes.begin(), other.nodes.end(), [&](const Node& each) {
      return each.op == node.op && other.sites[each.site].code == site.code &&
             other.sites[each.site].instruction == site.instruction;
    });
    if (asks) root.traces.forget(i);
  }
  root.in_a_row.left = root.in_a_row.gone_on = 0;
  return true;
}

// An instruction within the root needs the number: the next trace leaves that frame to CPython.
bool leaves_frame(Root& root, const Trace& trace, uint32_t at) {
  const Node& node = trace.nodes[at];
  if ((node.op != Op::kGuardInt && node.op != Op::kGuardFloat) || node.snapshot == kNone) return false;
  if (trace.frame_states[trace.snapshots[node.snapshot].frame].parent == kNone) return false;
  return forget_numbers(root, trace, node);
}

// The node gives the rows of a tensor to a loop, and there are more or fewer now: the next trace takes one after the
// other.
bool opens_loop(Root& root, const Trace& trace, uint32_t at) {
  const Node& node = trace.nodes[at];
  const Site site = trace.sites[node.site];
  if (node.op != Op::kAdapter || !cpython::instruction_at(site.code, site.instruction).is(cpython::Operation::kGetIter))
    return false;
  return forget_numbers(root, trace, node);
}

// A trace keeps being left at the node: a later call is recorded. False: no side trace can be had there, such as behind
// an operator that fails, or the trace is of a state that does not come back.
bool want_side_trace(Root& root, std::shared_ptr<Trace> trace, uint32_t node) {
  if (trace->nodes[node].op == Op::kAdapter) return false;
  if (asks_for_state(trace->nodes[node]) && ended(*trace) == 0 && trace->exits >= limits().useless) return false;
  Leaving& leaving = leaving_at(*trace, node);
  leaving.times += 1;
  if (leaving.tries >= limits().tries || !may_grow(root)) return false;
  if (is_behind_foreign_code(*trace, node)) return false;
  if (leaving.times < limits().hot) return true;
  leaving.times = 0;
  if (leaves_frame(root, *trace, node)) return true;
  leaving.tries += 1;
  root.traces.wanted = {trace, node, leaving.tries - 1};
  return true;
}

// All replays are left now, or all are left at one place.
bool has_turned(const Root& root) noexcept {
  return root.in_a_row.left >= limits().turned || root.in_a_row.gone_on >= limits().turned;
}

// A trace that no replay has come to the end of was recorded under circumstances that do not come back, such as the
// first step of a training, or a first call that raised: the next call is recorded in its place, a few times at most.
// So is one whose replays came to the end before: what it relies on behind an opaque call may have changed for good,
// such as a module that an import has filled, and its first guards, which let the calls in, know nothing of that. And
// so is one that all replays leave now, where no side trace could be had: a branch may have turned for good. That other
// traces go on there each time is dearer than a trace that goes through.
void forget_useless(Root& root, size_t index, uint32_t node) {
  const Trace& trace = *root.traces[index];
  const Op left_at = trace.nodes[node].op;
  // Tensors of another shape: this one may come back, and a side trace serves the other.
  if (left_at == Op::kAdapter) return;
  const bool turned = has_turned(root);
  if (!turned && left_at == Op::kCheck && !asks_for_state(trace.nodes[node]) && !is_behind_foreign_code(trace, node))
    return;
  const bool raised = left_at == Op::kOpaqueRaise || left_at == Op::kRunRaise;
  const bool useless = ended(trace) == 0 && trace.exits >= (raised ? 1 : limits().useless);
  const bool stale = left_at == Op::kEpoch && root.in_a_row.left >= limits().stale;
  const bool counts = ended(trace) < limits().served;
  if ((!useless && !stale && !turned) || (counts && root.counts.forgotten >= limits().forgotten)) return;
  if (records_too_often(root)) return;
  root.counts.forgotten += counts;
  root.in_a_row.left = root.in_a_row.gone_on = 0;
  root.traces.forget(index);
}

}  // namespace

void check_trace(const Trace& trace) {
  if (!kChecked || is_only_read()) return;  // such a one has snapshots that nothing can rebuild
  const std::string wrong = verify_trace(trace);
  if (!wrong.empty()) Py_FatalError((wrong + "\n" + Printer(trace, false).all()).c_str());
}

void finish(Trace& trace) {
  finish_trace(trace);
  check_trace(trace);
  note_recorded(trace);
}

void prepare(const Root& root, Trace& trace) {
  if (trace.prepared) return;
  prepare_replays(trace);
  check_trace(trace);
  find_segments(trace, static_cast<bool>(root.asked.market));
}

void install_trace(Root& root, std::unique_ptr<Trace> trace, const Recorder& recorder, const Wanted& wanted) {
  root.counts.records += 1;
  stats().records += 1;
  if (wanted.from == nullptr && refuse_numbers(root, trace.get())) return;
  if (trace == nullptr) return note_abort(root, recorder.stop_info_or_none());
  root.last.stop = trace->stop = root.written.placed(std::move(trace->stop));
  root.in_a_row.aborts = 0;
  finish(*trace);
  log_line(Channel::kRecord, "record " + root.written.name + ": " + std::to_string(trace->operations) +
                                 " operations, " + std::to_string(trace->guards.size()) + " guards, " +
                                 std::to_string(trace->nodes.size()) + " nodes" + stop_text(trace->stop));
  if (wanted.from != nullptr) {
    prepare(root, *trace);
    return install_side_trace(root, wanted, std::move(trace));
  }
  root.traces.drop_given_way();
  if (make_place(root)) log_line(Channel::kRecord, "record " + root.written.name + ": the least useful trace gave way");
  add_trace(root, std::move(trace));
  root.traces.unprepared = true;
}

void install_kept(Root& root, std::unique_ptr<Trace> trace) {
  trace->stop = root.written.placed(std::move(trace->stop));
  finish(*trace);
  prepare(root, *trace);
  add_trace(root, std::move(trace));
}

void learn_numbers(Root& root, cpython::Frame* frame) {
  root.varying.begin_call();
  for (const auto& trace : root.traces) {
    RegisterFile registers(trace->regs.size());
    if (registers.get() == nullptr) return;
    load_inputs(*trace, frame, registers.get());
    if (learn_from_guards(*trace, 0, trace->entry_guards(), registers.get(), &root.varying)) trace->gives_way = true;
  }
}

Leaving& leaving_at(const Trace& trace, uint32_t node) {
  for (Leaving& leaving : trace.leavings)
    if (leaving.node == node) return leaving;
  trace.leavings.push_back({node});
  return trace.leavings.back();
}

void go_on_from(Root& root, const Left& left) {
  for (size_t i = 0; i < root.traces.size(); ++i)
    if (root.traces[i].get() == left.trace) {
      if (left.learned) return records_too_often(root) ? void() : root.traces.forget(i);
      if (opens_loop(root, *root.traces[i], left.node)) return;
      if (root.is_entry()) return;  // another of its traces goes on, or another entry
      if (!want_side_trace(root, root.traces[i], left.node) || has_turned(root)) forget_useless(root, i, left.node);
      return;
    }
}

}  // namespace pijit
