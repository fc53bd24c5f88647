// What compiled code for a training step leaves behind: values of tensors that the step writes to, gradients of leaves.
//
// 1. A leaf with a hook is not for compiled code: it would see each operator.
// 2. A result through which a backward pass has gone has a function of autograd in eager execution, whose saved tensors
//    are freed. The code's result gets one of the same name that raises what that one raises.
// 3. Tensors written to share memory with no other that the code reads: it computes each by itself.
#pragma once
#include <optional>

#include "adapter.h"
#include "torch/form.h"

namespace pijit::torch_adapter {

class PlanEffects {
 public:
  PlanEffects(const Effects& effects, const Vec<uint32_t>& free, const Reg* regs);

  bool gradients_on() const noexcept { return gradients_on_; }
  bool writes_to(const Impl* tensor) const noexcept;
  bool match(const Reg* regs) const;
  // Keeps the tensors until copies().
  void hold(const Reg* regs);
  // Native replay has given these outputs.
  void note(const Vec<uint32_t>& outputs, const Reg* regs);
  // Copies of what the tensors hold now, then of the gradients of leaves or None; null: no code may stand for it.
  Ref copies() noexcept;
  // The output as eager execution gives it.
  at::Tensor output(size_t index, at::Tensor made) const;
  bool write(PyObject* const* made, const Reg* regs) const noexcept;

 private:
  struct Leaf {
    uint32_t reg;
    bool trained, cleared;
    std::optional<TensorForm> gradient;  // that native replay left
  };
  bool fits(PyObject* const* made, const Reg* regs) const;
  bool is_apart(const Vec<uint32_t>& registers, const Reg* regs) const;

  bool gradients_on_, refused_ = false;
  Vec<uint32_t> written_at_, free_at_;
  std::vector<bool> spent_;
  std::vector<TensorForm> written_;
  std::vector<Leaf> leaves_;
  std::vector<const Impl*> own_;        // those written to
  std::vector<std::string> functions_;  // by output: the name of its function; empty: it has none
  std::vector<at::Tensor> held_;
};

}  // namespace pijit::torch_adapter
