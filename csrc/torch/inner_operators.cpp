// Operators that C code runs in the middle of what the recorder mirrors, such as those of sum(), reduce() and map().
//
// Python code may run between two of them, so no call as a whole is observed. What is computed is known all the same for
// the functions below: the operator is emitted before C code runs it, and the eye expects to be told of it by its name.
//
// 1. The function dispatches one operator, that of its own name, whatever the operands are; all that it does not get has
//    the default of the schema.
// 2. Its result is a new tensor, and of the class torch.Tensor.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "torch/calls.h"
#include "torch/direct.h"

namespace pijit::torch_adapter {
namespace {

// Of one tensor.
constexpr std::string_view kUnaryOperators[] = {
    "abs",     "absolute", "acos",     "acosh",   "arccos",     "arcsin", "arctan",      "asin",     "asinh",
    "atan",    "atanh",    "ceil",     "clone",   "cos",        "cosh",   "deg2rad",     "digamma",  "erf",
    "erfc",    "erfinv",   "exp",      "exp2",    "expm1",      "floor",  "frac",        "isfinite", "isinf",
    "isnan",   "lgamma",   "log",      "log10",   "log1p",      "log2",   "logical_not", "max",      "mean",
    "min",     "neg",      "negative", "rad2deg", "reciprocal", "relu",   "round",       "rsqrt",    "sgn",
    "sigmoid", "sign",     "signbit",  "sin",     "sinc",       "sinh",   "sqrt",        "square",   "sum",
    "tan",     "tanh",     "trunc"};
// Of two tensors.
constexpr std::string_view kBinaryOperators[] = {
    "add",     "sub",     "mul",  "div",       "atan2",       "bmm",        "copysign",    "dot",
    "eq",      "fmax",    "fmin", "fmod",      "ge",          "gt",         "hypot",       "inner",
    "kron",    "le",      "lt",   "logaddexp", "logical_and", "logical_or", "logical_xor", "matmul",
    "maximum", "minimum", "mm",   "mv",        "ne",          "outer",      "remainder",   "true_divide"};
// The bindings make a tensor of the number that is their second operand.
constexpr std::string_view kTakeNumbers[] = {"add", "sub", "mul", "div", "true_divide"};

template <size_t kCount>
bool is_among(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The operator of that name on so many tensors; null: it is none of those above.
const OperatorInfo* operator_of(std::string_view name, size_t tensors) {
  if (tensors == 1 ? !is_among(kUnaryOperators, name) : !is_among(kBinaryOperators, name)) return nullptr;
  const std::string full = "aten::" + std::string(name);
  for (const char* overload : {tensors == 1 ? "" : "Tensor", ""}) {
    const auto found = c10::Dispatcher::singleton().findSchema({full, overload});
    if (found.has_value()) return &operator_info(*found);
  }
  return nullptr;
}

// A number that counts as one where it is added to a tensor. Undefined: it is none.
at::Tensor wrapped_number(Recording& recording, PyObject* object) {
  const EyeClosed closed;
  if (object != nullptr && PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return {};
    return recording.shared_number(at::native::wrapped_scalar_tensor(static_cast<int64_t>(value)));
  }
  if (object == nullptr || !PyFloat_CheckExact(object)) return {};
  return recording.shared_number(at::native::wrapped_scalar_tensor(PyFloat_AS_DOUBLE(object)));
}

// An operator under construction.
class Inner {
 public:
  Inner(Recording& recording, const OperatorInfo& info)
      : recording_(recording), info_(info), op_(std::make_unique<LoweredOp>(info)) {}

  bool take(size_t argument, const Operand& operand) {
    if (argument >= info_.positional || info_.arguments[argument].form != Form::kTensor) return false;
    if (!is_tensor(operand.value)) return take_number(argument, operand);
    if (operand.object != nullptr && (!is_plain_tensor(operand.object) || !recording_.api.check_class(operand)))
      return false;
    op_->set_slot(argument, {Slot::kTensor, operand.value.index()});
    op_->inputs.push_back(operand.value);
    return true;
  }
  void take_int(size_t argument, int64_t value) { op_->set_constant(argument, c10::IValue(value)); }

  // The result; Null: an argument from `given` on has no default.
  Val emit(size_t given) {
    for (size_t i = given; i < info_.arguments.size(); ++i) {
      const std::optional<c10::IValue>& otherwise = info_.arguments[i].argument->default_value();
      if (!otherwise.has_value()) return Val();
      op_->set_constant(i, *otherwise);
    }
    const Val result = recording_.api.new_reg(Rep::kTensor, tensor_type());
    op_->outs().push_back({Out::kTensor, result.index(), 1});
    const Vals inputs = std::move(op_->inputs);
    recording_.api.emit(make_direct(std::move(op_)), inputs, {result}, false);
    recording_.eye.expected.push_back(&info_);
    return result;
  }

 private:
  bool is_tensor(Val value) const { return value.is_reg() && recording_.api.facts(value).rep == Rep::kTensor; }

  bool take_number(size_t argument, const Operand& operand) {
    if (argument == 0 || !is_among(kTakeNumbers, info_.base)) return false;
    if (operand.value.is_reg()) {
      const bool number = is_number(recording_.api.facts(operand.value).rep);
      const Val value = number ? operand.value : recording_.api.unbox(operand.value, operand.object);
      if (value.is_null()) return false;
      op_->set_slot(argument, {Slot::kNumber, value.index()});
      op_->inputs.push_back(value);
      return true;
    }
    const at::Tensor number = wrapped_number(recording_, operand.value.object());
    if (number.defined()) op_->set_constant(argument, number);
    return number.defined();
  }

  Recording& recording_;
  const OperatorInfo& info_;
  std::unique_ptr<LoweredOp> op_;
};

// What the operator is called that a binary operator of Python dispatches; null: it depends.
const char* name_of(int oparg) {
  switch (oparg) {
    case 0:
      return "add";
    case 4:
      return "matmul";
    case 5:
      return "mul";
    case 10:
      return "sub";
    case 11:
      return "div";
    default:
      return nullptr;
  }
}

bool is_tensor_register(const Recording& recording, Val value) {
  return value.is_reg() && recording.api.facts(value).rep == Rep::kTensor;
}

Val compute(Recording& recording, const char* name, const Operand* operands, size_t count) {
  const OperatorInfo* info = count == 1 || count == 2 ? operator_of(name, count) : nullptr;
  if (info == nullptr || info->python || info->mutates || info->returns != 1) return Val();
  Inner inner(recording, *info);
  for (size_t i = 0; i < count; ++i)
    if (!inner.take(i, operands[i])) return Val();
  return inner.emit(count);
}

// tensor[i] of an integer.
Val select(Recording& recording, const Operand& self, const Operand& at) {
  static const OperatorInfo& info =
      operator_info(c10::Dispatcher::singleton().findSchemaOrThrow("aten::select", "int"));
  PyObject* index = at.value.object();
  if (index == nullptr || !PyLong_CheckExact(index) || info.python) return Val();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index, &overflow);
  Inner inner(recording, info);
  if (overflow != 0 || !inner.take(0, self)) return Val();
  inner.take_int(1, 0);
  inner.take_int(2, value);
  return inner.emit(3);
}

}  // namespace

Val compute_inside(Recording& recording, const CallSite& site) {
  if (recording.has_levels || site.kwnames != nullptr) return Val();
  if (site.kind == SiteKind::kSubscr) return select(recording, site.operands[0], site.operands[1]);
  if (site.kind == SiteKind::kCall) {
    const Callable* known = find_callable(site.callable);
    const bool binding = known != nullptr && known->rule == Rule::kOperator && known->op == known->name &&
                         (known->family == Family::kFunction || known->family == Family::kMethod);
    return binding ? compute(recording, known->op.c_str(), site.operands, site.count) : Val();
  }
  const char* name = site.kind == SiteKind::kBinary ? name_of(site.oparg) : nullptr;
  if (name == nullptr) return Val();
  // number + tensor and number * tensor are done by the method of the tensor.
  const bool swapped = !is_tensor_register(recording, site.operands[0].value) && (site.oparg == 0 || site.oparg == 5);
  const Operand operands[] = {site.operands[swapped ? 1 : 0], site.operands[swapped ? 0 : 1]};
  return compute(recording, name, operands, 2);
}

}  // namespace pijit::torch_adapter
