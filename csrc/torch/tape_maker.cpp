// Watches the nodes of a stretch and the engine, and puts together what a tape is to do.
//
// 1. Of each node whose result requires gradients the operators beneath autograd are noted. When the engine comes, the
//    graph behind its roots says which of these nodes belong to the pass. The others are replayed as ever.
// 2. All that is not understood ends in no tape: a function of the graph that is not torch's own, a hook, an operand
//    that was made out of sight, a read of data.
// 3. The engine goes through functions of a device in a thread of its own. All of a pass are of one device, on the
//    stream that is current: so nothing comes from two threads, and the tape needs none.
#include "torch/tape_maker.h"

#include <ATen/SequenceNumber.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <typeinfo>

#include "ir/call.h"
#include "torch/accelerators.h"
#include "torch/below.h"
#include "torch/spent.h"
#include "torch/state.h"
#include "torch/tape_seen.h"
#include "torch/used_graph.h"

namespace pijit::torch_adapter {

namespace {

using Function = torch::autograd::Node;

// Operators that take a tensor of integers and do the same whatever it holds, as far as their constants go. Of others
// some turn what it holds into sizes, out of sight.
constexpr const char* kOfIndices[] = {"embedding",
                                      "cross_entropy_loss",
                                      "nll_loss",
                                      "nll_loss_nd",
                                      "nll_loss2d",
                                      "multi_margin_loss",
                                      "multilabel_margin_loss",
                                      "multilabel_margin_loss_forward",
                                      "index",
                                      "index_select",
                                      "gather",
                                      "scatter",
                                      "scatter_add",
                                      "index_add",
                                      "index_put",
                                      "where",
                                      "take_along_dim",
                                      "masked_fill",
                                      "scatter_reduce",
                                      "index_copy",
                                      "take",
                                      "expand",
                                      "expand_as",
                                      "to",
                                      "_to_copy",
                                      "broadcast_tensors",
                                      "view_as",
                                      "lerp",
                                      "cat",
                                      "stack"};

bool is_of_indices(const OperatorInfo& info) {
  std::string base = info.base;
  if (!base.empty() && base.back() == '_') base.pop_back();
  if (info.handle.hasTag(at::Tag::pointwise)) return true;
  return std::any_of(std::begin(kOfIndices), std::end(kOfIndices), [&](const char* each) { return base == each; });
}

// An operation of a trace is such an operator.
bool takes_indices(const std::string& name) {
  if (name == "tensor::getitem") return true;
  const size_t dot = name.find('.');
  const auto found = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  return found && is_of_indices(operator_info(*found));
}

bool is_torchs_own(const Function& function) {
  const std::string name = c10::demangle(typeid(function).name());
  if (name == "torch::autograd::CopySlices") {  // of a write to a view; it runs the function of the write
    const auto& write = static_cast<const torch::autograd::CopySlices&>(function).fn;
    return write && !has_hooks(*write) && is_torchs_own(*write);
  }
  return name.rfind("torch::autograd::generated::", 0) == 0 || name == "torch::autograd::CopyBackwards";
}

const c10::StorageImpl* storage_of(const Reg& reg) {
  return static_cast<const Impl*>(reg.tensor)->unsafe_storage().unsafeGetStorageImpl();
}

class Maker final : public TapeMaker, public BelowAutograd {
 public:
  explicit Maker(const TapeStretch& stretch) : all_(stretch), since_(at::sequence_number::peek()) {}
  ~Maker() override {
    try {
      give_back();
    } catch (const std::exception&) {  // memory is short
    }
  }

  bool begin(size_t index, const Reg* regs) noexcept override {
    try {
      now_ = static_cast<uint32_t>(index);
      thread_ = {};
      const TapeNode& node = all_.of.nodes[index];
      return node.op == nullptr ? begin_engine(node, regs) : begin_node(node, regs);
    } catch (const std::exception& error) {
      return fail(error.what());
    }
  }
  bool end(size_t index, const Reg* regs) noexcept override {
    try {
      looks_.reset();
      if (now().is_plain && !all_.why.empty()) forget();
      if (!all_.why.empty()) return false;
      const TapeNode& node = all_.of.nodes[index];
      return node.op == nullptr ? end_engine(node, regs) : end_node(node, regs);
    } catch (const std::exception& error) {
      return fail(error.what());
    }
  }
  void skip(size_t index) noexcept override { all_.nodes[index].is_others = true; }
  std::shared_ptr<Tape> finish() noexcept override;
  const std::string& why() const noexcept override { return all_.why; }
  bool began_too_late() const noexcept override { return too_late_; }

 private:
  void before(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept override;
  void after(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept override;
  void see_operator(const OperatorInfo& info, const torch::jit::Stack& stack);
  void note_draw(const OperatorInfo& info, SeenOperator* seen);
  bool is_where_it_was(Function& function);

  bool fail(std::string reason) { return all_.fail(std::move(reason)); }
  SeenNode& now() { return all_.nodes[now_]; }

  bool begin_node(const TapeNode& node, const Reg* regs);
  bool end_node(const TapeNode& node, const Reg* regs);
  bool load(const TapeNode& node, const Reg* regs);
  bool begin_plain(const TapeNode& node, const Reg* regs);
  void forget();
  bool begin_engine(const TapeNode& node, const Reg* regs);
  bool end_engine(const TapeNode& node, const Reg* regs);
  void give_back();
  bool walk(const std::vector<at::Tensor>& operands, size_t roots);
  bool see(Function& function);
  bool add_leaf(torch::autograd::AccumulateGrad& leaf);
  bool restrict(const std::vector<at::Tensor>& inputs, const std::vector<Function*>& functions);
  bool note_given(const Reg* regs);
  uint32_t met(const at::Tensor& tensor);
  bool note_written();
  bool choose();
  bool check_writes();
  bool reads(uint32_t value) const;
  SeenArgument argument(const c10::IValue& value);
  bool note_wrapped(const at::Tensor& tensor);
  uint32_t value_of(const at::Tensor& tensor);
  SeenResult result(const SeenOperator& seen, const c10::IValue& value);
  uint32_t made(const SeenOperator& seen, const at::Tensor& tensor, bool* old);

  SeenStretch all_;
  std::optional<LookBelow> looks_;
  std::mutex mutex_;        // of what operators are seen with
  std::thread::id thread_;  // that dispatches those of this node
  uint64_t since_;
  uint32_t now_ = 0;
  bool hides_ = false;  // gradients of leaves
  bool too_late_ = false;
};

// -- operators beneath autograd

uint32_t Maker::value_of(const at::Tensor& tensor) {
  if (!is_usual(tensor)) return fail("a tensor that is not a plain one"), kNone;
  const uint32_t found = all_.values.find(tensor);
  if (found == kNone) fail("a tensor that was made out of sight");
  return found;
}

// A tensor of a number that the node has in a register: it may be another one the next time. Autograd saves it as a
// tensor like any other. False: it is a constant, as far as is known.
bool Maker::note_wrapped(const at::Tensor& tensor) {
  if (all_.values.find(tensor) != kNone) return true;
  const c10::Scalar number = tensor.item();
  uint32_t found = kNone;
  for (const auto& [reg, held] : now().numbers) {
    const bool same = held.rep == Rep::kFloat ? number.isFloatingPoint() && number.toDouble() == held.number
                      : held.rep == Rep::kInt ? number.isIntegral(false) && number.toLong() == held.integer
                                              : false;
    if (!same) continue;
    if (found != kNone) return false;
    found = reg;
  }
  if (found == kNone) return false;
  now().wrapped.emplace_back(found, all_.values.add(tensor, kNone));
  all_.forms.emplace_back(tensor.unsafeGetTensorImpl());
  return true;
}

SeenArgument Maker::argument(const c10::IValue& value) {
  SeenArgument made;
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    const bool is_number = tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
    if (!tensor.defined() || (is_number && !note_wrapped(tensor))) {
      made.constant = value;
    } else {
      made.kind = SeenArgument::kTensor;
      made.values.push_back(value_of(tensor));
    }
    return made;
  }
  if (value.isList()) {
    const c10::ArrayRef<c10::IValue> items = value.toListRef();
    if (std::any_of(items.begin(), items.end(), [](const c10::IValue& each) { return each.isTensor(); })) {
      made.kind = value.isTensorList() ? SeenArgument::kTensors : SeenArgument::kMaybeTensors;
      for (const c10::IValue& each : items) {
        const bool is_one = each.isTensor() && each.toTensor().defined();
        if (is_one && each.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) fail("a number in a list of tensors");
        made.values.push_back(is_one ? value_of(each.toTensor()) : kNone);
      }
      return made;
    }
  }
  if (value.isGenerator() || value.isStorage() || value.isObject() || value.isCustomClass())
    fail("an operator takes a generator or an object");
  made.constant = value;
  return made;
}

void Maker::see_operator(const OperatorInfo& info, const torch::jit::Stack& stack) {
  const c10::OperatorHandle& op = info.handle;
  if (!info.aten || info.python) fail(info.full + " is not torch's own");
  if (op.hasTag(at::Tag::data_dependent_output)) fail(info.full + " reads data");
  SeenOperator seen{&info, {}, {}, op.hasTag(at::Tag::dynamic_output_shape)};
  if (info.random) note_draw(info, &seen);
  if (!all_.why.empty()) return;
  const size_t count = info.arguments.size();
  for (size_t i = 0; i < count; ++i) seen.arguments.push_back(argument(torch::jit::peek(stack, i, count)));
  if (!all_.why.empty()) all_.why = info.full + ": " + all_.why;
  now().draws |= info.random;
  now().operators.push_back(std::move(seen));
}

// In the backward pass only those numbers are drawn that a node has drawn before.
void Maker::note_draw(const OperatorInfo& info, SeenOperator* seen) {
  const bool is_backward = now_ + 1 == all_.nodes.size();
  if (!is_backward && (!now().is_hooked || now().draws)) return;
  Draws draws;
  const bool kept = draws.keep_default(c10::kCPU) && (!all_.device || draws.keep_default(*all_.device));
  if (!is_backward) return void(now().drawn = std::move(draws));
  for (uint32_t i = 0; kept && i < now_ && seen->draws_as == kNone; ++i)
    if (all_.nodes[i].is_hooked && all_.nodes[i].draws && all_.nodes[i].drawn.same_as(draws)) seen->draws_as = i;
  if (seen->draws_as == kNone) fail(info.full + " draws random numbers in the backward pass");
}

void Maker::before(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!all_.why.empty()) return;
  try {
    const std::thread::id thread = std::this_thread::get_id();
    if (thread_ == std::thread::id()) thread_ = thread;
    if (thread_ != thread) fail("operators of one node come from two threads");
    if (all_.why.empty()) see_operator(info, stack);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// A result is a new value, or one that the operator has written to.
uint32_t Maker::made(const SeenOperator& seen, const at::Tensor& tensor, bool* old) {
  if (!is_usual(tensor)) return fail("a result that is not a plain tensor"), kNone;
  for (size_t i = 0; i < seen.arguments.size() && seen.info->mutates; ++i) {
    const SeenArgument& each = seen.arguments[i];
    if (!seen.info->arguments[i].written || each.kind != SeenArgument::kTensor || each.values[0] == kNone) continue;
    const TapeValue& value = all_.values[each.values[0]];
    if (value.storage._unsafe_get_target() != tensor.storage().unsafeGetStorageImpl()) continue;
    if (!value.has_form_of(tensor)) return fail(seen.info->full + " changes the form of a tensor"), kNone;
    *old = true;
    return each.values[0];
  }
  const uint32_t value = all_.values.add(tensor, now_);
  all_.forms.emplace_back(tensor.unsafeGetTensorImpl());
  return value;
}

SeenResult Maker::result(const SeenOperator& seen, const c10::IValue& value) {
  SeenResult found;
  if (value.isTensor()) {
    found.values.push_back(value.toTensor().defined() ? made(seen, value.toTensor(), &found.old) : kNone);
  } else if (value.isTensorList()) {
    found.list = true;
    for (const c10::IValue& each : value.toListRef()) {
      bool old = false;
      found.values.push_back(each.toTensor().defined() ? made(seen, each.toTensor(), &old) : kNone);
      if (old || found.values.back() == kNone) fail(seen.info->full + " gives a list that is not new");
    }
  } else {
    fail(seen.info->full + " gives what is no tensor");
  }
  return found;
}

void Maker::after(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!all_.why.empty()) return;
  try {
    SeenOperator& seen = now().operators.back();
    for (size_t i = 0; i < info.returns; ++i)
      seen.results.push_back(result(seen, torch::jit::peek(stack, i, info.returns)));
    for (size_t i = 0; i < seen.arguments.size() && info.mutates; ++i) {
      const SeenArgument& each = seen.arguments[i];
      if (!info.arguments[i].written) continue;
      if (each.kind != SeenArgument::kTensor)
        fail(info.full + " writes to a list of tensors");
      else if (all_.values[each.values[0]].node == kNone)
        fail(info.full + " writes to a tensor that was there before");
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// -- nodes

// A tensor from outside, or one that was made before. kNone: it is none for a tape.
uint32_t Maker::met(const at::Tensor& tensor) {
  if (!is_usual(tensor)) return fail("an operand that is not a plain tensor"), kNone;
  const uint32_t value = all_.values.find(tensor);
  if (value != kNone) {
    const uint32_t node = all_.values[value].node;  // a leaf may be made of what it gives
    if (node != kNone && all_.nodes[node].is_plain) all_.forms[value].requires_grad = tensor.requires_grad();
    return value;
  }
  all_.forms.emplace_back(tensor.unsafeGetTensorImpl());
  return all_.values.add(tensor, kNone);
}

bool Maker::load(const TapeNode& node, const Reg* regs) {
  for (uint32_t reg : node.reads) {
    if (regs[reg].rep != Rep::kTensor) {
      now().loaded.push_back(kNone);
      if (!is_number(regs[reg].rep)) return fail("an operand that is an object");
      now().numbers.emplace_back(reg, regs[reg]);
      continue;
    }
    now().loaded.push_back(met(share(regs[reg].tensor)));
    if (now().loaded.back() == kNone) return false;
  }
  return true;
}

// It makes tensors that something under gradients may write to, as what is scattered into zeros.
bool Maker::begin_plain(const TapeNode& node, const Reg* regs) {
  if (node.gives_numbers || node.writes.empty() || !node.written.empty()) return true;
  now().is_plain = now().looked = true;
  if (load(node, regs)) {
    looks_.emplace(this);
  } else {
    forget();
  }
  return true;
}

// Only a node under gradients has to be known.
void Maker::forget() {
  all_.why.clear();
  now() = SeenNode();
  now().is_hooked = has_saved_hooks();
}

bool Maker::begin_node(const TapeNode& node, const Reg* regs) {
  const auto requires_grad = [&](uint32_t reg) {
    return regs[reg].rep == Rep::kTensor && static_cast<const Impl*>(regs[reg].tensor)->requires_grad();
  };
  if (!c10::GradMode::is_enabled()) return true;
  now().is_hooked = has_saved_hooks();
  if (std::none_of(node.reads.begin(), node.reads.end(), requires_grad)) return begin_plain(node, regs);
  if (runs_saved_hooks()) return fail("saved-tensor hooks");
  if (!load(node, regs)) return false;
  if (node.gives_numbers || (node.writes.empty() && node.written.empty())) return true;  // it only looks
  now().looked = true;
  looks_.emplace(this);
  return true;
}

bool Maker::end_node(const TapeNode& node, const Reg* regs) {
  SeenNode& seen = now();
  for (uint32_t reg : node.written)
    if (regs[reg].rep == Rep::kTensor) seen.changed.push_back(storage_of(regs[reg]));
  if (!seen.looked) return true;
  Vec<uint32_t> registers = node.writes;
  registers.insert(registers.end(), node.written.begin(), node.written.end());
  for (uint32_t reg : registers) {
    if (regs[reg].rep != Rep::kTensor) continue;
    const at::Tensor tensor = share(regs[reg].tensor);
    seen.has_gradients |= tensor.requires_grad();
    const uint32_t value = all_.values.find(tensor);
    seen.results.emplace_back(reg, value);
    seen.functions.push_back(tensor.grad_fn() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge());
  }
  const bool is_known =
      std::none_of(seen.results.begin(), seen.results.end(), [](const auto& result) { return result.second == kNone; });
  const auto is_integral = [&](uint32_t value) {
    return value != kNone && c10::isIntegralType(all_.values[value].dtype, false);
  };
  const bool hides_sizes =
      std::any_of(seen.loaded.begin(), seen.loaded.end(), is_integral) && !takes_indices(node.op->call().name);
  if (seen.is_plain && (!is_known || seen.has_gradients || hides_sizes)) forget();
  if (!seen.is_plain && !seen.looked) return true;
  seen.is_plain |= !seen.has_gradients && node.written.empty() && is_known && !hides_sizes;
  if (seen.is_plain) {
    for (const SeenOperator& each : seen.operators)
      for (const SeenResult& result : each.results)
        for (uint32_t value : result.values)
          if (value != kNone && all_.values[value].node == now_) all_.values.note_plain(value);
    return true;
  }
  if (!seen.has_gradients) {
    seen.functions.clear();
    seen.results.clear();
    return true;
  }
  if (!is_known) return fail("a result that was made out of sight");
  return hides_sizes ? fail(node.op->call().name + " takes a tensor of integers") : true;
}

// -- the engine

// Of the one device, and made on the stream that is current.
bool Maker::is_where_it_was(Function& function) {
  if (function.device() != all_.device.value_or(c10::kCPU)) return false;
  const std::optional<c10::Stream> stream = function.stream();
  return !all_.device || !stream || *stream == current_stream(*all_.device);
}

bool Maker::see(Function& function) {
  if (has_hooks(function)) return fail("a hook on " + function.name());
  if (!is_torchs_own(function)) return fail(function.name() + " is no function of torch's own");
  if (!is_where_it_was(function)) return fail(function.name() + " is of another device or stream");
  too_late_ = function.sequence_nr() < since_;
  return too_late_ ? fail(function.name() + " was made before") : true;
}

bool Maker::add_leaf(torch::autograd::AccumulateGrad& leaf) {
  const uint32_t value = all_.values.find(leaf.variable);
  too_late_ = value == kNone;
  const auto is_outside = [&](uint32_t node) { return node == kNone || all_.nodes[node].is_plain; };
  if (value == kNone || !is_outside(all_.values[value].node) ||
      all_.values[value].tensor._unsafe_get_target() != leaf.variable.unsafeGetTensorImpl())
    return fail("a leaf that was met before");
  all_.leaves.push_back({leaf.variable, value});
  return true;
}

// All functions behind the roots are torch's own and were made in the stretch; leaves were met in it.
bool Maker::walk(const std::vector<at::Tensor>& operands, size_t roots) {
  std::vector<Function*> functions;
  std::vector<torch::autograd::AccumulateGrad*> leaves;
  const auto go_to = [&](Function* function) {
    if (!all_.visited.insert(function).second) return;
    auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(function);
    leaf != nullptr ? leaves.push_back(leaf) : functions.push_back(function);
  };
  for (size_t i = 0; i < roots; ++i) {
    if (!operands[i].defined() || !operands[i].grad_fn()) return fail("a root without a graph");
    go_to(operands[i].grad_fn().get());
  }
  for (size_t i = 0; i < functions.size(); ++i)
    for (const torch::autograd::Edge& edge : functions[i]->next_edges())
      if (edge.is_valid()) go_to(edge.function.get());
  const c10::Device device = functions.empty() ? c10::Device(c10::kCPU) : functions.front()->device();
  if (is_accelerator(device)) all_.device = device;
  for (torch::autograd::AccumulateGrad* leaf : leaves) {
    if (!is_where_it_was(*leaf)) return fail("a leaf of another device or stream");
    if (!add_leaf(*leaf)) return false;
  }
  if (!std::all_of(functions.begin(), functions.end(), [&](Function* each) { return see(*each); })) return false;
  const std::vector<at::Tensor> inputs(operands.begin() + static_cast<ptrdiff_t>(2 * roots), operands.end());
  if (!inputs.empty()) return restrict(inputs, functions);
  for (const SeenLeaf& leaf : all_.leaves)
    if (!is_unwatched(leaf.tensor)) return fail("a hook on a leaf");
  for (torch::autograd::AccumulateGrad* leaf : leaves)
    if (has_hooks(*leaf)) return fail("a hook on a leaf");
  all_.used = all_.visited;
  return all_.leaves.empty() ? fail("no leaf") : true;
}

// The engine goes through those functions alone behind which an input lies, and leaves get nothing.
bool Maker::restrict(const std::vector<at::Tensor>& inputs, const std::vector<Function*>& functions) {
  std::unordered_set<const Function*> leading;
  for (const at::Tensor& input : inputs) {
    if (!input.defined() || !input.requires_grad() || !is_unwatched(input)) return fail("an input with a hook");
    leading.insert(torch::autograd::impl::gradient_edge(input).function.get());
    all_.given.push_back({all_.values.find(input), kNone, {}});
  }
  const auto leads = [&](const torch::autograd::Edge& edge) { return leading.count(edge.function.get()) != 0; };
  for (bool found = true; found;) {
    found = false;
    for (auto each = functions.rbegin(); each != functions.rend(); ++each) {
      const torch::autograd::edge_list& edges = (*each)->next_edges();
      if (all_.used.count(*each) != 0 || std::none_of(edges.begin(), edges.end(), leads)) continue;
      found = true;
      leading.insert(*each);
      all_.used.insert(*each);
    }
  }
  return all_.used.empty() ? fail("no input that gradients lead to") : true;
}

// What something under gradients writes to is made by the tape, too.
bool Maker::note_written() {
  for (const SeenNode& seen : all_.nodes) {
    if (!seen.has_gradients) continue;
    for (const SeenOperator& each : seen.operators)
      for (size_t i = 0; i < each.arguments.size() && each.info->mutates; ++i) {
        if (!each.info->arguments[i].written || each.arguments[i].kind != SeenArgument::kTensor) continue;
        for (uint32_t value : all_.values.sharing(each.arguments[i].values[0])) {
          const uint32_t node = all_.values[value].node;
          if (node != kNone) all_.nodes[node].taped |= all_.nodes[node].is_plain;
          if (node == kNone || !(all_.nodes[node].is_plain || all_.nodes[node].has_gradients))
            return fail(each.info->full + " writes to a tensor that was there before");
        }
      }
  }
  return true;
}

// Nodes that the pass goes through are taped, and those that read of them what they give to no one outside.
bool Maker::choose() {
  if (!note_written()) return false;
  Vec<bool> made(all_.of.shown.size());  // by register: by a node that is taped
  for (size_t i = 0; i + 1 < all_.nodes.size(); ++i) {
    const TapeNode& node = all_.of.nodes[i];
    SeenNode& seen = all_.nodes[i];
    if (seen.is_others) continue;
    const auto is_read = [&](uint32_t reg) { return made[reg]; };
    const bool reads = std::any_of(node.reads.begin(), node.reads.end(), is_read);
    bool visited = false, others = false;
    for (const torch::autograd::Edge& edge : seen.functions) {
      if (!edge.is_valid()) continue;
      visited |= all_.visited.count(edge.function.get()) != 0;
      others |= all_.used.count(edge.function.get()) == 0;
    }
    if (std::any_of(node.written.begin(), node.written.end(), is_read) && !visited)
      return fail(node.op->call().name + " writes to what gradients flow through");
    const bool looks = node.writes.empty() && node.written.empty();
    if (looks && reads && node.op->is_of_form()) seen.taped = true;
    seen.taped |= seen.has_gradients && (visited || reads);
    seen.taped |= seen.is_plain && seen.is_hooked;  // the engine may do it once more
    if (!seen.taped) continue;
    for (const auto& [reg, value] : seen.results) {
      made[reg] = true;
      if (all_.of.stored[reg]) return fail("a tensor under gradients is handed on in the middle");
      if (all_.of.shown[reg] && others) return fail(node.op->call().name + " gives a graph that is not used up");
    }
  }
  const auto is_made = [&](const SeenLeaf& leaf) {
    const uint32_t node = all_.values[leaf.value].node;
    return node != kNone && all_.nodes[node].taped;
  };
  return std::none_of(all_.leaves.begin(), all_.leaves.end(), is_made) ? true
                                                                       : fail("a leaf that is written to before");
}

// A tape could not do once more what has read a tensor that is changed later on.
bool Maker::check_writes() {
  std::unordered_set<const c10::StorageImpl*> read;
  for (size_t i = 0; i + 1 < all_.nodes.size(); ++i) {
    if (!all_.nodes[i].taped) {
      for (const c10::StorageImpl* each : all_.nodes[i].changed)
        if (read.count(each) != 0) return fail(all_.of.nodes[i].op->call().name + " changes what was read before");
      continue;
    }
    for (uint32_t value : all_.nodes[i].loaded)
      if (value != kNone) read.insert(all_.values[value].storage._unsafe_get_target());
  }
  return true;
}

// A node that is taped takes it, or what is in its memory.
bool Maker::reads(uint32_t value) const {
  if (value == kNone) return false;
  const c10::StorageImpl* storage = all_.values[value].storage._unsafe_get_target();
  return std::any_of(all_.nodes.begin(), all_.nodes.end(), [&](const SeenNode& node) {
    const auto is_it = [&](uint32_t each) {
      return each != kNone && all_.values[each].storage._unsafe_get_target() == storage;
    };
    return node.taped && std::any_of(node.loaded.begin(), node.loaded.end(), is_it);
  });
}

bool Maker::begin_engine(const TapeNode& node, const Reg* regs) {
  const std::vector<at::Tensor> operands = engine_operands(node, regs);
  if (operands.size() != 2 * node.reads.size() + node.inputs.size())
    return fail("roots that are not given one gradient each");
  for (size_t i = 0; i < 2 * node.reads.size(); ++i) {
    const at::Tensor& tensor = operands[i];
    uint32_t value = kNone;
    if (tensor.defined()) {
      if (i >= node.reads.size() && tensor.requires_grad()) return fail("a gradient that requires gradients");
      value = met(tensor);
      if (value == kNone) return false;
    }
    now().loaded.push_back(value);
  }
  if (!walk(operands, node.reads.size()) || !choose() || !check_writes()) return false;
  for (SeenNode& seen : all_.nodes)
    for (size_t i = 0; i < seen.results.size(); ++i) {
      const TapeValue& value = all_.values[seen.results[i].second];
      const auto alive = value.tensor.lock();
      seen.versions.push_back(alive ? static_cast<uint32_t>(alive->version_counter().current_version()) : 0);
    }
  if (!all_.given.empty()) {
    looks_.emplace(this, true);
    return true;
  }
  for (const SeenLeaf& leaf : all_.leaves)
    if (const at::Tensor& held = leaf.tensor.grad(); held.defined()) {
      if (!may_gather(held, leaf.tensor) || reads(all_.values.find(held)))
        return fail("a gradient that is more than that");
    }
  for (SeenLeaf& leaf : all_.leaves) leaf.held = std::move(leaf.tensor.mutable_grad());
  hides_ = true;
  looks_.emplace(this, true);
  return true;
}

// The engine gave its caller a tuple of gradients.
bool Maker::note_given(const Reg* regs) {
  const uint32_t out = all_.of.nodes[now_].out;
  PyObject* tuple = out == kNone ? nullptr : regs[out].object;
  if (tuple == nullptr || !PyTuple_CheckExact(tuple) ||
      static_cast<size_t>(PyTuple_GET_SIZE(tuple)) != all_.given.size())
    return fail("gradients that nobody takes");
  for (size_t i = 0; i < all_.given.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i));
    if (item == Py_None) continue;
    SeenGiven& given = all_.given[i];
    given.tensor = THPVariable_Unpack(item);
    given.gradient = all_.values.find(given.tensor);
    if (given.input == kNone) return fail("an input that was made out of sight");
    if (given.gradient == kNone || all_.values[given.gradient].node != now_ ||
        all_.values[given.gradient].tensor._unsafe_get_target() != given.tensor.unsafeGetTensorImpl())
      return fail("a gradient that was made out of sight");
  }
  return true;
}

bool Maker::end_engine(const TapeNode& node, const Reg* regs) {
  if (!node.inputs.empty()) return note_given(regs);
  std::unordered_set<uint32_t> given;
  for (SeenLeaf& leaf : all_.leaves) {
    const at::Tensor& gradient = leaf.tensor.grad();
    if (!gradient.defined()) return fail("a leaf without a gradient");
    leaf.gradient = all_.values.find(gradient);
    leaf.version = static_cast<uint32_t>(gradient._version());
    if (leaf.gradient == kNone || all_.values[leaf.gradient].node != now_ || !given.insert(leaf.gradient).second)
      return fail("a gradient that was made out of sight");
  }
  give_back();
  return true;
}

// The engine gives each leaf a first gradient, so that a tape can do so. Those that leaves had are added to afterwards,
// as the engine would have done, in whatever way it has ended.
void Maker::give_back() {
  if (!std::exchange(hides_, false)) return;
  for (const SeenLeaf& leaf : all_.leaves) {
    if (!leaf.held.defined()) continue;
    const at::Tensor gradient = std::exchange(leaf.tensor.mutable_grad(), leaf.held);
    if (gradient.defined()) gather(leaf.held, gradient);
  }
}

std::shared_ptr<Tape> Maker::finish() noexcept {
  try {
    if (!all_.why.empty()) return nullptr;
    return assemble(&all_);
  } catch (const std::exception& error) {
    return fail(error.what()), nullptr;
  }
}

}  // namespace

std::unique_ptr<TapeMaker> make_tape(const TapeStretch& stretch) {
  return can_look_below() ? std::make_unique<Maker>(stretch) : nullptr;
}

}  // namespace pijit::torch_adapter
