// Idle calls: nobody sees what they do, and their results are of the same kind at each call.
//
// The trace makes such a call at its place, as it makes an opaque one. But no frame has to stand in the chain for it, and
// no guard is checked again behind it: what was known before it is known still. Such calls are
//
// 1. those that the adapter names: marks for a profiler, the context that a backward pass keeps;
// 2. what the module typing remembers of its own types, and unions of types: `Optional[X]` or `X | Y` in a function that
//    runs makes an object that is mostly thrown away;
// 3. clocks: each call gives another number, and changes nothing.
#include <algorithm>
#include <vector>

#include "adapter.h"
#include "common/imports.h"
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "record/mirror/builtins.h"
#include "record/state/pending.h"

namespace pijit {
namespace {

constexpr const char* kClocks[] = {"time",        "time_ns",       "perf_counter", "perf_counter_ns",
                                   "monotonic",   "monotonic_ns",  "process_time", "process_time_ns",
                                   "thread_time", "thread_time_ns"};

// The definitions of their functions: those that a program puts in their place are others.
std::vector<const PyMethodDef*>& clocks() {
  static auto* all = new std::vector<const PyMethodDef*>;
  return *all;
}

bool is_clock(PyObject* callable) {
  if (!PyCFunction_CheckExact(callable)) return false;
  const PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  return std::find(clocks().begin(), clocks().end(), definition) != clocks().end();
}

bool is_idle(const Kernel& recording, PyObject* callable) {
  if (cpython::is_cache_of_types(callable) || is_clock(callable)) return true;
  return recording.adapter() != nullptr && recording.adapter()->foreign_call(callable) == ForeignCall::kIdle;
}

void take_idle(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (recorder.adapter() != nullptr) recorder.adapter()->end_idle_call();
  take_object(recorder, frame, result);
  if (result == Py_None) frame.pending.result = none_value();
}

Invoke call_idle(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops) {
  const Invoke outcome = compute_object(recorder, frame, callable, args, pops);
  if (outcome != Invoke::kStarted) return outcome;
  frame.pending.finish = take_idle;
  if (recorder.adapter() != nullptr) recorder.adapter()->begin_idle_call();
  return outcome;
}

// `|` of it with another such operand is a union: no metaclass has an operator of its own. None stands for its type.
bool joins_as_type(Recorder& recorder, Val value) {
  static PyObject* const name = PyUnicode_InternFromString("__or__");
  if (value.is_const() && value.object() == Py_None) return true;
  PyTypeObject* type = recorder.heap.type_of(value);
  if (value.is_const() && PyType_Check(value.object())) type = Py_TYPE(value.object());
  if (type == nullptr || (!PyType_IsSubtype(type, &Py_GenericAliasType) && type != cpython::union_type() &&
                          !PyType_IsSubtype(type, &PyType_Type)))
    return false;
  PyObject* method = recorder.reads.lookup_type(type, name);
  if (!recorder.live() || method == nullptr || Py_TYPE(method) != &PyWrapperDescr_Type) return false;
  PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(method)->d_type;
  return owner == &PyType_Type || owner == &Py_GenericAliasType || owner == cpython::union_type();
}

}  // namespace

void find_clocks() {
  const Ref module = import_module("time");
  for (const char* name : kClocks) {
    const Ref clock = Ref::steal(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
    if (!clock) PyErr_Clear();  // a system without it
    if (clock && PyCFunction_CheckExact(clock.get()))
      clocks().push_back(reinterpret_cast<PyCFunctionObject*>(clock.get())->m_ml);
  }
}

Invoke invoke_idle(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Arguments& args, int pops) {
  if (const Invoke drawn = draw_by_method(recorder, frame, callable, args, pops); drawn != Invoke::kUnknown)
    return drawn;
  if (!args.names.empty() || !is_idle(recorder, callable)) return Invoke::kUnknown;
  return call_idle(recorder, frame, callable, args.values, pops);
}

Invoke join_types(Recorder& recorder, ShadowFrame& frame, PyObject* join, Val left, Val right, int pops) {
  const bool empty = left == none_value() && right == none_value();  // None | None raises
  if (empty || !joins_as_type(recorder, left) || !joins_as_type(recorder, right))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  return call_idle(recorder, frame, join, {left, right}, pops);
}

}  // namespace pijit
