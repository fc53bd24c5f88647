// Facts of an ATen operator, derived once from its schema and kept for the life of the process.
#pragma once
#include "torch/pch.h"

namespace pijit::torch_adapter {

enum class Form : uint8_t { kTensor, kTensorList, kInt, kFloat, kScalar, kBool, kIntList, kOther };

struct ArgumentInfo {
  const c10::Argument* argument;
  Form form;
  bool optional;
  bool keyword_only;
  bool out;
  bool written;
  bool options;  // dtype, layout, device, pin_memory: what a factory takes from modes when it is not given
  const std::string& name() const { return argument->name(); }
};

struct OperatorInfo {
  explicit OperatorInfo(const c10::OperatorHandle& op);

  c10::OperatorHandle handle;
  std::string base;  // "add" for aten::add.Tensor
  std::string full;  // "aten::add.Tensor"
  std::vector<ArgumentInfo> arguments;
  size_t returns;
  size_t positional = 0;  // arguments before the keyword-only ones
  bool aten;
  bool mutates = false;      // writes to an argument
  bool reshapes = false;     // changes sizes, strides or storage of an argument in place
  bool random = false;       // draws random numbers
  bool statistics = false;   // a normalisation: writes running statistics in training, which its schema does not tell
  bool accumulates = false;  // a failure in the middle leaves a partial write that running again would double
  bool python = false;       // a kernel was registered from Python
  uint64_t generation = 0;   // of the registrations from Python that `python` was computed for
};

// An operator of this name would, if it failed in the middle, leave a partial write that running it again would double.
bool is_accumulating(const std::string& base) noexcept;

// The facts of an operator; callable with or without the GIL.
const OperatorInfo& operator_info(const c10::OperatorHandle& op);

// An ATen operator has an autograd kernel registered from Python. GIL held.
bool python_autograd_kernels();

// Looks at torch.library for kernels registered from Python. GIL held.
void refresh_python_kernels();

}  // namespace pijit::torch_adapter
