// Exceptions that are raised and caught inside the recorded call, as a consequence of guarded facts: they leave no
// trace.
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/exceptions.h"
#include "record/state/pending.h"
#include "record/step/raised.h"
#include "record/step/step.h"

namespace pijit {
namespace {

bool is_builtin_class(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_builtin_class(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  return PyExceptionClass_Check(object) && Py_TYPE(object) == &PyType_Type;
}

void check_match(Recorder& recorder, ShadowFrame& frame) {
  Val classes = frame.top();
  Vals items;
  bool known = classes.object() != nullptr && is_builtin_class(classes.object());
  if (known && PyTuple_CheckExact(classes.object())) known = recorder.reads.guard_parts(classes.object());
  if (!known && recorder.heap.is_virtual(classes, VirtualKind::kTuple)) {
    known = true;
    for (Val item : recorder.heap.model(classes).items)
      known = known && item.object() != nullptr && is_builtin_class(item.object());
  }
  if (!known) return recorder.stop(Abort::kUnknownOperand, "an exception class");
  const Val exception = frame.top(2);
  if (exception.is_virtual() && !guard_class(recorder, exception)) return;
  observe(frame, 1, take_owned);
}

// except*: what is not known of a group is an opaque call.
void check_group_match(Recorder& recorder, ShadowFrame& frame) {
  Vals items;
  std::vector<PyTypeObject*> classes;
  const bool many = recorder.heap.type_of(frame.top()) == &PyTuple_Type;
  bool known = !many || try_items(recorder, frame.top(), &items);
  if (!many) items.push_back(frame.top());
  for (Val item : items) {
    known = known && item.object() != nullptr && !PyTuple_CheckExact(item.object()) && is_builtin_class(item.object());
    if (known) classes.push_back(reinterpret_cast<PyTypeObject*>(item.object()));
  }
  if (known && step_group_match(recorder, frame, classes)) return;
  if (recorder.live()) recorder.stop(Abort::kUnknownOperand, "an exception group");
}

bool is_stop_iteration(PyTypeObject* type) {
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)) != 0;
}

// The exception comes from what the generator delegates to.
void end_throw(Recorder& recorder, ShadowFrame& frame) {
  const Val exception = frame.top();
  PyTypeObject* type = recorder.heap.type_of(exception);
  if (type == nullptr || !recorder.heap.is_virtual(exception, VirtualKind::kException))
    return recorder.stop(Abort::kUnknownOperand, "an exception");
  if (!is_stop_iteration(type)) return will_raise(recorder, frame, 1, exception, true);
  if (is_foreign(recorder.heap, exception))
    return recorder.stop(Abort::kUnknownOperand, "the value of a StopIteration");
  frame.sp -= 1;
  frame.top() = stop_value(recorder.heap, exception);
  frame.top(2) = Val::constant(Py_None);
}

// Calls __exit__ with what is handled.
void exit_with(Recorder& recorder, ShadowFrame& frame) {
  const Val exception = frame.top();
  const Callee exit = frame.exit_callee();
  if (!recorder.heap.is_virtual(exception, VirtualKind::kException))
    return recorder.stop(Abort::kUnknownOperand, "an exception");
  Arguments args;
  args.values = {Val::constant(reinterpret_cast<PyObject*>(recorder.heap.type_of(exception))), exception,
                 traceback_of(recorder, exception)};
  if (!exit.self.is_null()) args.values.insert(args.values.begin(), exit.self);
  if (invoke(recorder, frame, exit.callable, args, 0) == Invoke::kStarted || !recorder.live()) return;
  frame.pending.active = false;
  recorder.stop(Abort::kUnknownCall, "__exit__");
}

}  // namespace

void step_exception(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  switch (now.operation) {
    case Operation::kPushException: {
      Val exception = frame.pop();
      frame.push(saved_exception(recorder));
      frame.push(exception);
      frame.handled.push_back(exception);
      return;
    }
    case Operation::kPopException:
      frame.sp -= 1;
      frame.handled.pop_back();
      return;
    case Operation::kMatchException:
      return check_match(recorder, frame);
    case Operation::kMatchGroup:
      return check_group_match(recorder, frame);
    case Operation::kReraiseGroup:
      if (step_group_reraise(recorder, frame) || !recorder.live()) return;
      return recorder.stop(Abort::kUnknownOperand, "an exception group");
    case Operation::kExitWith:
      return exit_with(recorder, frame);
    case Operation::kRaise: {
      const int count = now.argument;
      Val raised = count > 0 ? frame.top(count) : recorder.frames.handling();
      const Val cause = count > 1 ? frame.top() : Val();
      const bool known = cause.object() == Py_None || recorder.heap.is_virtual(cause, VirtualKind::kException);
      if (count > 1 && !known) return recorder.stop(Abort::kUnknownOperand, "the cause of an exception");
      if (recorder.heap.is_virtual(raised, VirtualKind::kException)) {
        will_raise(recorder, frame, count, raised, count == 0);
      } else if (raised.object() != nullptr && is_builtin_class(raised.object())) {
        will_raise(recorder, frame, count);
      } else {
        return recorder.stop(Abort::kUnknownOperand, "raising an object");
      }
      recorder.raise.cause = cause;
      return;
    }
    case Operation::kStopIterationError: {
      PyTypeObject* type = recorder.heap.type_of(frame.top());
      if (type == nullptr || is_stop_iteration(type))
        return recorder.stop(Abort::kUnknownOperand, "a StopIteration that leaves a generator");
      return;  // any other leaves it as it is
    }
    case Operation::kEndThrow:
      return end_throw(recorder, frame);
    case Operation::kReraise:
      if (frame.top().is_reg() && recorder.heap.type_of(frame.top()) != nullptr) {
        frame.top() = as_exception(recorder, frame.top(), recorder.frames.operand(1));
        frame.mark.time = recorder.trace().clock;  // an exit here names it
        frame.snapshot = kNone;
      }
      return will_raise(recorder, frame, 1, frame.top(), true);
    default:
      return recorder.stop(Abort::kUnknownOpcode, "");
  }
}

}  // namespace pijit
