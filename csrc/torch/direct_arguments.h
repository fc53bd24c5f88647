// How each C++ argument type of an operator is made of a constant or a register.
//
// DirectArgument<T> has
//   kName  the type in a schema
//   bind   takes what the recording knows; false: not of a kind that is made here
//   make   the argument for one call: something that converts to T and lives until the call returns
#pragma once
#include "torch/lent.h"
#include "torch/lowered.h"

namespace pijit::torch_adapter {

// Constants that a copy of the value stands for.
template <typename T>
class ConstantArgument {
 public:
  bool bind(const LoweredOp& op, size_t i) {
    if (op.slot(i).kind != Slot::kConst) return false;
    value_ = op.value(i).template to<T>();
    return true;
  }
  const T& make(const Reg*) const noexcept { return value_; }

 private:
  T value_{};
};

template <typename T>
class DirectArgument;

#define PIJIT_CONSTANT(type, name)                             \
  template <>                                                  \
  class DirectArgument<type> : public ConstantArgument<type> { \
   public:                                                     \
    static constexpr const char* kName = name;                 \
  };
PIJIT_CONSTANT(at::ScalarType, "ScalarType")
PIJIT_CONSTANT(at::MemoryFormat, "MemoryFormat")
PIJIT_CONSTANT(std::optional<at::ScalarType>, "ScalarType?")
PIJIT_CONSTANT(std::optional<at::MemoryFormat>, "MemoryFormat?")
PIJIT_CONSTANT(std::optional<double>, "float?")
#undef PIJIT_CONSTANT

template <>
class DirectArgument<const at::Tensor&> {
 public:
  static constexpr const char* kName = "Tensor";
  bool bind(const LoweredOp& op, size_t i) {
    const Slot& slot = op.slot(i);
    reg_ = slot.reg;
    if (slot.kind == Slot::kTensor) return true;
    if (slot.kind != Slot::kConst || !op.value(i).isTensor()) return false;
    constant_ = op.value(i).toTensor();
    return constant_.defined();
  }
  Lent make(const Reg* regs) const noexcept {
    return Lent(constant_.defined() ? constant_.unsafeGetTensorImpl() : regs[reg_].tensor);
  }

 private:
  at::Tensor constant_;
  uint32_t reg_ = 0;
};

template <>
class DirectArgument<const std::optional<at::Tensor>&> {
 public:
  static constexpr const char* kName = "Tensor?";
  bool bind(const LoweredOp& op, size_t i) {
    const Slot& slot = op.slot(i);
    none_ = slot.kind == Slot::kConst;
    reg_ = slot.reg;
    return slot.kind == Slot::kTensor || (none_ && op.value(i).isNone());
  }
  MaybeLent make(const Reg* regs) const noexcept { return MaybeLent(none_ ? nullptr : regs[reg_].tensor); }

 private:
  bool none_ = true;
  uint32_t reg_ = 0;
};

// Numbers: a constant, or a register.
template <>
class DirectArgument<const at::Scalar&> {
 public:
  static constexpr const char* kName = "Scalar";
  bool bind(const LoweredOp& op, size_t i) {
    slot_ = op.slot(i);
    if (slot_.kind == Slot::kConst) value_ = op.value(i).toScalar();
    return slot_.kind == Slot::kConst || slot_.kind == Slot::kInt || slot_.kind == Slot::kFloat;
  }
  at::Scalar make(const Reg* regs) const noexcept {
    if (slot_.kind == Slot::kConst) return value_;
    return slot_.kind == Slot::kInt ? at::Scalar(regs[slot_.reg].integer) : at::Scalar(regs[slot_.reg].number);
  }

 private:
  Slot slot_;
  at::Scalar value_;
};

template <>
class DirectArgument<const std::optional<at::Scalar>&> : public ConstantArgument<std::optional<at::Scalar>> {
 public:
  static constexpr const char* kName = "Scalar?";
};

template <>
class DirectArgument<int64_t> {
 public:
  static constexpr const char* kName = "int";
  bool bind(const LoweredOp& op, size_t i) {
    const Slot& slot = op.slot(i);
    constant_ = slot.kind == Slot::kConst;
    if (constant_ && !op.value(i).isInt()) return false;
    value_ = constant_ ? op.value(i).toInt() : slot.reg;
    return constant_ || slot.kind == Slot::kInt;
  }
  int64_t make(const Reg* regs) const noexcept { return constant_ ? value_ : regs[value_].integer; }

 private:
  bool constant_ = true;
  int64_t value_ = 0;
};

template <>
class DirectArgument<c10::SymInt> : public DirectArgument<int64_t> {
 public:
  static constexpr const char* kName = "SymInt";
  c10::SymInt make(const Reg* regs) const { return c10::SymInt(DirectArgument<int64_t>::make(regs)); }
};

template <>
class DirectArgument<std::optional<c10::SymInt>> {
 public:
  static constexpr const char* kName = "SymInt?";
  bool bind(const LoweredOp& op, size_t i) {
    none_ = op.slot(i).kind == Slot::kConst && op.value(i).isNone();
    return none_ || value_.bind(op, i);
  }
  std::optional<c10::SymInt> make(const Reg* regs) const {
    if (none_) return std::nullopt;
    return value_.make(regs);
  }

 private:
  bool none_ = true;
  DirectArgument<c10::SymInt> value_;
};

template <>
class DirectArgument<bool> {
 public:
  static constexpr const char* kName = "bool";
  bool bind(const LoweredOp& op, size_t i) {
    const bool is = op.slot(i).kind == Slot::kConst && op.value(i).isBool();
    if (is) value_ = op.value(i).toBool();
    return is;
  }
  bool make(const Reg*) const noexcept { return value_; }

 private:
  bool value_ = false;
};

template <>
class DirectArgument<double> {
 public:
  static constexpr const char* kName = "float";
  bool bind(const LoweredOp& op, size_t i) {
    const bool is = op.slot(i).kind == Slot::kConst && op.value(i).isDouble();
    if (is) value_ = op.value(i).toDouble();
    return is;
  }
  double make(const Reg*) const noexcept { return value_; }

 private:
  double value_ = 0;
};

template <>
class DirectArgument<std::string_view> {
 public:
  static constexpr const char* kName = "str";
  bool bind(const LoweredOp& op, size_t i) {
    const bool is = op.slot(i).kind == Slot::kConst && op.value(i).isString();
    if (is) value_ = op.value(i).toStringRef();
    return is;
  }
  std::string_view make(const Reg*) const noexcept { return value_; }

 private:
  std::string value_;
};

// Numbers of one call, or those that are the same in every call.
template <typename Item>
class LentNumbers {
 public:
  explicit LentNumbers(c10::ArrayRef<Item> constants) : constants_(constants) {}
  LentNumbers(c10::ArrayRef<Part> parts, const Reg* regs) {
    for (const Part& part : parts) own_.emplace_back(part.constant ? part.value : regs[part.value].integer);
  }
  operator c10::ArrayRef<Item>() const { return own_.empty() ? constants_ : c10::ArrayRef<Item>(own_); }

 private:
  c10::ArrayRef<Item> constants_;
  c10::SmallVector<Item, 5> own_;
};

// Lists of numbers: constants, or also registers.
template <typename Item>
class ListArgument {
 public:
  bool bind(const LoweredOp& op, size_t i) {
    const Slot& slot = op.slot(i);
    for (uint32_t k = 0; slot.kind == Slot::kIntList && k < slot.count; ++k) parts_.push_back(op.part(slot.first + k));
    return slot.kind == Slot::kIntList || bind_constant(op, i);
  }
  bool bind_constant(const LoweredOp& op, size_t i) {
    if (op.slot(i).kind != Slot::kConst || !op.value(i).isIntList()) return false;
    for (int64_t item : op.value(i).toIntVector()) items_.emplace_back(item);
    return true;
  }
  LentNumbers<Item> make(const Reg* regs) const {
    return parts_.empty() ? LentNumbers<Item>(items_) : LentNumbers<Item>(parts_, regs);
  }
  c10::ArrayRef<Item> constants() const noexcept { return items_; }

 private:
  c10::SmallVector<Item, 4> items_;
  c10::SmallVector<Part, 4> parts_;
};

template <>
class DirectArgument<at::IntArrayRef> : public ListArgument<int64_t> {
 public:
  static constexpr const char* kName = "int[]";
};

template <>
class DirectArgument<c10::SymIntArrayRef> : public ListArgument<c10::SymInt> {
 public:
  static constexpr const char* kName = "SymInt[]";
};

template <>
class DirectArgument<at::OptionalIntArrayRef> {
 public:
  static constexpr const char* kName = "int[]?";
  bool bind(const LoweredOp& op, size_t i) {
    none_ = op.slot(i).kind == Slot::kConst && op.value(i).isNone();
    return none_ || items_.bind_constant(op, i);
  }
  at::OptionalIntArrayRef make(const Reg*) const noexcept {
    if (none_) return std::nullopt;
    return items_.constants();
  }

 private:
  bool none_ = true;
  ListArgument<int64_t> items_;
};

class TensorListArgument {
 public:
  static constexpr const char* kName = "Tensor[]";
  bool bind(const LoweredOp& op, size_t i) {
    const Slot& slot = op.slot(i);
    for (uint32_t k = 0; slot.kind == Slot::kTensorList && k < slot.count; ++k)
      parts_.push_back(op.part(slot.first + k));
    return slot.kind == Slot::kTensorList;
  }
  LentList make(const Reg* regs) const { return LentList(parts_.data(), parts_.size(), regs); }

 private:
  c10::SmallVector<Part, 3> parts_;
};

template <>
class DirectArgument<at::TensorList> : public TensorListArgument {};
template <>
class DirectArgument<const at::ITensorListRef&> : public TensorListArgument {};

}  // namespace pijit::torch_adapter
