// Puts a tape together of what was seen: operators on values, when each value is let go, and what reaches leaves.
#include "torch/tape_seen.h"

#include <algorithm>
#include <unordered_set>

#include "torch/direct.h"
#include "torch/lowered.h"

namespace pijit::torch_adapter {

namespace {

// An operator has the number as a constant, too.
bool has_constant(const std::vector<SeenOperator>& operators, const Reg& number) {
  const auto is_it = [&](const c10::IValue& value) {
    if (value.isInt()) return number.rep != Rep::kFloat && value.toInt() == number.integer;
    if (value.isDouble()) return value.toDouble() == (number.rep == Rep::kFloat ? number.number : 0);
    return !value.isNone() && !value.isTensor();
  };
  for (const SeenOperator& seen : operators)
    for (const SeenArgument& each : seen.arguments)
      if (each.kind == SeenArgument::kConstant && is_it(each.constant)) return true;
  return false;
}

// Puts together what was seen.
class Assembly {
 public:
  explicit Assembly(SeenStretch* seen) : all_(*seen), tape_(std::make_shared<TorchTape>()) {}

  std::shared_ptr<Tape> run() {
    const size_t count = all_.nodes.size();
    all_.nodes.back().taped = true;
    tape_->taped.resize(count);
    tape_->values = all_.values.size();
    there_.resize(tape_->values);
    in_register_.resize(all_.of.shown.size(), kNone);
    last_.resize(tape_->values);
    for (const SeenLeaf& leaf : all_.leaves) {
      stays(leaf.value);
      stays(leaf.gradient);
      if (leaf.held != kNone) there_[leaf.held] = true, stays(leaf.held);
    }
    for (size_t i = 0; i < count; ++i)
      if (all_.nodes[i].taped && !add(i)) return nullptr;
    add_leaves();
    add_drops();
    return tape_;
  }

 private:
  static constexpr size_t kForever = SIZE_MAX;
  void stays(uint32_t value) { last_[value] = kForever; }
  void use(uint32_t value) {
    if (last_[value] != kForever) last_[value] = step_;
  }

  bool add(size_t index) {
    const TapeNode& node = all_.of.nodes[index];
    const SeenNode& seen = all_.nodes[index];
    TapedNode& made = tape_->taped[index];
    tape_->order.push_back(static_cast<uint32_t>(index));
    made.op = node.op;
    made.draws = seen.draws;
    made.looks = node.op != nullptr && seen.results.empty();
    if (made.looks) return true;
    for (const auto& number : seen.numbers) {
      const auto is_it = [&](const auto& each) { return each.first == number.first; };
      const bool is_wrapped = std::any_of(seen.wrapped.begin(), seen.wrapped.end(), is_it);
      if (!is_wrapped || has_constant(seen.operators, number.second)) made.numbers.push_back(number);
    }
    for (const auto& [reg, value] : seen.wrapped) {
      made.wrapped.emplace_back(reg, value);
      there_[value] = true;
      stays(value);
    }
    if (node.op == nullptr) tape_->engine = node;
    for (size_t i = 0; i < seen.loaded.size(); ++i) {
      const uint32_t value = seen.loaded[i];
      if (value == kNone) continue;
      if (node.op != nullptr) {
        add_load(node.reads[i], value, &made);
      } else if (i >= node.reads.size()) {
        bring(static_cast<uint32_t>(i), value, &made);  // what a root is given
      }
    }
    for (size_t i = 0; i < seen.operators.size(); ++i)
      if (!is_addition(index, i) && !add_step(seen.operators[i], &made)) return false;
    if (node.op == nullptr) note_saved(seen);
    for (size_t i = 0; i < seen.results.size(); ++i) {
      const auto [reg, value] = seen.results[i];
      const bool shown = all_.of.shown[reg];
      if (!there_[value]) return all_.fail("a result that no operator of the tape makes");
      made.results.push_back({reg, value, shown && !seen.names[i].empty(), seen.names[i], seen.versions[i]});
      in_register_[reg] = value;
      if (shown) stays(value);
      use(value);
    }
    step_ += 1;
    return true;
  }

  void add_load(uint32_t reg, uint32_t value, TapedNode* made) {
    if (in_register_[reg] == value) return;
    in_register_[reg] = value;
    bring(reg, value, made);
  }

  // A value comes from outside, or an operand has the memory of one that is there.
  void bring(uint32_t reg, uint32_t value, TapedNode* made) {
    stays(value);
    TapeLoad load{reg, value, std::nullopt};
    if (!there_[value]) {
      load.form.emplace(all_.forms[value]);
      loaded_.insert(value);
      there_[value] = true;
    }
    made->loads.push_back(std::move(load));
  }

  // What comes from outside and gradients are computed with.
  void note_saved(const SeenNode& engine) {
    for (const SeenOperator& seen : engine.operators)
      for (const SeenArgument& each : seen.arguments)
        for (uint32_t value : each.values)
          if (value != kNone && loaded_.count(value) != 0 && saved_.insert(value).second) tape_->saved.push_back(value);
  }

  // It adds a gradient to the one that a leaf has: that is done behind all others.
  bool is_addition(size_t index, size_t at) const {
    return index + 1 == all_.nodes.size() &&
           std::any_of(all_.leaves.begin(), all_.leaves.end(),
                       [&](const SeenLeaf& leaf) { return leaf.add == static_cast<int>(at); });
  }

  std::unique_ptr<AdapterOp> lowered(const SeenOperator& seen) {
    auto op = std::make_unique<LoweredOp>(*seen.info);
    for (size_t i = 0; i < seen.arguments.size(); ++i) {
      const SeenArgument& each = seen.arguments[i];
      for (uint32_t value : each.values) {
        if (value == kNone) continue;
        if (!there_[value])
          return all_.fail(seen.info->full + " takes a tensor that no operator of the tape makes"), nullptr;
        use(value);
      }
      if (each.kind == SeenArgument::kConstant) {
        op->set_constant(i, each.constant);
      } else if (each.kind == SeenArgument::kTensor) {
        op->set_slot(i, {Slot::kTensor, each.values[0], 0, 0});
      } else {
        const bool maybe = each.kind == SeenArgument::kMaybeTensors;
        Slot slot{maybe ? Slot::kOptionalList : Slot::kTensorList, 0, 0, static_cast<uint32_t>(each.values.size())};
        for (size_t k = 0; k < each.values.size(); ++k) {
          if (!maybe && each.values[k] == kNone) return all_.fail("a list with an undefined tensor"), nullptr;
          const uint32_t at = op->add_part({each.values[k] == kNone, each.values[k]});
          if (k == 0) slot.first = at;
        }
        op->set_slot(i, slot);
      }
    }
    for (const SeenResult& result : seen.results) {
      Out out;
      if (result.list) {
        out.kind = Out::kTensorList;
        out.count = static_cast<uint32_t>(result.values.size());
        for (size_t k = 0; k < result.values.size(); ++k) {
          const uint32_t at = op->add_list_reg(result.values[k]);
          if (k == 0) out.reg = at;
        }
      } else if (!result.old && result.values[0] != kNone) {
        out.kind = Out::kTensor;
        out.reg = result.values[0];
      }
      op->outs().push_back(out);
    }
    return make_direct(std::move(op));
  }

  bool add_step(const SeenOperator& seen, TapedNode* made) {
    TapeStep step;
    step.op = lowered(seen);
    if (step.op == nullptr) return false;
    if (seen.info->statistics)
      for (const SeenArgument& each : seen.arguments)
        for (uint32_t value : each.values)
          if (value != kNone && all_.values[value].node == kNone && !all_.forms[value].requires_grad)
            made->kept.push_back(value);
    for (const SeenResult& result : seen.results)
      for (uint32_t value : result.values) {
        if (value == kNone) continue;
        there_[value] = true;
        use(value);
        if (seen.depends_on_data) {
          const auto& sizes = all_.values[value].sizes;
          step.sizes.emplace_back(value, std::vector<int64_t>(sizes.begin(), sizes.end()));
        }
      }
    made->steps.push_back(std::move(step));
    step_ += 1;
    return true;
  }

  void add_leaves() {
    for (const SeenLeaf& leaf : all_.leaves) {
      TapeLeaf made;
      made.value = leaf.value;
      made.gradient = leaf.gradient;
      made.held = leaf.held;
      if (leaf.held != kNone) {
        made.form.emplace(all_.forms[leaf.held]);
        made.add = lowered(all_.nodes.back().operators[static_cast<size_t>(leaf.add)]);
      } else {
        made.version =
            static_cast<uint32_t>(leaf.tensor.grad().unsafeGetTensorImpl()->version_counter().current_version());
      }
      tape_->leaves.push_back(std::move(made));
    }
  }

  // Values go behind their last use: behind an operator, or once a node has given its results.
  void add_drops() {
    std::vector<Vec<uint32_t>*> drops(step_);
    size_t step = 0;
    for (uint32_t index : tape_->order) {
      TapedNode& node = tape_->taped[index];
      if (node.looks) continue;
      for (TapeStep& each : node.steps) drops[step++] = &each.drops;
      drops[step++] = &node.drops;
    }
    for (uint32_t value = 0; value < last_.size(); ++value)
      if (last_[value] != kForever && there_[value] && all_.values[value].node != kNone)
        drops[last_[value]]->push_back(value);
  }

  SeenStretch& all_;
  std::shared_ptr<TorchTape> tape_;
  Vec<bool> there_;                              // by value
  Vec<uint32_t> in_register_;                    // by register: the value that it holds
  std::vector<size_t> last_;                     // by value: the step behind which nothing needs it
  std::unordered_set<uint32_t> loaded_, saved_;  // values from outside; those that gradients are computed with
  size_t step_ = 0;
};

}  // namespace

std::shared_ptr<Tape> assemble(SeenStretch* seen) {
  return Assembly(seen).run();
}

}  // namespace pijit::torch_adapter
