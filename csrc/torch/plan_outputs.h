// What the outputs of a plan share memory with: what native replay's share it with, and nothing else.
//
// 1. An output that shared memory with an input or with another output does so again, at the same place, and is the
//    same tensor where it was one.
// 2. Any other output is the program's own: nothing but the tuple that the plan gave holds its memory. A constant that
//    the plan keeps, a weight that it hands on and a result that it gives twice are copied.
// 3. Memory that a compiler owns comes without a count of who holds it. Two outputs at one address are told apart by
//    that address; a constant of a compiler is copied where its plan is made (pijit/compilers/_prepare.py).
#pragma once
#include <optional>

#include "adapter.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

class PlanOutputs {
 public:
  // Before a native replay, whose inputs may be gone behind it.
  PlanOutputs(const Vec<uint32_t>& bound, const Vec<uint32_t>& free, const Vec<uint32_t>& outputs, const Reg* regs);
  // Native replay has given the outputs.
  void note(const Reg* regs);
  // The output as the program may have it; undefined: it does not share what it should, or cannot be copied. All
  // outputs before it are in their registers. `has_history`: autograd may hold it, too.
  at::Tensor taken(size_t output, PyObject* made, const Reg* regs, bool has_history) const;

 private:
  struct Source {
    std::optional<uint32_t> reg;  // none: the output has memory of its own
    int64_t offset = 0;           // of the output behind the source, in elements
    bool is_same = false;         // they are one tensor
    size_t others = 0;            // outputs behind it that share its memory
  };
  struct Input {
    uint32_t reg;
    // Held, so that nothing else has these addresses before note().
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int64_t offset;
  };
  bool is_repeated(size_t output, const Impl* tensor, const Reg* regs) const noexcept;

  Vec<uint32_t> outputs_at_;
  std::vector<Input> inputs_;
  std::vector<Source> sources_;  // by output
};

}  // namespace pijit::torch_adapter
