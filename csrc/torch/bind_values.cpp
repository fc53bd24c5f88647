// Single arguments and results of the general rule: which value explains which, and what becomes of results.
#include "torch/bind_schema.h"

#include <utility>

#include "torch/direct.h"
#include "torch/metadata.h"

namespace pijit::torch_adapter {

bool Lowering::explain(const SeenOp& op, size_t argument, const Arg& arg) {
  const SeenValue& seen = recording_.eye.argument(op, argument);
  const ArgumentInfo& info = op.info->arguments[argument];
  if (arg.kind == ArgKind::kNone && !(seen.kind == SeenKind::kValue && seen.value.isNone()))
    return explain_missing(op, argument);
  if (seen.kind == SeenKind::kTensor) return explain_tensor(op, argument, arg, seen);
  if (seen.kind == SeenKind::kValue && arg.kind == ArgKind::kTensor) return explain_asked(op, argument, arg, seen);
  if (seen.kind == SeenKind::kValue) return explain_value(op, argument, arg, seen.value);
  // A list with tensors.
  if (arg.kind != ArgKind::kSequence || arg.count != seen.count) return false;
  const c10::Type& type = *info.argument->type();
  const c10::Type& list = type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
  if (list.kind() != c10::TypeKind::ListType) return false;
  bool optional = list.containedType(0)->kind() == c10::TypeKind::OptionalType;
  Slot slot{optional ? Slot::kOptionalList : Slot::kTensorList, 0, 0, arg.count};
  for (uint32_t i = 0; i < arg.count; ++i) {
    const Arg& item = recording_.child(arg, i);
    Impl* tensor = recording_.eye.items[seen.first + i];
    bool none = optional && tensor == nullptr && item.kind == ArgKind::kNone;
    if (!none && (item.kind != ArgKind::kTensor || item.tensor != tensor)) return false;
    uint32_t part = op_->add_part(none ? Part{true, 0} : Part{false, static_cast<int64_t>(item.value.index())});
    if (i == 0) slot.first = part;
    if (!none) op_->inputs.push_back(item.value);
  }
  op_->set_slot(argument, slot);
  return true;
}

bool Lowering::bind_numbers() {
  const Eye& eye = recording_.eye;
  for (size_t at = 0; at + 1 < eye.ops.size(); ++at) {
    const SeenOp& op = eye.ops[at];
    const SeenValue& asked = eye.argument(op, 0);
    if (op.info->base != "item" || asked.kind != SeenKind::kTensor || !start(op)) return false;
    const Arg* operand = nullptr;
    for (const Arg& arg : recording_.args) {
      if (arg.kind != ArgKind::kTensor || arg.tensor != asked.tensor) continue;
      if (operand != nullptr && operand->value != arg.value) return false;  // one tensor today, and two tomorrow
      operand = &arg;
    }
    if (operand == nullptr || !explain(op, 0, *operand) || !produce(op) || scalar_.is_null()) return false;
    Number made{asked.tensor, Arg()};
    const c10::IValue& number = eye.result(op, 0).value;
    made.number.kind = number.isBool() ? ArgKind::kBool : number.isInt() ? ArgKind::kInt : ArgKind::kFloat;
    if (number.isDouble())
      made.number.number = number.toDouble();
    else
      made.number.integer = number.isBool() ? number.toBool() : number.toInt();
    made.number.value = std::exchange(scalar_, Val());
    made.number.dynamic = true;
    numbers_.push_back(made);
  }
  return true;
}

// The number that the binding has asked a tensor for; another operand is what it is.
const Arg& Lowering::number_of(const Arg& arg) const {
  for (const Number& known : numbers_)
    if (arg.kind == ArgKind::kTensor && known.tensor == arg.tensor) return known.number;
  return arg;
}

// An operand is a tensor where the operator has a number.
bool Lowering::explain_asked(const SeenOp& op, size_t argument, const Arg& arg, const SeenValue& seen) {
  for (const Number& known : numbers_)
    if (known.tensor == arg.tensor) return explain_value(op, argument, known.number, seen.value);
  return false;
}

bool Lowering::explain_tensor(const SeenOp& op, size_t argument, const Arg& arg, const SeenValue& seen) {
  if (arg.kind == ArgKind::kTensor) {
    if (arg.tensor != seen.tensor) return false;
    use(argument, {Slot::kTensor, arg.value.index()}, arg.value);
    return true;
  }
  if (!seen.wrapped || op.info->arguments[argument].form != Form::kTensor) return false;
  // The number as the dispatcher got it.
  const at::Tensor& number = seen.value.toTensor();
  const void* data = number.const_data_ptr();
  at::ScalarType type = number.scalar_type();
  bool same = (type == at::kDouble && same_value(arg, *static_cast<const double*>(data), Form::kScalar)) ||
              (type == at::kLong && arg.kind == ArgKind::kInt && *static_cast<const int64_t*>(data) == arg.integer) ||
              (type == at::kBool && same_value(arg, *static_cast<const bool*>(data), Form::kScalar)) ||
              (type == at::kComplexDouble && !arg.dynamic &&
               same_value(arg, c10::IValue(*static_cast<const c10::complex<double>*>(data)), Form::kScalar));
  if (!same) return false;
  if (arg.dynamic)
    use(argument, {Slot::kNumber, arg.value.index()}, arg.value);
  else
    op_->set_constant(argument, recording_.shared_number(number));
  return true;
}

bool Lowering::explain_value(const SeenOp& op, size_t argument, const Arg& arg, const c10::IValue& value) {
  Form form = op.info->arguments[argument].form;
  if (value.isList()) {
    size_t size = value.toListRef().size();
    if (arg.kind == ArgKind::kSequence) {
      if (arg.count != size) return false;
      if (size == 0) {
        op_->set_constant(argument, value);
        return true;
      }
      return explain_ints(argument, &recording_.child(arg, 0), size, false, value);
    }
    return size != 0 && (arg.kind == ArgKind::kInt || arg.kind == ArgKind::kFloat) &&
           explain_ints(argument, &arg, size, true, value);
  }
  if (!same_value(arg, value, form)) return false;
  if (!arg.dynamic) {
    op_->set_constant(argument, value);
    return true;
  }
  Slot::Kind kind;
  if (arg.kind == ArgKind::kInt)
    kind = value.isInt() ? Slot::kInt : Slot::kIntAsFloat;
  else if (arg.kind == ArgKind::kFloat)
    kind = Slot::kFloat;
  else
    kind = value.isBool() ? Slot::kBool : Slot::kBoolAsInt;
  use(argument, {kind, arg.value.index()}, arg.value);
  return true;
}

// `items`: consecutive values; `repeat`: one value stands for all (kernel_size=3).
bool Lowering::explain_ints(size_t argument, const Arg* items, size_t count, bool repeat, const c10::IValue& value) {
  if (!value.isList()) return false;
  c10::ArrayRef<c10::IValue> list = value.toListRef();
  if (list.size() != count) return false;
  bool dynamic = false, numbers = false;
  for (size_t i = 0; i < count; ++i) {
    const Arg& item = number_of(items[repeat ? 0 : i]);
    if (!same_value(item, list[i], Form::kFloat)) return false;
    if (item.dynamic && item.kind != ArgKind::kInt && item.kind != ArgKind::kFloat) return false;
    numbers |= item.dynamic && (item.kind != ArgKind::kInt || !list[i].isInt());
    dynamic |= item.dynamic;
  }
  if (!dynamic) {
    op_->set_constant(argument, recording_.shared_list(value));
    return true;
  }
  if (numbers) op_->set_constant(argument, value);
  Slot slot{numbers ? Slot::kNumberList : Slot::kIntList, 0, 0, static_cast<uint32_t>(count)};
  for (size_t i = 0; i < count; ++i) {
    const Arg& item = number_of(items[repeat ? 0 : i]);
    if (item.dynamic) op_->inputs.push_back(item.value);
    uint32_t part =
        op_->add_part({!item.dynamic, item.dynamic ? static_cast<int64_t>(item.value.index()) : item.integer});
    if (i == 0) slot.first = part;
  }
  op_->set_slot(argument, slot);
  return true;
}

// An argument that no operand gives.
bool Lowering::explain_missing(const SeenOp& op, size_t argument) {
  const SeenValue& seen = recording_.eye.argument(op, argument);
  const ArgumentInfo& info = op.info->arguments[argument];
  if (seen.kind == SeenKind::kTensorList || (seen.kind == SeenKind::kTensor && seen.tensor != nullptr)) return false;
  c10::IValue value = seen.kind == SeenKind::kTensor ? c10::IValue(at::Tensor()) : seen.value;
  if (info.options) {
    options_ |= !value.isNone() && info.name() != "pin_memory";
    op_->set_constant(argument, value);
    return true;
  }
  const std::optional<c10::IValue>& expected = info.argument->default_value();
  if (!expected.has_value() && !(info.optional && value.isNone())) return false;
  if (expected.has_value() && !same_data(*expected, value)) return false;
  op_->set_constant(argument, recording_.shared_list(value));
  return true;
}

// Registers for the results of the operator under construction.
bool Lowering::produce(const SeenOp& op) {
  const OperatorInfo& info = *op.info;
  const std::vector<c10::Argument>& returns = info.handle.schema().returns();
  for (size_t i = 0; i < info.returns; ++i) {
    const SeenValue& seen = recording_.eye.result(op, i);
    Out out;
    if (seen.kind == SeenKind::kTensor) {
      bool written = returns[i].alias_info() != nullptr && returns[i].alias_info()->isWrite();
      if (seen.tensor == nullptr ? written : !recording_.follows(seen.tensor)) return false;
      if (seen.tensor != nullptr) op_->note_result(seen.tensor);
      if (seen.tensor == nullptr) {
        out.kind = Out::kUndefined;  // the program gets None
      } else if (written) {
        Val value = written_operand(op, i);
        if (value.is_null()) return false;
        produced_.push_back({seen.tensor, value, ops_.size() - 1});
      } else {
        Val value = recording_.api.new_reg(Rep::kTensor, result_type(seen.tensor));
        out = {Out::kTensor, value.index(), 1};
        op_->outputs.push_back(value);
        produced_.push_back({seen.tensor, value, ops_.size() - 1});
      }
    } else if (seen.kind == SeenKind::kTensorList) {
      out = {Out::kTensorList, 0, seen.count};
      for (uint32_t k = 0; k < seen.count; ++k) {
        Impl* tensor = recording_.eye.items[seen.first + k];
        if (tensor == nullptr || !recording_.follows(tensor)) return false;
        Val value = recording_.api.new_reg(Rep::kTensor, result_type(tensor));
        uint32_t at = op_->add_list_reg(value.index());
        if (k == 0) out.reg = at;
        op_->outputs.push_back(value);
        produced_.push_back({tensor, value, ops_.size() - 1});
      }
    } else {
      const c10::IValue& value = seen.value;
      if (value.isList() && value.toListRef().empty()) {
        out = {Out::kTensorList, 0, 0};
      } else if (info.returns == 1 && (value.isBool() || value.isInt() || value.isDouble())) {
        out.kind = value.isBool() ? Out::kBool : value.isInt() ? Out::kInt : Out::kFloat;
        Rep rep = value.isBool() ? Rep::kBool : value.isInt() ? Rep::kInt : Rep::kFloat;
        scalar_type_ = value.isBool() ? &PyBool_Type : value.isInt() ? &PyLong_Type : &PyFloat_Type;
        scalar_ = recording_.api.new_reg(rep, scalar_type_);
        out.reg = scalar_.index();
        op_->outputs.push_back(scalar_);
      } else {
        return false;
      }
    }
    op_->outs().push_back(out);
  }
  return true;
}

// The operand that a result is, by the schema: two operands may be one tensor today and two tomorrow.
Val Lowering::written_operand(const SeenOp& op, size_t result) const {
  const c10::AliasInfo* alias = op.info->handle.schema().returns()[result].alias_info();
  for (size_t i = 0; i < bound_.size(); ++i) {
    const c10::AliasInfo* own = op.info->arguments[i].argument->alias_info();
    if (own != nullptr && own->isWrite() && own->beforeSets() == alias->beforeSets()) return bound_[i];
  }
  return value_of(recording_.eye.result(op, result).tensor);
}

// An operator may hand its operand back (dropout that does nothing, broadcasting to the size that it has): then the
// object keeps its class. Only those that are made of others do so, and it may depend on sizes.
PyTypeObject* Lowering::result_type(const Impl* tensor) const {
  const bool composite = op_->info().handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  for (size_t i = 0; i < recording_.args.size(); ++i) {
    const Arg& arg = recording_.args[i];
    if (arg.kind != ArgKind::kTensor || arg.type == tensor_type()) continue;
    if (arg.tensor == tensor || (composite && (i == 0 || i >= recording_.operands))) return nullptr;
  }
  return tensor_type();
}

bool Lowering::find_result(PyObject* object, Val* result) {
  if (object == nullptr) return true;
  if (object == Py_None) {
    *result = Val::constant(Py_None);
    return true;
  }
  if (is_tensor_type(Py_TYPE(object))) {
    *result = value_of(impl_of(object));
    return !result->is_null();
  }
  if (!scalar_.is_null() && Py_TYPE(object) == scalar_type_) {
    *result = scalar_;
    return true;
  }
  // What writes to a list of tensors gives the list itself.
  for (size_t i = 0; i < site_.count; ++i)
    if (site_.operands[i].object == object && recording_.arg(i).kind == ArgKind::kSequence) {
      *result = recording_.arg(i).value;
      return true;
    }
  bool tuple = PyTuple_Check(object);
  if (!tuple && !PyList_CheckExact(object)) return false;
  const size_t count = static_cast<size_t>(Py_SIZE(object));
  auto item_at = [&](size_t i) { return tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i); };
  // By position first: two results may be one tensor today (operands handed back) and two tomorrow.
  Vals items = ops_.empty() ? Vals() : tensors_of(ops_.size() - 1);
  bool in_order = items.size() == count;
  for (size_t i = 0; in_order && i < count; ++i)
    in_order =
        is_tensor_type(Py_TYPE(item_at(i))) && produced_[produced_.size() - count + i].tensor == impl_of(item_at(i));
  items.resize(count);
  for (size_t i = 0; !in_order && i < count; ++i) {
    if (!find_result(item_at(i), &items[i])) return false;
  }
  *result = tuple ? recording_.api.new_tuple(Py_TYPE(object), items.data(), items.size())
                  : recording_.api.new_list(items.data(), items.size());
  return !result->is_null();
}

Vals Lowering::tensors_of(size_t op) const {
  Vals values;
  for (const Produced& produced : produced_)
    if (produced.op == op) values.push_back(produced.value);
  return values;
}

Val Lowering::scalar() const {
  return scalar_;
}

void Lowering::require_options() {
  if (!options_) return;
  for (const Arg& arg : recording_.args)
    if (arg.kind == ArgKind::kTensor) {
      require(recording_, arg, Fact::kDtype);
      require(recording_, arg, Fact::kDevice);
    }
}

void Lowering::emit() {
  require_options();
  for (std::unique_ptr<LoweredOp>& op : ops_) {
    const OperatorInfo& info = op->info();
    Vals inputs = std::move(op->inputs), outputs = std::move(op->outputs);
    recording_.api.emit(make_direct(std::move(op)), inputs, outputs, false);
    if (info.reshapes)
      recording_.forget_layouts();
    else if (info.mutates)
      recording_.forget_autograd();
  }
  ops_.clear();
}

}  // namespace pijit::torch_adapter
