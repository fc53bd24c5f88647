// Arithmetic on numbers in registers: nodes without objects.
//
// A register of a number is known by its value of now, so the result is too; what CPython answers in another way
// (overflow, division by zero) is left to the general nodes.
#include <cstring>

#include "cpython/opcodes.h"
#include "ir/scalars.h"
#include "record/step.h"

namespace pijit {
namespace {

constexpr ScalarOp kNoOp = static_cast<ScalarOp>(UINT8_MAX);

ScalarOp scalar_op(SiteKind kind, int oparg) {
  constexpr ScalarOp kCompare[] = {ScalarOp::kLess,     ScalarOp::kLessEqual, ScalarOp::kEqual,
                                   ScalarOp::kNotEqual, ScalarOp::kGreater,   ScalarOp::kGreaterEqual};
  if (kind == SiteKind::kCompare) return kCompare[oparg];
  if (kind == SiteKind::kUnary) return oparg == 0 ? ScalarOp::kNegative : kNoOp;
  if (kind != SiteKind::kBinary) return kNoOp;
  switch (oparg >= NB_INPLACE_ADD ? oparg - NB_INPLACE_ADD : oparg) {
    case NB_ADD:
      return ScalarOp::kAdd;
    case NB_SUBTRACT:
      return ScalarOp::kSubtract;
    case NB_MULTIPLY:
      return ScalarOp::kMultiply;
    case NB_TRUE_DIVIDE:
      return ScalarOp::kTrueDivide;
    case NB_FLOOR_DIVIDE:
      return ScalarOp::kFloorDivide;
    case NB_REMAINDER:
      return ScalarOp::kRemainder;
    default:
      return kNoOp;
  }
}

bool is_number(Rep rep) {
  return rep == Rep::kInt || rep == Rep::kFloat || rep == Rep::kBool;
}

PyTypeObject* type_of_number(Rep rep) {
  return rep == Rep::kFloat ? &PyFloat_Type : rep == Rep::kBool ? &PyBool_Type : &PyLong_Type;
}

}  // namespace

// What an operand is now, and where a replay finds it: in a register, or (Null) in the node itself.
bool Recorder::scalar_operand(Val value, Reg* now, Val* place) {
  PyObject* object = value.is_reg() ? reg_objects_[value.index()] : value.object();
  if (object == nullptr || !number_of(object, now)) return false;
  *place = Val();
  if (!value.is_reg()) return true;
  const Rep rep = trace_->regs[value.index()].rep;
  *place = rep == Rep::kObject ? unbox(value, object) : value;
  return !place->is_null() && trace_->regs[place->index()].rep == now->rep;
}

Val Recorder::scalar_node(ScalarOp op, const std::vector<Val>& operands) {
  Reg now[2] = {}, result{};
  Val places[2];
  bool number = false;
  for (Val value : operands) number |= value.is_reg() && is_number(trace_->regs[value.index()].rep);
  if (!number) return Val();
  for (size_t i = 0; i < operands.size(); ++i)
    if (!scalar_operand(operands[i], &now[i], &places[i])) return Val();
  if (!compute_scalar(op, now[0], now[1], &result)) return Val();
  const Ref object = Ref::steal(number_object(result));
  if (!object) return Val();
  const Val out = add_reg(result.rep, type_of_number(result.rep), owned(object.get()).object());
  Node& node = emit_node(Op::kScalar);
  node.a = places[0];
  node.b = places[1];
  node.aux = static_cast<uint32_t>(op);
  node.out = out.index();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!places[i].is_null()) continue;
    node.rep = now[i].rep;
    node.imm = 0;
    std::memcpy(&node.imm, &now[i].integer, now[i].rep == Rep::kBool ? sizeof now[i].boolean : sizeof node.imm);
  }
  return out;
}

Val Recorder::compute_number(SiteKind kind, int oparg, const std::vector<Val>& operands) {
  const ScalarOp op = scalar_op(kind, oparg);
  return op == kNoOp ? Val() : scalar_node(op, operands);
}

bool Recorder::pin_numbers(std::vector<Val>* values) {
  bool any = false;
  for (Val& value : *values) {
    if (!value.is_reg() || !is_number(trace_->regs[value.index()].rep)) continue;
    const Val pinned = force_const(value, nullptr);
    if (pinned.is_null()) continue;
    value = pinned;
    any = true;
  }
  return any;
}

// The truth of a number, guarded.
bool Recorder::number_truth(Val value, bool* out) {
  const bool boolean = trace_->regs[value.index()].rep == Rep::kBool;
  const Val answer = boolean ? value : scalar_node(ScalarOp::kTruth, {value});
  if (answer.is_null()) return false;
  *out = reg_objects_[answer.index()] == Py_True;
  Node& node = emit_node(Op::kGuardBool);
  node.a = answer;
  node.imm = node.aux = *out;
  return true;
}

}  // namespace pijit
