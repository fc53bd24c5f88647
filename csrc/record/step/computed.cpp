// Calls that only compute: a node makes them again, and takes the side exit where that comes out otherwise.
#include "cpython/objects.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"
#include "record/step/opaque.h"

namespace pijit {

bool is_lasting(PyObject* callable) {
  if (Py_TYPE(callable) == &PyMethodDescr_Type) return true;
  if (!PyCFunction_CheckExact(callable)) return false;
  PyObject* self = PyCFunction_GET_SELF(callable);
  return self == nullptr || PyModule_CheckExact(self);
}

void take_object(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  Trace& trace = recorder.trace();
  const Val out = frame.pending.x;
  recorder.foreign.set_type(out, Py_TYPE(result));
  trace.nodes[std::get<Computing>(frame.pending.awaited).node].imm = reinterpret_cast<uintptr_t>(Py_TYPE(result));
  frame.pending.result = out;
}

namespace {

void take_computed(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (!cpython::is_scalar_type(Py_TYPE(result))) return recorder.stop(Abort::kUnknownOperand, Py_TYPE(result)->tp_name);
  take_object(recorder, frame, result);
}

}  // namespace

Invoke compute(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops,
               PyObject* names) {
  if (!recorder.heap.fillings.empty() && !are_scalars(recorder, args)) flush_fillings(recorder.heap);
  Vals real;
  for (Val value : args) {
    real.push_back(materialize(recorder, value));
    if (!recorder.live()) return Invoke::kStopped;
  }
  const Val called = is_lasting(callable) ? recorder.reads.owned(callable) : Val::constant(callable);
  const Val out = emit_pure(recorder, called, real, nullptr, nullptr);
  Node& node = recorder.trace().nodes.back();
  if (names != nullptr) node.b = recorder.reads.owned(names);
  node.aux = names == nullptr ? 0 : static_cast<uint32_t>(PyTuple_GET_SIZE(names));
  const auto at = static_cast<uint32_t>(recorder.trace().nodes.size() - 1);
  observe(frame, pops, take_computed);
  frame.pending.x = out;
  frame.pending.awaited = Computing{at};
  return Invoke::kStarted;
}

Invoke compute_object(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops) {
  const Invoke outcome = compute(recorder, frame, callable, args, pops);
  if (outcome == Invoke::kStarted) frame.pending.finish = take_object;
  return outcome;
}

}  // namespace pijit
