// What an operator may have changed before it failed or warned, to be put back so that CPython can run it again.
//
// An operator with `out=` sets sizes before it finds that the storage cannot grow; run again, it would find the sizes
// right and write behind the end of the storage. One that draws random numbers may fail after that. Content that was
// written is written again; if an operand is another view of what is written it may be read changed, so such a call is
// left to CPython before it begins.
#pragma once
#include "torch/operators.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

// States of generators before numbers are drawn from them.
class Draws {
 public:
  void keep(at::Generator generator);
  // False: what draws on this device cannot be put back.
  bool keep_default(c10::Device device);
  void put_back() const;
  // The same generators are in the same states.
  bool same_as(const Draws& other) const;

 private:
  struct Kept {
    at::Generator generator;
    c10::intrusive_ptr<c10::TensorImpl> state;
  };
  c10::SmallVector<Kept, 1> kept_;
};

class Undo {
 public:
  // `stack`: the operator's arguments.
  Undo(const OperatorInfo& info, const torch::jit::Stack& stack);

  // Running the operator twice could read what it wrote.
  bool hopeless() const { return hopeless_; }
  void put_back();

 private:
  struct Form {
    at::Tensor tensor;
    c10::SmallVector<int64_t, 5> sizes, strides;
    uint32_t version;
  };
  void keep(const at::Tensor& tensor);
  void keep_generators(const OperatorInfo& info, const torch::jit::Stack& stack);
  void compare(const c10::IValue& read);

  c10::SmallVector<Form, 2> forms_;
  Draws draws_;
  bool hopeless_ = false;
};

}  // namespace pijit::torch_adapter
