// Arithmetic on numbers in registers: nodes without objects.
//
// A register of a number is known by its value of now, so the result is too; what CPython answers in another way
// (overflow, division by zero) is left to the general nodes.
#include "record/state/scalars.h"

#include "cpython/operators.h"
#include "ir/scalars.h"
#include "record/shared.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"

namespace pijit {
namespace {

constexpr ScalarOp kNoOp = static_cast<ScalarOp>(UINT8_MAX);

ScalarOp scalar_op(SiteKind kind, int oparg) {
  constexpr ScalarOp kCompare[] = {ScalarOp::kLess,     ScalarOp::kLessEqual, ScalarOp::kEqual,
                                   ScalarOp::kNotEqual, ScalarOp::kGreater,   ScalarOp::kGreaterEqual};
  if (kind == SiteKind::kCompare) return kCompare[oparg];
  if (kind == SiteKind::kUnary) return oparg == 0 ? ScalarOp::kNegative : kNoOp;
  if (kind != SiteKind::kBinary) return kNoOp;
  switch (oparg >= nb::kInPlaceAdd ? oparg - nb::kInPlaceAdd : oparg) {
    case nb::kAdd:
      return ScalarOp::kAdd;
    case nb::kSubtract:
      return ScalarOp::kSubtract;
    case nb::kMultiply:
      return ScalarOp::kMultiply;
    case nb::kTrueDivide:
      return ScalarOp::kTrueDivide;
    case nb::kFloorDivide:
      return ScalarOp::kFloorDivide;
    case nb::kRemainder:
      return ScalarOp::kRemainder;
    default:
      return kNoOp;
  }
}

// A number of which it is known how a replay gets it.
bool is_number_reg(const Recorder& recorder, Val value) {
  return value.is_reg() && (is_number(recorder.trace().regs[value.index()].rep) || is_varying(recorder, value));
}

// What an operand is now, and where a replay finds it: in a register, or (Null) in the node itself.
bool scalar_operand(Recorder& recorder, Val value, Reg* now, Val* place) {
  PyObject* object = value.is_reg() ? recorder.heap.reg_objects[value.index()] : value.object();
  if (object == nullptr || !number_of(object, now)) return false;
  *place = Val();
  if (!value.is_reg()) return true;
  const Rep rep = recorder.trace().regs[value.index()].rep;
  *place = rep == Rep::kObject ? recorder.unbox(value, object) : value;
  return !place->is_null() && recorder.trace().regs[place->index()].rep == now->rep;
}

}  // namespace

Val scalar_node(Recorder& recorder, ScalarOp op, Val left, Val right) {
  if (!is_number_reg(recorder, left) && !is_number_reg(recorder, right)) return Val();
  Reg a{}, b{}, result{};
  Val first, second;
  if (!scalar_operand(recorder, left, &a, &first) ||
      (!right.is_null() && !scalar_operand(recorder, right, &b, &second)))
    return Val();
  if (!compute_scalar(op, a, b, &result)) return Val();
  const Ref object = Ref::steal(number_object(result));
  if (!object) return Val();
  const Val out =
      add_reg(recorder, result.rep, type_of_number(result.rep), recorder.reads.owned(object.get()).object());
  const Reg& constant = first.is_null() ? a : b;
  Node& node = emit_node(recorder, Op::kScalar);
  node.a = first;
  node.b = second;
  node.aux = static_cast<uint32_t>(op);
  node.out = out.index();
  node.rep = constant.rep;
  node.imm = number_bits(constant);
  return out;
}

Val compute_number(Recorder& recorder, SiteKind kind, int oparg, Val left, Val right) {
  const ScalarOp op = scalar_op(kind, oparg);
  return op == kNoOp ? Val() : scalar_node(recorder, op, left, right);
}

// A number, or those in a sequence or slice down to `depth`.
bool fix_number(Recorder& recorder, Val* value, int depth) {
  if (is_number_reg(recorder, *value)) {
    const Val fixed = recorder.force_const(*value, nullptr);
    if (fixed.is_null()) return false;
    *value = fixed;
    return true;
  }
  const bool known = recorder.heap.is_virtual(*value, VirtualKind::kTuple) ||
                     recorder.heap.is_virtual(*value, VirtualKind::kList) ||
                     recorder.heap.is_virtual(*value, VirtualKind::kSlice);
  return known && depth > 0 && fix_numbers(recorder, &recorder.heap.model(*value).items, depth - 1);
}

bool fix_numbers(Recorder& recorder, Vals* values, int depth) {
  bool any = false;
  for (Val& value : *values) any = fix_number(recorder, &value, depth) || any;
  return any;
}

// The truth of a number, guarded.
bool number_truth(Recorder& recorder, Val value, bool* out) {
  const bool boolean = recorder.trace().regs[value.index()].rep == Rep::kBool;
  const Val answer = boolean ? value : scalar_node(recorder, ScalarOp::kTruth, value, Val());
  if (answer.is_null()) return false;
  *out = recorder.heap.reg_objects[answer.index()] == Py_True;
  Node& node = emit_node(recorder, Op::kGuardBool);
  node.a = answer;
  node.imm = *out;
  return true;
}

bool is_scalar_reg(const Kernel& recording, Val value) {
  if (!value.is_reg()) return false;
  const RegInfo& info = recording.trace().regs[value.index()];
  return is_number(info.rep) || (info.rep == Rep::kObject && cpython::is_scalar_type(info.type));
}

// All of them are tensors and numbers.
bool are_scalars(const Kernel& recording, const Vals& values) {
  return std::all_of(values.begin(), values.end(), [&](Val value) {
    return value.is_null() || touches_tensor(recording, value) || is_scalar_reg(recording, value) ||
           (value.is_const() && cpython::is_scalar(value.object()));
  });
}

}  // namespace pijit
