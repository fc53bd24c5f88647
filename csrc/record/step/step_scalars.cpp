// Arithmetic, comparison and branches on shadows: constants fold (CPython's own result is observed), tensors go to the
// adapter.
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/calls.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"
#include "record/step/step.h"

namespace pijit {
namespace {

void take_result(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (cpython::is_scalar(result)) {
    frame.pending.result = recorder.reads.owned(result);
  } else if (is_plain_const(result)) {
    frame.pending.result = recorder.reads.owned(result);
  } else {
    recorder.stop(Abort::kUnknownOperand, Py_TYPE(result)->tp_name);
  }
}

// An operation on plain values: its result, or its exception, is always the same. False: one is no such value.
bool observe_plain(ShadowFrame& frame, std::initializer_list<Val> operands) {
  for (const Val value : operands)
    if (value.object() == nullptr || !is_plain_const(value.object())) return false;
  observe(frame, static_cast<int>(operands.size()), take_result);
  frame.pending.folds = true;
  return true;
}

void take_concatenation(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (!PyList_CheckExact(result) && !PyTuple_Check(result))
    return recorder.stop(Abort::kUnknownOperand, Py_TYPE(result)->tp_name);
  take_sequence(recorder, frame, result);
}

Task<Val> binary_of(Drive& drive, Arguments args) {
  Val result = co_await binary(drive, static_cast<int>(PyLong_AsLong(args.values[0].object())), args.values[1],
                               args.values[2], true);
  co_return result;
}

// The same from where the first method of the left operand said that it does not know the right one.
Task<Val> binary_rest(Drive& drive, Arguments args) {
  Val result = co_await binary_refused(drive, static_cast<int>(PyLong_AsLong(args.values[0].object())), args.values[1],
                                       args.values[2]);
  co_return result;
}

Task<Val> compare_of(Drive& drive, Arguments args) {
  Val result =
      co_await compare(drive, static_cast<int>(PyLong_AsLong(args.values[0].object())), args.values[1], args.values[2]);
  co_return result;
}

Invoke drive_operator(Recorder& recorder, ShadowFrame& frame, Driven function, int oparg, Val left, Val right,
                      Then then = Then::kPush) {
  Arguments args;
  args.values = {recorder.reads.owned(Ref::steal(PyLong_FromLong(oparg)).get()), left, right};
  return drive(recorder, frame, function, args, 2, then);
}

// A jump on the truth of an object whose class decides it in Python.
Task<Val> branch_of(Drive& drive, Arguments args) {
  const bool yes = co_await is_true(drive, args.values[0]);
  drive.observe([](Recorder& recorder, ShadowFrame& frame, PyObject*) { finish_branch(recorder, frame, Val()); });
  co_return Val::constant(yes ? Py_True : Py_False);
}

// The same where the truth of the result is the result.
Task<Val> compare_truth_of(Drive& drive, Arguments args) {
  Val result = co_await compare_of(drive, args);
  if (drive.recorder().heap.type_of(result) == &PyBool_Type) co_return result;
  const bool yes = co_await is_true(drive, result);
  co_return Val::constant(yes ? Py_True : Py_False);
}

Task<Val> not_of(Drive& drive, Arguments args) {
  const bool yes = co_await is_true(drive, args.values[0]);
  co_return Val::constant(yes ? Py_False : Py_True);
}

// An operand of an operation on scalars, at least one of which differs from call to call.
bool is_computable(Recorder& recorder, Val value) {
  if (is_scalar_reg(recorder, value)) return true;
  if (recorder.heap.is_virtual(value, VirtualKind::kTuple)) {
    for (Val item : recorder.heap.model(value).items)
      if (!is_computable(recorder, item)) return false;
    return true;
  }
  return value.object() != nullptr && is_plain_const(value.object());
}

bool varies(Recorder& recorder, Val value) {
  if (!recorder.heap.is_virtual(value, VirtualKind::kTuple)) return is_scalar_reg(recorder, value);
  for (Val item : recorder.heap.model(value).items)
    if (varies(recorder, item)) return true;
  return false;
}

}  // namespace

bool compute_scalars(Recorder& recorder, ShadowFrame& frame, SiteKind kind, int oparg, const Vals& operands, int pops) {
  bool any = false;
  const bool formats = kind == SiteKind::kBinary && oparg % nb::kInPlaceAdd == nb::kRemainder;
  for (Val value : operands) {
    if (!is_computable(recorder, value) || (value.is_virtual() && !formats)) return false;
    any = any || varies(recorder, value);
  }
  if (!any) return false;
  const Val right = operands.size() > 1 ? operands[1] : Val();
  if (const Val number = compute_number(recorder, kind, oparg, operands[0], right); !number.is_null()) {
    known(frame, pops, number);
    return true;
  }
  compute(recorder, frame, operator_function(kind, oparg), operands, pops);
  return true;
}

namespace {

// What a function of C says of the values, and said while it was recorded.
Val ask(Recorder& recorder, PyObject* function, const Vals& values, bool answer) {
  return emit_pure(recorder, Val::constant(function), values, &PyBool_Type, answer ? Py_True : Py_False);
}

// A replay leaves where the answer is another one.
void decide(Recorder& recorder, Val said, bool answer) {
  Node& guard = emit_node(recorder, Op::kGuardIs);
  guard.a = said;
  guard.b = Val::constant(answer ? Py_True : Py_False);
}

// A scalar in a register.
bool scalar_truth(Recorder& recorder, Val value, bool* out) {
  PyObject* object = recorder.heap.reg_objects[value.index()];
  if (object == nullptr || (!is_scalar_reg(recorder, value) && !has_truth(object))) return false;
  const RegInfo info = recorder.trace().regs[value.index()];
  if (info.rep != Rep::kObject) return number_truth(recorder, value, out);
  *out = PyObject_IsTrue(object) > 0;
  const bool is_answer = info.type == &PyBool_Type;
  decide(recorder, is_answer ? value : ask(recorder, operator_function(SiteKind::kBool, 0), {value}, *out), *out);
  return true;
}

// Of a virtual object. False: it is not known.
bool truth_of_made(Recorder& recorder, Val value, bool* out) {
  Model& content = recorder.heap.model(value);
  switch (content.kind) {
    case VirtualKind::kTuple:
    case VirtualKind::kList:
    case VirtualKind::kDeque:
      *out = !content.items.empty();
      return true;
    case VirtualKind::kDict:
      if (const auto* attributes = attributes_of(recorder.heap, content)) {
        *out = !attributes->names.empty();
        return true;
      }
      [[fallthrough]];
    case VirtualKind::kSet:
      *out = !content.keys().empty();
      return true;
    case VirtualKind::kView: {
      Objects keys;
      Vals values;
      if (!dict_content(recorder, value, &keys, &values)) return false;
      *out = !keys.empty();
      return true;
    }
    case VirtualKind::kInstance: {
      PyTypeObject* type = content.type;
      PyObject* python_bool = recorder.reads.lookup_type(type, names().bool_);
      PyObject* python_len = recorder.reads.lookup_type(type, names().len);
      if (python_bool != nullptr || (python_len != nullptr && Py_TYPE(python_len) == &PyFunction_Type)) return false;
      *out = python_len == nullptr || !content.keys().empty();
      return recorder.live();
    }
    default:
      *out = true;
      return true;
  }
}

}  // namespace

bool truth(Recorder& recorder, Val value, bool* out) {
  value = content_of(recorder, value);
  if (value.is_virtual()) return truth_of_made(recorder, value, out);
  if (value.is_reg()) return !touches_tensor(recorder, value) && scalar_truth(recorder, value, out);
  PyObject* object = value.object();
  if (object == nullptr) return false;
  if (object == Py_True || object == Py_False || object == Py_None) {
    *out = object == Py_True;
    return true;
  }
  PyTypeObject* type = Py_TYPE(object);
  if (cpython::is_scalar(object) || PyTuple_CheckExact(object) || PyFrozenSet_CheckExact(object) ||
      PyRange_Check(object)) {
    *out = PyObject_IsTrue(object) > 0;
    return true;
  }
  if (cpython::is_plain_tuple(object)) {
    recorder.reads.guard_type_version(type);
    if (!recorder.live() || !recorder.reads.guard_parts(object)) return false;
    *out = PyTuple_GET_SIZE(object) > 0;
    return true;
  }
  if (PyDict_CheckExact(object) || type == &PyODict_Type) {
    bool by_item;
    const bool plain = PyDict_CheckExact(object);
    if (plain ? !read_keys(recorder, object, &by_item) : !recorder.reads.guard_dict_whole(object)) return false;
    *out = PyDict_GET_SIZE(object) > 0;
    return true;
  }
  if (PyList_CheckExact(object)) {
    if (!recorder.reads.guard_list(object, ReadSet::kSize)) return false;
    *out = PyList_GET_SIZE(object) > 0;
    return true;
  }
  if (PySet_CheckExact(object)) {
    if (!recorder.reads.guard_set(object, ReadSet::kSize)) return false;
    *out = PySet_GET_SIZE(object) > 0;
    return true;
  }
  PyObject* dict = nullptr;
  if (!guard_instance(recorder, object, &dict)) return false;
  recorder.reads.guard_type_version(type);
  bool has_len = (type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_length != nullptr) ||
                 (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_length != nullptr);
  bool has_bool = type->tp_as_number != nullptr && type->tp_as_number->nb_bool != nullptr;
  if (has_len || has_bool) return false;
  *out = true;
  return recorder.live();
}

void step_jump_none(Recorder& recorder, ShadowFrame& frame) {
  const Val value = frame.top();
  if (value.is_reg() && same_object(recorder, value, Val::constant(Py_None)) < 0) {
    const bool is_none = recorder.frames.operand(1) == Py_None;
    decide(recorder, ask(recorder, identity_function(false), {value, Val::constant(Py_None)}, is_none), is_none);
  }
  frame.sp -= 1;
}

void step_jump(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const Val value = frame.top();
  const bool keep = now.is(Operation::kJumpIfOrPop), on_true = now.flag != 0;
  bool yes = false;
  if (truth(recorder, value, &yes)) {
    const bool jumps = on_true == yes;
    if (!keep || !jumps) frame.sp -= 1;
    return;
  }
  if (!recorder.live()) return;
  if (ask_about(recorder, frame, SiteKind::kBool, {value}, 0, 0)) {
    frame.pending.decides_branch();
    return;
  }
  Arguments args;
  args.values = {value};
  const Invoke outcome = drive(recorder, frame, keep ? branch_of : truth_of, args, keep ? 0 : 1, Then::kDrop);
  if (outcome == Invoke::kUnknown) recorder.stop(Abort::kUnknownOperand, "truth of an object");
}

// A jump on a tensor was executed, or its truth taken: the direction, or the result, is its truth, which a replay
// checks.
void finish_branch(Recorder& recorder, ShadowFrame& frame, Val value) {
  const Instruction now = frame.current();
  const bool takes = now.is(Operation::kToBool) || now.is(Operation::kCompare), keep = now.is(Operation::kJumpIfOrPop),
             on_true = now.flag != 0;
  const bool fell = cpython::instruction_index(frame.frame) == cpython::next_index(frame.code, frame.operation);
  const bool yes = takes ? recorder.frames.operand(1) == Py_True : on_true != fell;
  if (value.is_reg()) {
    Node& node = emit_node(recorder, Op::kGuardBool);
    node.a = value;
    node.imm = yes;
  }
  if (takes)
    frame.pending.result = Val::constant(yes ? Py_True : Py_False);
  else if (!keep || fell)
    frame.sp -= 1;
}

void step_binary(Recorder& recorder, ShadowFrame& frame, int op) {
  Val left = frame.top(2), right = frame.top(1);
  if (ask_about(recorder, frame, SiteKind::kBinary, {left, right}, 2, 1, op)) return;
  if (compute_scalars(recorder, frame, SiteKind::kBinary, op, {left, right}, 2) || !recorder.live()) return;
  if (observe_plain(frame, {left, right})) return;
  // Concatenation of tuples of other classes: the class of the result is what CPython makes it.
  Vals items;
  PyTypeObject *left_type = recorder.heap.type_of(left), *right_type = recorder.heap.type_of(right);
  auto is_tuple = [](PyTypeObject* type) { return type != nullptr && PyType_IsSubtype(type, &PyTuple_Type); };
  const bool exact = left_type == &PyTuple_Type && right_type == &PyTuple_Type;
  if ((op == nb::kAdd || op == nb::kInPlaceAdd) && is_tuple(left_type) && is_tuple(right_type) && !exact) {
    Vals more;
    if (try_items(recorder, left, &items) && try_items(recorder, right, &more)) {
      items.insert(items.end(), more.begin(), more.end());
      frame.collected = std::move(items);
      return observe(frame, 2, take_concatenation);
    }
  }
  if (!recorder.live()) return;
  if (drive_operator(recorder, frame, binary_of, op, left, right, Then::kBinary) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, std::string(left_type == nullptr ? "?" : left_type->tp_name) + " and " +
                                              (right_type == nullptr ? "?" : right_type->tp_name));
}

void step_truth(Recorder& recorder, ShadowFrame& frame, bool invert) {
  Val value = frame.top();
  bool yes = false;
  if (truth(recorder, value, &yes)) return done(frame, 1, Val::constant(yes != invert ? Py_True : Py_False));
  if (!recorder.live()) return;
  if (!invert && ask_about(recorder, frame, SiteKind::kBool, {value}, 1, 1)) {
    frame.pending.decides_branch();
    return;
  }
  Arguments args;
  args.values = {value};
  if (recorder.live() && drive(recorder, frame, invert ? not_of : truth_of, args, 1) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, invert ? "not of an object" : "truth of an object");
}

void step_unary(Recorder& recorder, ShadowFrame& frame, int op) {
  Val value = frame.top();
  if (ask_about(recorder, frame, SiteKind::kUnary, {value}, 1, 1, op)) return;
  if (compute_scalars(recorder, frame, SiteKind::kUnary, op, {value}, 1) || !recorder.live()) return;
  if (observe_plain(frame, {value})) return;
  static PyObject* const special[] = {PyUnicode_InternFromString("__neg__"), PyUnicode_InternFromString("__pos__"),
                                      PyUnicode_InternFromString("__invert__")};
  Arguments args;
  args.values = {value, Val::constant(special[op])};
  if (drive(recorder, frame, special_of, args, 1) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "a unary operator");
}

void step_compare(Recorder& recorder, ShadowFrame& frame, int op, bool to_bool) {
  Val left = frame.top(2), right = frame.top(1);
  if (ask_about(recorder, frame, to_bool ? SiteKind::kCompareTruth : SiteKind::kCompare, {left, right}, 2, 1, op)) {
    if (to_bool) frame.pending.decides_branch();
    return;
  }
  if (compute_scalars(recorder, frame, SiteKind::kCompare, op, {left, right}, 2) || !recorder.live()) return;
  if (observe_plain(frame, {left, right})) return;
  PyTypeObject *left_type = recorder.heap.type_of(left), *right_type = recorder.heap.type_of(right);
  const Driven driven = to_bool ? compare_truth_of : compare_of;
  if (drive_operator(recorder, frame, driven, op, left, right) != Invoke::kUnknown) return;
  if (recorder.live())
    recorder.stop(Abort::kUnknownOperand, std::string("comparison of ") +
                                              (left_type == nullptr ? "?" : left_type->tp_name) + " and " +
                                              (right_type == nullptr ? "?" : right_type->tp_name));
}

void step_is(Recorder& recorder, ShadowFrame& frame, bool invert) {
  Val left = frame.top(2), right = frame.top(1);
  int same = same_object(recorder, left, right);
  if (left.is_const() && right.is_const()) {
    // Equal values must be these very objects from now on.
    if (cpython::same_scalar(left.object(), right.object()) && !cpython::is_singleton(left.object()))
      for (Val value : {left, right}) recorder.trace().exact.push_back(value.object());
    same = left.object() == right.object() ? 1 : 0;
  }
  if (same >= 0) return done(frame, 2, Val::constant((same > 0) != invert ? Py_True : Py_False));
  compute(recorder, frame, identity_function(invert), {left, right}, 2);
}

// The method of the left operand does not know the right one: what CPython tries next.
void go_on_binary(Recorder& recorder, ShadowFrame& outer) {
  const int op = outer.current().argument;
  if (drive_operator(recorder, outer, binary_rest, op, outer.top(2), outer.top(1)) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "a reflected operator");
}

}  // namespace pijit
