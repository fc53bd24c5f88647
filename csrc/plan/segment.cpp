// Finds segments: the longest runs of nodes that may be compiled, cut where an output could not be one.
#include "plan/segment.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "cpython/bytecode.h"
#include "numpy/plan_key.h"
#include "plan/effects.h"
#include "plan/regions.h"
#include "plan/sides.h"
#include "plan/steps.h"

namespace pijit {

namespace {

class Finder {
 public:
  Finder(const Trace& trace, const Vec<uint32_t>& read, const Vec<uint32_t>& seen, bool has_market, Vec<bool> varying)
      : trace_(trace),
        read_(read),
        seen_(seen),
        varying_(std::move(varying)),
        has_market_(has_market),
        regions_(trace, has_market),
        written_at_(trace.regs.size(), kNone),
        base_(trace.regs.size()) {}

  std::shared_ptr<Segments> run();

 private:
  uint32_t base(uint32_t reg) noexcept {
    while (base_[reg] != reg) reg = base_[reg] = base_[base_[reg]];
    return reg;
  }
  bool is_tensor(uint32_t reg) const noexcept {
    return arrays_ ? numpy::is_kind(trace_.regs[reg]) : trace_.regs[reg].rep == Rep::kTensor;
  }
  // Segments end where these numbers are read, and what is computed of them.
  void end_at(Vec<bool> numbers, bool at_data);
  Vec<bool> numbers_of_turns() const;
  void note_memory();
  void find_stores();
  void find_context();
  void span_sides();
  // The call that the segment cannot span.
  std::optional<uint32_t> cut_at_sides(uint32_t first, uint32_t last);
  bool may_build(uint32_t at, uint32_t first, uint32_t last) const;
  void show_what_is_built();
  bool is_shown(const Node& node, uint32_t first, uint32_t last) const;
  std::optional<Sides> sides_of(uint32_t first, uint32_t last) const;
  bool may_store(uint32_t at, uint32_t first, uint32_t last) const;
  bool may_set(const Node& node, uint32_t first, uint32_t last) const;
  // Of a run of operators on tensors, or of such on arrays; which it is is known from then on.
  uint32_t end_of(uint32_t first, uint32_t limit);
  // The first node at which the run [first, last) has to end; `last` if there is none.
  uint32_t cut(uint32_t first, uint32_t last);
  Segment make(uint32_t first, uint32_t last) const;
  bool is_within(uint32_t reg, uint32_t first, uint32_t last) const noexcept {
    return written_at_[reg] != kNone && written_at_[reg] >= first && written_at_[reg] < last;
  }
  bool is_output(uint32_t reg, uint32_t first, uint32_t last) const noexcept {
    if (!is_within(reg, first, last)) return false;
    const uint32_t use = last_use(reg, first, last);
    return (use >= last && use != kNone) || is_stored(reg, first, last);
  }
  bool is_stored(uint32_t reg, uint32_t first, uint32_t last) const noexcept {
    for (auto at = stores_.lower_bound({reg, first}); at != stores_.end() && at->first == reg; ++at)
      if (at->second < last) return true;
    return false;
  }
  bool spans_sides(uint32_t first, uint32_t last) const noexcept {
    return std::any_of(sides_.begin(), sides_.end(),
                       [&](const SidesCall& call) { return call.at >= first && call.at < last; });
  }
  // Where the inputs of the segment may be written behind it, what snapshots read cannot be computed from them. Nor can
  // what a call of the program has part in.
  uint32_t last_use(uint32_t reg, uint32_t first, uint32_t last) const noexcept {
    return arrays_ || last <= last_write_ || spans_sides(first, last) ? seen_[reg] : read_[reg];
  }

  const Trace& trace_;
  const Vec<uint32_t>& read_;
  Vec<uint32_t> seen_;  // also what is built of it is seen then
  Vec<bool> varying_;
  const bool has_market_;
  bool arrays_ = false;  // the run at work is of arrays of NumPy
  const Regions regions_;
  std::vector<Step> steps_;
  Vec<uint32_t> written_at_;                        // by register: the node that writes it
  Vec<uint32_t> base_;                              // by register: another one with the same memory, or itself
  std::set<std::pair<uint32_t, uint32_t>> stores_;  // registers, and the nodes that store them
  std::vector<SidesCall> sides_;
  Vec<bool> builds_sides_;   // by node: it makes what such a call is given
  uint32_t last_write_ = 0;  // the last node that writes to what exists, or runs foreign code
};

// By register: what an iterator gives, and the variables that a loop assigns at whose head the trace begins.
Vec<bool> Finder::numbers_of_turns() const {
  Vec<bool> found(trace_.regs.size());
  if (!trace_.takes_inputs) return found;
  auto* code = reinterpret_cast<PyCodeObject*>(trace_.code.get());
  const auto head = static_cast<int>(trace_.frame_states[trace_.snapshots[0].frame].resume);
  const std::vector<int> assigned = cpython::assigned_locals(code, head, cpython::loop_end(code, head));
  // So is what generators that the frame holds have in their variables, and the number of an enumeration.
  Vec<bool> of_generators(trace_.regs.size());
  for (const Guard& guard : trace_.guards) {
    if (guard.op == GuardOp::kLoadSuspended) of_generators[guard.out] = true;
    if (guard.op == GuardOp::kLoadCount) found[guard.out] = true;
  }
  for (const Node& node : trace_.nodes) {
    const bool of_loop = node.op == Op::kUnbox && node.a.is_reg() &&
                         (of_generators[node.a.index()] ||
                          std::count(assigned.begin(), assigned.end(), static_cast<int>(node.a.index())) != 0);
    if (node.op == Op::kAdvance || of_loop) found[node.out] = true;
  }
  return found;
}

void Finder::end_at(Vec<bool> numbers, bool at_data) {
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const bool reads = std::any_of(step.reads.begin(), step.reads.end(), [&](uint32_t reg) { return numbers[reg]; });
    if (reads) step.kind = Kind::kOther;
    const bool of_data = at_data && step.kind == Kind::kOther && trace_.nodes[i].op == Op::kAdapter;
    if (!reads && !of_data) continue;
    for (uint32_t reg : step.writes) numbers[reg] = !is_tensor(reg);
  }
}

void Finder::note_memory() {
  std::iota(base_.begin(), base_.end(), 0);
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    for (uint32_t reg : step.writes) written_at_[reg] = i;
    for (auto [reg, other] : step.shares) base_[base(reg)] = base(other);
    const Node& node = trace_.nodes[i];
    const bool writes = node.op == Op::kPure && node.adapter_op != nullptr && !node.adapter_op->is_repeatable();
    const bool foreign = is_opaque(node.op) || node.op == Op::kCall || writes;
    if (foreign || !step.written.empty()) last_write_ = i;
  }
}

void Finder::find_stores() {
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const Node& node = trace_.nodes[i];
    const bool stores = node.op == Op::kStoreAttr || node.op == Op::kStoreItem || is_cache_hit(trace_, node);
    if (!stores || node.a.is_virtual() || node.b.is_virtual() || node.c.is_virtual()) continue;
    if (!varying_.empty() && varying_[i]) continue;
    steps_[i].kind = Kind::kStore;
    if (node.c.is_reg() && is_tensor(node.c.index())) stores_.emplace(node.c.index(), i);
  }
}

// Variables of the context that are set, and set back; and what is made for that.
void Finder::find_context() {
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const Node& node = trace_.nodes[i];
    if (!is_of_context(node) || (!varying_.empty() && varying_[i])) continue;
    steps_[i].kind = Kind::kStore;
    for (uint32_t k = 0; k < node.count; ++k) {
      const Val operand = trace_.operands[node.first + k];
      const uint32_t maker = operand.is_reg() ? written_at_[operand.index()] : kNone;
      if (maker != kNone && trace_.nodes[maker].op == Op::kBuild) steps_[maker].kind = Kind::kStore;
    }
  }
}

// Such a call is no end of a segment; what is built for it is left out, and its epoch gives what it gave.
void Finder::span_sides() {
  builds_sides_.resize(steps_.size());
  for (SidesCall& call : find_sides(trace_, written_at_)) {
    if (!varying_.empty() && varying_[call.at]) continue;
    steps_[call.at].kind = Kind::kForm;
    steps_[call.at].reads = call.reads;
    steps_[call.at + 1].kind = Kind::kOperator;
    for (uint32_t reg : call.results) {
      if (reg == trace_.nodes[call.at].out) continue;
      steps_[call.at + 1].writes.push_back(reg);
      written_at_[reg] = call.at + 1;
    }
    for (uint32_t at : call.builds) {
      steps_[at].kind = Kind::kStore;
      builds_sides_[at] = true;
    }
    sides_.push_back(std::move(call));
  }
  show_what_is_built();
  for (uint32_t i = 0; i < steps_.size(); ++i) {  // a plan gives what has the recorded type
    const Node& node = trace_.nodes[i];
    if (node.op != Op::kGuardType || !node.a.is_reg() || (!varying_.empty() && varying_[i])) continue;
    const uint32_t reg = node.a.index();
    const auto gives = [&](const SidesCall& call) {
      return std::find(call.results.begin(), call.results.end(), reg) != call.results.end();
    };
    if (std::any_of(sides_.begin(), sides_.end(), gives)) {
      steps_[i].kind = Kind::kForm;
      if (!is_tensor(reg)) steps_[i].reads = {reg};
    }
  }
}

bool Finder::is_shown(const Node& node, uint32_t first, uint32_t last) const {
  bool shown = node.out != kNone && is_output(node.out, first, last);
  for (uint32_t i = 0; i < node.outs_count; ++i) shown |= is_output(trace_.outs[node.outs_first + i], first, last);
  return shown;
}

// What nobody sees behind the segment is not built at all.
bool Finder::may_build(uint32_t at, uint32_t first, uint32_t last) const {
  const Node& node = trace_.nodes[at];
  if (!is_shown(node, first, last)) return true;
  const Vec<uint32_t> of = built_of(trace_, node);
  return node.snapshot == kNone && std::all_of(of.begin(), of.end(), [&](uint32_t reg) {
           if (!is_within(reg, first, last) || builds_sides_[written_at_[reg]]) return true;
           return is_output(reg, first, last) && (is_tensor(reg) || is_number(trace_.regs[reg].rep));
         });
}

// Who sees an object sees what it is made of.
void Finder::show_what_is_built() {
  for (uint32_t i = static_cast<uint32_t>(steps_.size()); i-- > 0;) {
    if (!builds_sides_[i]) continue;
    for (uint32_t made : steps_[i].writes)
      for (uint32_t reg : built_of(trace_, trace_.nodes[i]))
        if (seen_[made] != kNone && (seen_[reg] == kNone || seen_[reg] < seen_[made])) seen_[reg] = seen_[made];
  }
}

std::optional<uint32_t> Finder::cut_at_sides(uint32_t first, uint32_t last) {
  for (const SidesCall& call : sides_) {
    if (call.at + 1 == first) return first;  // without the call
    if (call.at < first || call.at >= last) continue;
    const auto is_object = [&](uint32_t reg) { return !is_tensor(reg) && is_output(reg, first, last); };
    if (std::any_of(call.results.begin(), call.results.end(), is_object)) return call.at;
    Vec<uint32_t> within;
    if (!may_foresee(trace_, call, [&](uint32_t reg) { return is_within(reg, first, last); }, &within)) return call.at;
  }
  return std::nullopt;
}

std::optional<Sides> Finder::sides_of(uint32_t first, uint32_t last) const {
  std::optional<Sides> made;
  for (const SidesCall& call : sides_) {
    if (call.at < first || call.at >= last) continue;
    if (!made) made.emplace();
    made->calls.push_back(call.at);
    made->epochs.push_back(trace_.nodes[call.at + 1].aux);
    made->results.insert(made->results.end(), call.results.begin(), call.results.end());
    may_foresee(trace_, call, [&](uint32_t reg) { return is_within(reg, first, last); }, &made->within);
  }
  return made;
}

// Whoever sets a variable sets it back within the segment: native replay may do both once more.
bool Finder::may_set(const Node& node, uint32_t first, uint32_t last) const {
  bool both = false;
  for (uint32_t k = 0; k < node.count; ++k) {
    const Val operand = trace_.operands[node.first + k];
    if (operand.is_virtual()) return false;
    if (!operand.is_reg() || !is_within(operand.index(), first, last)) continue;
    const uint32_t maker = written_at_[operand.index()];
    if (steps_[maker].kind != Kind::kStore) return false;
    both |= is_of_context(trace_.nodes[maker]);
  }
  for (uint32_t i = first; i < last && node.out != kNone; ++i) {
    const Node& other = trace_.nodes[i];
    for (uint32_t k = 0; k < other.count && is_of_context(other); ++k)
      both |= trace_.operands[other.first + k] == Val::reg(node.out);
  }
  return both;
}

// Of what the segment makes, tensors are there when a plan has run.
bool Finder::may_store(uint32_t at, uint32_t first, uint32_t last) const {
  const Node& node = trace_.nodes[at];
  if (builds_sides_[at]) return may_build(at, first, last);
  if (node.out != kNone && is_output(node.out, first, last)) return false;
  if (is_of_context(node)) return may_set(node, first, last);
  if (node.op == Op::kBuild)
    return is_made_of_others(trace_, node, [&](uint32_t reg) { return is_within(reg, first, last); });
  const auto is_there = [&](Val value) { return !value.is_reg() || !is_within(value.index(), first, last); };
  return is_there(node.a) && is_there(node.b) && (is_there(node.c) || is_tensor(node.c.index()));
}

uint32_t Finder::end_of(uint32_t first, uint32_t limit) {
  uint32_t at = first;
  bool tensors = false;
  arrays_ = false;
  for (; at < limit && steps_[at].kind != Kind::kOther && regions_.are_one(first, at); ++at) {
    if (steps_[at].kind != Kind::kOperator) continue;
    if (steps_[at].arrays ? tensors : arrays_) break;
    (steps_[at].arrays ? arrays_ : tensors) = true;
  }
  return at;
}

uint32_t Finder::cut(uint32_t first, uint32_t last) {
  const auto inside = [&](uint32_t reg) { return written_at_[reg] >= first && written_at_[reg] < last; };
  if (const std::optional<uint32_t> call = cut_at_sides(first, last)) return *call;
  for (uint32_t i = first; i < last; ++i) {
    if (steps_[i].kind == Kind::kStore && !may_store(i, first, last)) return i;
    // A key has numbers, not objects of Python that are numbers.
    for (uint32_t reg : steps_[i].reads)
      if (!is_tensor(reg) && !is_number(trace_.regs[reg].rep) && !inside(reg)) return i;
    // What existed before is written: only a native replay does that.
    for (uint32_t reg : steps_[i].written)
      if (!inside(base(reg))) return i;
    // An output that is a view is one of what native replay has.
    for (auto [reg, other] : steps_[i].shares)
      if (is_output(reg, first, last) &&
          (!inside(base(reg)) || is_output(base(reg), first, last) || !steps_[i].written.empty()))
        return i;
    // A number is given as such, not as an object of Python.
    for (uint32_t reg : steps_[i].writes)
      if (steps_[i].kind == Kind::kForm && !is_number(trace_.regs[reg].rep) && is_output(reg, first, last)) return i;
  }
  // Two outputs with the same memory: the second one is not computed apart.
  Vec<uint32_t> bases;
  for (uint32_t i = first; i < last; ++i)
    for (uint32_t reg : steps_[i].writes) {
      if (!is_tensor(reg) || !is_output(reg, first, last)) continue;
      if (std::find(bases.begin(), bases.end(), base(reg)) != bases.end()) return i;
      bases.push_back(base(reg));
    }
  return last;
}

Segment Finder::make(uint32_t first, uint32_t last) const {
  Segment made;
  made.first = first;
  made.last = last;
  made.region = regions_.at(first);
  made.arrays = arrays_;
  Vec<bool> known(trace_.regs.size()), constant(trace_.regs.size());
  const auto note = [&](const InputGuards* inputs) {
    for (size_t i = 0; inputs != nullptr && i < inputs->size(); ++i)
      constant[inputs->register_of(i)] = inputs->source(i).is_const();
  };
  note(trace_.tensors.get());
  for (const Epoch& epoch : trace_.epochs) note(epoch.tensors.get());
  for (uint32_t i = first; i < last; ++i) {
    made.operators += steps_[i].kind == Kind::kOperator;
    const bool built = !builds_sides_[i] || is_shown(trace_.nodes[i], first, last);
    if (steps_[i].kind == Kind::kStore && built) made.stores.push_back(i);
    for (uint32_t reg : steps_[i].reads) {
      if (known[reg] || (written_at_[reg] != kNone && written_at_[reg] >= first)) continue;
      known[reg] = true;
      Vec<uint32_t>& to = !is_tensor(reg) ? made.numbers : constant[reg] ? made.bound : made.free;
      to.push_back(reg);
    }
    for (uint32_t reg : steps_[i].writes) {
      if (is_output(reg, first, last)) {
        (is_tensor(reg) ? made.outputs : made.number_outputs).push_back(reg);
      } else if (is_tensor(reg) && seen_[reg] != kNone && seen_[reg] >= last) {
        made.shown.push_back(reg);
      }
    }
  }
  made.given = made.free;
  made.sides = sides_of(first, last);
  return made;
}

std::shared_ptr<Segments> Finder::run() {
  auto found = std::make_shared<Segments>();
  auto all = std::make_shared<Segments::List>();
  for (const Node& node : trace_.nodes) steps_.push_back(step_of(trace_, node));
  const Vec<bool> levels = in_levels(steps_);
  for (size_t i = 0; i < steps_.size(); ++i)
    if (levels[i] || (i < varying_.size() && varying_[i])) steps_[i].kind = Kind::kOther;
  // A number that a turn of a loop sets differs from turn to turn, and one that an operation has read from the data of a
  // tensor from call to call: a key that had it would hardly ever come again. Code for a stretch reads the data itself.
  const Vec<bool> of_turns = numbers_of_turns();
  end_at(of_turns, false);
  for (const Step& step : steps_) found->operators += step.kind == Kind::kOperator;
  std::vector<Segment> stretches = find_stretches(trace_, steps_, seen_);
  for (Step& step : steps_)
    if (step.arrays) step.kind = Kind::kOperator;
  for (const Step& step : steps_) found->operators += step.arrays;
  end_at(of_turns, true);
  find_stores();
  note_memory();
  find_context();
  span_sides();
  found->operators += static_cast<uint32_t>(sides_.size());
  for (Segment& each : stretches) each.region = regions_.at(each.first);
  auto stretch = stretches.begin();
  for (uint32_t first = 0; first < steps_.size();) {
    if (stretch != stretches.end() && stretch->first == first) {
      const uint32_t end = stretch->last;
      if (regions_.asks(first)) all->push_back(std::make_shared<Segment>(std::move(*stretch)));
      first = end;
      ++stretch;
      continue;
    }
    const bool sets = is_of_context(trace_.nodes[first]) || trace_.nodes[first].op == Op::kBuild;  // and sets back
    if (steps_[first].kind == Kind::kStore && !sets) {
      first += 1;
      continue;
    }
    uint32_t last = end_of(first, stretch != stretches.end() ? stretch->first : static_cast<uint32_t>(steps_.size()));
    for (uint32_t end = kNone; end != last;) {
      // What depends on forms only is not worth the end of a segment, nor is a store.
      while (last > first && steps_[last - 1].kind != Kind::kOperator) --last;
      end = cut(first, last);
      std::swap(end, last);
    }
    Segment segment = make(first, last);
    if (segment.operators >= kFewestOperators && !segment.outputs.empty() && regions_.asks(first))
      all->push_back(std::make_shared<Segment>(std::move(segment)));
    first = std::max(last, first + 1);
  }
  found->all = std::move(all);
  found->has_market = has_market_;
  found->varying = std::move(varying_);
  return found;
}

}  // namespace

std::shared_ptr<Segments> find_segments(const Trace& trace, const Vec<uint32_t>& read, const Vec<uint32_t>& seen,
                                        bool has_market, Vec<bool> varying) {
  return Finder(trace, read, seen, has_market, std::move(varying)).run();
}

}  // namespace pijit
