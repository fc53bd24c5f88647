// The graph of autograd that a pass has gone through, as tensors show it behind the replays of a tape.
//
// 1. A tape makes no graph. But a tensor that gradients have flowed through has a function, with those behind it, and a
//    second pass through them raises or, where nothing was saved, runs. The functions of the pass that was watched are
//    such a graph: the engine has freed what they saved. So results of later replays get these functions.
// 2. Functions hold the leaves that they lead to. A leaf is not to live on because a tape does, so the edges to leaves
//    are there only while a tensor has the graph: its autograd data says when it goes. Where Python holds a function
//    longer than that, the next pass of any tape finds out when it has let go.
// 3. In eager execution each pass has functions of its own. Where that could be told, because Python holds one of these
//    functions or a hook is on it, and where a tensor has the graph over other leaves, the graph cannot be taken, and
//    the engine makes another.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "torch/tensor.h"

namespace pijit::torch_adapter {

// A hook is on the function.
bool has_hooks(torch::autograd::Node& function);

class UsedGraph : public std::enable_shared_from_this<UsedGraph> {
 public:
  // While one is there the edges to leaves are.
  using Hold = std::shared_ptr<void>;

  // `results`: their edges, before the engine goes through them. `leaf_of`: the index of a leaf among those of a tape.
  UsedGraph(torch::autograd::edge_list results, const std::function<size_t(const at::Tensor&)>& leaf_of);

  // Over these leaves, by index. Null: it cannot be taken.
  Hold take(const std::vector<at::Tensor>& leaves);
  // The tensor gets the graph of a result; what it had before is gone.
  void give(const at::Tensor& tensor, size_t result, Hold hold) const;
  // As give(), where the tensor is a view of another.
  void give_view(const at::Tensor& tensor, const at::Tensor& base, torch::autograd::CreationMeta creation,
                 size_t result, Hold hold) const;
  // The tensors of the pass that was watched, by result or undefined, have the graph: from now on it is held by them.
  void note(const std::vector<at::Tensor>& tensors);

 private:
  struct ToLeaf {
    torch::autograd::Node* from;
    uint32_t input;
    size_t leaf;
  };
  Hold hold();  // the lock is held
  void let_go() noexcept;
  void end() noexcept;
  static void end_others() noexcept;
  bool is_seen() const;
  bool is_held_elsewhere() const;

  const torch::autograd::edge_list results_;
  std::vector<torch::autograd::Node*> shown_;      // their functions
  Vec<size_t> holders_;                            // by result: who holds its function if no tensor does
  std::vector<torch::autograd::Node*> functions_;  // all but those of leaves
  std::vector<ToLeaf> to_leaves_;
  std::mutex mutex_;  // tensors die on any thread
  size_t holds_ = 0;
};

}  // namespace pijit::torch_adapter
