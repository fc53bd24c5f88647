// Tensors as Python numbers, and the bindings that look at a tensor or change it without dispatching.
#include "torch/calls.h"
#include "torch/kept.h"
#include "torch/literals.h"
#include "torch/metadata.h"

namespace pijit::torch_adapter {
namespace {

enum class Number : uint8_t { kItem, kInt, kFloat, kTruth, kNotTruth };
constexpr const char* kNumberNames[] = {"item", "int", "float", "bool", "not"};

// float() of a tensor that requires a gradient warns, in its binding, once in a process.
bool g_float_warned = false;

// One element as a scalar register. Reads only.
class NumberOp final : public KeptOp<NumberOp> {
 public:
  static constexpr const char* kName = "number";
  NumberOp() = default;
  NumberOp(uint32_t self, Number number, Val out, Rep rep)
      : self_(self), out_(out.index()), number_(number), rep_(rep) {}

  bool run(Reg* regs) noexcept override {
    try {
      at::Tensor self = share(regs[self_].tensor);
      Reg& out = regs[out_];
      out.owned = 0;
      out.rep = rep_;
      if (number_ == Number::kTruth || number_ == Number::kNotTruth) {
        out.boolean = self.is_nonzero() != (number_ == Number::kNotTruth);
        return true;
      }
      if (self.numel() != 1 || may_warn(self)) return false;
      return store(self.item(), out);
    } catch (...) {
      return refuse();
    }
  }

  bool is_repeatable() const noexcept override { return true; }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = std::string("tensor::") + kNumberNames[static_cast<size_t>(number_)];
    made.repeatable = true;
    made.add(self_argument(self_));
    made.give(out_);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    choice_field(each, number_, std::size(kNumberNames));
    choice_field(each, rep_, static_cast<size_t>(Rep::kBool) + 1);
    each.reg(out_, rep_);
  }

 private:
  // The binding has not had its say yet: CPython calls it.
  bool may_warn(const at::Tensor& self) const {
    if (number_ != Number::kFloat || !self.requires_grad()) return false;
    return !std::exchange(g_float_warned, true) || c10::WarningUtils::get_warnAlways();
  }
  bool store(const c10::Scalar& value, Reg& out) const {
    if (value.isComplex()) return false;
    if (number_ == Number::kFloat) {
      out.number = value.to<double>();
      return true;
    }
    if (number_ == Number::kInt) {
      if (value.isFloatingPoint() && !(std::abs(value.to<double>()) < 9e18)) return false;
      out.integer = value.isFloatingPoint() ? static_cast<int64_t>(value.to<double>()) : value.to<int64_t>();
      return true;
    }
    Rep rep = value.isBoolean() ? Rep::kBool : value.isFloatingPoint() ? Rep::kFloat : Rep::kInt;
    if (rep != rep_) return false;
    if (rep == Rep::kBool)
      out.boolean = value.toBool();
    else if (rep == Rep::kFloat)
      out.number = value.toDouble();
    else
      out.integer = value.toLong();
    return true;
  }

  uint32_t self_ = 0, out_ = 0;
  Number number_ = Number::kItem;
  Rep rep_ = Rep::kEmpty;
};

// contiguous(): the tensor itself if it is contiguous already, as the binding does it.
class ContiguousOp final : public KeptOp<ContiguousOp> {
 public:
  static constexpr const char* kName = "contiguous";
  ContiguousOp() = default;
  ContiguousOp(uint32_t self, uint32_t out, at::MemoryFormat format) : self_(self), out_(out), format_(format) {}

  bool run(Reg* regs) noexcept override {
    try {
      at::Tensor self = share(regs[self_].tensor);
      put(regs[out_], self.is_contiguous(format_) ? std::move(self) : self.contiguous(format_));
      return true;
    } catch (...) {
      return refuse();
    }
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "aten::contiguous";
    made.add(self_argument(self_));
    made.add(OperatorArgument::of_literal("memory_format", python_object(format_)));
    made.arguments.back().keyword = true;
    made.arguments.back().usual = format_ == at::MemoryFormat::Contiguous;
    made.give(out_, 0);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    each.reg(out_, Rep::kTensor);
    choice_field(each, format_, static_cast<size_t>(at::MemoryFormat::NumOptions));
  }

 private:
  uint32_t self_ = 0, out_ = 0;
  at::MemoryFormat format_ = at::MemoryFormat::Contiguous;
};

class DataOp final : public KeptOp<DataOp> {
 public:
  static constexpr const char* kName = "data";
  DataOp() = default;
  DataOp(uint32_t self, uint32_t out) : self_(self), out_(out) {}
  bool run(Reg* regs) noexcept override {
    try {
      put(regs[out_], share(regs[self_].tensor).variable_data());
      return true;
    } catch (...) {
      return refuse();
    }
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::data";
    made.add(self_argument(self_));
    made.give(out_, 0);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    each.reg(out_, Rep::kTensor);
  }

 private:
  uint32_t self_ = 0, out_ = 0;
};

class SetRequiresGradOp final : public KeptOp<SetRequiresGradOp> {
 public:
  static constexpr const char* kName = "set_requires_grad";
  SetRequiresGradOp() = default;
  SetRequiresGradOp(uint32_t self, bool value) : self_(self), value_(value) {}
  bool run(Reg* regs) noexcept override {
    try {
      at::Tensor self = share(regs[self_].tensor);
      if (!self.is_leaf() || (value_ && !self.is_floating_point() && !self.is_complex())) return false;
      self.set_requires_grad(value_);
      return true;
    } catch (...) {
      return refuse();
    }
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::set_requires_grad";
    made.add(self_argument(self_, true));
    made.add(literal_argument("value", c10::IValue(value_)));
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    each.number(value_);
  }

 private:
  uint32_t self_ = 0;
  bool value_ = false;
};

[[maybe_unused]] const bool kKeptNumbers =
    add_maker<NumberOp>() && add_maker<ContiguousOp>() && add_maker<DataOp>() && add_maker<SetRequiresGradOp>();

Val emit_bool(Recording& recording, Val tensor, Number number) {
  const Val result = recording.api.new_reg(Rep::kBool, &PyBool_Type);
  recording.api.emit(std::make_unique<NumberOp>(tensor.index(), number, result, Rep::kBool), {tensor}, {result}, false);
  return result;
}

bool only(const Eye& eye, const char* base) {
  return eye.ops.size() == 1 && eye.ops[0].info->base == base;
}

}  // namespace

bool finish_number(Recording& recording, const CallSite&, PyObject* object, Val* result) {
  if (recording.operands != 1 || recording.arg(0).kind != ArgKind::kTensor) return false;
  if (!only(recording.eye, "item") && !only(recording.eye, "_local_scalar_dense")) return false;
  PyTypeObject* type = Py_TYPE(object);
  Rep rep = type == &PyBool_Type    ? Rep::kBool
            : type == &PyLong_Type  ? Rep::kInt
            : type == &PyFloat_Type ? Rep::kFloat
                                    : Rep::kEmpty;
  if (rep == Rep::kEmpty) return false;
  Rule rule = recording.callable->rule;
  Number number = rule == Rule::kToInt ? Number::kInt : rule == Rule::kToFloat ? Number::kFloat : Number::kItem;
  Val self = recording.arg(0).value;
  *result = recording.api.new_reg(rep, type);
  recording.api.emit(std::make_unique<NumberOp>(self.index(), number, *result, rep), {self}, {*result}, false);
  return true;
}

bool finish_truth(Recording& recording, const CallSite& site, Val* result) {
  if (recording.operands != 1 || recording.arg(0).kind != ArgKind::kTensor || !only(recording.eye, "is_nonzero"))
    return false;
  const bool invert = site.kind == SiteKind::kUnary;
  *result = emit_bool(recording, recording.arg(0).value, invert ? Number::kNotTruth : Number::kTruth);
  return true;
}

Val emit_truth(Recording& recording, Val tensor) {
  return emit_bool(recording, tensor, Number::kTruth);
}

bool finish_contiguous(Recording& recording, const CallSite&, PyObject* object, Val* result) {
  if (recording.arg(0).kind != ArgKind::kTensor || recording.operands > 2 || !recording.follows(object)) return false;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  if (recording.operands == 2) {
    if (recording.arg(1).kind != ArgKind::kMemoryFormat) return false;
    format = static_cast<at::MemoryFormat>(recording.arg(1).integer);
  }
  if (!recording.eye.ops.empty() && !only(recording.eye, "contiguous")) return false;
  Val self = recording.arg(0).value;
  *result = recording.api.new_reg(Rep::kTensor, recording.arg(0).type == tensor_type() ? tensor_type() : nullptr);
  recording.api.emit(std::make_unique<ContiguousOp>(self.index(), result->index(), format), {self}, {*result}, false);
  return true;
}

bool finish_data(Recording& recording, const CallSite&, PyObject* object, Val* result) {
  if (recording.arg(0).kind != ArgKind::kTensor || !recording.eye.ops.empty() || !is_plain_tensor(object)) return false;
  Val self = recording.arg(0).value;
  *result = recording.api.new_reg(Rep::kTensor, tensor_type());
  recording.api.emit(std::make_unique<DataOp>(self.index(), result->index()), {self}, {*result}, false);
  return true;
}

CallFate begin_set_requires_grad(Recording& recording, const CallSite&) {
  const Arg& self = recording.arg(0);
  return self.kind == ArgKind::kTensor ? CallFate::kObserve : CallFate::kUnknown;
}

bool finish_set_requires_grad(Recording& recording, const CallSite&, PyObject*, Val* result) {
  bool value = true;
  if (!recording.eye.ops.empty() || recording.operands > 2) return false;
  if (recording.operands == 2) {
    if (recording.arg(1).kind != ArgKind::kBool || recording.arg(1).dynamic) return false;
    value = recording.arg(1).integer != 0;
  }
  Val self = recording.arg(0).value;
  recording.api.emit(std::make_unique<SetRequiresGradOp>(self.index(), value), {self}, {}, false);
  recording.forget_autograd();
  *result = self;
  return true;
}

}  // namespace pijit::torch_adapter
