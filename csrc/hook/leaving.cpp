// Side traces that are wanted, and traces that are of no use any more.
#include "hook/leaving.h"

#include <string>

#include "hook/log.h"
#include "hook/payoff.h"
#include "hook/tell.h"
#include "ir/print.h"
#include "record/reasons.h"

namespace pijit {
namespace {

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

bool is_behind_foreign_code(const Trace& trace, uint32_t node) {
  for (uint32_t i = 0; i <= node; ++i)
    if (is_opaque(trace.nodes[i].op)) return true;
  return false;
}

// Where a trace keeps being left, a later call is recorded. False: no side trace can be had there, such as behind an
// operator that fails.
bool want_side_trace(Root& root, const std::shared_ptr<Trace>& trace, uint32_t node) {
  if (trace->nodes[node].op == Op::kAdapter) return false;
  Leaving& leaving = leaving_at(*trace, node);
  leaving.times += 1;
  if (leaving.tries >= limits().tries || root.traces.size() >= static_cast<size_t>(limits().traces)) return false;
  if (is_behind_foreign_code(*trace, node)) return false;
  if (leaving.times < limits().hot) return true;
  leaving.times = 0;
  leaving.tries += 1;
  root.wanted = {trace, node, leaving.tries - 1};
  return true;
}

void forget(Root& root, size_t index) {
  root.traces[index]->forgotten = true;
  if (root.wanted.from == root.traces[index]) root.wanted = Wanted();
  root.traces.erase(root.traces.begin() + static_cast<ptrdiff_t>(index));
}

// A trace that no replay has come to the end of was recorded under circumstances that do not come back, such as the
// first step of a training, or a first call that raised: the next call is recorded in its place, a few times at most.
// So is one whose replays came to the end before: what it relies on behind an opaque call may have changed for good,
// such as a module that an import has filled, and its first guards, which let the calls in, know nothing of that. And
// so is one that all replays leave now, where no side trace could be had: a branch may have turned for good.
void forget_useless(Root& root, size_t index, uint32_t node) {
  const Trace& trace = *root.traces[index];
  const Op left_at = trace.nodes[node].op;
  // Tensors of another shape: this one may come back, and a side trace serves the other.
  if (left_at == Op::kAdapter) return;
  const bool turned = root.left_in_a_row >= limits().turned;
  if (!turned && left_at == Op::kCheck && !is_behind_foreign_code(trace, node)) return;
  const bool raised = left_at == Op::kOpaqueRaise || left_at == Op::kRunRaise;
  const auto ended = static_cast<int64_t>(trace.replays - trace.exits - trace.interruptions);
  const bool useless = ended == 0 && trace.exits >= (raised ? 1 : limits().useless);
  const bool stale = left_at == Op::kEpoch && root.left_in_a_row >= limits().stale;
  const bool counts = ended < limits().served;
  if ((!useless && !stale && !turned) || (counts && root.forgotten >= limits().forgotten)) return;
  if (records_too_often(root)) return;
  root.forgotten += counts;
  root.left_in_a_row = 0;
  forget(root, index);
}

}  // namespace

Leaving& leaving_at(const Trace& trace, uint32_t node) {
  for (Leaving& leaving : trace.leavings)
    if (leaving.node == node) return leaving;
  trace.leavings.push_back({node});
  return trace.leavings.back();
}

void go_on_from(Root& root, const Left& left) {
  note_exit(root, left);
  for (size_t i = 0; i < root.traces.size(); ++i)
    if (root.traces[i].get() == left.trace) {
      if (left.learned) return records_too_often(root) ? void() : forget(root, i);
      if (root.entered_at >= 0) return;  // another of its traces goes on, or another entry
      if (!want_side_trace(root, root.traces[i], left.node) || root.left_in_a_row >= limits().turned)
        forget_useless(root, i, left.node);
      return;
    }
}

}  // namespace pijit
