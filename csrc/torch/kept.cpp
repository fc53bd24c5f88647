// Operators of ATen as words, and the table of all operations that are made of words.
#include "torch/kept.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch/direct.h"
#include "torch/lowered.h"
#include "torch/recording.h"
#include "torch/torch_adapter.h"

namespace pijit::torch_adapter {
namespace {

// What a constant argument of an operator is. Others, such as tensors and generators, are not kept.
enum class Tag : uint8_t {
  kNone,
  kUndefined,
  kNumber,
  kBool,
  kInt,
  kFloat,
  kComplex,
  kText,
  kDevice,
  kInts,
  kFloats,
  kBools
};
constexpr size_t kTags = static_cast<size_t>(Tag::kBools) + 1;

bool is_number_tensor(const at::Tensor& tensor) {
  return tensor.dim() == 0 && tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

Tag tag_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? Tag::kNumber : Tag::kUndefined;
  if (value.isBool()) return Tag::kBool;
  if (value.isInt()) return Tag::kInt;
  if (value.isDouble()) return Tag::kFloat;
  if (value.isComplexDouble()) return Tag::kComplex;
  if (value.isString()) return Tag::kText;
  if (value.isDevice()) return Tag::kDevice;
  if (value.isIntList()) return Tag::kInts;
  if (value.isDoubleList()) return Tag::kFloats;
  return value.isBoolList() ? Tag::kBools : Tag::kNone;
}

template <class Number, class Fields>
void number_value(Fields& each, c10::IValue& value) {
  Number number{};
  if constexpr (!Fields::kReads) number = value.to<Number>();
  each.number(number);
  if constexpr (Fields::kReads) value = number;
}

template <class Number, class Fields>
void list_value(Fields& each, c10::IValue& value) {
  std::vector<Number> numbers;
  if constexpr (!Fields::kReads) numbers = value.to<std::vector<Number>>();
  size_t count = numbers.size();
  choice_field(each, count, 1 << 16);
  c10::List<Number> list;
  for (size_t i = 0; i < count && each.ok(); ++i) {
    Number number{};
    if constexpr (!Fields::kReads) number = numbers[i];
    each.number(number);
    list.push_back(number);
  }
  if constexpr (Fields::kReads) value = list;
}

template <class Fields>
void value_field(Fields& each, c10::IValue& value);

// As the dispatcher gets a number where an operator has a tensor.
template <class Fields>
void number_tensor_value(Fields& each, c10::IValue& value) {
  c10::IValue number;
  if constexpr (!Fields::kReads) {
    if (!is_number_tensor(value.toTensor())) return each.fail();
    number = value.toTensor().item();
  }
  value_field(each, number);
  if constexpr (Fields::kReads) {
    if (!number.isScalar()) return each.fail();
    value = at::native::wrapped_scalar_tensor(number.toScalar());
  }
}

template <class Fields>
void complex_value(Fields& each, c10::IValue& value) {
  double real = 0, imaginary = 0;
  if constexpr (!Fields::kReads) real = value.toComplexDouble().real(), imaginary = value.toComplexDouble().imag();
  each.number(real);
  each.number(imaginary);
  if constexpr (Fields::kReads) value = c10::complex<double>(real, imaginary);
}

template <class Fields>
void text_value(Fields& each, c10::IValue& value) {
  std::string text;
  if constexpr (!Fields::kReads) text = value.toStringRef();
  each.text(text);
  if constexpr (Fields::kReads) value = text;
}

template <class Fields>
void device_value(Fields& each, c10::IValue& value) {
  c10::Device device = c10::kCPU;
  if constexpr (!Fields::kReads) device = value.toDevice();
  device_field(each, device);
  if constexpr (Fields::kReads) value = device;
}

template <class Fields>
void value_field(Fields& each, c10::IValue& value) {
  Tag tag = tag_of(value);
  if constexpr (!Fields::kReads)
    if (tag == Tag::kNone && !value.isNone()) return each.fail();
  choice_field(each, tag, kTags);
  switch (tag) {
    case Tag::kNone:
      return;
    case Tag::kUndefined:
      value = at::Tensor();
      return;
    case Tag::kNumber:
      return number_tensor_value(each, value);
    case Tag::kBool:
      return number_value<bool>(each, value);
    case Tag::kInt:
      return number_value<int64_t>(each, value);
    case Tag::kFloat:
      return number_value<double>(each, value);
    case Tag::kComplex:
      return complex_value(each, value);
    case Tag::kText:
      return text_value(each, value);
    case Tag::kDevice:
      return device_value(each, value);
    case Tag::kInts:
      return list_value<int64_t>(each, value);
    case Tag::kFloats:
      return list_value<double>(each, value);
    case Tag::kBools:
      return list_value<bool>(each, value);
  }
}

Rep rep_of(Slot::Kind kind) {
  switch (kind) {
    case Slot::kTensor:
      return Rep::kTensor;
    case Slot::kInt:
    case Slot::kIntAsFloat:
      return Rep::kInt;
    case Slot::kFloat:
      return Rep::kFloat;
    case Slot::kBool:
    case Slot::kBoolAsInt:
      return Rep::kBool;
    default:
      return Rep::kEmpty;
  }
}

bool is_list(Slot::Kind kind) {
  return kind == Slot::kIntList || kind == Slot::kTensorList || kind == Slot::kOptionalList ||
         kind == Slot::kNumberList;
}

[[maybe_unused]] const bool kKeptOperators = add_maker<LoweredOp>();

}  // namespace

std::unordered_map<std::string, OpMaker>& op_makers() {
  static auto* all = new std::unordered_map<std::string, OpMaker>;
  return *all;
}

template <class Fields>
void LoweredOp::slot_field(Fields& each, size_t argument) {
  Slot& slot = slots_[argument];
  choice_field(each, slot.kind, static_cast<size_t>(Slot::kOptionalList) + 1);
  if (slot.kind == Slot::kConst) return value_field(each, values_[argument]);
  if (!is_list(slot.kind)) {
    each.reg(slot.reg, rep_of(slot.kind));
    if constexpr (Fields::kReads)
      if (slot.kind == Slot::kNumber && !is_number(each.rep(slot.reg))) each.fail();
    return;
  }
  each.number(slot.first);
  each.number(slot.count);
  if (slot.kind == Slot::kNumberList) each.fail();  // mixed with constants of other types
}

template <class Fields>
void LoweredOp::out_field(Fields& each, Out& out) {
  choice_field(each, out.kind, static_cast<size_t>(Out::kBool) + 1);
  constexpr Rep kReps[] = {Rep::kEmpty, Rep::kEmpty, Rep::kTensor, Rep::kEmpty, Rep::kInt, Rep::kFloat, Rep::kBool};
  if (out.kind == Out::kDrop || out.kind == Out::kUndefined) return;
  if (out.kind != Out::kTensorList) return each.reg(out.reg, kReps[out.kind]);
  each.number(out.reg);
  each.number(out.count);
}

template <class Fields>
void LoweredOp::fields(Fields& each) {
  for (size_t i = 0; i < slots_.size(); ++i) slot_field(each, i);
  each.list(parts_, [&](Part& part) {
    each.number(part.constant);
    auto reg = static_cast<uint32_t>(part.value);
    if (part.constant) return each.number(part.value);
    each.reg(reg, Rep::kEmpty);
    part.value = reg;
  });
  each.list(list_regs_, [&](uint32_t& reg) { each.reg(reg, Rep::kTensor); });
  each.list(outs_, [&](Out& out) { out_field(each, out); });
  each.number(on_device_);
}

// The parts of a list are there, and are of its kind.
bool LoweredOp::has_parts(const Slot& slot, const Reading& each) const {
  if (slot.first > parts_.size() || slot.count > parts_.size() - slot.first) return false;
  const Rep rep = slot.kind == Slot::kIntList ? Rep::kInt : Rep::kTensor;
  for (uint32_t i = slot.first; i < slot.first + slot.count; ++i) {
    if (parts_[i].constant && slot.kind == Slot::kTensorList) return false;
    if (!parts_[i].constant && each.rep(static_cast<uint32_t>(parts_[i].value)) != rep) return false;
  }
  return true;
}

bool LoweredOp::keep(Words& words) const {
  Writing each(words);
  each.text(kName);
  each.text(info_.full);
  each.number(by_name_);
  const_cast<LoweredOp*>(this)->fields(each);
  return each.ok() && !in_level_;
}

std::unique_ptr<AdapterOp> LoweredOp::make(Reading& each) {
  std::string full;
  bool by_name = false;
  each.text(full);
  each.number(by_name);
  const size_t dot = full.find('.');
  const c10::OperatorName name(full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1));
  const std::optional<c10::OperatorHandle> handle = c10::Dispatcher::singleton().findSchema(name);
  if (!each.ok() || !handle || in_level()) return each.fail(), nullptr;
  const OperatorInfo& info = operator_info(*handle);
  auto made = std::make_unique<LoweredOp>(info, by_name);
  made->fields(each);
  bool whole = each.ok() && info.aten && !info.python && made->outs_.size() == info.returns;
  for (const Slot& slot : made->slots_) whole = whole && (!is_list(slot.kind) || made->has_parts(slot, each));
  for (const Out& out : made->outs_)
    whole = whole && (out.kind != Out::kTensorList ||
                      (out.reg <= made->list_regs_.size() && out.count <= made->list_regs_.size() - out.reg));
  if (!whole) return each.fail(), nullptr;
  return make_direct(std::move(made));
}

std::unique_ptr<AdapterOp> make_operation(const Words& words, const std::vector<Rep>& reps) {
  try {
    Reading each(words, reps);
    std::string name;
    each.text(name);
    const auto found = op_makers().find(name);
    if (found == op_makers().end()) return nullptr;
    refresh_python_kernels();
    std::unique_ptr<AdapterOp> made = found->second(each);
    return each.at_end() ? std::move(made) : nullptr;
  } catch (const c10::Error&) {
    return nullptr;
  }
}

}  // namespace pijit::torch_adapter
