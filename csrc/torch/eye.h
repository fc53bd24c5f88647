// The operator eye: notes every ATen operator that one thread dispatches while a call is observed.
//
// It is a boxed fallback on a dispatch key above all others, switched on by the thread-local include set. It sees what
// the C++ bindings hand to the dispatcher, not what they decided before or do without it; so what it notes is compared
// with a rule.
//
// 1. It owns no tensor: arguments are noted by address (the observed call keeps its operands alive, a result that dies
// is held by a
//    weak pointer until close(), so that no address is used twice). Wrapped numbers are the exception: they own a few
//    bytes.
// 2. It may run without the GIL: no Python object is touched.
// 3. State is thread-local. A thread that has the key but no live eye (autograd workers inherit it, inference mode
// restores it)
//    clears it and passes through.
#pragma once
#include "torch/operators.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

enum class SeenKind : uint8_t { kValue, kTensor, kTensorList };

// An argument or a result of a dispatched operator.
struct SeenValue {
  SeenKind kind = SeenKind::kValue;
  bool wrapped = false;           // kTensor: a Python number in disguise, kept in `value`
  Impl* tensor = nullptr;         // kTensor: null when undefined
  uint32_t first = 0, count = 0;  // kTensorList: range in Eye::items (null: None)
  c10::IValue value;              // kValue
};

struct SeenOp {
  const OperatorInfo* info;
  uint32_t arguments;  // first in Eye::values
  uint32_t results;
};

class Eye {
 public:
  static Eye& of_thread();

  void start();  // begins a recording
  void stop() noexcept;
  void count(bool on);
  void open();            // an observed call begins
  void close() noexcept;  // an observed call ends: what was noted is forgotten
  bool is_open() const { return open_; }
  bool recording() const { return recording_; }
  bool has_key() const;  // the thread still has the dispatch key
  uint64_t counted() const { return counted_; }

  // The fallback's body.
  void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  const SeenValue& argument(const SeenOp& op, size_t i) const { return values[op.arguments + i]; }
  const SeenValue& result(const SeenOp& op, size_t i) const { return values[op.results + i]; }

  std::vector<SeenOp> ops;
  std::vector<SeenValue> values;
  std::vector<Impl*> items;
  uint32_t unexpected = 0;  // operators outside of an observed call
  uint32_t warnings = 0;    // issued by operators of the observed call

 private:
  void note(const c10::IValue& value);
  void set_key() const;

  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> held_;
  bool recording_ = false, open_ = false, counting_ = false;
  uint64_t counted_ = 0;
};

// Keeps the adapter's own use of ATen out of the eye.
class EyeClosed {
 public:
  EyeClosed() : guard_(c10::DispatchKey::TESTING_ONLY_GenericMode) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace pijit::torch_adapter
