// Puts a tape together of what was seen: operators on values, when each value is let go, and what reaches leaves.
#include "torch/tape_seen.h"

#include <algorithm>

#include "ir/call.h"
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
    tape_->device = all_.device;
    there_.resize(tape_->values);
    in_register_.resize(all_.of.shown.size(), kNone);
    last_.resize(tape_->values);
    for (const SeenLeaf& leaf : all_.leaves) {
      stays(leaf.value);
      if (leaf.gradient != kNone) stays(leaf.gradient);
    }
    for (const SeenGiven& given : all_.given)
      if (given.gradient != kNone) stays(given.gradient), stays(given.input);
    for (size_t i = 0; i < count; ++i)
      if (all_.nodes[i].taped && !add(i)) return nullptr;
    const bool shows = !tape_->shown.empty();
    for (const SeenLeaf& leaf : all_.leaves) {
      if (leaf.gradient == kNone && !shows) continue;
      if (!there_[leaf.value]) return all_.fail("a leaf that no operator of the tape takes"), nullptr;
      tape_->leaves.push_back({leaf.value, leaf.gradient, leaf.version});
    }
    for (const SeenGiven& given : all_.given)
      if (!hand_out(given)) return nullptr;
    add_drops();
    if (shows) add_graph();
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
    for (size_t i = index; i-- > 0 && !all_.nodes[i].taped;)
      made.casts |= all_.of.nodes[i].op->call().name == "torch::_C.clear_autocast_cache";
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
      if (!add_step(seen.operators[i], &made)) return false;
    if (node.op == nullptr) note_saved(seen);
    for (size_t i = 0; i < seen.results.size(); ++i) {
      const auto [reg, value] = seen.results[i];
      const bool shown = all_.of.shown[reg];
      if (!there_[value]) return all_.fail("a result that no operator of the tape makes");
      made.results.push_back({reg, value});
      if (shown && seen.functions[i].is_valid() && !show(value, seen.functions[i], seen.versions[i])) return false;
      in_register_[reg] = value;
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

  // What comes from outside and gradients are computed with, be it through a view, as of a transposed weight.
  void note_saved(const SeenNode& engine) {
    for (const SeenOperator& seen : engine.operators)
      for (const SeenArgument& each : seen.arguments)
        for (uint32_t value : each.values)
          if (value != kNone) note_saved(value);
  }

  void note_saved(uint32_t value) {
    const TapeValue& seen = all_.values[value];
    const auto& sharing = all_.values.sharing(value);
    const auto count = std::count_if(sharing.begin(), sharing.end(), [&](uint32_t v) { return loaded_.count(v) != 0; });
    for (uint32_t other : sharing) {
      const TapeValue& base = all_.values[other];
      const bool is_view = count == 1 || (base.offset == seen.offset &&
                                          c10::multiply_integers(base.sizes) == c10::multiply_integers(seen.sizes));
      const bool is_it = loaded_.count(value) != 0 ? other == value : is_view;
      if (is_it && loaded_.count(other) != 0 && saved_.insert(other).second) tape_->saved.push_back(other);
    }
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
    step.draws_as = seen.draws_as;
    if (step.draws_as != kNone && !all_.nodes[step.draws_as].taped) return all_.fail("numbers that no tape has drawn");
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

  // Undefined: it is gone.
  at::Tensor alive(uint32_t value) const {
    const auto tensor = all_.values[value].tensor.lock();
    return tensor ? at::Tensor(tensor) : at::Tensor();
  }

  // Somebody may see the value, and its graph, behind the tape.
  bool show(uint32_t value, const torch::autograd::Edge& function, uint32_t version) {
    stays(value);
    TapeShown made{value, version};
    const at::Tensor tensor = alive(value);
    if (tensor.defined() && tensor.is_view()) {
      const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
      if (!view->has_bw_view() || !view->shared_view_info() || view->get_backward_view().has_view_fn())
        return all_.fail("a view that as_strided does not make");
      const at::Tensor& base = view->get_backward_view().base_;
      made.base = all_.values.find(base);
      made.creation = view->get_creation_meta();
      if (made.base == kNone || !there_[made.base] || !alive(made.base).is_same(base))
        return all_.fail("a view of a tensor that was made out of sight");
      stays(made.base);
      const auto is_base = [&](const TapeShown& each) { return each.value == made.base; };
      if (base.grad_fn() && std::none_of(tape_->shown.begin(), tape_->shown.end(), is_base)) {
        if (all_.used.count(base.grad_fn().get()) == 0) return all_.fail("a view of a tensor whose graph is kept");
        tape_->shown.push_back({made.base, static_cast<uint32_t>(base._version())});
        functions_.push_back(torch::autograd::impl::gradient_edge(base));
      }
    }
    tape_->shown.push_back(made);
    functions_.push_back(function);
    return true;
  }

  // A gradient that the engine gives to its caller.
  bool hand_out(const SeenGiven& given) {
    TapeGiven made{given.input, given.gradient, 0};
    if (given.gradient != kNone) {
      if (!there_[given.input] || !there_[given.gradient]) return all_.fail("a gradient of what is not there");
      made.version = static_cast<uint32_t>(given.tensor._version());
      if (given.tensor.is_view()) {
        const auto* view = torch::autograd::impl::get_view_autograd_meta(given.tensor);
        if (!view->has_bw_view() || !view->shared_view_info() || view->get_backward_view().has_view_fn())
          return all_.fail("a gradient that is a view as_strided does not make");
        const at::Tensor& base = view->get_backward_view().base_;
        made.base = all_.values.find(base);
        made.creation = view->get_creation_meta();
        if (made.base == kNone || !there_[made.base] || !alive(made.base).is_same(base))
          return all_.fail("a gradient that is a view of a tensor that was made out of sight");
        stays(made.base);
      }
    }
    tape_->given.push_back(made);
    return true;
  }

  void add_graph() {
    const auto leaf_of = [&](const at::Tensor& tensor) {
      const auto is_it = [&](const SeenLeaf& leaf) { return leaf.tensor.is_same(tensor); };
      return static_cast<size_t>(std::find_if(all_.leaves.begin(), all_.leaves.end(), is_it) - all_.leaves.begin());
    };
    tape_->graph = std::make_shared<UsedGraph>(std::move(functions_), leaf_of);
    std::vector<at::Tensor> tensors;
    for (const TapeShown& each : tape_->shown) tensors.push_back(alive(each.value));
    tape_->graph->note(tensors);
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
  torch::autograd::edge_list functions_;         // by TorchTape::shown
  size_t step_ = 0;
};

}  // namespace

std::shared_ptr<Tape> assemble(SeenStretch* seen) {
  return Assembly(seen).run();
}

}  // namespace pijit::torch_adapter
