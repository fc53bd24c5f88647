// Variables of a class body: its namespace first, then what functions see. Those of a module's body are globals.
#include "cpython/keys.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/step.h"

namespace pijit {
namespace {

void setup_annotations(Recorder& recorder, ShadowFrame& frame) {
  static PyObject* const name = PyUnicode_InternFromString("__annotations__");
  Val known;
  if (!dict_find(recorder.heap, frame.names, name, &known)) dict_set(recorder, frame.names, name, new_dict(recorder));
}

// Functions in a class body, and the bodies of classes in functions, look into a namespace that is on the stack first.
void load_after_namespace(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const bool of_cell = now.is(Operation::kLoadDerefAfter);
  PyObject* name = PyTuple_GET_ITEM(of_cell ? frame.code->co_localsplusnames : frame.code->co_names, now.argument);
  const Val space = frame.top();
  Val value;
  if (!space.is_virtual() || recorder.heap.model(space).kind != VirtualKind::kDict)
    return recorder.stop(Abort::kUnknownOperand, "a namespace");
  if (dict_find(recorder.heap, space, name, &value)) return known(frame, 1, value);
  frame.pop();
  if (of_cell) return load_deref(recorder, frame, now.argument);
  load_global(recorder, frame, name, false);
}

// True: the namespace has it, and it is the result.
bool load_own(Heap& heap, ShadowFrame& frame, PyObject* name) {
  Val value;
  if (!dict_find(heap, frame.names, name, &value)) return false;
  known(frame, 0, value);
  return true;
}

void step_module_names(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  PyObject* name = PyTuple_GET_ITEM(frame.code->co_names, now.argument);
  if (now.is(Operation::kLoadName)) return load_global(recorder, frame, name, false);
  if (now.is(Operation::kStoreName)) return write_global(recorder, frame, name, frame.top());
  if (now.is(Operation::kDeleteName)) return write_global(recorder, frame, name, Val());
  recorder.stop(Abort::kUnknownOpcode, "the variables of a module");
}

}  // namespace

void step_names(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  if (now.is(Operation::kLoadGlobalAfter) || now.is(Operation::kLoadDerefAfter))
    return load_after_namespace(recorder, frame, now);
  if (frame.names.is_null() && cpython::is_module_body(frame.frame)) return step_module_names(recorder, frame, now);
  if (frame.names.is_null()) return recorder.stop(Abort::kUnknownOpcode, "the variables of a body");
  // It is run once more where a replay leaves it. If it cannot be, CPython runs all of the statement.
  if (!may_leave(recorder)) return recorder.stop(Abort::kUnbuildable, "the body of a class with effects");
  if (now.is(Operation::kSetupAnnotations)) return setup_annotations(recorder, frame);
  if (now.is(Operation::kLoadLocals)) return frame.push(frame.names);
  PyObject* names = now.is(Operation::kLoadClassDeref) ? frame.code->co_localsplusnames : frame.code->co_names;
  PyObject* name = PyTuple_GET_ITEM(names, now.argument);
  switch (now.operation) {
    case Operation::kStoreName:
      dict_set(recorder, frame.names, name, frame.pop());
      return;
    case Operation::kDeleteName:
      if (!dict_delete(recorder, frame.names, name)) will_raise(recorder, frame, 0);
      return;
    case Operation::kLoadName:
      if (!load_own(recorder.heap, frame, name)) load_global(recorder, frame, name, false);
      return;
    case Operation::kLoadClassDeref:
      if (!load_own(recorder.heap, frame, name)) load_deref(recorder, frame, now.argument);
      return;
    default:
      return;
  }
}

}  // namespace pijit
