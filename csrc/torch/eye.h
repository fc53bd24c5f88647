// The operator eye: notes every ATen operator that one thread dispatches while a call is observed.
//
// It is a boxed fallback on a dispatch key above all others, switched on by the thread-local include set. It sees what
// the C++ bindings hand to the dispatcher, not what they decided before or do without it; so what it notes is compared
// with a rule. Operators outside of observed calls are only counted (torch/watch.h).
//
// 1. It owns no tensor: arguments are noted by address (the observed call keeps its operands alive, a result that dies
//    is held by a weak pointer until close(), so that no address is used twice). Wrapped numbers are the exception: they
//    own a few bytes.
// 2. It may run without the GIL: no Python object is touched.
// 3. State is thread-local. A thread that has the key but no live eye (it may inherit the key) clears it and passes
//    through.
// 4. No Python code runs while the key is included: torch decides by the highest included key where it dispatches in
//    Python. So the key is there only while an observed call is under way, neither in the operators that this call
//    dispatches, nor in frames that C code enters beside it (pause). Operators that torch.Tensor has in Python (x in y)
//    are the exception: they are observed.
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
  static Eye* of_thread_if_any() noexcept;  // null: nothing was ever recorded or counted on this thread

  void start();  // begins a recording
  void stop() noexcept;
  void count(bool on);
  void open();                     // an observed call begins
  void close() noexcept;           // an observed call ends: what was noted is forgotten
  void pause(bool away) noexcept;  // Python code runs in the middle of what is observed, or has ended
  bool has_key() const;            // the thread still has the dispatch key, in an observed call
  bool is_watching() const;        // operators outside of observed calls are told
  uint64_t counted() const { return counted_; }

  void begin_operator(const char* name) noexcept;
  void end_operator() noexcept { depth_ -= depth_ > 0; }

  // The fallback's body.
  void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  const SeenValue& argument(const SeenOp& op, size_t i) const { return values[op.arguments + i]; }
  const SeenValue& result(const SeenOp& op, size_t i) const { return values[op.results + i]; }

  std::vector<SeenOp> ops;
  std::vector<SeenValue> values;
  std::vector<Impl*> items;
  uint32_t unexpected = 0;                    // operators outside of an observed call
  std::vector<const OperatorInfo*> expected;  // those that C code is about to run there, in order
  uint32_t warnings = 0;                      // issued by operators of the observed call

 private:
  friend class EyeClosed;
  class KeyAway;
  void note(const c10::IValue& value);
  void set_key() const;
  void set_watch() const noexcept;

  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> held_;
  bool recording_ = false, open_ = false, counting_ = false, paused_ = false;
  uint32_t depth_ = 0;   // operators under way
  uint32_t closed_ = 0;  // uses of ATen by the adapter itself
  uint64_t counted_ = 0;
};

// Keeps the adapter's own use of ATen out of the eye.
class EyeClosed {
 public:
  EyeClosed() : eye_(Eye::of_thread_if_any()) {
    if (eye_ != nullptr) eye_->closed_ += 1;
    if (eye_ != nullptr) eye_->set_key();
  }
  ~EyeClosed() {
    if (eye_ != nullptr) eye_->closed_ -= 1;
    if (eye_ != nullptr) eye_->set_key();
  }
  EyeClosed(const EyeClosed&) = delete;
  EyeClosed& operator=(const EyeClosed&) = delete;

 private:
  Eye* eye_;
};

}  // namespace pijit::torch_adapter
