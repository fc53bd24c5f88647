// Runs a boxed operator on the register file.
#include "torch/lowered.h"

#include "torch/bind_schema.h"
#include "torch/literals.h"
#include "torch/torch_adapter.h"
#include "torch/undo.h"

#include <utility>

namespace pijit::torch_adapter {
namespace {

// Keeps warnings until somebody decides about them. One per thread.
class KeepWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { kept.push_back(warning); }
  std::vector<c10::Warning> kept;
};
thread_local KeepWarnings t_warnings;

// The thread's stack, given out once at a time: a nested replay (a finalizer, a hook) finds an empty one.
thread_local torch::jit::Stack t_stack;

class StackLoan {
 public:
  StackLoan() : stack(std::move(t_stack)) { stack.clear(); }
  ~StackLoan() {
    stack.clear();
    t_stack = std::move(stack);
  }
  torch::jit::Stack stack;
};

}  // namespace

WarningTrap::WarningTrap() : outer_(c10::WarningUtils::get_warning_handler()), before_(t_warnings.kept.size()) {
  c10::WarningUtils::set_warning_handler(&t_warnings);
}

WarningTrap::~WarningTrap() {
  c10::WarningUtils::set_warning_handler(outer_);
  while (t_warnings.kept.size() > before_) t_warnings.kept.pop_back();
}

void WarningTrap::keep() {
  if (t_warnings.kept.size() <= before_) return;
  before_ = t_warnings.kept.size();
  the_adapter()->warned = true;
}

bool issue_kept_warnings() {
  const std::vector<c10::Warning> kept = std::exchange(t_warnings.kept, {});
  for (const c10::Warning& warning : kept) {
    const bool deprecation = std::holds_alternative<c10::DeprecationWarning>(warning.type());
    PyObject* category = deprecation ? PyExc_DeprecationWarning : PyExc_UserWarning;
    const c10::SourceLocation& place = warning.source_location();
    std::string text = warning.msg();
    int failed;
    if (place.file != nullptr && warning.verbatim()) {
      failed = PyErr_WarnExplicit(category, text.c_str(), place.file, static_cast<int>(place.line), nullptr, nullptr);
    } else {
      if (place.file != nullptr)
        text += std::string(" (Triggered internally at ") + place.file + ":" + std::to_string(place.line) + ".)";
      failed = PyErr_WarnEx(category, text.c_str(), 1);
    }
    if (failed != 0) return false;
  }
  return true;
}

void forget_kept_warnings() {
  t_warnings.kept.clear();
}

at::Tensor number_tensor(const Reg& reg) {
  const c10::Scalar number = reg.rep == Rep::kInt     ? c10::Scalar(reg.integer)
                             : reg.rep == Rep::kFloat ? c10::Scalar(reg.number)
                                                      : c10::Scalar(reg.boolean);
  return at::native::wrapped_scalar_tensor(number);
}

void LoweredOp::push(torch::jit::Stack& stack, size_t argument, const Reg* regs) const {
  const Slot& slot = slots_[argument];
  const Reg& reg = regs[slot.reg];
  switch (slot.kind) {
    case Slot::kConst:
      stack.push_back(values_[argument]);
      break;
    case Slot::kTensor:
      stack.emplace_back(share(reg.tensor));
      break;
    case Slot::kInt:
      stack.emplace_back(reg.integer);
      break;
    case Slot::kIntAsFloat:
      stack.emplace_back(static_cast<double>(reg.integer));
      break;
    case Slot::kFloat:
      stack.emplace_back(reg.number);
      break;
    case Slot::kBool:
      stack.emplace_back(reg.boolean);
      break;
    case Slot::kBoolAsInt:
      stack.emplace_back(static_cast<int64_t>(reg.boolean));
      break;
    case Slot::kNumber: {
      stack.emplace_back(number_tensor(reg));
      break;
    }
    case Slot::kIntList: {
      c10::List<int64_t> list;
      list.reserve(slot.count);
      for (uint32_t i = 0; i < slot.count; ++i) {
        const Part& part = parts_[slot.first + i];
        list.push_back(part.constant ? part.value : regs[part.value].integer);
      }
      stack.emplace_back(std::move(list));
      break;
    }
    case Slot::kNumberList: {
      c10::List<c10::IValue> list = values_[argument].toList().copy();
      for (uint32_t i = 0; i < slot.count; ++i) {
        const Part& part = parts_[slot.first + i];
        if (part.constant) continue;
        const Reg& number = regs[part.value];
        const bool integer = number.rep == Rep::kInt && list.get(i).isInt();
        if (integer)
          list.set(i, number.integer);
        else
          list.set(i, number.rep == Rep::kInt ? static_cast<double>(number.integer) : number.number);
      }
      stack.emplace_back(std::move(list));
      break;
    }
    case Slot::kTensorList: {
      c10::List<at::Tensor> list;
      list.reserve(slot.count);
      for (uint32_t i = 0; i < slot.count; ++i) list.push_back(share(regs[parts_[slot.first + i].value].tensor));
      stack.emplace_back(std::move(list));
      break;
    }
    case Slot::kOptionalList: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(slot.count);
      for (uint32_t i = 0; i < slot.count; ++i) {
        const Part& part = parts_[slot.first + i];
        if (part.constant)
          list.push_back(std::nullopt);
        else
          list.push_back(share(regs[part.value].tensor));
      }
      stack.emplace_back(std::move(list));
      break;
    }
  }
}

// All results are looked at before the first register is written.
bool LoweredOp::store(torch::jit::Stack& stack, Reg* regs) const {
  for (size_t i = 0; i < outs_.size(); ++i) {
    const c10::IValue& value = stack[i];
    switch (outs_[i].kind) {
      case Out::kDrop:
        break;
      case Out::kUndefined:
        if (!value.isNone() && !(value.isTensor() && !value.toTensor().defined())) return false;
        break;
      case Out::kTensor:
        if (!value.isTensor() || !value.toTensor().defined()) return false;
        break;
      case Out::kTensorList:
        if (!value.isTensorList() || value.toListRef().size() != outs_[i].count) return false;
        break;
      case Out::kInt:
        if (!value.isInt()) return false;
        break;
      case Out::kFloat:
        if (!value.isDouble()) return false;
        break;
      case Out::kBool:
        if (!value.isBool()) return false;
        break;
    }
  }
  for (size_t i = 0; i < outs_.size(); ++i) {
    const Out& out = outs_[i];
    if (out.kind == Out::kDrop || out.kind == Out::kUndefined) continue;
    if (out.kind == Out::kTensorList) {
      c10::List<at::Tensor> list = std::move(stack[i]).toTensorList();
      for (uint32_t k = 0; k < out.count; ++k) put(regs[list_regs_[out.reg + k]], at::Tensor(list.get(k)));
      continue;
    }
    Reg& reg = regs[out.reg];
    if (out.kind == Out::kTensor) {
      put(reg, std::move(stack[i]).toTensor());
      continue;
    }
    reg.owned = 0;
    if (out.kind == Out::kInt) {
      reg.rep = Rep::kInt;
      reg.integer = stack[i].toInt();
    } else if (out.kind == Out::kFloat) {
      reg.rep = Rep::kFloat;
      reg.number = stack[i].toDouble();
    } else {
      reg.rep = Rep::kBool;
      reg.boolean = stack[i].toBool();
    }
  }
  return true;
}

bool LoweredOp::is_false(std::initializer_list<const char*> names) const noexcept {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!is_constant(i)) continue;
    for (const char* name : names)
      if (info_.arguments[i].name() == name)
        return values_[i].isBool() ? !values_[i].toBool() : values_[i].isDouble() && values_[i].toDouble() == 0;
  }
  return false;
}

// As the bindings of torch do. The error in flight may be from a kernel in the middle of its work.
bool LoweredOp::raise() noexcept {
  try {
    torch::translate_exception_to_python(std::current_exception());
  } catch (...) {
  }
  the_adapter()->raised = PyErr_Occurred() != nullptr;
  return false;
}

bool LoweredOp::run(Reg* regs) noexcept {
  try {
    StackLoan loan;
    torch::jit::Stack& stack = loan.stack;
    for (size_t i = 0; i < slots_.size(); ++i) push(stack, i, regs);
    std::optional<Undo> undo;
    if (info_.reshapes || draws()) undo.emplace(info_, stack);
    if (undo && undo->hopeless()) return false;
    WarningTrap trap;
    try {
      SkipAutograd skip(skipped_, factory_);
      info_.handle.callBoxed(stack);
    } catch (...) {
      if (undo) undo->put_back();
      throw;
    }
    if (!store(stack, regs)) return false;
    trap.keep();
    return true;
  } catch (...) {
    return info_.accumulates ? raise() : refuse();
  }
}

OperatorArgument LoweredOp::argument(size_t i) const {
  using Kind = OperatorArgument::Kind;
  const Slot& slot = slots_[i];
  const c10::Argument& schema = info_.handle.schema().arguments()[i];
  const std::string& name = schema.name();
  switch (slot.kind) {
    case Slot::kConst: {
      OperatorArgument made = literal_argument(name, values_[i], schema.real_type().get());
      made.usual = schema.default_value().has_value() && same_data(*schema.default_value(), values_[i]);
      return made;
    }
    case Slot::kIntList:
    case Slot::kNumberList:
    case Slot::kTensorList:
    case Slot::kOptionalList: {
      OperatorArgument made = OperatorArgument::of_items(name, Kind::kList);
      for (uint32_t k = 0; k < slot.count; ++k) {
        const Part& part = parts_[slot.first + k];
        c10::IValue constant;
        if (slot.kind == Slot::kIntList) constant = part.value;
        if (slot.kind == Slot::kNumberList) constant = values_[i].toListRef()[k];
        made.items.push_back(!part.constant ? OperatorArgument::of_register("", static_cast<uint32_t>(part.value))
                                            : literal_argument("", constant));
      }
      return made;
    }
    default:
      return OperatorArgument::of_register(name, slot.reg);
  }
}

OperatorResult LoweredOp::result(size_t i) const {
  OperatorResult made;
  const Out& out = outs_[i];
  made.shares = shared_argument(info_.handle.schema(), i);
  if (out.kind == Out::kDrop || out.kind == Out::kUndefined) return made;
  if (out.kind != Out::kTensorList) {
    made.kind = OperatorResult::Kind::kRegister;
    made.regs = {out.reg};
    return made;
  }
  made.kind = OperatorResult::Kind::kList;
  for (uint32_t k = 0; k < out.count; ++k) made.regs.push_back(list_regs_[out.reg + k]);
  return made;
}

OperatorCall LoweredOp::call() const {
  OperatorCall made;
  made.name = info_.full;
  made.random = draws();
  made.on_device = on_device_;
  made.repeatable = is_repeatable();
  for (size_t i = 0; i < slots_.size(); ++i) {
    made.add(argument(i));
    made.arguments.back().written = info_.arguments[i].written;
    made.arguments.back().keyword = info_.arguments[i].keyword_only;
  }
  for (size_t i = 0; i < outs_.size(); ++i) made.results.push_back(result(i));
  return made;
}

}  // namespace pijit::torch_adapter
