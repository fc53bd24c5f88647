// Executable operations of a trace: a boxed ATen operator, and a Python callable called with registers.
//
// An operator keeps everything that is constant as IValues, prepared while recording; a run pushes them and the
// registers on a stack that the thread reuses, calls the operator below all Python, and moves the results into
// registers.
//
// 1. False means that nothing happened. An operator that raised checked its arguments before it wrote. Others that fail
//    in the middle write the same values again when CPython runs the original, and then raise its error. Those that
//    would count double then (OperatorInfo::accumulates) are not run again: the instruction raises their error
//    (Adapter::raised). Only the bindings that make the same error of it are lowered that way.
//    Sizes, strides and versions of `out=` tensors and the state of the generator are put back (undo.h).
// 2. An operator that warned and has no side effect, or one that can be put back, is undone: CPython runs it again and
//    warns with the right line. Another one issues its warning at once.
// 3. Release of the GIL is the core's decision.
#pragma once
#include <algorithm>
#include <iterator>

#include "adapter.h"
#include "ir/call.h"
#include "torch/eye.h"
#include "torch/kept.h"

namespace pijit::torch_adapter {

// How one argument is pushed.
struct Slot {
  enum Kind : uint8_t {
    kConst,   // `value`
    kTensor,  // register
    kInt,     // int register as it is
    kIntAsFloat,
    kFloat,
    kBool,
    kBoolAsInt,
    kNumber,        // scalar register as a tensor that counts as a Python number
    kIntList,       // parts: ints or int registers
    kNumberList,    // parts: registers with ints and floats, the others are those of `value`
    kTensorList,    // parts: tensor registers
    kOptionalList,  // parts: tensor registers or None
  };
  Kind kind = kConst;
  uint32_t reg = 0;
  uint32_t first = 0, count = 0;  // parts
};

struct Part {
  bool constant;
  int64_t value;  // the constant, or the register
};

// What becomes of one result.
struct Out {
  enum Kind : uint8_t { kDrop, kUndefined, kTensor, kTensorList, kInt, kFloat, kBool };
  Kind kind = kDrop;
  uint32_t reg = 0;  // kTensorList: first in `regs`
  uint32_t count = 0;
};

// A backend has an autograd kernel of its own for the operator: it may do anything.
inline bool has_backend_autograd(const c10::OperatorHandle& op) {
  constexpr c10::DispatchKey kKeys[] = {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA,
                                        c10::DispatchKey::AutogradXPU, c10::DispatchKey::AutogradMPS,
                                        c10::DispatchKey::AutogradXLA, c10::DispatchKey::AutogradPrivateUse1};
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); });
}

// What the autograd kernel of an operator does when there is nothing to record: it hands on to a later key, with these
// keys out of the way. Empty: the operator has no such kernel (its parts have), or does more.
inline c10::DispatchKeySet skipped_keys(const OperatorInfo& info) {
  const c10::OperatorHandle& op = info.handle;
  if (!info.aten || info.mutates || !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd)) return {};
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) || python_autograd_kernels() ||
      has_backend_autograd(op))
    return {};
  if (op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView)) return c10::autograd_dispatch_keyset;  // a view
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView;
}

// An operator without tensor operands, or that looks only at their form, makes its result: the bindings of torch call
// it below autograd, where what fills a new tensor does not count as a change of it.
inline bool is_factory(const OperatorInfo& info) {
  const std::string& name = info.base;
  if (info.aten && !info.mutates &&
      ((name.size() > 5 && name.compare(name.size() - 5, 5, "_like") == 0) || name == "linspace" || name == "logspace"))
    return true;
  for (const c10::Argument& argument : info.handle.schema().arguments())
    if (argument.type()->str().find("Tensor") != std::string::npos) return false;
  return info.aten;
}

// Skips the autograd kernel of one operator where it would do nothing: grad mode is off, and there is no tangent in the
// process; or where the bindings skip it.
class SkipAutograd {
 public:
  SkipAutograd(c10::DispatchKeySet skipped, bool factory) {
    if (factory) {
      below_.emplace(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    } else if (!skipped.empty() && !c10::GradMode::is_enabled() &&
               torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr) {
      below_.emplace(skipped);
    }
  }

 private:
  std::optional<c10::impl::ExcludeDispatchKeyGuard> below_;
};

// The number in a register as a tensor that counts as a Python number.
at::Tensor number_tensor(const Reg& reg);

class LoweredOp final : public AdapterOp {
 public:
  // `by_name`: the program calls the operator itself, not a binding that goes below autograd.
  explicit LoweredOp(const OperatorInfo& info, bool by_name = false)
      : info_(info), by_name_(by_name), in_level_(in_level()) {
    const bool levels = in_level_;  // they decide what the operator is, and whether autograd has something to do
    pure_ = !info.mutates && !info.random && !levels;
    const bool factory = is_factory(info);
    factory_ = factory && !by_name;
    if (!levels && (!factory || !by_name))
      skipped_ = skipped_keys(info);  // what fills the tensor counts as a change of it
    values_.resize(info.arguments.size());
    slots_.resize(info.arguments.size());
  }
  bool run(Reg* regs) noexcept override;
  bool is_repeatable() const noexcept override {
    return pure_ && (!info_.statistics || is_false({"training", "use_input_stats"}));
  }
  OperatorCall call() const override;
  bool keep(Words& words) const override;
  static constexpr const char* kName = "operator";
  static std::unique_ptr<AdapterOp> make(Reading& each);

  // -- filled in while recording
  void set_constant(size_t argument, const c10::IValue& value) { values_[argument] = value; }
  void set_slot(size_t argument, Slot slot) { slots_[argument] = slot; }
  void note_result(const c10::TensorImpl* tensor) { on_device_ |= !tensor->device().is_cpu(); }
  uint32_t add_part(Part part) {
    parts_.push_back(part);
    return static_cast<uint32_t>(parts_.size() - 1);
  }
  uint32_t add_list_reg(uint32_t reg) {
    list_regs_.push_back(reg);
    return static_cast<uint32_t>(list_regs_.size() - 1);
  }
  Vec<Out>& outs() { return outs_; }
  const OperatorInfo& info() const { return info_; }

  // -- read by a direct operation that takes its place (direct.h)
  const Slot& slot(size_t argument) const { return slots_[argument]; }
  const c10::IValue& value(size_t argument) const { return values_[argument]; }
  const Part& part(size_t i) const { return parts_[i]; }
  uint32_t list_reg(size_t i) const { return list_regs_[i]; }
  const Vec<Out>& outs() const { return outs_; }
  // Random numbers, other than without a dropout.
  bool draws() const noexcept { return info_.random && !is_false({"train", "training", "dropout_p"}); }
  c10::DispatchKeySet skipped() const { return skipped_; }
  bool factory() const { return factory_; }

  Vals inputs, outputs;  // for RecordApi::emit

 private:
  // A constant argument of one of these names is False, or zero.
  bool is_false(std::initializer_list<const char*> names) const noexcept;
  bool is_constant(size_t argument) const noexcept { return slots_[argument].kind == Slot::kConst; }
  OperatorArgument argument(size_t i) const;
  OperatorResult result(size_t i) const;
  void push(torch::jit::Stack& stack, size_t argument, const Reg* regs) const;
  bool store(torch::jit::Stack& stack, Reg* regs) const;
  static bool raise() noexcept;
  template <class Fields>
  void fields(Fields& each);
  template <class Fields>
  void slot_field(Fields& each, size_t argument);
  template <class Fields>
  void out_field(Fields& each, Out& out);
  bool has_parts(const Slot& slot, const Reading& each) const;

  const OperatorInfo& info_;
  Vec<Slot> slots_;
  Vec<c10::IValue> values_;
  Vec<Part> parts_;
  Vec<uint32_t> list_regs_;
  Vec<Out> outs_;
  c10::DispatchKeySet skipped_;
  bool on_device_ = false;  // a result lies on another device than the CPU
  const bool by_name_, in_level_;
  bool pure_, factory_;
};

// Catches warnings of operators that run without a Python binding above them.
class WarningTrap {
 public:
  WarningTrap();
  ~WarningTrap();  // forgets what was caught and not kept
  WarningTrap(const WarningTrap&) = delete;
  WarningTrap& operator=(const WarningTrap&) = delete;
  // The operator has run: the core is to issue what was caught.
  void keep();

 private:
  c10::WarningHandler* outer_;
  size_t before_;
};

// Issues what was kept as torch's Python binding does; false: one became an exception, and the others are forgotten.
bool issue_kept_warnings();
void forget_kept_warnings();

}  // namespace pijit::torch_adapter
