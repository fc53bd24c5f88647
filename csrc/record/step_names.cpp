// Variables of a class body: its namespace first, then what functions see.
#include "cpython/keys.h"
#include "record/step.h"

namespace pijit {
namespace {

void setup_annotations(Recorder& recorder, ShadowFrame& frame) {
  static PyObject* const name = PyUnicode_InternFromString("__annotations__");
  Val known;
  if (!recorder.dict_find(frame.names, name, &known)) recorder.dict_set(frame.names, name, recorder.new_dict());
}

// True: the namespace has it, and it is the result.
bool load_own(Recorder& recorder, ShadowFrame& frame, PyObject* name) {
  Val value;
  if (!recorder.dict_find(frame.names, name, &value)) return false;
  recorder.known(frame, 0, value);
  return true;
}

}  // namespace

void step_names(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  if (frame.names.is_null()) return recorder.stop(Abort::kUnknownOpcode, "the variables of a module");
  // It is run once more where a replay leaves it. If it cannot be, CPython runs all of the statement.
  if (!recorder.may_leave()) return recorder.stop(Abort::kUnbuildable, "the body of a class with effects");
  if (now.is(Operation::kSetupAnnotations)) return setup_annotations(recorder, frame);
  PyObject* names = now.is(Operation::kLoadClassDeref) ? frame.code->co_localsplusnames : frame.code->co_names;
  PyObject* name = PyTuple_GET_ITEM(names, now.argument);
  switch (now.operation) {
    case Operation::kStoreName:
      recorder.dict_set(frame.names, name, frame.pop());
      return;
    case Operation::kDeleteName:
      if (!recorder.dict_delete(frame.names, name)) recorder.will_raise(frame, 0);
      return;
    case Operation::kLoadName:
      if (!load_own(recorder, frame, name)) load_global(recorder, frame, name, false);
      return;
    case Operation::kLoadClassDeref:
      if (!load_own(recorder, frame, name)) load_deref(recorder, frame, now.argument);
      return;
    default:
      return;
  }
}

}  // namespace pijit
