// Keeps the functions of a pass that was watched, and lends them to the tensors of later ones.
#include "torch/used_graph.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <unordered_map>

#include "torch/compat.h"

namespace pijit::torch_adapter {

namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::AutogradMeta;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

// Autograd data of a tensor that a graph was lent to.
class Lent final : public AutogradMeta {
 public:
  Lent(at::TensorImpl* tensor, const Edge& edge, UsedGraph::Hold hold)
      : AutogradMeta(tensor, false, edge), hold_(std::move(hold)) {}
  ~Lent() override { grad_fn_.reset(); }  // first: whoever else holds the function is counted

 private:
  UsedGraph::Hold hold_;
};

class LentView final : public torch::autograd::DifferentiableViewMeta {
 public:
  LentView(at::TensorImpl* tensor, const at::Tensor& base, torch::autograd::CreationMeta creation, const Edge& edge,
           UsedGraph::Hold hold)
      : DifferentiableViewMeta(tensor, torch::autograd::ViewInfo(base, nullptr, nullptr), std::nullopt, true, creation),
        hold_(std::move(hold)) {
    grad_fn_ = edge.function;
    output_nr_ = edge.input_nr;
  }
  ~LentView() override { grad_fn_.reset(); }

 private:
  UsedGraph::Hold hold_;
};

// Graphs that no tensor has, whose functions something else held.
struct Waiting {
  std::mutex lock;
  std::vector<std::weak_ptr<UsedGraph>> graphs;
};

// It lives to the end of the process: tensors die behind static objects.
Waiting& waiting() {
  static auto* const all = new Waiting;
  return *all;
}

const at::TensorImpl* leaf_behind(const Edge& edge) {
  const auto* leaf = dynamic_cast<const AccumulateGrad*>(edge.function.get());
  return leaf == nullptr ? nullptr : leaf->variable.unsafeGetTensorImpl();
}

}  // namespace

bool has_hooks(Node& function) {
  return !function.pre_hooks().empty() || !function.post_hooks().empty() || !function.tensor_pre_hooks().empty() ||
         !function.retains_grad_hooks().empty();
}

UsedGraph::UsedGraph(edge_list results, const std::function<size_t(const at::Tensor&)>& leaf_of)
    : results_(std::move(results)) {
  std::unordered_map<const Node*, size_t> holders;
  for (const Edge& each : results_)
    if (holders[each.function.get()]++ == 0) functions_.push_back(each.function.get());
  for (size_t i = 0; i < functions_.size(); ++i) {
    const edge_list& edges = functions_[i]->next_edges();
    for (uint32_t input = 0; input < edges.size(); ++input) {
      Node* const next = edges[input].function.get();
      if (next == nullptr) continue;
      if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(next))
        to_leaves_.push_back({functions_[i], input, leaf_of(leaf->variable)});
      else if (holders[next]++ == 0)
        functions_.push_back(next);
    }
  }
  for (const Edge& each : results_) {
    shown_.push_back(each.function.get());
    holders_.push_back(holders[each.function.get()]);
  }
}

bool UsedGraph::is_seen() const {
  return std::any_of(functions_.begin(), functions_.end(),
                     [](Node* function) { return is_held_in_python(*function) || has_hooks(*function); });
}

bool UsedGraph::is_held_elsewhere() const {
  for (size_t i = 0; i < results_.size(); ++i) {
    const auto count = static_cast<size_t>(results_[i].function.use_count());
    if (without_object(*shown_[i], count) > holders_[i]) return true;
  }
  return is_seen();
}

UsedGraph::Hold UsedGraph::hold() {
  Hold made(this, [graph = shared_from_this()](void*) { graph->let_go(); });
  holds_ += 1;
  return made;
}

UsedGraph::Hold UsedGraph::take(const std::vector<at::Tensor>& leaves) {
  end_others();
  edge_list gone;  // it goes when the lock is open: with a leaf anything may die
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_seen()) return nullptr;
  const auto is_there = [&](const ToLeaf& each) {
    return leaf_behind(each.from->next_edge(each.input)) == leaves[each.leaf].unsafeGetTensorImpl();
  };
  if (!std::all_of(to_leaves_.begin(), to_leaves_.end(), is_there)) {
    if (holds_ != 0 || is_held_elsewhere()) return nullptr;
    for (const ToLeaf& each : to_leaves_) {
      gone.push_back(Edge(torch::autograd::impl::grad_accumulator(leaves[each.leaf]), 0));
      std::swap(gone.back(), each.from->next_edges()[each.input]);
    }
  }
  return hold();
}

void UsedGraph::give(const at::Tensor& tensor, size_t result, Hold hold) const {
  at::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_autograd_meta(std::make_unique<Lent>(impl, results_[result], std::move(hold)));
}

void UsedGraph::give_view(const at::Tensor& tensor, const at::Tensor& base, torch::autograd::CreationMeta creation,
                          size_t result, Hold hold) const {
  at::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_autograd_meta(std::make_unique<LentView>(impl, base, creation, results_[result], std::move(hold)));
}

void UsedGraph::note(const std::vector<at::Tensor>& tensors) {
  std::unique_lock<std::mutex> lock(mutex_);
  const Hold held = hold();
  lock.unlock();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const AutogradMeta* has = tensors[i].defined() ? torch::autograd::impl::get_autograd_meta(tensors[i]) : nullptr;
    const bool is_usual = has != nullptr && !has->is_view_ && !has->retains_grad_ && has->hooks_.empty() &&
                          has->post_acc_grad_hooks_ == nullptr && has->fw_grad_ == nullptr && !has->grad_.defined();
    if (is_usual) give(tensors[i], i, held);
  }
}

void UsedGraph::let_go() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    holds_ -= 1;
  }
  end();
}

// The edges to leaves go, if nobody has the graph.
void UsedGraph::end() noexcept {
  edge_list gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (holds_ != 0) return;
  if (is_held_elsewhere()) {
    const std::lock_guard<std::mutex> others(waiting().lock);
    waiting().graphs.push_back(weak_from_this());
    return;
  }
  gone.resize(to_leaves_.size());
  for (size_t i = 0; i < gone.size(); ++i) std::swap(gone[i], to_leaves_[i].from->next_edges()[to_leaves_[i].input]);
}

void UsedGraph::end_others() noexcept {
  std::vector<std::weak_ptr<UsedGraph>> all;
  {
    const std::lock_guard<std::mutex> lock(waiting().lock);
    all.swap(waiting().graphs);
  }
  for (const std::weak_ptr<UsedGraph>& each : all)
    if (const std::shared_ptr<UsedGraph> graph = each.lock()) graph->end();
}

}  // namespace pijit::torch_adapter
