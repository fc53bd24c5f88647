// The general rule: schema arguments explained by Python operands.
#include "torch/bind_schema.h"

#include <cstring>

#include "torch/callables.h"

namespace pijit::torch_adapter {
namespace {

bool same_bits(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool same_device(const Arg& arg, c10::Device seen) {
  c10::Device device = seen;
  if (arg.kind == ArgKind::kDevice) {
    device = reinterpret_cast<THPDevice*>(arg.object)->device;
  } else {
    const char* text = PyUnicode_AsUTF8(arg.object);
    if (text == nullptr) return refuse();
    device = c10::Device(std::string(text));
  }
  return device.type() == seen.type() && (!device.has_index() || device.index() == seen.index());
}

bool same_string(const Arg& arg, const std::string& text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(arg.object, &size);
  if (data == nullptr) return refuse();
  return text.size() == static_cast<size_t>(size) && std::memcmp(data, text.data(), text.size()) == 0;
}

}  // namespace

bool same_data(const c10::IValue& a, const c10::IValue& b) {
  if (a.isNone() || b.isNone()) {
    auto absent = [](const c10::IValue& v) { return v.isNone() || (v.isTensor() && !v.toTensor().defined()); };
    return absent(a) && absent(b);
  }
  if (a.isInt())
    return (b.isInt() && a.toInt() == b.toInt()) || (b.isDouble() && static_cast<double>(a.toInt()) == b.toDouble());
  if (a.isDouble()) return (b.isDouble() && same_bits(a.toDouble(), b.toDouble())) || (b.isInt() && same_data(b, a));
  if (a.isBool()) return b.isBool() && a.toBool() == b.toBool();
  if (a.isString()) return b.isString() && a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return b.isDevice() && a.toDevice() == b.toDevice();
  if (!a.isList() || !b.isList()) return false;
  c10::ArrayRef<c10::IValue> x = a.toListRef(), y = b.toListRef();
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!same_data(x[i], y[i])) return false;
  return true;
}

bool same_value(const Arg& arg, const c10::IValue& value, Form form) {
  if (value.isNone()) return arg.kind == ArgKind::kNone;
  if (value.isInt()) {
    switch (arg.kind) {
      case ArgKind::kInt:
      case ArgKind::kBool:
      case ArgKind::kDtype:
      case ArgKind::kLayout:
      case ArgKind::kMemoryFormat:
        return arg.integer == value.toInt();
      default:
        return false;
    }
  }
  if (value.isDouble()) {
    if (arg.kind == ArgKind::kFloat) return same_bits(arg.number, value.toDouble());
    return arg.kind == ArgKind::kInt && form == Form::kFloat && static_cast<double>(arg.integer) == value.toDouble();
  }
  if (value.isBool()) return arg.kind == ArgKind::kBool && (arg.integer != 0) == value.toBool();
  if (value.isDevice())
    return (arg.kind == ArgKind::kDevice || arg.kind == ArgKind::kString) && same_device(arg, value.toDevice());
  if (value.isString()) return arg.kind == ArgKind::kString && same_string(arg, value.toStringRef());
  if (value.isGenerator())
    return arg.kind == ArgKind::kGenerator && reinterpret_cast<THPGenerator*>(arg.object)->cdata == value.toGenerator();
  if (value.isComplexDouble() && arg.kind == ArgKind::kComplex) {
    c10::complex<double> number = value.toComplexDouble();
    return same_bits(PyComplex_RealAsDouble(arg.object), number.real()) &&
           same_bits(PyComplex_ImagAsDouble(arg.object), number.imag());
  }
  return false;
}

bool Lowering::start(const SeenOp& op) {
  const OperatorInfo& info = *op.info;
  if (!info.aten || info.python) return false;
  const Callable* callable = recording_.callable;
  const bool by_name = callable != nullptr && callable->rule == Rule::kNamedOperator;
  // Of these the operation has to raise what the call raises: that of a binding is known.
  if (info.accumulates && (callable == nullptr || callable->rule != Rule::kOperator)) return false;
  ops_.push_back(std::make_unique<LoweredOp>(info, by_name));
  op_ = ops_.back().get();
  bound_.clear();
  return true;
}

void Lowering::use(size_t argument, Slot slot, Val value) {
  op_->set_slot(argument, slot);
  op_->inputs.push_back(value);
  bound_.resize(op_->info().arguments.size());
  bound_[argument] = value;
}

void Lowering::constant(size_t argument, const SeenValue& seen) {
  if (seen.kind == SeenKind::kTensor && seen.tensor == nullptr)
    op_->set_constant(argument, at::Tensor());
  else
    op_->set_constant(argument, seen.value);
}

// The operand of each schema argument: its index, or -1. `gathered`: the only positional list takes all positional
// operands.
bool Lowering::place_operands(const SeenOp& op, bool method, Vec<int>* given, bool* gathered) {
  const OperatorInfo& info = *op.info;
  size_t count = info.arguments.size(), next = 0, positional = recording_.operands - recording_.keywords;
  given->assign(count, -1);
  *gathered = false;
  int self = -1;
  if (method) {
    if (positional == 0 || count == 0) return false;
    self = 0;
    for (size_t i = 0; i < info.positional; ++i)
      if (info.arguments[i].name() == "self") self = static_cast<int>(i);
    (*given)[self] = 0;
    next = 1;
  }
  size_t places = info.positional - (method ? 1 : 0);
  for (size_t i = 0; i < info.positional && next < positional; ++i) {
    if (static_cast<int>(i) == self) continue;
    (*given)[i] = static_cast<int>(next);
    if (places == 1 && info.arguments[i].form == Form::kIntList && recording_.arg(next).kind != ArgKind::kSequence) {
      *gathered = true;
      next = positional;
      break;
    }
    ++next;
  }
  if (next != positional) return false;
  for (size_t k = 0; k < recording_.keywords; ++k)
    if (!place_keyword(info, PyTuple_GET_ITEM(site_.kwnames, k), positional + k, given)) return false;
  return true;
}

bool Lowering::place_keyword(const OperatorInfo& info, PyObject* name, size_t operand, Vec<int>* given) {
  // NumPy's names, which the bindings accept too.
  static constexpr const char* kOther[][2] = {{"input", "self"}, {"axis", "dim"}, {"keepdims", "keepdim"},
                                              {"x", "self"},     {"a", "self"},   {"x1", "self"},
                                              {"x2", "other"}};
  const Arg& arg = recording_.arg(operand);
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return refuse();
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (size_t i = 0; i < info.arguments.size(); ++i) {
      if (info.arguments[i].name() != text) continue;
      if ((*given)[i] >= 0) return false;
      (*given)[i] = static_cast<int>(operand);
      return true;
    }
    for (const auto& pair : kOther)
      if (std::strcmp(pair[0], text) == 0) {
        text = pair[1];
        break;
      }
  }
  if (std::strcmp(text, "out") == 0) return arg.kind == ArgKind::kNone || place_outs(info, arg, given);
  // The bindings of factories set requires_grad on the result.
  if (std::strcmp(text, "requires_grad") == 0)
    return arg.kind == ArgKind::kNone || (arg.kind == ArgKind::kBool && !arg.dynamic && arg.integer == 0);
  return false;
}

// out=(values, indices): one operand for each.
bool Lowering::place_outs(const OperatorInfo& info, const Arg& outs, Vec<int>* given) {
  uint32_t next = 0;
  if (outs.kind != ArgKind::kSequence) return false;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    if (!info.arguments[i].out) continue;
    if (next == outs.count || info.arguments[i].form != Form::kTensor) return false;
    (*given)[i] = static_cast<int>(outs.first + next++);
  }
  return next != 0 && next == outs.count;
}

bool Lowering::bind_call(const SeenOp& op, bool method) {
  Vec<int> given;
  bool gathered = false;
  if (!start(op) || !place_operands(op, method, &given, &gathered)) return false;
  const OperatorInfo& info = *op.info;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    if (given[i] < 0) {
      if (!explain_missing(op, i)) return false;
      continue;
    }
    const Arg& arg = recording_.arg(given[i]);
    bool first_place = gathered && info.arguments[i].form == Form::kIntList && i < info.positional;
    if (first_place && arg.kind != ArgKind::kSequence) {
      const SeenValue& seen = recording_.eye.argument(op, i);
      size_t count = recording_.operands - recording_.keywords - given[i];
      if (seen.kind != SeenKind::kValue || !explain_ints(i, &arg, count, false, seen.value)) return false;
      continue;
    }
    if (!explain(op, i, arg)) return false;
  }
  return produce(op);
}

bool Lowering::bind_free(const SeenOp& op) {
  if (!start(op)) return false;
  const OperatorInfo& info = *op.info;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    bool explained = explain_known_tensor(op, i);
    if (!explained && i < 2) {
      size_t prefer = i < recording_.operands ? i : 0;
      explained = explain(op, i, recording_.arg(prefer));
      for (size_t k = 0; !explained && k < recording_.operands; ++k) explained = explain(op, i, recording_.arg(k));
    }
    if (!explained && !explain_missing(op, i)) return false;
  }
  return produce(op);
}

bool Lowering::bind_as_seen(const SeenOp& op) {
  if (!start(op)) return false;
  for (const Arg& arg : recording_.args)
    if (arg.dynamic || arg.kind == ArgKind::kOther || (arg.kind == ArgKind::kSlice)) return false;
  const OperatorInfo& info = *op.info;
  for (size_t i = 0; i < info.arguments.size(); ++i) {
    const SeenValue& seen = recording_.eye.argument(op, i);
    if (seen.kind == SeenKind::kTensorList) return false;
    if (seen.kind == SeenKind::kTensor && seen.tensor != nullptr && !seen.wrapped) {
      if (!explain_known_tensor(op, i)) return false;
    } else {
      constant(i, seen);
    }
  }
  options_ = true;
  return produce(op);
}

// A tensor that is a result of an earlier operator of this call.
bool Lowering::explain_known_tensor(const SeenOp& op, size_t argument) {
  const SeenValue& seen = recording_.eye.argument(op, argument);
  if (seen.kind != SeenKind::kTensor || seen.tensor == nullptr || seen.wrapped) return false;
  // By position first: two operands may be one tensor today and two tomorrow.
  if (argument < recording_.operands) {
    const Arg& arg = recording_.arg(argument);
    if (arg.kind == ArgKind::kTensor && arg.tensor == seen.tensor) return explain(op, argument, arg);
  }
  Val value = value_of(seen.tensor);
  if (value.is_null()) return false;
  use(argument, {Slot::kTensor, value.index()}, value);
  return true;
}

Val Lowering::value_of(const Impl* tensor) const {
  for (size_t i = produced_.size(); i-- > 0;)
    if (produced_[i].tensor == tensor) return produced_[i].value;
  for (const Arg& arg : recording_.args)
    if (arg.kind == ArgKind::kTensor && arg.tensor == tensor) return arg.value;
  return Val();
}

}  // namespace pijit::torch_adapter
