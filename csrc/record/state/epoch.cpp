// What is known again after foreign code ran: an epoch begins, with guards of its own.
//
// An opaque call may have changed every mutable object that was there before, and every new one that escaped. So all
// facts are forgotten, and what is read from there on leaves guards that a replay checks in one place, right after
// the call (Op::kEpoch); rejected: a guard at every later read, each with a snapshot of its own. Virtual objects that
// never escaped cannot have been seen by anybody and stay as they are.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/recorder.h"

namespace pijit {
// At the first instruction after an opaque call.
void Recorder::begin_epoch() {
  Trace& trace = *trace_;
  const auto here = static_cast<uint32_t>(trace.guards.size());
  if (!trace.epochs.empty()) trace.epochs.back().count = here - trace.epochs.back().first;
  if (adapter_ != nullptr) {
    adapter_->foreign_code();
    if (const char* why = adapter_->trouble()) return abandon(why);
    if (const char* why = adapter_->must_step_aside()) {
      note_stop(Abort::kAside, why);
      return request_stop(true);
    }
  }
  Epoch epoch;
  epoch.first = here;
  if (adapter_ != nullptr) {
    epoch.state = adapter_->capture_state();
    epoch.tensors = adapter_->new_inputs();
  }
  trace.epochs.push_back(std::move(epoch));
  Node& node = emit_node(Op::kEpoch);
  node.aux = static_cast<uint32_t>(trace.epochs.size() - 1);
  reads_.facts.each([&](const void* object, FactKind kind) {
    if (kind == FactKind::kInstance || kind == FactKind::kFunction || kind == FactKind::kTypeVersion)
      foreign_.known.insert(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  reads_.forget();
  begin_finding();
  foreign_.forget_types();
  heap_.go_stale();
  take_tensor_result();
  if (!foreign_.none_result.is_null()) {
    Node& none = emit_node(Op::kGuardIs);
    none.a = std::exchange(foreign_.none_result, Val());
    none.b = Val::constant(Py_None);
  }
  for (Val taken : std::exchange(foreign_.taken, {})) {
    PyObject* object = heap_.reg_objects[taken.index()];
    Node& guard = emit_node(object == Py_None ? Op::kGuardIs : Op::kGuardType);
    guard.a = taken;
    guard.b = object == Py_None ? Val::constant(object) : owned(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (object == Py_None) foreign_.singletons[taken.index()] = object;
  }
}

// A generator's frame that nobody runs is found through what it has.
void Recorder::note_suspended(uint32_t generator) {
  each_value(*model(generator).suspended,
             [&](Val value) { heap_.holders.note(value, generator, Holders::kSuspended); });
}

// A tensor that foreign code returned is an input of the epoch.
void Recorder::take_tensor_result() {
  const Val result = std::exchange(foreign_.epoch_result, Val());
  if (result.is_null() || adapter_ == nullptr) return;
  PyObject* object = heap_.reg_objects[result.index()];
  if (object == nullptr || !adapter_->is_tensor(object)) return;
  ShadowFrame& frame = top_frame();
  Val tensor = adopted(object, result, 0);
  for (int i = 0; i < frame.locals + frame.sp; ++i)
    if (frame.slots[static_cast<size_t>(i)] == result) frame.slots[static_cast<size_t>(i)] = tensor;
}

// Foreign code looked at the variables of a followed frame: at replay there must be such a frame.
bool Recorder::locals_were_seen() {
  for (auto& frame : frames_) {
    if (!cpython::locals_were_seen(frame->frame)) continue;
    note_stop(Abort::kForeign, "the variables of a frame were looked at");
    request_stop(true);
    return true;
  }
  return false;
}

}  // namespace pijit
