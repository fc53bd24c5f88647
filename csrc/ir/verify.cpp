// The verifier.
//
// Order of definition: inputs, guards in order, tensor inputs (any register nobody else writes), nodes in order. A
// snapshot is checked at its first node, before which all that it reads is written, and at its last one, up to which
// nothing of it is released; virtual objects are followed as of the snapshot's time.
#include "ir/verify.h"

#include <algorithm>
#include <vector>

#include "cpython/bytecode.h"
#include "ir/log.h"

namespace pijit {

namespace {

class Verifier {
 public:
  explicit Verifier(const Trace& trace) : trace_(trace) {}
  std::string run();

 private:
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = where_ + ": " + what;
  }
  void define(uint32_t index);
  void use(Val value, uint32_t time);
  void use_virtual(uint32_t index, uint32_t time);
  void use_log(uint32_t index, uint32_t time);
  void use_snapshot(uint32_t index);
  void mark_tensor_inputs();
  void check_logs();
  void check_undone(const std::vector<uint32_t>& owner);
  void check_frames();
  void check_guards(size_t first, size_t end);
  void check_nodes();
  void check_node(const Node& node);
  void find_last_nodes();
  void release(const Node& node);

  const Trace& trace_;
  std::vector<bool> defined_, released_;
  std::vector<uint32_t> seen_;     // per virtual object: the walk that saw it
  std::vector<uint32_t> pending_;  // objects that the walk has seen and not looked into
  bool draining_ = false;
  std::vector<bool> snapshot_seen_;
  std::vector<uint32_t> last_node_;  // of each snapshot
  uint32_t node_ = 0;
  uint32_t walk_ = 0;
  std::string where_ = "trace", wrong_;
};

void Verifier::define(uint32_t index) {
  if (index >= trace_.regs.size()) return fail("register out of range");
  if (defined_[index]) fail("r" + std::to_string(index) + " is written twice");
  defined_[index] = true;
}

void Verifier::use(Val value, uint32_t time) {
  if (value.is_reg()) {
    if (value.index() >= trace_.regs.size()) return fail("register out of range");
    if (!defined_[value.index()]) fail("r" + std::to_string(value.index()) + " is read before it is written");
    if (released_[value.index()]) fail("r" + std::to_string(value.index()) + " is read after it is released");
  }
  if (!value.is_virtual()) return;
  if (value.index() >= trace_.virtuals.size()) return fail("virtual object out of range");
  if (seen_[value.index()] == walk_) return;
  seen_[value.index()] = walk_;
  // Not by recursion: objects in objects may be as many as the trace has.
  pending_.push_back(value.index());
  if (draining_) return;
  draining_ = true;
  while (!pending_.empty()) {
    const uint32_t index = pending_.back();
    pending_.pop_back();
    use_virtual(index, time);
  }
  draining_ = false;
}

void Verifier::use_virtual(uint32_t index, uint32_t time) {
  const Virtual& object = trace_.virtuals[index];
  if (object.birth > time) return fail("v" + std::to_string(index) + " is not born yet");
  if (object.is_real(time)) return use(Val::reg(object.reg), time);
  if (!object.buildable) return fail("v" + std::to_string(index) + " cannot be built");
  use_log(index, time);
}

void Verifier::use_log(uint32_t index, uint32_t time) {
  const Virtual& object = trace_.virtuals[index];
  for (uint32_t at = object.head; at != kNone && trace_.log[at].time <= time; at = trace_.log[at].next) {
    if (!is_removed(trace_, object, at, time)) use(trace_.log[at].key, time);
    if (trace_.stands(at, time)) use(trace_.log[at].value, time);
  }
  if (object.kind != VirtualKind::kGenerator) return;
  if (object.head == kNone || trace_.log[object.head].op != LogOp::kField)
    return fail("a generator without a function");
  const LogEntry& entry = trace_.generator_state(index, time);
  if (entry.op != LogOp::kFrame || entry.index == kNone) return;
  const FrameState& state = trace_.frame_states[entry.index];
  use(state.handled, time);
  for (uint32_t i = 0; i < state.locals + state.stack; ++i) use(trace_.slots[state.first + i], time);
}

void Verifier::use_snapshot(uint32_t index) {
  if (index >= trace_.snapshots.size()) return fail("snapshot out of range");
  if (snapshot_seen_[index] && last_node_[index] != node_) return;
  snapshot_seen_[index] = true;
  const Snapshot& taken = trace_.snapshots[index];
  ++walk_;
  bool inner = false, generator = false;
  for (uint32_t at = taken.frame; at != kNone; at = trace_.frame_states[at].parent, inner = true) {
    if (at >= trace_.frame_states.size()) return fail("frame state out of range");
    const FrameState& state = trace_.frame_states[at];
    if ((state.continuation != Continuation::kNone) != inner)
      fail("s" + std::to_string(index) + ": continuation of the wrong frame");
    if (state.parent != kNone && state.function.is_null())
      fail("s" + std::to_string(index) + ": inner frame without a function");
    if ((state.continuation == Continuation::kInit || state.continuation == Continuation::kReplace ||
         state.continuation == Continuation::kEnter || state.continuation == Continuation::kAttribute) &&
        state.extra.is_null())
      fail("s" + std::to_string(index) + ": nothing to push");
    use(state.function, taken.time);
    use(state.extra, taken.time);
    use(state.handled, taken.time);
    use(state.generator, taken.time);
    if ((state.continuation == Continuation::kAgain) != (inner && generator))
      fail("s" + std::to_string(index) + ": a generator that nothing resumes");
    generator = !state.generator.is_null();
    for (uint32_t i = 0; i < state.locals + state.stack; ++i) use(trace_.slots[state.first + i], taken.time);
  }
}

// Each entry of the log belongs to one object, and the objects' entries stand in the order of their times.
void Verifier::check_logs() {
  where_ = "log";
  std::vector<uint32_t> owner(trace_.log.size(), kNone);
  for (uint32_t i = 0; i < trace_.virtuals.size(); ++i) {
    const Virtual& object = trace_.virtuals[i];
    uint32_t time = object.birth;
    for (uint32_t at = object.head; at != kNone; at = trace_.log[at].next) {
      if (at >= trace_.log.size()) return fail("entry out of range");
      if (owner[at] != kNone) return fail("an entry of two objects");
      owner[at] = i;
      const LogEntry& entry = trace_.log[at];
      if (entry.time < time) return fail("entries out of order");
      time = entry.time;
      if (entry.op == LogOp::kFrame && entry.index != kNone && entry.index >= trace_.frame_states.size())
        return fail("frame state out of range");
    }
    if (time > trace_.clock) return fail("entry after the end");
    if (object.reg != kNone && object.reg >= trace_.regs.size()) return fail("register out of range");
  }
  check_undone(owner);
}

// What ends an entry is a later one of the same object; one that deletes may end itself.
void Verifier::check_undone(const std::vector<uint32_t>& owner) {
  if (trace_.undone.empty()) return;
  if (trace_.undone.size() != trace_.log.size()) return fail("ends of other entries");
  for (size_t i = 0; i < trace_.log.size(); ++i) {
    if (i > 0 && trace_.log[i].time <= trace_.log[i - 1].time) return fail("entries out of order");
    const LogEntry& entry = trace_.log[i];
    const uint32_t end = trace_.undone[i];
    if (end == kNone) continue;
    const bool deletes = entry.op == LogOp::kDelItem || entry.op == LogOp::kDelAttr;
    if (end < entry.time || (end == entry.time && !deletes)) return fail("an entry that ends before it stands");
    const auto by = std::lower_bound(trace_.log.begin(), trace_.log.end(), end,
                                     [](const LogEntry& known, uint32_t when) { return known.time < when; });
    if (by == trace_.log.end() || by->time != end || owner[static_cast<size_t>(by - trace_.log.begin())] != owner[i])
      return fail("nothing ends an entry");
    const bool attribute = entry.op == LogOp::kSetAttr || entry.op == LogOp::kDelAttr;
    if (by->op == LogOp::kDelAttr && !attribute) return fail("an item that ends as an attribute");
  }
}

void Verifier::check_frames() {
  where_ = "frame state";
  for (size_t i = 0; i < trace_.frame_states.size(); ++i) {
    const FrameState& state = trace_.frame_states[i];
    if (state.parent != kNone && state.parent >= i) fail("parent after child");
    if (size_t{state.first} + state.locals + state.stack > trace_.slots.size()) return fail("slots out of range");
    if (state.code == nullptr) return fail("no code");
    if (static_cast<int>(state.locals) != state.code->co_nlocalsplus) fail("wrong number of locals");
    if (static_cast<int>(state.stack) > state.code->co_stacksize) fail("stack too deep");
    if (state.resume < 0 || state.resume >= cpython::unit_count(state.code)) fail("instruction out of range");
    if (state.call < 0 || state.call >= cpython::unit_count(state.code)) fail("call out of range");
  }
}

void Verifier::check_guards(size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    where_ = "guard " + std::to_string(i);
    const Guard& guard = trace_.guards[i];
    if (guard.subject.is_null() || guard.subject.is_virtual()) fail("no subject");
    use(guard.subject, 0);
    if (size_t{guard.first} + guard.count > trace_.guard_items.size()) fail("items out of range");
    const GuardRow& row = row_of(guard.op);
    if (row.number == column::Number::register_ && (guard.number >= trace_.regs.size() || !defined_[guard.number]))
      fail("compares with a register that is not written");
    if ((guard.out != kNone) != is_load(guard.op)) fail("loads what nothing takes, or takes what nothing loads");
    if (guard.count != 0 && row.items == nullptr) fail("items of nothing");
    if (guard.count % 2 != 0 && row.aux == column::GuardAux::whole) fail("a key without a value");
    if (guard.count != 1 && row.aux == column::GuardAux::index && row.items != nullptr) fail("not one value");
    if (guard.out != kNone) define(guard.out);
  }
}

// What nobody writes is a tensor input.
void Verifier::mark_tensor_inputs() {
  std::vector<bool> written(trace_.regs.size());
  for (const Node& node : trace_.nodes) {
    if (node.out < written.size()) written[node.out] = true;
    for (uint32_t i = 0; i < node.outs_count; ++i)
      if (const uint32_t out = trace_.outs[node.outs_first + i]; out < written.size()) written[out] = true;
  }
  for (const Guard& guard : trace_.guards)
    if (guard.out < written.size()) written[guard.out] = true;
  for (size_t i = 0; i < written.size(); ++i)
    if (!written[i] && trace_.tensors != nullptr) defined_[i] = true;
}

void Verifier::check_node(const Node& node) {
  const bool last = &node == &trace_.nodes.back();
  if (last != (node.op == Op::kExit || node.op == Op::kReturn)) fail("a trace ends in one exit or return");
  if (leaves(node.op) && node.snapshot == kNone) fail("no snapshot");
  if (node.snapshot != kNone) use_snapshot(node.snapshot);
  if (node.op == Op::kBuild ? !node.a.is_virtual() || node.a.index() >= trace_.virtuals.size() || node.out == kNone
                            : false)
    return fail("builds nothing");
  ++walk_;
  if (node.op == Op::kBuild) {
    const Virtual& object = trace_.virtuals[node.a.index()];
    if (!object.buildable) fail("cannot be built");
    use_log(node.a.index(), node.time);
  } else {
    use(node.a, node.time);
  }
  use(node.b, node.time);
  use(node.c, node.time);
  const OpRow& row = row_of(node.op);
  if ((row.a == nullptr && !node.a.is_null()) || (row.b == nullptr && !node.b.is_null()) ||
      (row.c == nullptr && !node.c.is_null()) || (row.operands == nullptr && node.count != 0))
    fail("an operand that nothing uses");
  if (row.imm == column::Imm::none && node.imm != 0) fail("an imm that nothing uses");
  if (row.aux == column::Aux::none && node.aux != 0) fail("an aux that nothing uses");
  if (size_t{node.first} + node.count > trace_.operands.size()) return fail("operands out of range");
  for (uint32_t i = 0; i < node.count; ++i) use(trace_.operands[node.first + i], node.time);
  if (node.op == Op::kEpoch) {
    if (node.aux >= trace_.epochs.size()) return fail("epoch out of range");
    const Epoch& epoch = trace_.epochs[node.aux];
    if (size_t{epoch.first} + epoch.count > trace_.guards.size()) return fail("guards of an epoch out of range");
    const std::string here = where_;
    check_guards(epoch.first, epoch.first + epoch.count);
    where_ = here;
  }
  if (node.op == Op::kLoopHead && node.imm >= trace_.heads.size()) fail("loop head out of range");
  if ((node.op == Op::kAdapter || node.op == Op::kCheck) && node.adapter_op == nullptr) fail("no adapter operation");
  const bool spread = is_opaque(node.op) && node.aux == kNone;
  if (row.aux == column::Aux::named && !spread &&
      (node.aux > node.count || (node.aux != 0 && node.b.object() == nullptr)))
    fail("keyword names");
  if (node.out != kNone) define(node.out);
  for (uint32_t i = 0; i < node.outs_count; ++i) define(trace_.outs[node.outs_first + i]);
  if (has_second_snapshot(node.op)) use_snapshot(static_cast<uint32_t>(node.imm));
}

void Verifier::check_nodes() {
  if (trace_.nodes.empty()) return fail("no nodes");
  for (size_t i = 0; i < trace_.nodes.size() && wrong_.empty(); ++i) {
    where_ = "node " + std::to_string(i);
    node_ = static_cast<uint32_t>(i);
    check_node(trace_.nodes[i]);
    release(trace_.nodes[i]);
  }
}

void Verifier::find_last_nodes() {
  last_node_.resize(trace_.snapshots.size());
  for (uint32_t i = 0; i < trace_.nodes.size(); ++i) {
    const Node& node = trace_.nodes[i];
    if (node.snapshot < last_node_.size()) last_node_[node.snapshot] = i;
    if (has_second_snapshot(node.op) && node.imm < last_node_.size()) last_node_[node.imm] = i;
  }
}

void Verifier::release(const Node& node) {
  for (uint32_t i = 0; i < node.release_count; ++i) {
    const uint32_t index = trace_.releases[node.release_first + i];
    if (index >= released_.size()) return fail("register out of range");
    if (released_[index]) fail("r" + std::to_string(index) + " is released twice");
    released_[index] = true;
  }
}

std::string Verifier::run() {
  defined_.resize(trace_.regs.size());
  released_.resize(trace_.regs.size());
  seen_.resize(trace_.virtuals.size(), 0);
  snapshot_seen_.resize(trace_.snapshots.size());
  if (trace_.inputs > trace_.regs.size()) return "trace: more inputs than registers";
  for (uint32_t i = 0; i < trace_.inputs; ++i) defined_[i] = true;
  check_logs();
  check_frames();
  if (!wrong_.empty()) return wrong_;
  if (trace_.entry_guards() > trace_.guards.size()) return "trace: guards of an epoch out of range";
  check_guards(0, trace_.entry_guards());
  mark_tensor_inputs();
  find_last_nodes();
  check_nodes();
  return wrong_;
}

}  // namespace

std::string verify_trace(const Trace& trace) {
  return Verifier(trace).run();
}

}  // namespace pijit
