// Additions that C code makes in the middle of what the recorder mirrors, such as those of sum().
//
// Python code may run between two of them, so no call as a whole is observed. What is added is known all the same: the
// operator is emitted before C code runs it, and the eye expects to be told of it.
#include "torch/calls.h"
#include "torch/direct.h"

namespace pijit::torch_adapter {
namespace {

const OperatorInfo& addition() {
  static const OperatorInfo& info =
      operator_info(c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor"));
  return info;
}

bool is_tensor_register(const Recording& recording, Val value) {
  return value.is_reg() && recording.api.facts(value).rep == Rep::kTensor;
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

}  // namespace

// One of them at least is a tensor, which is the operator's first argument.
Val add(Recording& recording, const Operand& left, const Operand& right) {
  const OperatorInfo& info = addition();
  const bool swapped = !is_tensor_register(recording, left.value);
  const Operand &self = swapped ? right : left, &other = swapped ? left : right;
  if (info.python || !is_tensor_register(recording, self.value)) return Val();
  for (const Operand* operand : {&self, &other}) {
    if (operand->object == nullptr || !is_tensor_register(recording, operand->value)) continue;
    if (!is_plain_tensor(operand->object) || !recording.api.check_class(*operand)) return Val();
  }
  auto op = std::make_unique<LoweredOp>(info);
  op->set_slot(0, {Slot::kTensor, self.value.index()});
  op->inputs.push_back(self.value);
  if (is_tensor_register(recording, other.value)) {
    op->set_slot(1, {Slot::kTensor, other.value.index()});
    op->inputs.push_back(other.value);
  } else if (other.value.is_reg()) {
    const bool number = is_number(recording.api.facts(other.value).rep);
    const Val value = number ? other.value : recording.api.unbox(other.value, other.object);
    if (value.is_null()) return Val();
    op->set_slot(1, {Slot::kNumber, value.index()});
    op->inputs.push_back(value);
  } else {
    const at::Tensor number = wrapped_number(recording, other.value.object());
    if (!number.defined()) return Val();
    op->set_constant(1, number);
  }
  op->set_constant(2, c10::IValue(1));
  const Val sum = recording.api.new_reg(Rep::kTensor, tensor_type());
  op->outs().push_back({Out::kTensor, sum.index(), 1});
  const Vals inputs = std::move(op->inputs);
  recording.api.emit(make_direct(std::move(op)), inputs, {sum}, false);
  recording.eye.expected += 1;
  return sum;
}

}  // namespace pijit::torch_adapter
