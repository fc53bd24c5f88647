// Works out what the replay needs to know about a finished recording: last uses of registers, what must be held, scalar
// guard items.
//
// A register lives until the last node that reads it or whose snapshot (frames, and virtual objects as of its time) may
// read it. Nodes are visited from the last to the first, so the first mention of a register is its last use. Frame
// states and virtual objects are expanded once: an earlier snapshot sees a prefix of what a later one saw, except that
// it may see the log of an object which the later one takes from a register; the kBuild node between the two has then
// expanded that log.
#include <algorithm>
#include <unordered_set>

#include "cpython/objects.h"
#include "exec/replay.h"
#include "guard/check.h"

namespace pijit {

namespace {

// Drops references that the trace does not own, so objects that nothing else proves may die.
bool may_let_die(Op op) {
  switch (op) {
    case Op::kStoreAttr:
    case Op::kDelAttr:
    case Op::kStoreItem:
    case Op::kDelItem:
    case Op::kStoreCell:
    case Op::kCall:
    case Op::kOpaque:
      return true;
    default:
      return false;
  }
}

class Liveness {
 public:
  explicit Liveness(Trace& trace)
      : trace_(trace),
        last_(trace.regs.size(), kNone),
        states_(trace.frame_states.size()),
        logs_(trace.virtuals.size()) {}

  void run();
  // The last node that may read each register; kNone: nobody.
  const std::vector<uint32_t>& last() const { return last_; }

 private:
  void use(Val value, uint32_t time);
  void use_register(uint32_t index) {
    if (last_[index] == kNone) last_[index] = node_;
  }
  void use_log(uint32_t index, uint32_t time);
  void use_entries(uint32_t index, uint32_t time);
  void use_snapshot(const Snapshot& snapshot);
  void use_guard(const Guard& guard);

  Trace& trace_;
  std::vector<uint32_t> last_;
  std::vector<bool> states_;  // expanded
  std::vector<bool> logs_;    // expanded
  uint32_t node_ = 0;
};

void Liveness::use(Val value, uint32_t time) {
  if (value.is_reg()) return use_register(value.index());
  if (!value.is_virtual()) return;
  const Virtual& object = trace_.virtuals[value.index()];
  if (object.reg != kNone && object.reg_time <= time) return use_register(object.reg);
  use_log(value.index(), time);
}

void Liveness::use_log(uint32_t index, uint32_t time) {
  if (logs_[index]) return;
  logs_[index] = true;
  use_entries(index, time);
}

// The snapshot of an instruction is as of its start, before the kBuild nodes of that instruction: so what a kBuild
// reads is not what the snapshots after it have marked.
void Liveness::use_entries(uint32_t index, uint32_t time) {
  for (uint32_t at = trace_.virtuals[index].head; at != kNone && trace_.log[at].time <= time;
       at = trace_.log[at].next) {
    use(trace_.log[at].key, time);
    use(trace_.log[at].value, time);
  }
}

void Liveness::use_snapshot(const Snapshot& snapshot) {
  for (uint32_t at = snapshot.frame; at != kNone; at = trace_.frame_states[at].parent) {
    if (states_[at]) return;  // and so is every parent
    states_[at] = true;
    const FrameState& state = trace_.frame_states[at];
    use(state.function, snapshot.time);
    use(state.extra, snapshot.time);
    for (uint32_t i = 0; i < state.locals + state.stack; ++i) use(trace_.slots[state.first + i], snapshot.time);
  }
}

void Liveness::use_guard(const Guard& guard) {
  use(guard.subject, 0);
  if (guard.op == GuardOp::kSame || guard.op == GuardOp::kNotSame) use_register(static_cast<uint32_t>(guard.number));
}

void Liveness::run() {
  for (size_t i = trace_.nodes.size(); i-- > 0;) {
    const Node& node = trace_.nodes[i];
    node_ = static_cast<uint32_t>(i);
    if (node.snapshot != kNone) use_snapshot(trace_.snapshots[node.snapshot]);
    if (node.op == Op::kBuild) use_entries(node.a.index(), node.time);
    if (node.op == Op::kGuard) use_guard(trace_.guards[node.aux]);
    if (node.op != Op::kBuild) use(node.a, node.time);
    use(node.b, node.time);
    use(node.c, node.time);
    for (uint32_t k = 0; k < node.count; ++k) use(trace_.operands[node.first + k], node.time);
    // A result that nobody reads dies at once.
    if (node.out != kNone) use_register(node.out);
    for (uint32_t k = 0; k < node.outs_count; ++k) use_register(trace_.outs[node.outs_first + k]);
  }
}

// Registers that guards load, borrowed, and that are read after a node that might let them die.
std::vector<uint32_t> find_retained(const Trace& trace, const std::vector<uint32_t>& last) {
  uint32_t first = kNone;
  for (size_t i = 0; i < trace.nodes.size() && first == kNone; ++i)
    if (may_let_die(trace.nodes[i].op)) first = static_cast<uint32_t>(i);
  std::vector<uint32_t> retained;
  if (first == kNone) return retained;
  std::vector<bool> written(trace.regs.size());
  for (const Node& node : trace.nodes) {
    if (node.out != kNone) written[node.out] = true;
    for (uint32_t k = 0; k < node.outs_count; ++k) written[trace.outs[node.outs_first + k]] = true;
  }
  for (uint32_t r = trace.inputs; r < trace.regs.size(); ++r)
    if (!written[r] && last[r] != kNone && last[r] >= first) retained.push_back(r);
  return retained;
}

void fill_releases(Trace* trace, const std::vector<uint32_t>& last) {
  std::vector<uint32_t> order;
  for (uint32_t r = trace->inputs; r < last.size(); ++r)
    if (last[r] != kNone) order.push_back(r);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return last[a] < last[b]; });
  trace->releases = order;
  for (Node& node : trace->nodes) node.release_first = node.release_count = 0;
  for (uint32_t i = 0; i < order.size(); ++i) {
    Node& node = trace->nodes[last[order[i]]];
    if (node.release_count++ == 0) node.release_first = i;
  }
}

void mark_scalars(Trace* trace) {
  std::unordered_set<PyObject*> owned;
  for (const Ref& object : trace->owned) owned.insert(object.get());
  for (PyObject* object : trace->exact) owned.erase(object);
  const auto is_owned_scalar = [&](PyObject* object) {
    return object != nullptr && owned.count(object) != 0 && cpython::is_scalar(object);
  };
  for (Guard& guard : trace->guards) guard.scalar = is_owned_scalar(guard.expected);
  trace->guard_item_scalar.resize(trace->guard_items.size());
  for (size_t i = 0; i < trace->guard_items.size(); ++i)
    trace->guard_item_scalar[i] = is_owned_scalar(trace->guard_items[i]);
}

}  // namespace

void finish_trace(Trace& trace) {
  Liveness liveness(trace);
  liveness.run();
  fill_releases(&trace, liveness.last());
  trace.retained = find_retained(trace, liveness.last());
  mark_scalars(&trace);
  compile_guards(trace);
}

}  // namespace pijit
