// What is known again after foreign code ran: an epoch begins, with guards of its own.
//
// An opaque call may have changed every mutable object that was there before, and every new one that escaped. So all
// facts are forgotten, and what is read from there on leaves guards that a replay checks in one place, right after
// the call (Op::kEpoch); rejected: a guard at every later read, each with a snapshot of its own. Virtual objects that
// never escaped cannot have been seen by anybody and stay as they are.
#include "record/state/epoch.h"

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/recorder.h"
#include "record/state/found.h"
#include "record/state/snapshot.h"

namespace pijit {
namespace {

// A tensor that foreign code returned is an input of the epoch.
void take_tensor_result(Recorder& recorder) {
  const Val result = std::exchange(recorder.foreign.epoch_result, Val());
  if (result.is_null() || recorder.adapter() == nullptr) return;
  PyObject* object = recorder.heap.reg_objects[result.index()];
  if (object == nullptr || !recorder.adapter()->is_tensor(object)) return;
  ShadowFrame& frame = recorder.frames.top();
  Val tensor = adopted(recorder, object, result, 0);
  for (int i = 0; i < frame.locals + frame.sp; ++i)
    if (frame.slots[static_cast<size_t>(i)] == result) frame.slots[static_cast<size_t>(i)] = tensor;
}

// The call chose by a tensor between functions without effects: new objects that it was given are as they were.
bool is_choice(const Trace& trace) noexcept {
  if (trace.nodes.empty()) return false;
  const Node& node = trace.nodes.back();
  if (node.op != Op::kOpaque || node.foreign != ForeignCall::kSides || node.count < 2) return false;
  const Val first = trace.operands[node.first];
  return node.a.is_const() && PyFunction_Check(node.a.object()) && first.is_reg() &&
         trace.regs[first.index()].rep == Rep::kTensor;
}

}  // namespace

// At the first instruction after an opaque call.
void begin_epoch(Recorder& recorder) {
  Trace& trace = recorder.trace();
  const auto here = static_cast<uint32_t>(trace.guards.size());
  if (!trace.epochs.empty()) trace.epochs.back().count = here - trace.epochs.back().first;
  if (recorder.adapter() != nullptr) {
    recorder.adapter()->foreign_code();
    if (const char* why = recorder.adapter()->trouble()) return recorder.abandon(why);
    if (const char* why = recorder.adapter()->must_step_aside()) {
      note_stop(recorder, Abort::kAside, why);
      return recorder.request_stop(true);
    }
  }
  const bool choice = is_choice(trace);
  Epoch epoch;
  epoch.first = here;
  if (recorder.adapter() != nullptr) {
    epoch.state = recorder.adapter()->capture_state();
    epoch.tensors = recorder.adapter()->new_inputs();
  }
  trace.epochs.push_back(std::move(epoch));
  Node& node = emit_node(recorder, Op::kEpoch);
  node.aux = static_cast<uint32_t>(trace.epochs.size() - 1);
  recorder.reads.facts.each([&](const void* object, FactKind kind) {
    if (kind == FactKind::kInstance || kind == FactKind::kFunction || kind == FactKind::kTypeVersion)
      recorder.foreign.known.insert(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  recorder.reads.forget();
  recorder.foreign.begin_finding();
  recorder.foreign.forget_types();
  if (!choice) recorder.heap.go_stale();
  take_tensor_result(recorder);
  if (!recorder.foreign.none_result.is_null()) {
    Node& none = emit_node(recorder, Op::kGuardIs);
    none.a = std::exchange(recorder.foreign.none_result, Val());
    none.b = Val::constant(Py_None);
  }
  for (Val taken : std::exchange(recorder.foreign.taken, {})) {
    PyObject* object = recorder.heap.reg_objects[taken.index()];
    Node& guard = emit_node(recorder, object == Py_None ? Op::kGuardIs : Op::kGuardType);
    guard.a = taken;
    guard.b =
        object == Py_None ? Val::constant(object) : recorder.reads.owned(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (object == Py_None) recorder.foreign.singletons[taken.index()] = object;
  }
}

// A generator's frame that nobody runs is found through what it has.
void note_suspended(Heap& heap, uint32_t generator) {
  each_value(*heap.model(generator).get<family::Generator>().suspended,
             [&](Val value) { heap.holders.note(value, generator, Holders::kSuspended); });
}

// Foreign code looked at the variables of a followed frame: at replay there must be such a frame.
bool locals_were_seen(Recorder& recorder) {
  for (auto& frame : recorder.frames) {
    if (!cpython::locals_were_seen(frame->frame)) continue;
    note_stop(recorder, Abort::kForeign, "the variables of a frame were looked at");
    recorder.request_stop(true);
    return true;
  }
  return false;
}

}  // namespace pijit
