// A function of autograd that raises what one raises whose saved tensors are freed.
#include "torch/spent.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <utility>

#include "torch/compat.h"

namespace pijit::torch_adapter {

namespace {

class Spent final : public torch::autograd::Node {
 public:
  explicit Spent(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    TORCH_CHECK(false, torch::autograd::ERR_BACKWARD_TWICE);
  }

 private:
  std::string name_;
};

}  // namespace

void spend(const at::Tensor& tensor, const std::string& name) {
  auto node = make_node<Spent>(name);
  const uint32_t at = node->add_input_metadata(tensor);
  torch::autograd::impl::set_gradient_edge(tensor, {std::move(node), at});
}

bool is_unwatched(const at::Tensor& leaf) {
  namespace impl = torch::autograd::impl;
  if (!impl::hooks(leaf).empty() || impl::post_acc_grad_hooks(leaf) != nullptr) return false;
  const auto accumulator = impl::try_get_grad_accumulator(leaf);
  if (!accumulator) return true;
  return accumulator->pre_hooks().empty() && accumulator->post_hooks().empty() &&
         accumulator->tensor_pre_hooks().empty() && accumulator->retains_grad_hooks().empty();
}

}  // namespace pijit::torch_adapter
