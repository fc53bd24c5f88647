// Operators that a call dispatches beneath autograd, to be dispatched once more for a graph of a device.
//
// 1. Bindings of torch give up the GIL at each operator, and so do those that begin and end a capture. A thread that got
//    it in between, and waited for the whole device, would be told that it may not: in its own code. So the operators
//    are seen once, and dispatched for the capture by C++ that keeps the GIL from its begin to its end.
// 2. Of what is seen the tensors of the call are put in anew each time, and those that operators made. All others, such
//    as weights, stay.
// 3. Code that a compiler has made is one C function of a list of tensors: it is called for the capture as it is.
#pragma once
#include "torch/below.h"
#include "torch/tape_values.h"

namespace pijit::torch_adapter {

// An argument that has tensors: one, or a list of them.
struct LaunchArgument {
  enum Kind : uint8_t { kTensor, kList, kOptionalList };
  Kind kind;
  size_t at;             // among the arguments
  Vec<uint32_t> values;  // kNone: undefined, or None
};

struct Launch {
  const OperatorInfo* info;
  torch::jit::Stack arguments;  // without these tensors
  std::vector<LaunchArgument> tensors;
  std::vector<Vec<uint32_t>> results;  // a value each, or those of a list
  Vec<uint32_t> drops;                 // values that nothing needs behind it
};

class Launches final : public BelowAutograd {
 public:
  explicit Launches(const std::vector<at::Tensor>& inputs);
  void before(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept override;
  void after(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept override;
  // The call has given these. False: they could not be had from what was seen.
  bool finish(const std::vector<at::Tensor>& outputs);

  // The same operators on other tensors of the same forms.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

 private:
  void see(const OperatorInfo& info, const torch::jit::Stack& stack);
  uint32_t value_of(const at::Tensor& tensor);
  bool add_argument(const c10::IValue& argument, size_t at);
  bool add_result(const c10::IValue& result);

  TapeValues values_;  // node 0: given or made; kNone: it was there before
  std::vector<std::pair<uint32_t, at::Tensor>> constants_;
  std::vector<Launch> all_;
  Vec<uint32_t> inputs_, outputs_;
  bool failed_ = false;
};

// For Python, as methods of the adapter's module.
extern PyMethodDef kWatchLaunches, kCaptureLaunches, kCaptureCall, kCanHold, kBeginCapture, kEndCapture;

}  // namespace pijit::torch_adapter
