// Calls of MindSpore's operators: nodes instead of opaque calls.
//
// Such a call runs no code of the program, and writes to tensors alone (mindspore/library.h). So nothing has to be checked
// again behind it, and no frame has to stand. It is made once, whatever comes of it: the framework computes on threads of
// its own, and what one call raises may be the error of an earlier one. So an error is the instruction's, and CPython
// makes no call a second time: what the recorder knows of a result is checked where the next instruction begins.
#include "record/step/library_calls.h"

#include <algorithm>

#include "cpython/keys.h"
#include "mindspore/library.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/contents.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/array_calls.h"
#include "record/step/opaque.h"

namespace pijit {
namespace {

constexpr Py_ssize_t kMostParts = 64;  // of a result that is looked into
constexpr int kDeepestPart = 3;

bool is_number_of_python(PyObject* object) noexcept {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object);
}

// Nothing but what the recorder can say of each part.
bool is_simple(PyObject* object, int depth = 0) noexcept {
  if (object == Py_None || is_number_of_python(object) || mindspore::is_tensor(object) || mindspore::is_dtype(object))
    return true;
  if ((!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) || depth > kDeepestPart) return false;
  PyObject** items = PySequence_Fast_ITEMS(object);
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  return size <= kMostParts &&
         std::all_of(items, items + size, [&](PyObject* each) { return is_simple(each, depth + 1); });
}

// What the recorder knows of a result, from its class on. Null: stopped.
Val known_result(Recorder& recorder, Val value, PyObject* object) {
  const bool fixed = object == Py_None || mindspore::is_dtype(object);
  const RegInfo& reg = recorder.trace().regs[value.index()];
  if (fixed || reg.type == nullptr) {
    Node& guard = emit_node(recorder, fixed ? Op::kGuardIs : Op::kGuardType);
    guard.a = value;
    guard.b = recorder.reads.owned(fixed ? object : reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (object == Py_None) return none_value();
    if (fixed) return guard.b;  // decisions are made by it
    recorder.foreign.set_type(value, Py_TYPE(object));
  }
  if (is_number_of_python(object)) {
    const Val number = recorder.unbox(value, object);
    return number.is_null() ? value : number;
  }
  if (!mindspore::is_tensor(object)) return items_of_result(recorder, value, object, known_result);
  if (!cpython::has_own_attributes(object)) recorder.foreign.of_library.push_back(value.index());
  return value;
}

void take_library_value(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  take_opaque(recorder, frame, result);
  if (!recorder.live() || result == nullptr) return;
  if (is_simple(result)) {
    recorder.foreign.library_result = frame.pending.result;
    return;
  }
  recorder.trace().nodes.back().op = Op::kOpaque;  // there may be more to it
  recorder.foreign.only_tensors = false;
}

// A value of which mindspore::is_plain will hold at each replay.
bool is_plain_operand(Recorder& recorder, Val value, bool* tensors, int depth = 0) {
  PyObject* object = value.is_virtual() ? nullptr : recorder.heap.real(value);
  if (value.is_reg()) {
    const RegInfo& info = recorder.trace().regs[value.index()];
    if (info.rep == Rep::kInt || info.rep == Rep::kFloat || info.rep == Rep::kBool) return true;
    if (info.rep != Rep::kObject || info.type == nullptr || object == nullptr) return false;
    if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) return false;  // its content may be another
  }
  if (object != nullptr) {
    *tensors = *tensors || mindspore::is_tensor(object);
    return mindspore::is_plain(object);
  }
  if (!value.is_virtual() || depth > kDeepestPart) return false;
  for (VirtualKind kind : {VirtualKind::kTuple, VirtualKind::kList, VirtualKind::kSlice}) {
    if (!recorder.heap.is_virtual(value, kind)) continue;
    const Vals& parts = recorder.heap.model(value).items;
    return std::all_of(parts.begin(), parts.end(),
                       [&](Val part) { return is_plain_operand(recorder, part, tensors, depth + 1); });
  }
  return false;
}

// A method that was bound.
bool unbind_method(Heap& heap, Request* wanted) {
  for (VirtualKind kind : {VirtualKind::kBuiltinMethod, VirtualKind::kBoundMethod}) {
    if (!heap.is_virtual(wanted->callable, kind)) continue;
    wanted->args.insert(wanted->args.begin(), heap.virtual_field(wanted->callable, 1));
    wanted->callable = heap.virtual_field(wanted->callable, 0);
  }
  return wanted->callable.object() != nullptr;
}

bool is_library_call(Recorder& recorder, const Request& wanted) {
  PyObject* callable = wanted.callable.object();
  const Vals& args = wanted.args;
  if (callable == getattr_function()) {
    PyObject* object = args[0].is_virtual() ? nullptr : recorder.heap.real(args[0]);
    bool tensors = false;
    return object != nullptr && wanted.pushes == 1 && is_plain_operand(recorder, args[0], &tensors) &&
           mindspore::is_known_attribute(object, args[1].object());
  }
  const mindspore::Call call = mindspore::call_of(callable);
  size_t first = 0;
  switch (call) {
    case mindspore::Call::kNone:
      return false;
    case mindspore::Call::kOperator:
    case mindspore::Call::kPython:
      break;
    case mindspore::Call::kPrimitive:
      first = 1;
      break;
    case mindspore::Call::kExecutor:
      first = 3;
      if (args.size() < first || args[1].object() == nullptr || args[2].object() == nullptr ||
          !mindspore::is_own_primitive(args[1].object(), args[2].object()))
        return false;
      break;
  }
  if (args.size() < first) return false;
  for (size_t i = 0; i < first; ++i)
    if (!args[i].is_const()) return false;
  bool tensors = false;
  for (size_t i = first; i < args.size(); ++i)
    if (args[i].is_null() || !is_plain_operand(recorder, args[i], &tensors)) return false;
  return tensors || call != mindspore::Call::kPython;
}

bool start_library_call(Recorder& recorder, ShadowFrame& frame, Request wanted) {
  if (wanted.spread && !unfold_call(recorder, &wanted)) return false;
  if (!unbind_method(recorder.heap, &wanted) || wanted.pushes > 1 || !is_library_call(recorder, wanted)) return false;
  for (const Val& value : wanted.args) {
    PyObject* object = value.is_virtual() ? nullptr : recorder.heap.real(value);
    if (object != nullptr && mindspore::is_tensor(object)) recorder.reads.guard_type_version(Py_TYPE(object));
  }
  if (!recorder.live() || !snapshot_usable(recorder, snapshot(recorder))) return false;
  PyObject* callable = wanted.callable.object();
  if (Py_TYPE(callable) == &PyMethodDescr_Type || is_lasting(callable)) recorder.reads.owned(callable);
  Val result;
  if (!opaque_node(recorder, frame, Op::kCall, wanted.callable, wanted.args, wanted.names, false, &result))
    return false;
  await_opaque(recorder, frame, wanted.pops, wanted.pushes, result).finish = take_library_value;
  recorder.foreign.only_tensors = true;
  return true;
}

}  // namespace

bool call_library(Recorder& recorder, ShadowFrame& frame) {
  if (!mindspore::is_loaded() || recorder.stop_final || recorder.stop_changed || frame.changed ||
      recorder.raise.unforeseen || &frame != &recorder.frames.top() || recorder.heap.lasting != frame.mark.lasting)
    return false;
  const StopInfo why = recorder.trace().stop;
  recorder.rollback(frame);
  frame.pending = Pending();
  recorder.resume();
  Request wanted;
  if (request(recorder, frame, frame.current(), &wanted) && start_library_call(recorder, frame, std::move(wanted)) &&
      recorder.live()) {
    recorder.trace().stop = StopInfo();
    return true;
  }
  if (recorder.live()) recorder.halt();
  recorder.rollback(frame);
  frame.pending = Pending();
  recorder.trace().stop = why;
  return false;
}

void take_library_result(Recorder& recorder) {
  const Val result = std::exchange(recorder.foreign.library_result, Val());
  PyObject* object = recorder.heap.reg_objects[result.index()];
  if (object == nullptr) return;
  const Val known = known_result(recorder, result, object);
  if (!recorder.live()) return;
  if (known.is_null()) return recorder.stop(Abort::kUnknownOperand, Py_TYPE(object)->tp_name);
  ShadowFrame& frame = recorder.frames.top();
  for (int i = 0; i < frame.locals + frame.sp; ++i)
    if (frame.slots[static_cast<size_t>(i)] == result) frame.slots[static_cast<size_t>(i)] = known;
}

}  // namespace pijit
