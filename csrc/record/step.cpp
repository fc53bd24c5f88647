// One instruction: which family handles it. The pure stack and local traffic is here; the rest is in the files of the
// families.
#include "record/step.h"

#include "cpython/keys.h"
#include "cpython/opcodes.h"

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

// found as find_item() has it.
void push_variable(Recorder& recorder, ShadowFrame& frame, int found, Val value, bool null_below) {
  if (!recorder.live()) return;
  if (found < 0) return recorder.stop(Abort::kUnknownAttribute, "a global variable");
  if (found == 0) return recorder.will_raise(frame, 0);
  if (null_below) frame.push(Val());
  frame.push(value);
}

void load_build_class(Recorder& recorder, ShadowFrame& frame) {
  static PyObject* const name = PyUnicode_InternFromString("__build_class__");
  PyObject* builtins = cpython::builtins(frame.frame);
  Val shadow;
  const int found = PyDict_CheckExact(builtins) ? recorder.find_item(builtins, name, &shadow) : -1;
  push_variable(recorder, frame, found, shadow, false);
}

// A cell that escaped: its content is whatever it is now.
void load_cell(Recorder& recorder, ShadowFrame& frame, Val cell, int local) {
  PyObject* content = PyCell_GET(cpython::slots(frame.frame)[local]);
  if (content == nullptr) return recorder.stop(Abort::kRaised, "an unbound variable");
  Val value = recorder.add_reg(Rep::kObject, nullptr, content);
  Node& node = recorder.emit_node(Op::kLoadCell);
  node.a = cell;
  node.out = value.index();
  frame.push(value);
}

// STORE_GLOBAL, DELETE_GLOBAL (Null).
void write_global(Recorder& recorder, ShadowFrame& frame, int oparg, Val value) {
  PyObject *globals = frame_globals(frame), *name = co_name(frame, oparg), *old = nullptr;
  Val changed;
  if (!PyDict_CheckExact(globals)) return recorder.stop(Abort::kWrite, "a global variable");
  if (value.is_null()) {
    const bool overlaid = recorder.overlay_find(globals, name, &changed);
    if (!overlaid && !recorder.read_dict(globals, name, &old))
      return recorder.live() ? recorder.stop(Abort::kWrite, "a global variable") : void();
    if (overlaid ? changed.is_null() : old == nullptr) return recorder.will_raise(frame, 0);
  }
  if (!recorder.write_dict(globals, name, value))
    return recorder.live() ? recorder.stop(Abort::kWrite, "a global variable") : void();
  recorder.await(frame, value.is_null() ? 0 : 1, 0).has_result = true;
}

// The content of a cell that is virtual or existed before; Null: it is empty. False: stopped.
bool cell_content(Recorder& recorder, Val cell, Val* value) {
  PyObject* content = nullptr;
  if (cell.is_virtual()) {
    *value = recorder.virtual_field(cell, 0);
  } else if (cell.object() == nullptr) {
    recorder.stop(Abort::kUnknownOperand, "a cell");
  } else if (!recorder.overlay_find(cell.object(), Py_None, value)) {
    content = PyCell_GET(cell.object());
    if (recorder.varies(cell.object(), Py_None, content)) {
      Guard guard{};
      guard.op = GuardOp::kLoadCell;
      guard.subject = cell;
      *value = recorder.load_varying(cell.object(), Py_None, content, guard);
      return true;
    }
    if (!recorder.guard_cell(cell.object(), &content)) recorder.stop(Abort::kChanged, "a closure variable");
    if (recorder.live() && content != nullptr) *value = recorder.constant(content);
  }
  return recorder.live();
}

// Null empties the cell.
void write_cell(Recorder& recorder, Val cell, Val value) {
  if (cell.is_virtual()) {
    if (recorder.trace().virtuals[cell.index()].reg == kNone)
      return recorder.set_field(cell, field::kCell::kContent, value);
    recorder.model(cell).items.assign(1, value);
    recorder.mention(cell, value, 0);
    cell = recorder.materialize(cell);
  }
  if (!value.is_null()) value = recorder.materialize(value);
  if (!recorder.live()) return;
  if (cell.is_const()) recorder.note_write(cell.object(), Py_None, PyCell_GET(cell.object()), value);
  Node& node = recorder.emit_node(Op::kStoreCell);
  node.a = cell;
  node.b = value;
  if (cell.is_const()) recorder.overlay_set(cell.object(), Py_None, value);
}

void store_deref(Recorder& recorder, ShadowFrame& frame, int oparg) {
  write_cell(recorder, frame.local(oparg), frame.top());
  if (recorder.live()) frame.sp -= 1;
}

void delete_deref(Recorder& recorder, ShadowFrame& frame, int oparg) {
  Val cell = frame.local(oparg), value;
  if (cell.is_reg()) return recorder.stop(Abort::kWrite, "a closure variable");
  if (!cell_content(recorder, cell, &value)) return;
  if (value.is_null()) return recorder.will_raise(frame, 0);
  write_cell(recorder, cell, Val());
}

void make_function(Recorder& recorder, ShadowFrame& frame, int oparg) {
  Val code = frame.pop();
  Val function = recorder.new_virtual(VirtualKind::kFunction, &PyFunction_Type);
  recorder.model(function).items.resize(7);
  recorder.set_field(function, function_field::kCode, code);
  recorder.set_field(function, function_field::kGlobals, Val::constant(frame_globals(frame)));
  recorder.set_field(function, function_field::kQualname,
                     recorder.owned(reinterpret_cast<PyCodeObject*>(code.object())->co_qualname));
  if ((oparg & 8) != 0) recorder.set_field(function, function_field::kClosure, frame.pop());
  if ((oparg & 4) != 0) recorder.set_field(function, function_field::kAnnotations, frame.pop());
  if ((oparg & 2) != 0) recorder.set_field(function, function_field::kKwDefaults, frame.pop());
  if ((oparg & 1) != 0) recorder.set_field(function, function_field::kDefaults, frame.pop());
  recorder.known(frame, 0, function);
}

void yield_value(Recorder&, ShadowFrame& frame) {
  frame.result = frame.pop();
  frame.yielded = true;
}

bool simple(Recorder& recorder, ShadowFrame& frame, int opcode, int oparg) {
  if (step_move(frame, opcode, oparg)) return true;
  switch (opcode) {
    case NOP:
    case RESUME:
    case EXTENDED_ARG:
    case CACHE:
    case JUMP_FORWARD:
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      return true;
    case POP_TOP:
      recorder.note_popped(frame.top());
      frame.sp -= 1;
      return true;
    case LOAD_FAST:
      return recorder.will_raise(frame, 0), true;  // it is unbound
    case DELETE_FAST:
      if (frame.local(oparg).is_null()) return recorder.will_raise(frame, 0), true;
      frame.local(oparg) = Val();
      return true;
    case LOAD_ASSERTION_ERROR:
      frame.push(Val::constant(PyExc_AssertionError));
      return true;
    case LOAD_CLOSURE:
      frame.push(frame.local(oparg));
      return true;
    case LOAD_GLOBAL:
      load_global(recorder, frame, co_name(frame, oparg >> 1), (oparg & 1) != 0);
      return true;
    case LOAD_BUILD_CLASS:
      load_build_class(recorder, frame);
      return true;
    case STORE_GLOBAL:
      write_global(recorder, frame, oparg, frame.top());
      return true;
    case DELETE_GLOBAL:
      write_global(recorder, frame, oparg, Val());
      return true;
    case LOAD_DEREF:
      load_deref(recorder, frame, oparg);
      return true;
    case STORE_DEREF:
      store_deref(recorder, frame, oparg);
      return true;
    case DELETE_DEREF:
      delete_deref(recorder, frame, oparg);
      return true;
    case MAKE_FUNCTION:
      make_function(recorder, frame, oparg);
      return true;
    case RETURN_VALUE:
      recorder.note_return();
      frame.result = frame.pop();
      return true;
    case YIELD_VALUE:
      yield_value(recorder, frame);
      return true;
    case KW_NAMES:
      frame.kwnames = co_const(frame, oparg);
      frame.call_start = frame.instruction;
      return true;
    default:
      return false;
  }
}

}  // namespace

void load_global(Recorder& recorder, ShadowFrame& frame, PyObject* name, bool null_below) {
  PyObject* globals = frame_globals(frame);
  PyObject* builtins = cpython::builtins(frame.frame);
  Val shadow;
  const bool plain = PyDict_CheckExact(globals) && PyDict_CheckExact(builtins);
  int found = plain ? recorder.find_item(globals, name, &shadow) : -1;
  if (found == 0) found = recorder.find_item(builtins, name, &shadow);
  push_variable(recorder, frame, found, shadow, null_below);
}

void load_deref(Recorder& recorder, ShadowFrame& frame, int oparg) {
  Val cell = frame.local(oparg), value;
  if (cell.is_reg()) return load_cell(recorder, frame, cell, oparg);
  if (!cell_content(recorder, cell, &value)) return;
  if (value.is_null()) return recorder.will_raise(frame, 0);
  frame.push(value);
}

bool step_move(ShadowFrame& frame, int opcode, int oparg) {
  switch (opcode) {
    case LOAD_FAST:
      if (frame.local(oparg).is_null()) return false;
      frame.push(frame.local(oparg));
      return true;
    case STORE_FAST:
      frame.local(oparg) = frame.pop();
      return true;
    case LOAD_CONST:
      frame.push(Val::constant(co_const(frame, oparg)));  // its code keeps it
      return true;
    case PUSH_NULL:
      frame.push(Val());
      return true;
    case COPY:
      frame.push(frame.top(oparg));
      return true;
    case SWAP:
      std::swap(frame.top(), frame.top(oparg));
      return true;
    default:
      return false;
  }
}

void step(Recorder& recorder, ShadowFrame& frame, int opcode, int oparg) {
  if (simple(recorder, frame, opcode, oparg)) return;
  switch (opcode) {
    case LOAD_ATTR:
      return step_load_attr(recorder, frame, co_name(frame, oparg));
    case LOAD_METHOD:
      return step_load_method(recorder, frame, co_name(frame, oparg));
    case STORE_ATTR:
      return step_store_attr(recorder, frame, co_name(frame, oparg));
    case DELETE_ATTR:
      return step_delete_attr(recorder, frame, co_name(frame, oparg));
    case PRECALL:
      return step_precall(recorder, frame, oparg);
    case CALL:
      return step_call(recorder, frame, oparg);
    case CALL_FUNCTION_EX:
      return step_call_ex(recorder, frame, oparg);
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case JUMP_IF_TRUE_OR_POP:
    case JUMP_IF_FALSE_OR_POP:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return step_jump(recorder, frame, opcode, oparg);
    case BINARY_OP:
      return step_binary(recorder, frame, oparg);
    case UNARY_NEGATIVE:
    case UNARY_POSITIVE:
    case UNARY_INVERT:
    case UNARY_NOT:
      return step_unary(recorder, frame, opcode);
    case COMPARE_OP:
      return step_compare(recorder, frame, oparg);
    case IS_OP:
      return step_is(recorder, frame, oparg);
    case CONTAINS_OP:
      return step_contains(recorder, frame, oparg);
    case BINARY_SUBSCR:
      return step_subscr(recorder, frame);
    case STORE_SUBSCR:
      return step_store_subscr(recorder, frame);
    case DELETE_SUBSCR:
      return step_delete_subscr(recorder, frame);
    case GET_ITER:
      return step_get_iter(recorder, frame);
    case FOR_ITER:
      return step_for_iter(recorder, frame);
    case GET_YIELD_FROM_ITER:
      return step_yield_from(recorder, frame);
    case GET_AWAITABLE:
      return step_awaitable(recorder, frame);
    case SEND:
      return step_send(recorder, frame);
    case UNPACK_SEQUENCE:
      return step_unpack(recorder, frame, oparg);
    case UNPACK_EX:
      return step_unpack_ex(recorder, frame, oparg);
    case PUSH_EXC_INFO:
    case POP_EXCEPT:
    case CHECK_EXC_MATCH:
    case RAISE_VARARGS:
    case RERAISE:
    case WITH_EXCEPT_START:
    case CHECK_EG_MATCH:
    case PREP_RERAISE_STAR:
      return step_exception(recorder, frame, opcode, oparg);
    case BEFORE_WITH:
      return step_with(recorder, frame);
    case LOAD_NAME:
    case STORE_NAME:
    case DELETE_NAME:
    case LOAD_CLASSDEREF:
    case SETUP_ANNOTATIONS:
      return step_names(recorder, frame, opcode, oparg);
    case IMPORT_NAME:
      return step_import(recorder, frame, co_name(frame, oparg));
    case IMPORT_FROM:
      return step_import_from(recorder, frame, co_name(frame, oparg));
    default:
      return step_build(recorder, frame, opcode, oparg);
  }
}

}  // namespace pijit
