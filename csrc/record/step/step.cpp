// One instruction: which family handles it. The pure stack and local traffic is here; the rest is in the files of the
// families.
#include "record/step/step.h"

#include "cpython/keys.h"
#include "record/state/inputs.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"
#include "record/step/closing.h"
#include "record/step/frame_calls.h"

namespace pijit {
namespace {

PyObject* co_const(ShadowFrame& frame, int i) {
  return PyTuple_GET_ITEM(frame.code->co_consts, i);
}
PyObject* co_name(ShadowFrame& frame, int i) {
  return PyTuple_GET_ITEM(frame.code->co_names, i);
}

PyObject* frame_globals(ShadowFrame& frame) {
  return cpython::globals(frame.frame);
}

// len() waits for what the innermost frame returns.
bool returns_length(FrameStack& frames) {
  return frames.size() > 1 && frames[frames.size() - 2]->pending.then == Then::kLength;
}

// A replay leaves where a length is negative: len() raises then.
Val guarded_length(Recorder& recorder, Val value) {
  PyObject* const object = recorder.heap.real(value);
  if (!value.is_reg() || object == nullptr || !PyLong_CheckExact(object)) return value;
  if (recorder.trace().regs[value.index()].rep == Rep::kObject) value = recorder.unbox(value, object);
  const Val zero = recorder.reads.owned(Ref::steal(PyLong_FromLong(0)).get());
  bool negative = false;
  const Val answer = value.is_null() ? Val() : scalar_node(recorder, ScalarOp::kLess, value, zero);
  if (!answer.is_null() && number_truth(recorder, answer, &negative)) return value;
  return recorder.stop(Abort::kUnknownOperand, "a length"), Val();
}

// found as find_item() has it.
void push_variable(Recorder& recorder, ShadowFrame& frame, int found, Val value, bool for_call) {
  if (!recorder.live()) return;
  if (found < 0) return recorder.stop(Abort::kUnknownAttribute, "a global variable");
  if (found == 0) return will_raise(recorder, frame, 0);
  if (for_call) return frame.push_callee(value, Val());
  frame.push(value);
}

void load_build_class(Recorder& recorder, ShadowFrame& frame) {
  static PyObject* const name = PyUnicode_InternFromString("__build_class__");
  PyObject* builtins = cpython::builtins(frame.frame);
  Val shadow;
  const int found = PyDict_CheckExact(builtins) ? find_item(recorder, builtins, name, &shadow) : -1;
  push_variable(recorder, frame, found, shadow, false);
}

// A cell that escaped: its content is whatever it is now.
void load_cell(Recorder& recorder, ShadowFrame& frame, Val cell, int local) {
  PyObject* content = PyCell_GET(cpython::slot(frame.frame, local));
  if (content == nullptr) return recorder.stop(Abort::kRaised, "an unbound variable");
  Val value = add_reg(recorder, Rep::kObject, nullptr, content);
  Node& node = emit_node(recorder, Op::kLoadCell);
  node.a = cell;
  node.out = value.index();
  frame.push(value);
}

// The content of a cell that is virtual or existed before; Null: it is empty. False: stopped.
bool cell_content(Recorder& recorder, Val cell, Val* value) {
  PyObject* content = nullptr;
  if (cell.is_virtual()) {
    *value = recorder.heap.virtual_field(cell, 0);
  } else if (cell.object() == nullptr) {
    recorder.stop(Abort::kUnknownOperand, "a cell");
  } else if (!overlay_find(recorder, cell.object(), Py_None, value)) {
    content = PyCell_GET(cell.object());
    if (varies(recorder, cell.object(), Py_None, content)) {
      Guard guard{};
      guard.op = GuardOp::kLoadCell;
      guard.subject = cell;
      *value = load_varying(recorder, cell.object(), Py_None, content, guard);
      return true;
    }
    if (!recorder.reads.guard_cell(cell.object(), &content)) recorder.stop(Abort::kChanged, "a closure variable");
    if (recorder.live() && content != nullptr) *value = constant(recorder, content);
  }
  return recorder.live();
}

// Null empties the cell.
void write_cell(Recorder& recorder, Val cell, Val value) {
  const bool is_own = cell.is_virtual() && recorder.heap.model(cell).own;
  if (cell.is_virtual()) {
    if (recorder.trace().virtuals[cell.index()].reg == kNone)
      return set_field(recorder, cell, field::kCell::kContent, value);
    recorder.heap.model(cell).items.assign(1, value);
    recorder.heap.mention(cell, value, 0);
    cell = Val::reg(recorder.trace().virtuals[cell.index()].reg);
  }
  if (cell.is_const() && !may_write_here(recorder)) return;
  const bool is_new = value.is_virtual() && recorder.trace().virtuals[value.index()].reg == kNone;
  const Val made = value;
  if (!value.is_null()) value = materialize(recorder, value);
  if (!recorder.live()) return;
  if (is_own && is_new) own(recorder, made);
  if (cell.is_const()) note_write(recorder, cell.object(), Py_None, PyCell_GET(cell.object()), value);
  Node& node = emit_node(recorder, Op::kStoreCell);
  node.a = cell;
  node.b = value;
  if (cell.is_const()) overlay_set(recorder, cell.object(), Py_None, value);
}

void store_deref(Recorder& recorder, ShadowFrame& frame, int slot) {
  write_cell(recorder, frame.local(slot), frame.top());
  if (recorder.live()) frame.sp -= 1;
}

void delete_deref(Recorder& recorder, ShadowFrame& frame, int slot) {
  Val cell = frame.local(slot), value;
  if (cell.is_reg()) return recorder.stop(Abort::kWrite, "a closure variable");
  if (!cell_content(recorder, cell, &value)) return;
  if (value.is_null()) return will_raise(recorder, frame, 0);
  write_cell(recorder, cell, Val());
}

uint32_t part_of_function(int bit) {
  if (bit == 16) return function_field::kAnnotate;
  if (bit == 8) return function_field::kClosure;
  if (bit == 4) return function_field::kAnnotations;
  return bit == 2 ? function_field::kKwDefaults : function_field::kDefaults;
}

void make_function(Recorder& recorder, ShadowFrame& frame, int parts) {
  Val code = frame.pop();
  Val function = new_virtual(recorder, VirtualKind::kFunction, &PyFunction_Type);
  recorder.heap.model(function).items.resize(7);
  set_field(recorder, function, function_field::kCode, code);
  set_field(recorder, function, function_field::kGlobals, Val::constant(frame_globals(frame)));
  set_field(recorder, function, function_field::kQualname,
            recorder.reads.owned(reinterpret_cast<PyCodeObject*>(code.object())->co_qualname));
  for (int bit : {8, 4, 2, 1})
    if ((parts & bit) != 0) set_field(recorder, function, part_of_function(bit), frame.pop());
  known(frame, 0, function);
}

void set_function_part(Recorder& recorder, ShadowFrame& frame, int part) {
  const Val function = frame.pop();
  set_field(recorder, function, part_of_function(part), frame.pop());
  frame.push(function);
}

void yield_value(Recorder&, ShadowFrame& frame) {
  frame.result = frame.pop();
  frame.yielded = true;
}

// One that only moves values. False: another.
bool move(ShadowFrame& frame, Operation operation, int argument) {
  switch (operation) {
    case Operation::kLoadLocal:
      if (frame.local(argument).is_null()) return false;
      frame.push(frame.local(argument));
      return true;
    case Operation::kStoreLocal:
      frame.local(argument) = frame.pop();
      return true;
    case Operation::kTakeLocal:
      frame.push(frame.local(argument));
      frame.local(argument) = Val();
      return true;
    case Operation::kLoadConst:
      frame.push(Val::constant(co_const(frame, argument)));  // its code keeps it
      return true;
    case Operation::kPushNull:
      frame.push(Val());
      return true;
    case Operation::kCopy:
      frame.push(frame.top(argument));
      return true;
    case Operation::kSwap:
      std::swap(frame.top(), frame.top(argument));
      return true;
    default:
      return false;
  }
}

void give_result(Recorder& recorder, ShadowFrame& frame) {
  note_return(recorder);
  if (returns_length(recorder.frames)) frame.top() = guarded_length(recorder, frame.top());
  frame.result = frame.pop();
}

bool simple(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  if (step_move(frame, now)) return true;
  const int argument = now.argument;
  switch (now.operation) {
    case Operation::kNothing:
    case Operation::kResume:
    case Operation::kJump:
      return true;
    case Operation::kPop:
      recorder.frames.popped = frame.pop();
      return true;
    case Operation::kLoadLocal:
      return will_raise(recorder, frame, 0), true;  // it is unbound
    case Operation::kDeleteLocal:
      if (frame.local(argument).is_null()) return will_raise(recorder, frame, 0), true;
      frame.local(argument) = Val();
      return true;
    case Operation::kLoadSmallInt:
      frame.push(recorder.reads.owned(cpython::small_int(argument)));
      return true;
    case Operation::kLoadCommon:
      frame.push(Val::constant(cpython::common_constant(argument)));
      return true;
    case Operation::kMakeCell:  // of a comprehension that has no frame of its own
      make_cell(recorder, frame, argument);
      return true;
    case Operation::kLoadCell:
      frame.push(frame.local(argument));
      return true;
    case Operation::kLoadGlobal:
      load_global(recorder, frame, co_name(frame, argument), now.flag != 0);
      return true;
    case Operation::kLoadBuildClass:
      load_build_class(recorder, frame);
      return true;
    case Operation::kStoreGlobal:
      write_global(recorder, frame, co_name(frame, argument), frame.top());
      return true;
    case Operation::kDeleteGlobal:
      write_global(recorder, frame, co_name(frame, argument), Val());
      return true;
    case Operation::kLoadDeref:
      load_deref(recorder, frame, argument);
      return true;
    case Operation::kStoreDeref:
      store_deref(recorder, frame, argument);
      return true;
    case Operation::kDeleteDeref:
      delete_deref(recorder, frame, argument);
      return true;
    case Operation::kMakeFunction:
      make_function(recorder, frame, argument);
      return true;
    case Operation::kSetFunctionPart:
      set_function_part(recorder, frame, argument);
      return true;
    case Operation::kReturn:
      return give_result(recorder, frame), true;
    case Operation::kReturnConst:
      note_return(recorder);
      frame.result = Val::constant(co_const(frame, argument));
      return true;
    case Operation::kEndFor:
      frame.sp -= 2;
      return true;
    case Operation::kEndSend:
      frame.top(2) = frame.top();
      frame.sp -= 1;
      return true;
    case Operation::kYield:
      yield_value(recorder, frame);
      return true;
    case Operation::kKeywordNames:
      frame.kwnames = co_const(frame, argument);
      frame.call_start = frame.instruction;
      return true;
    default:
      return false;
  }
}

}  // namespace

void load_global(Recorder& recorder, ShadowFrame& frame, PyObject* name, bool for_call) {
  PyObject* globals = frame_globals(frame);
  PyObject* builtins = cpython::builtins(frame.frame);
  Val shadow;
  const bool plain = PyDict_CheckExact(globals) && PyDict_CheckExact(builtins);
  int found = plain ? find_item(recorder, globals, name, &shadow) : -1;
  if (found == 0) found = find_item(recorder, builtins, name, &shadow);
  push_variable(recorder, frame, found, shadow, for_call);
}

void write_global(Recorder& recorder, ShadowFrame& frame, PyObject* name, Val value) {
  PyObject *globals = frame_globals(frame), *old = nullptr;
  Val changed;
  if (!PyDict_CheckExact(globals)) return recorder.stop(Abort::kWrite, "a global variable");
  if (value.is_null()) {
    const bool overlaid = overlay_find(recorder, globals, name, &changed);
    if (!overlaid && !recorder.reads.read_dict(globals, name, &old))
      return recorder.live() ? recorder.stop(Abort::kWrite, "a global variable") : void();
    if (overlaid ? changed.is_null() : old == nullptr) return will_raise(recorder, frame, 0);
  }
  if (!write_dict(recorder, globals, name, value))
    return recorder.live() ? recorder.stop(Abort::kWrite, "a global variable") : void();
  await(frame, value.is_null() ? 0 : 1, 0).has_result = true;
}

void load_deref(Recorder& recorder, ShadowFrame& frame, int slot) {
  Val cell = frame.local(slot), value;
  if (cell.is_reg()) return load_cell(recorder, frame, cell, slot);
  if (!cell_content(recorder, cell, &value)) return;
  if (value.is_null()) return will_raise(recorder, frame, 0);
  frame.push(value);
}

bool step_move(ShadowFrame& frame, Instruction now) {
  if (!move(frame, now.operation, now.argument)) return false;
  if (now.then != Operation::kNothing && !move(frame, now.then, now.then_argument)) throw_wrong_shadow();
  return true;
}

namespace {

// Containers: what looks into them, or builds them.
void step_items(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const int argument = now.argument;
  switch (now.operation) {
    case Operation::kContains:
      return step_contains(recorder, frame, now.flag != 0);
    case Operation::kSubscript:
      return step_subscr(recorder, frame);
    case Operation::kLoadSlice:
      return step_load_slice(recorder, frame);
    case Operation::kStoreSubscript:
      return step_store_subscr(recorder, frame);
    case Operation::kStoreSlice:
      return step_store_slice(recorder, frame);
    case Operation::kDeleteSubscript:
      return step_delete_subscr(recorder, frame);
    case Operation::kGetIter:
      return step_get_iter(recorder, frame);
    case Operation::kForIter:
      return step_for_iter(recorder, frame);
    case Operation::kGetYieldFromIter:
      return step_yield_from(recorder, frame);
    case Operation::kGetAwaitable:
      return step_awaitable(recorder, frame);
    case Operation::kSend:
      return step_send(recorder, frame);
    case Operation::kUnpack:
      return step_unpack(recorder, frame, argument);
    case Operation::kUnpackEx:
      return step_unpack_ex(recorder, frame, argument & 0xff, argument >> 8);
    default:
      return step_build(recorder, frame, now);
  }
}

}  // namespace

void step(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  if (!recorder.trace().addresses.empty()) follow_addresses(recorder, frame, now);
  if (simple(recorder, frame, now)) return;
  if (leave_to_pandas(recorder, frame, now)) return;
  const int argument = now.argument;
  switch (now.operation) {
    case Operation::kLoadAttribute:
      return step_load_attr(recorder, frame, co_name(frame, argument), now.flag != 0);
    case Operation::kLoadSuper:
      return step_load_super(recorder, frame, co_name(frame, argument), (now.flag & 1) != 0);
    case Operation::kStoreAttribute:
      return step_store_attr(recorder, frame, co_name(frame, argument));
    case Operation::kDeleteAttribute:
      return step_delete_attr(recorder, frame, co_name(frame, argument));
    case Operation::kPrepareCall:
      return step_prepare_call(recorder, frame, argument);
    case Operation::kCall:
    case Operation::kCallNames:
      return step_call(recorder, frame, now);
    case Operation::kCallSpread:
      return step_call_spread(recorder, frame, now.flag != 0);
    case Operation::kJumpIf:
    case Operation::kJumpIfOrPop:
      return step_jump(recorder, frame, now);
    case Operation::kJumpIfNone:
      return step_jump_none(recorder, frame);
    case Operation::kBinary:
      return step_binary(recorder, frame, argument);
    case Operation::kNegative:
      return step_unary(recorder, frame, 0);
    case Operation::kPositive:
      return step_unary(recorder, frame, 1);
    case Operation::kInvert:
      return step_unary(recorder, frame, 2);
    case Operation::kNot:
    case Operation::kToBool:
      return step_truth(recorder, frame, now.is(Operation::kNot));
    case Operation::kCompare:
      return step_compare(recorder, frame, argument, now.flag != 0);
    case Operation::kIs:
      return step_is(recorder, frame, now.flag != 0);
    case Operation::kPushException:
    case Operation::kPopException:
    case Operation::kMatchException:
    case Operation::kRaise:
    case Operation::kReraise:
    case Operation::kExitWith:
    case Operation::kMatchGroup:
    case Operation::kReraiseGroup:
    case Operation::kStopIterationError:
    case Operation::kEndThrow:
      return step_exception(recorder, frame, now);
    case Operation::kEnterWith:
      return step_with(recorder, frame);
    case Operation::kLoadSpecial:
      return step_load_special(recorder, frame, argument);
    case Operation::kLoadName:
    case Operation::kStoreName:
    case Operation::kDeleteName:
    case Operation::kLoadClassDeref:
    case Operation::kLoadLocals:
    case Operation::kLoadGlobalAfter:
    case Operation::kLoadDerefAfter:
    case Operation::kSetupAnnotations:
      return step_names(recorder, frame, now);
    case Operation::kImport:
      return step_import(recorder, frame, co_name(frame, argument));
    case Operation::kImportFrom:
      return step_import_from(recorder, frame, co_name(frame, argument));
    default:
      return step_items(recorder, frame, now);
  }
}

}  // namespace pijit
