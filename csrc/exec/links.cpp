// Compares two traces up to a node, and changes over from one to the other.
#include "exec/links.h"

#include <algorithm>
#include <unordered_set>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "exec/registers.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "ir/call.h"

namespace pijit {
namespace {

bool same_value(Val a, Val b) noexcept {
  if (a == b) return true;
  if (!a.is_const() || !b.is_const()) return false;
  return cpython::is_scalar(a.object()) && cpython::same_scalar(a.object(), b.object());
}

bool same_item(PyObject* a, PyObject* b) noexcept {
  if (a == nullptr || b == nullptr) return a == b;
  return same_value(Val::constant(a), Val::constant(b));
}

// What it looks at, not what it finds there: two loads of this kind give the same object.
bool same_load(const Guard& a, const Guard& b) noexcept {
  const bool versioned = a.op == GuardOp::kLoadDictItem;
  return a.op == b.op && a.out == b.out && a.subject == b.subject && a.aux == b.aux && a.expected == b.expected &&
         (versioned || a.number == b.number);
}

bool same_guard(const Trace& x, const Guard& a, const Trace& y, const Guard& b) noexcept {
  if (!same_load(a, b) && !(a.op == GuardOp::kDict && b.op == a.op && a.subject == b.subject && a.aux == b.aux))
    return false;
  if (a.count != b.count || (a.op == GuardOp::kDict && a.aux != 0 && a.number != b.number)) return false;
  for (uint32_t i = 0; i < a.count; ++i)
    if (!same_item(x.guard_items[a.first + i], y.guard_items[b.first + i])) return false;
  return true;
}

bool same_site(const Trace& x, const Node& a, const Trace& y, const Node& b) noexcept {
  const Site &s = x.sites[a.site], &t = y.sites[b.site];
  return s.code == t.code && s.instruction == t.instruction;
}

bool same_node(const Trace& x, const Node& a, const Trace& y, const Node& b) {
  if (a.op != b.op || a.out != b.out || a.imm != b.imm || a.rep != b.rep || !same_site(x, a, y, b)) return false;
  if (a.aux != b.aux || !same_value(a.a, b.a) || !same_value(a.b, b.b) || !same_value(a.c, b.c)) return false;
  if (a.count != b.count || a.outs_count != b.outs_count) return false;
  for (uint32_t i = 0; i < a.count; ++i)
    if (!same_value(x.operands[a.first + i], y.operands[b.first + i])) return false;
  for (uint32_t i = 0; i < a.outs_count; ++i)
    if (x.outs[a.outs_first + i] != y.outs[b.outs_first + i]) return false;
  return a.adapter_op == nullptr || same_call(a.adapter_op->call(), b.adapter_op->call());
}

// Both have the same nodes before this one.
bool same_way(const Trace& x, const Trace& y, uint32_t node) {
  for (uint32_t i = 0; i < node; ++i)
    if (is_opaque(x.nodes[i].op) || x.nodes[i].op == Op::kEpoch || !same_node(x, x.nodes[i], y, y.nodes[i]))
      return false;
  return true;
}

// The registers that are written before the node or at entry for it: all below this.
uint32_t registers_before(const Trace& trace, uint32_t node) {
  uint32_t end = trace.inputs;
  const auto use = [&](Val value) {
    if (value.is_reg()) end = std::max(end, value.index() + 1);
  };
  for (uint32_t i = 0; i <= node; ++i) {
    const Node& at = trace.nodes[i];
    for (Val value : {at.a, at.b, at.c}) use(value);
    for (uint32_t k = 0; k < at.count; ++k) use(trace.operands[at.first + k]);
    if (i == node) break;
    if (at.out != kNone) use(Val::reg(at.out));
    for (uint32_t k = 0; k < at.outs_count; ++k) use(Val::reg(trace.outs[at.outs_first + k]));
  }
  return end;
}

// Registers whose object or tensor is let go of before the node.
std::unordered_set<uint32_t> released_before(const Trace& trace, uint32_t node) {
  std::unordered_set<uint32_t> released;
  const auto note = [&](uint32_t r) {
    const Rep rep = trace.regs[r].rep;
    if (rep == Rep::kObject || rep == Rep::kTensor) released.insert(r);
  };
  for (uint32_t i = 0; i < node; ++i) {
    const Node& at = trace.nodes[i];
    for (uint32_t k = 0; k < at.release_count; ++k) note(trace.releases[at.release_first + k]);
  }
  return released;
}

// What loads of the two traces write below `end` comes from the same places.
bool same_loads(const Trace& x, const Trace& y, uint32_t end) {
  const auto loads = [end](const Trace& trace) {
    std::vector<const Guard*> found(end);
    for (size_t i = 0; i < trace.entry_guards(); ++i)
      if (const Guard& guard = trace.guards[i]; guard.out < end) found[guard.out] = &guard;
    return found;
  };
  const std::vector<const Guard*> a = loads(x), b = loads(y);
  for (uint32_t r = 0; r < end; ++r)
    if ((a[r] == nullptr) != (b[r] == nullptr) || (a[r] != nullptr && !same_load(*a[r], *b[r]))) return false;
  return true;
}

// The same is checked of each tensor input below `end`, which comes from the same place.
bool same_tensors(const Trace& x, const Trace& y, uint32_t end) {
  using Input = std::pair<Val, TensorFacts>;
  const auto inputs = [end](const Trace& trace) {
    std::vector<Input> found(end);
    for (size_t i = 0; trace.tensors != nullptr && i < trace.tensors->size(); ++i)
      if (const uint32_t at = trace.tensors->register_of(i); at < end)
        found[at] = {trace.tensors->source(i), trace.tensors->facts(i)};
    return found;
  };
  return inputs(x) == inputs(y);
}

// Puts back the registers that a trace has when it is not left after all.
class KeptRegisters {
 public:
  KeptRegisters(const Trace& trace, uint32_t shared, Reg* regs) : regs_(regs), shared_(regs, regs + shared) {
    for (uint32_t r : trace.retained)
      if (r >= shared) others_.emplace_back(r, regs[r]);
  }
  void put_back() noexcept {
    std::copy(shared_.begin(), shared_.end(), regs_);
    for (const auto& [r, reg] : others_) regs_[r] = reg;
  }
  // What was loaded again is what was there before; then it is held as before.
  bool confirm() noexcept {
    for (size_t r = 0; r < shared_.size(); ++r)
      if (regs_[r].rep != shared_[r].rep || regs_[r].integer != shared_[r].integer) return false;
    std::copy(shared_.begin(), shared_.end(), regs_);
    return true;
  }
  void drop_others() noexcept {
    for (auto& [r, reg] : others_) release_register(&reg);
  }

 private:
  Reg* regs_;
  std::vector<Reg> shared_;
  std::vector<std::pair<uint32_t, Reg>> others_;
};

}  // namespace

Joined link_traces(const Trace& from, uint32_t node, const std::shared_ptr<Trace>& to) {
  const cpython::GcPause pause;  // operations are compared as Python objects
  if (node >= to->nodes.size() || from.inputs != to->inputs || !same_way(from, *to, node)) return Joined::kOthers;
  if (same_node(from, from.nodes[node], *to, to->nodes[node])) return Joined::kSame;
  if (is_opaque(from.nodes[node].op)) return Joined::kOthers;
  Link link;
  link.node = node;
  link.shared = std::max(registers_before(from, node), registers_before(*to, node));
  if (!same_loads(from, *to, link.shared) || !same_tensors(from, *to, link.shared)) return Joined::kOthers;
  const bool modes = (from.state != nullptr) == (to->state != nullptr) &&
                     (from.state == nullptr || from.state->describe() == to->state->describe());
  if (!modes) return Joined::kOthers;
  std::unordered_set<uint32_t> dropped = released_before(*to, node);
  for (uint32_t r : released_before(from, node))
    if (dropped.erase(r) == 0) return Joined::kOthers;
  link.drops.assign(dropped.begin(), dropped.end());
  for (uint32_t i = 0; i < to->entry_guards(); ++i) {
    const Guard& guard = to->guards[i];
    const bool known =
        guard.out == kNone && std::any_of(from.guards.begin(), from.guards.begin() + from.entry_guards(),
                                          [&](const Guard& other) { return same_guard(from, other, *to, guard); });
    if (!known) link.guards.push_back(i);
  }
  link.to = to;
  from.links.push_back(std::move(link));
  return Joined::kLinked;
}

const Trace* enter_link(const Trace& from, uint32_t node, Reg* regs, size_t capacity, PyThreadState* ts) noexcept {
  for (const Link& link : from.links) {
    const Trace& to = *link.to;
    if (link.node != node || to.regs.size() > capacity || to.forgotten || !may_replay(to, ts)) continue;
    KeptRegisters kept(from, link.shared, regs);
    bool holds = true;
    for (uint32_t guard : link.guards) holds = holds && check_guard(to, to.guards[guard], regs);
    if (!holds || (to.tensors != nullptr && !to.tensors->check(regs)) || !kept.confirm()) {
      kept.put_back();
      continue;
    }
    hold(to, regs);
    for (PyObject* object : from.pins) drop_reference(object);
    kept.drop_others();
    for (uint32_t r : link.drops) release_register(&regs[r]);
    count_replay(to);
    return &to;
  }
  return nullptr;
}

}  // namespace pijit
