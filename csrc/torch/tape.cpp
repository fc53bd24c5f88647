// Runs a tape beside the registers of a replay.
#include "torch/tape.h"

#include <algorithm>

#include "torch/accelerators.h"
#include "torch/lowered.h"
#include "torch/spent.h"
#include "torch/tape_values.h"
#include "torch/torch_adapter.h"

namespace pijit::torch_adapter {

namespace {

Impl* impl(const Reg& reg) noexcept {
  return static_cast<Impl*>(reg.tensor);
}

void set_version(const Reg& value, uint32_t version) {
  c10::VariableVersion counter = impl(value)->version_counter();  // another handle of the same one
  counter.set_version(version);
}

uint32_t version_of(const Reg& value) {
  return static_cast<uint32_t>(impl(value)->version_counter().current_version());
}

// Whatever it raised comes again where it is done once more.
bool failed() noexcept {
  the_adapter()->raised = false;
  return refuse();
}

// The operator has run without a warning, which CPython would have to give its place.
bool ran(AdapterOp& op, Reg* values) noexcept {
  if (!op.run(values)) return failed();
  if (!the_adapter()->warned) return true;
  the_adapter()->warned = false;
  the_adapter()->forget_warnings();
  return false;
}

// What is in a tuple of tensors and None.
void add_items(PyObject* tuple, std::vector<at::Tensor>* made) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    made->push_back(item == Py_None ? at::Tensor() : THPVariable_Unpack(item));
  }
}

class TapeRun final : public Tape::Run {
 public:
  explicit TapeRun(std::shared_ptr<TorchTape> tape)
      : tape_(std::move(tape)), values_(tape_->values), versions_(tape_->values) {
    for (Reg& value : values_) value.owned = 0;
  }
  ~TapeRun() override {
    if (rewound_) now_.put_back();
    if (redone_) forget_casts();
    for (const auto& [value, version] : changed_) set_version(values_[value], version);
    for (uint32_t value = 0; value < values_.size(); ++value) drop(value);
  }

  bool step(size_t index, Reg* regs) noexcept override {
    try {
      const TapedNode& node = tape_->taped[index];
      if (node.looks) return true;
      if (!is_on_stream() || !load(node, regs)) return false;
      if (node.op != nullptr && (modes_.empty() || !modes_.back().second.hold()))
        modes_.emplace_back(index, NodeModes(tape_->device));
      if (node.draws) {
        drawn_.emplace_back(index, Draws());
        if (!keep(&drawn_.back().second)) return false;
      }
      const bool done = node.op == nullptr ? differentiate(node) : run(node);
      if (!done && node.draws) drawn_.back().second.put_back();
      if (done) give(node, regs);
      return done;
    } catch (...) {
      return refuse();
    }
  }

  bool is_broken() const noexcept override { return broken_; }

  Ref result() noexcept override { return tape_->given.empty() ? Ref::borrow(Py_None) : std::move(given_); }

  void rewind(Reg* regs) noexcept override {
    try {
      keep(&now_);
      rewound_ = true;
      for (const auto& [value, version] : changed_) set_version(values_[value], versions_[value]);
      for (const auto& [reg, value] : loaded_) {
        regs[reg] = values_[value];
        regs[reg].owned = 0;
      }
    } catch (...) {
      refuse();
    }
  }

  bool redo(size_t index, Reg* regs) noexcept override {
    try {
      const TapedNode& node = tape_->taped[index];
      if (node.looks) return true;
      for (const TapeLoad& each : node.loads)
        if (each.form && version_of(values_[each.value]) != versions_[each.value]) return false;
      if (Draws* draws = drawn_by(index)) draws->put_back();
      if (node.casts) at::autocast::clear_cache();
      redone_ = true;
      const UnderModes under(modes_at(index));
      std::vector<at::Tensor> contents;
      for (uint32_t value : node.kept) contents.push_back(copy(values_[value]));
      if (!node.op->run(regs)) return failed();
      const at::AutoDispatchBelowADInplaceOrView below;
      for (size_t i = 0; i < node.kept.size(); ++i) share(values_[node.kept[i]].tensor).copy_(contents[i]);
      for (const TapeResult& result : node.results) hand_over(values_[result.value], regs[result.reg]);
      return true;
    } catch (...) {
      return refuse();
    }
  }

 private:
  static at::Tensor copy(const Reg& value) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return share(value.tensor).clone();
  }

  // A tensor that an object of Python stands for gets the graph of the one that was made in its place.
  static void hand_over(const Reg& value, const Reg& redone) {
    if (value.owned == 0 || object_of(impl(value)) == nullptr) return;
    const at::Tensor other = share(redone.tensor);
    if (other.grad_fn())
      torch::autograd::impl::set_gradient_edge(share(value.tensor), torch::autograd::impl::gradient_edge(other));
  }

  // The stream that was current for the first node still is.
  bool is_on_stream() {
    if (!tape_->device) return true;
    const c10::Stream stream = current_stream(*tape_->device);
    if (!stream_) stream_ = stream;
    return *stream_ == stream;
  }

  // Null: it draws nothing.
  Draws* drawn_by(size_t index) {
    for (auto& [drawn, draws] : drawn_)
      if (drawn == index) return &draws;
    return nullptr;
  }

  // Those that were noted last when it ran.
  const NodeModes& modes_at(size_t index) const {
    size_t last = 0;
    while (last + 1 < modes_.size() && modes_[last + 1].first <= index) ++last;
    return modes_[last].second;
  }

  bool keep(Draws* draws) const {
    return draws->keep_default(c10::kCPU) && (!tape_->device || draws->keep_default(*tape_->device));
  }

  void drop(uint32_t value) noexcept {
    Reg& reg = values_[value];
    if (reg.owned == 0) return;
    reg.owned = 0;
    the_adapter()->release(reg.tensor);
  }

  bool load(const TapedNode& node, const Reg* regs) {
    for (const auto& [reg, number] : node.numbers)
      if (!same_number(regs[reg], number)) return false;
    std::vector<at::Tensor> given;
    if (node.op == nullptr && (!node.loads.empty() || !tape_->given.empty()))
      given = engine_operands(tape_->engine, regs);
    for (const TapeLoad& each : node.loads) {
      if (node.op == nullptr && (each.reg >= given.size() || !given[each.reg].defined())) return false;
      Impl* tensor = node.op == nullptr ? given[each.reg].unsafeGetTensorImpl() : impl(regs[each.reg]);
      if (tensor->requires_grad() && !is_leaf(tensor)) return false;
      if (!each.form) {
        const Impl* other = impl(values_[each.value]);
        if (!tensor->unsafe_storage().is_alias_of(other->unsafe_storage())) return false;
        if (tensor->storage_offset() != other->storage_offset() || tensor->sizes() != other->sizes() ||
            tensor->strides() != other->strides())
          return false;
        continue;
      }
      if (!each.form->matches_layout(tensor) || tensor->requires_grad() != each.form->requires_grad) return false;
      drop(each.value);
      put(values_[each.value], share(tensor));
      versions_[each.value] = version_of(values_[each.value]);
      if (node.op != nullptr) loaded_.emplace_back(each.reg, each.value);
    }
    for (const auto& [reg, value] : node.wrapped) {
      drop(value);
      put(values_[value], number_tensor(regs[reg]));
    }
    return node.op != nullptr || tape_->given.empty() || has_inputs(given);
  }
  static bool is_leaf(const Impl* tensor) { return share(const_cast<Impl*>(tensor)).is_leaf(); }

  bool run(const TapedNode& node) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::AutoGradMode no_gradients(false);
    for (const TapeStep& step : node.steps) {
      if (!(step.draws_as == kNone ? ran(*step.op, values_.data()) : draw_again(step))) return false;
      for (const auto& [value, sizes] : step.sizes)
        if (impl(values_[value])->sizes() != c10::IntArrayRef(sizes)) return false;
      for (uint32_t value : step.drops) drop(value);
    }
    return true;
  }

  // On the random numbers of another node; those of now stay.
  bool draw_again(const TapeStep& step) {
    Draws now, *drawn = drawn_by(step.draws_as);
    if (drawn == nullptr || !keep(&now)) return false;
    drawn->put_back();
    const bool done = ran(*step.op, values_.data());
    now.put_back();
    return done;
  }

  void give(const TapedNode& node, Reg* regs) {
    for (const TapeResult& result : node.results) put(regs[result.reg], share(values_[result.value].tensor));
    for (uint32_t value : node.drops) drop(value);
  }

  // All gradients, and then what everybody sees.
  bool differentiate(const TapedNode& node) {
    // What somebody has changed since it was read: the engine is to say so. So operators that are done once more find
    // the version of then, and the engine that of now.
    for (uint32_t value : tape_->saved)
      if (const uint32_t version = version_of(values_[value]); version != versions_[value])
        changed_.emplace_back(value, version);
    if (!changed_.empty()) return false;
    std::vector<at::Tensor> leaves;
    for (const TapeLeaf& leaf : tape_->leaves) {
      leaves.push_back(share(values_[leaf.value].tensor));
      if (leaf.gradient != kNone && !takes_gradients(leaves.back())) return false;
    }
    const UsedGraph::Hold held = tape_->graph != nullptr ? tape_->graph->take(leaves) : nullptr;
    if (tape_->graph != nullptr && held == nullptr) return false;
    if (!run(node)) return false;
    broken_ = true;  // unless all of them are added
    const auto gets = [&](size_t i) { return tape_->leaves[i].gradient != kNone; };
    for (size_t i = 0; i < leaves.size(); ++i)
      if (gets(i) && leaves[i].grad().defined())
        gather(leaves[i].grad(), share(values_[tape_->leaves[i].gradient].tensor));
    broken_ = false;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!gets(i) || leaves[i].grad().defined()) continue;
      const TapeLeaf& leaf = tape_->leaves[i];
      set_version(values_[leaf.gradient], leaf.version);
      leaves[i].mutable_grad() = share(values_[leaf.gradient].tensor);
    }
    show(held);
    if (!tape_->given.empty()) hand_out();
    return true;
  }

  // The engine is called with the inputs whose gradients were watched, and no hook sees these.
  bool has_inputs(const std::vector<at::Tensor>& operands) const {
    const size_t first = operands.size() - tape_->given.size();
    for (size_t i = 0; i < tape_->given.size(); ++i) {
      const TapeGiven& each = tape_->given[i];
      const at::Tensor& input = operands[first + i];
      if (each.gradient == kNone) continue;
      if (impl(values_[each.input]) != input.unsafeGetTensorImpl()) return false;
      if (input.requires_grad() && !is_unwatched(input)) return false;
    }
    return true;
  }

  // The tuple of gradients for the caller.
  void hand_out() {
    given_ = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tape_->given.size())));
    for (size_t i = 0; given_ && i < tape_->given.size(); ++i) {
      PyObject* item = object_for(tape_->given[i]);
      if (item == nullptr) given_ = Ref();
      if (given_) PyTuple_SET_ITEM(given_.get(), static_cast<Py_ssize_t>(i), item);
    }
    if (!given_) PyErr_Clear();
  }

  PyObject* object_for(const TapeGiven& given) {
    if (given.gradient == kNone) return new_reference(Py_None);
    const at::Tensor tensor = share(values_[given.gradient].tensor);
    if (given.base == kNone) {
      set_version(values_[given.gradient], given.version);
    } else if (!tensor.is_view()) {  // else it is one gradient of two inputs
      Impl* const made = tensor.unsafeGetTensorImpl();
      made->set_autograd_meta(std::make_unique<torch::autograd::DifferentiableViewMeta>(
          made, torch::autograd::ViewInfo(share(values_[given.base].tensor), nullptr, nullptr), std::nullopt, true,
          given.creation));
    }
    return THPVariable_Wrap(tensor);
  }

  // Gradients can be added to the one that it has.
  static bool takes_gradients(const at::Tensor& leaf) {
    if (!leaf.requires_grad() || !leaf.is_leaf() || !is_unwatched(leaf)) return false;
    const at::Tensor& held = leaf.grad();
    return !held.defined() || may_gather(held, leaf);
  }

  // What somebody may see behind the tape gets the graph.
  void show(const UsedGraph::Hold& held) {
    for (size_t i = 0; i < tape_->shown.size(); ++i) {
      const TapeShown& each = tape_->shown[i];
      const at::Tensor tensor = share(values_[each.value].tensor);
      if (each.base == kNone) {
        set_version(values_[each.value], each.version);
        tape_->graph->give(tensor, i, held);
      } else {
        tape_->graph->give_view(tensor, share(values_[each.base].tensor), each.creation, i, held);
      }
    }
  }

  std::shared_ptr<TorchTape> tape_;
  std::vector<Reg> values_;
  Vec<uint32_t> versions_;                              // by value, of those from outside: when they were loaded
  std::vector<std::pair<uint32_t, uint32_t>> changed_;  // values, and what their versions were when that was found
  std::vector<std::pair<uint32_t, uint32_t>> loaded_;   // registers of the replay, and their values
  std::vector<std::pair<size_t, Draws>> drawn_;
  std::vector<std::pair<size_t, NodeModes>> modes_;  // by the first node that has run under them
  Draws now_;
  std::optional<c10::Stream> stream_;  // of the device
  Ref given_;                          // to the caller of the engine; null: memory was short, or nothing is
  bool rewound_ = false, redone_ = false, broken_ = false;
};

}  // namespace

std::vector<at::Tensor> engine_operands(const TapeNode& engine, const Reg* regs) {
  std::vector<at::Tensor> made;
  const auto add = [&](uint32_t given, Py_ssize_t at, const Vec<uint32_t>& registers) {
    if (engine.arguments != kNone) return add_items(PyTuple_GET_ITEM(regs[engine.arguments].object, at), &made);
    if (given != kNone) return add_items(regs[given].object, &made);
    for (uint32_t reg : registers) made.push_back(reg == kNone ? at::Tensor() : share(regs[reg].tensor));
  };
  add(engine.given_roots, 0, engine.reads);
  add(engine.given_gradients, 1, engine.gradients);
  add(engine.given_inputs, 4, engine.inputs);
  return made;
}

std::unique_ptr<Tape::Run> TorchTape::begin() noexcept {
  try {
    return std::make_unique<TapeRun>(shared_from_this());
  } catch (...) {
    return nullptr;
  }
}

}  // namespace pijit::torch_adapter
