// Finds stretches with effects: the longest runs of nodes that a plan may stand for, cut where one of their registers
// could not be given.
#include "plan/effects.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "adapter.h"
#include "ir/call.h"
#include "ir/log.h"

namespace pijit {

namespace {

// What a stretch does with a node.
enum class Part : uint8_t {
  kNone,      // it ends there
  kOperator,  // computes tensors, or numbers from their data
  kForm,      // decides by the form of tensors
  kIdle,      // has no effect on tensors, and its results stay within
  kGradient,  // reads or sets the gradient of a leaf
  kBackward,  // the call of the engine
  kStore,     // writes to an object of Python, or sets a mode: done after the plan
  kQuestion,  // looks at what was there before: asked before the plan
};

class StretchFinder {
 public:
  StretchFinder(const Trace& trace, const std::vector<Step>& steps, const Vec<uint32_t>& seen)
      : trace_(trace),
        steps_(steps),
        seen_(seen),
        parts_(steps.size()),
        written_at_(trace.regs.size(), kNone),
        base_(trace.regs.size()),
        constant_(trace.regs.size(), nullptr) {}

  std::vector<Segment> run();

 private:
  void classify();
  Part part_of(const Node& node, const Step& step) const;
  Part part_of_operation(const Node& node, const Step& step) const;
  static Part part_of_opaque(const Node& node);
  bool may_draw(const Node& node, const Step& step, const OperatorCall& call) const;
  void note_memory();
  uint32_t base(uint32_t reg) noexcept {
    while (base_[reg] != reg) reg = base_[reg] = base_[base_[reg]];
    return reg;
  }
  bool is_tensor(uint32_t reg) const noexcept { return trace_.regs[reg].rep == Rep::kTensor; }
  bool is_within(uint32_t reg, uint32_t first, uint32_t last) const noexcept {
    return written_at_[reg] != kNone && written_at_[reg] >= first && written_at_[reg] < last;
  }
  bool is_output(uint32_t reg, uint32_t first, uint32_t last) const noexcept {
    return is_within(reg, first, last) && seen_[reg] != kNone && seen_[reg] >= last;
  }
  // The first node at which [first, last) has to end; `last` if there is none.
  uint32_t cut(uint32_t first, uint32_t last);
  bool may_write(uint32_t reg, uint32_t first, uint32_t last);
  bool may_give(uint32_t reg, uint32_t at, uint32_t first, uint32_t last);
  bool may_store(const Node& node, uint32_t first, uint32_t last) const;
  bool may_call(const Node& node, uint32_t first, uint32_t last) const;
  bool may_build(const Node& node, uint32_t first, uint32_t last) const;
  void add_store(uint32_t at, uint32_t first, uint32_t last, Effects* effects) const;
  bool may_check(const Epoch& epoch, uint32_t first, uint32_t last) const;
  bool has_effect(uint32_t first, uint32_t last) const;
  Segment make(uint32_t first, uint32_t last);
  void add_input(uint32_t reg, std::set<uint32_t>* known, Segment* made) const;
  void add_effects(uint32_t first, uint32_t last, Segment* made);
  std::vector<bool> spent(uint32_t first, uint32_t last) const;

  const Trace& trace_;
  const std::vector<Step>& steps_;
  const Vec<uint32_t>& seen_;
  std::vector<Part> parts_;
  Vec<bool> of_data_;  // by register: a number that depends on the data of tensors
  Vec<uint32_t> written_at_, base_;
  std::vector<PyObject*> constant_;  // by register: the tensor that guards find there each time
};

Part StretchFinder::part_of_opaque(const Node& node) {
  if (node.foreign == ForeignCall::kIdle) return Part::kIdle;
  return node.foreign == ForeignCall::kBackward ? Part::kBackward : Part::kNone;
}

// The CPU's numbers are left to native replay: no compiler draws them as torch does. A graph of another device does.
bool StretchFinder::may_draw(const Node& node, const Step& step, const OperatorCall& call) const {
  const bool tensors =
      std::all_of(step.writes.begin(), step.writes.end(), [&](uint32_t reg) { return is_tensor(reg); });
  return call.on_device && tensors && node.op == Op::kAdapter && call.name.rfind("aten::", 0) == 0;
}

Part StretchFinder::part_of_operation(const Node& node, const Step& step) const {
  const OperatorCall call = node.adapter_op->call();
  if (call.random) return may_draw(node, step, call) ? Part::kOperator : Part::kNone;
  if (call.name == "tensor::grad" || call.name == "tensor::set_grad") return Part::kGradient;
  if (call.name == "tensor::set_grad_enabled") return Part::kStore;
  if (call.name == "tensor::item" || call.name == "tensor::float" || call.name == "tensor::int") return Part::kOperator;
  if (step.kind == Kind::kOperator) return Part::kOperator;
  if (node.op != Op::kCheck) return Part::kNone;
  return step.kind == Kind::kForm ? Part::kForm : step.writes.empty() ? Part::kQuestion : Part::kNone;
}

Part StretchFinder::part_of(const Node& node, const Step& step) const {
  switch (node.op) {
    case Op::kAdapter:
    case Op::kCheck:
      return part_of_operation(node, step);
    case Op::kScalar:
      return Part::kOperator;
    case Op::kGuardBool:
    case Op::kGuardInt:
    case Op::kGuardFloat:
      return of_data_[node.a.index()] ? Part::kNone : Part::kForm;
    case Op::kPure:
    case Op::kBuild:
    case Op::kBox:
    case Op::kUnbox:
    case Op::kEpoch:
    case Op::kGuardIs:
    case Op::kGuardType:
      return Part::kIdle;
    case Op::kStoreAttr:
    case Op::kStoreItem:
      return Part::kStore;
    case Op::kCall:
      return is_cache_hit(trace_, node) || is_of_context(node) ? Part::kStore : Part::kNone;
    case Op::kOpaque:
      return part_of_opaque(node);
    default:
      return Part::kNone;
  }
}

// Numbers that come from the data of tensors are followed on the way.
void StretchFinder::classify() {
  of_data_.resize(trace_.regs.size());
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const Node& node = trace_.nodes[i];
    const Step& step = steps_[i];
    parts_[i] = part_of(node, step);
    bool data = node.op == Op::kAdapter || node.op == Op::kCheck ? step.kind != Kind::kForm : false;
    for (uint32_t reg : step.reads) data |= of_data_[reg];
    for (uint32_t k = 0; k < node.count; ++k) {
      const Val operand = trace_.operands[node.first + k];
      data |= operand.is_reg() && of_data_[operand.index()];
    }
    for (Val side : {node.a, node.b, node.c}) data |= side.is_reg() && of_data_[side.index()];
    for (uint32_t reg : step.writes) of_data_[reg] = data && !is_tensor(reg);
  }
}

void StretchFinder::note_memory() {
  std::iota(base_.begin(), base_.end(), 0);
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    for (uint32_t reg : steps_[i].writes) written_at_[reg] = i;
    for (auto [reg, other] : steps_[i].shares) base_[base(reg)] = base(other);
  }
  const auto note = [&](const InputGuards* inputs) {
    for (size_t i = 0; inputs != nullptr && i < inputs->size(); ++i)
      constant_[inputs->register_of(i)] = inputs->source(i).object();
  };
  note(trace_.tensors.get());
  for (const Epoch& epoch : trace_.epochs) note(epoch.tensors.get());
}

// Gradients, what was made within, and tensors that guards find at the same place each time.
bool StretchFinder::may_write(uint32_t reg, uint32_t first, uint32_t last) {
  const uint32_t origin = base(reg);
  return is_within(origin, first, last) || (origin == reg && constant_[reg] != nullptr);
}

bool StretchFinder::may_give(uint32_t reg, uint32_t at, uint32_t first, uint32_t last) {
  if (!is_output(reg, first, last)) return true;
  if (!is_tensor(reg)) return is_number(trace_.regs[reg].rep) && !of_data_[reg];
  if (parts_[at] != Part::kOperator) return false;
  for (auto [made, other] : steps_[at].shares)
    if (made == reg && (!is_within(base(reg), first, last) || is_output(base(reg), first, last))) return false;
  return true;
}

// An object that is made of what was there before the stretch.
bool StretchFinder::may_build(const Node& node, uint32_t first, uint32_t last) const {
  return is_made_of_others(trace_, node, [&](uint32_t reg) { return is_within(reg, first, last); });
}

// It can be made behind the plan, and nothing is left of it if native replay makes it once more: a variable of the
// context is set back in the same stretch.
bool StretchFinder::may_call(const Node& node, uint32_t first, uint32_t last) const {
  if (node.out != kNone && is_output(node.out, first, last)) return false;
  bool sets_back = false;
  for (uint32_t k = 0; k < node.count; ++k) {
    const Val operand = trace_.operands[node.first + k];
    if (operand.is_virtual()) return false;
    if (!operand.is_reg() || !is_within(operand.index(), first, last)) continue;
    const Node& maker = trace_.nodes[written_at_[operand.index()]];
    if (maker.op != Op::kCall && !may_build(maker, first, last)) return false;
    sets_back |= maker.op == Op::kCall;
  }
  return node.out != kNone || sets_back || is_cache_hit(trace_, node);
}

// What it stores is there when the plan has run.
bool StretchFinder::may_store(const Node& node, uint32_t first, uint32_t last) const {
  if (node.op == Op::kAdapter) return true;
  if (node.op == Op::kCall) return may_call(node, first, last);
  for (Val value : {node.a, node.b, node.c}) {
    if (value.is_virtual()) return false;
    if (value.is_reg() && is_within(value.index(), first, last)) return false;
  }
  return true;
}

// The guards behind an idle call are asked before the plan runs, but for those about the class of what the stretch
// makes.
bool StretchFinder::may_check(const Epoch& epoch, uint32_t first, uint32_t last) const {
  for (uint32_t i = epoch.first; i < epoch.first + epoch.count; ++i) {
    const Guard& guard = trace_.guards[i];
    const bool within = guard.subject.is_reg() && is_within(guard.subject.index(), first, last);
    if (within && guard.op != GuardOp::kType && guard.op != GuardOp::kNoAttribute) return false;
  }
  return true;
}

uint32_t StretchFinder::cut(uint32_t first, uint32_t last) {
  std::set<uint32_t> bases;
  for (uint32_t i = first; i < last; ++i) {
    const Node& node = trace_.nodes[i];
    if (parts_[i] == Part::kStore && !may_store(node, first, last)) return i;
    if (node.op == Op::kEpoch && !may_check(trace_.epochs[node.aux], first, last)) return i;
    if (parts_[i] == Part::kOperator)
      for (uint32_t reg : steps_[i].written)
        if (!may_write(reg, first, last)) return i;
    for (uint32_t reg : steps_[i].writes) {
      if (!may_give(reg, i, first, last)) return i;
      if (is_tensor(reg) && is_output(reg, first, last) && !bases.insert(base(reg)).second) return i;
    }
  }
  return last;
}

// Gradients are computed, or used to write.
bool StretchFinder::has_effect(uint32_t first, uint32_t last) const {
  return std::any_of(parts_.begin() + first, parts_.begin() + last,
                     [](Part part) { return part == Part::kBackward || part == Part::kGradient; });
}

void StretchFinder::add_input(uint32_t reg, std::set<uint32_t>* known, Segment* made) const {
  if (!known->insert(reg).second) return;
  if (!is_tensor(reg)) {
    made->numbers.push_back(reg);
  } else {
    (constant_[reg] != nullptr ? made->bound : made->free).push_back(reg);
  }
}

// What is upstream of a call of the engine: a second backward pass through it raises.
std::vector<bool> StretchFinder::spent(uint32_t first, uint32_t last) const {
  std::vector<bool> used(trace_.regs.size());
  const auto see = [&](const auto& self, Val value, uint32_t time) -> void {
    if (value.is_reg() && is_tensor(value.index())) used[value.index()] = true;
    for (const Virtual& object : trace_.virtuals) {
      const bool built = value.is_reg() ? object.reg == value.index() && object.reg_time <= time
                                        : value.is_virtual() && &object == &trace_.virtuals[value.index()];
      if (!built) continue;
      for (Val item : content_of(trace_, object, time).items) self(self, item, time);
    }
  };
  for (uint32_t i = last; i-- > first;) {
    const Node& node = trace_.nodes[i];
    if (parts_[i] == Part::kBackward)
      for (uint32_t k = 0; k < node.count; ++k) see(see, trace_.operands[node.first + k], node.time);
    if (parts_[i] != Part::kOperator) continue;
    const auto& writes = steps_[i].writes;
    if (std::any_of(writes.begin(), writes.end(), [&](uint32_t reg) { return used[reg]; }))
      for (uint32_t reg : steps_[i].reads) used[reg] = true;
  }
  return used;
}

// What a call is given is built before it.
void StretchFinder::add_store(uint32_t at, uint32_t first, uint32_t last, Effects* effects) const {
  const Node& node = trace_.nodes[at];
  for (uint32_t k = 0; k < node.count && node.op == Op::kCall; ++k) {
    const Val operand = trace_.operands[node.first + k];
    if (!operand.is_reg() || !is_within(operand.index(), first, last)) continue;
    const uint32_t maker = written_at_[operand.index()];
    if (trace_.nodes[maker].op == Op::kBuild) effects->stores.push_back(maker);
  }
  effects->stores.push_back(at);
}

void StretchFinder::add_effects(uint32_t first, uint32_t last, Segment* made) {
  Effects& effects = made->effects.emplace();
  std::map<PyObject*, uint32_t> leaves, written;  // the first register of each tensor
  bool gradients = false;                         // some were set
  for (uint32_t i = first; i < last; ++i) {
    const Node& node = trace_.nodes[i];
    const Step& step = steps_[i];
    if (parts_[i] == Part::kStore) add_store(i, first, last, &effects);
    if (node.op == Op::kAdapter) effects.draws |= node.adapter_op->call().random;
    if (node.op == Op::kEpoch) {
      const Epoch& epoch = trace_.epochs[node.aux];
      effects.epochs.push_back(node.aux);
      for (uint32_t k = epoch.first; k < epoch.first + epoch.count; ++k) {
        const Val subject = trace_.guards[k].subject;
        if (subject.is_reg() && is_within(subject.index(), first, last)) effects.within.push_back(k);
      }
    }
    const bool outside =
        std::none_of(step.reads.begin(), step.reads.end(), [&](uint32_t reg) { return is_within(reg, first, last); });
    const bool reads_gradient = parts_[i] == Part::kGradient && step.written.empty();
    const bool of_gradient =
        node.op == Op::kCheck && (reads_gradient || node.adapter_op->call().name == "tensor::grad");
    if (node.op == Op::kCheck && outside && !(of_gradient && gradients)) effects.questions.push_back(i);
    gradients |= parts_[i] == Part::kBackward || (parts_[i] == Part::kGradient && !step.written.empty());
    if (parts_[i] == Part::kOperator)
      for (uint32_t reg : step.written)
        if (constant_[reg] != nullptr && written.emplace(constant_[reg], reg).second) effects.written.push_back(reg);
    if (parts_[i] == Part::kGradient)
      for (uint32_t reg : step.written)
        if (constant_[reg] != nullptr) effects.cleared.insert(constant_[reg]);
  }
  for (uint32_t reg : made->bound)
    if (leaves.emplace(constant_[reg], reg).second) effects.leaves.push_back(reg);
  const std::vector<bool> used = spent(first, last);
  for (uint32_t reg : made->outputs) effects.spent.push_back(used[reg]);
}

Segment StretchFinder::make(uint32_t first, uint32_t last) {
  Segment made;
  made.first = first;
  made.last = last;
  std::set<uint32_t> known;
  for (uint32_t i = first; i < last; ++i) {
    const Part part = parts_[i];
    made.operators += part == Part::kOperator && steps_[i].kind == Kind::kOperator;
    if (part == Part::kOperator || part == Part::kForm || part == Part::kGradient)
      for (uint32_t reg : steps_[i].reads)
        if (!is_within(reg, first, last)) add_input(reg, &known, &made);
    for (uint32_t reg : steps_[i].writes)
      if (is_output(reg, first, last)) (is_tensor(reg) ? made.outputs : made.number_outputs).push_back(reg);
  }
  add_effects(first, last, &made);
  made.given = made.free;
  made.given.insert(made.given.end(), made.effects->written.begin(), made.effects->written.end());
  return made;
}

std::vector<Segment> StretchFinder::run() {
  std::vector<Segment> found;
  classify();
  note_memory();
  for (uint32_t first = 0; first < steps_.size();) {
    uint32_t last = first;
    while (last < steps_.size() && parts_[last] != Part::kNone) ++last;
    for (uint32_t end = cut(first, last); end != last; end = cut(first, last)) last = end;
    if (last > first && has_effect(first, last)) {
      Segment segment = make(first, last);
      const bool numbers = std::all_of(segment.numbers.begin(), segment.numbers.end(),
                                       [&](uint32_t reg) { return is_number(trace_.regs[reg].rep); });
      if (segment.operators >= kFewestOperators && numbers) found.push_back(std::move(segment));
    }
    first = std::max(last, first + 1);
  }
  return found;
}

}  // namespace

std::vector<Segment> find_stretches(const Trace& trace, const std::vector<Step>& steps, const Vec<uint32_t>& seen) {
  const bool effects = std::any_of(steps.begin(), steps.end(), [](const Step& step) { return !step.written.empty(); });
  return effects ? StretchFinder(trace, steps, seen).run() : std::vector<Segment>();
}

}  // namespace pijit
