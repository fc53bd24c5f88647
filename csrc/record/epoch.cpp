// What is known again after foreign code ran: an epoch begins, with guards of its own.
//
// An opaque call may have changed every mutable object that was there before, and every new one that escaped. So all
// facts are forgotten, and what is read from there on leaves guards that a replay checks in one place, right after
// the call (Op::kEpoch); rejected: a guard at every later read, each with a snapshot of its own. Virtual objects that
// never escaped cannot have been seen by anybody and stay as they are.
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/recorder.h"

namespace pijit {
namespace {

bool is_mutable(VirtualKind kind) {
  switch (kind) {
    case VirtualKind::kList:
    case VirtualKind::kDict:
    case VirtualKind::kSet:
    case VirtualKind::kInstance:
    case VirtualKind::kCell:
    case VirtualKind::kFunction:  // its defaults and code can be set
    case VirtualKind::kIterator:
    case VirtualKind::kEnumerate:
    case VirtualKind::kZip:
    case VirtualKind::kDeque:
    case VirtualKind::kLazy:
    case VirtualKind::kGenerator:
      return true;
    default:
      return false;
  }
}

bool is_heap_type(PyTypeObject* type) {
  return type != nullptr && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
}

}  // namespace

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
  facts_.each([&](const void* object, FactKind kind) {
    if (kind == FactKind::kInstance || kind == FactKind::kFunction || kind == FactKind::kTypeVersion)
      known_.insert(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  facts_ = Facts();
  reads_.fill(Read());
  begin_finding();
  overlay_.clear();
  forget_types();
  go_stale();
  take_tensor_result();
  if (!none_result_.is_null()) {
    Node& none = emit_node(Op::kGuardIs);
    none.a = std::exchange(none_result_, Val());
    none.b = Val::constant(Py_None);
  }
  for (Val taken : std::exchange(taken_, {})) {
    PyObject* object = reg_objects_[taken.index()];
    Node& guard = emit_node(object == Py_None ? Op::kGuardIs : Op::kGuardType);
    guard.a = taken;
    guard.b = object == Py_None ? Val::constant(object) : owned(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (object == Py_None) singletons_[taken.index()] = object;
  }
}

// An instance may have another class now.
void Recorder::forget_types() {
  for (RegInfo& info : trace_->regs)
    if (info.rep == Rep::kObject && is_heap_type(info.type)) info.type = nullptr;
}

// Objects that escaped are what their registers hold: nothing is known of their content any more.
void Recorder::go_stale() {
  Vals by(models_.size());
  bool any = false;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Virtual& object = trace_->virtuals[i];
    if (object.reg == kNone || !is_mutable(object.kind) || models_[i] == nullptr) continue;
    by[i] = Val::reg(object.reg);
    stale_.push_back({static_cast<uint32_t>(trace_->nodes.size()), static_cast<uint32_t>(i), object.reg});
    any = true;
    if (!is_heap_type(models_[i]->type)) trace_->regs[object.reg].type = models_[i]->type;
    if (reg_objects_[object.reg] == nullptr) reg_objects_[object.reg] = models_[i]->real;
  }
  if (any) replace(by);
}

// They are the virtual objects again that they were at that node; those that were not adopted then are registers.
void Recorder::undo_stale(uint32_t nodes, const Vals& forgotten) {
  Vals by(trace_->regs.size());
  bool any = false;
  for (; !stale_.empty() && stale_.back().nodes > nodes; stale_.pop_back()) {
    if (!forgotten.empty() && !forgotten[stale_.back().object].is_null()) continue;
    by[stale_.back().reg] = Val::virtual_object(stale_.back().object);
    any = true;
  }
  if (any) replace(by, ValueKind::kReg);
}

namespace {

void replace_one(Val& value, const Vals& by, ValueKind kind) {
  if (value.kind() != kind || value.index() >= by.size() || by[value.index()].is_null()) return;
  value = by[value.index()];
}

}  // namespace

void Recorder::replace_in(ShadowFrame& frame, const Vals& by, ValueKind kind) {
  const auto one = [&](Val& value) { replace_one(value, by, kind); };
  for (Val& value : frame.slots) one(value);
  for (Val& value : frame.saved) one(value);
  for (Val& value : frame.collected) one(value);
  for (Val* value : {&frame.function, &frame.result, &frame.pending.result, &frame.pending.x, &frame.pending.y,
                     &frame.pending.z, &frame.pending.x_function})
    one(*value);
}

// Every mention of a virtual object (or register) becomes by[its index], where that is not empty.
void Recorder::replace(const Vals& by, ValueKind kind) {
  for (auto& frame : frames_) replace_in(*frame, by, kind);
  for (auto& content : models_) {
    for (auto* values : {&content->items, &content->attrs})
      for (Val& value : *values) replace_one(value, by, kind);
    if (content->suspended != nullptr) replace_in(*content->suspended, by, kind);
  }
}

// A tensor that foreign code returned is an input of the epoch.
void Recorder::take_tensor_result() {
  const Val result = std::exchange(epoch_result_, Val());
  if (result.is_null() || adapter_ == nullptr) return;
  PyObject* object = reg_objects_[result.index()];
  if (object == nullptr || !adapter_->is_tensor(object)) return;
  ShadowFrame& frame = top_frame();
  Val tensor = adopted(object, result, 0);
  for (int i = 0; i < frame.locals + frame.sp; ++i)
    if (frame.slots[static_cast<size_t>(i)] == result) frame.slots[static_cast<size_t>(i)] = tensor;
}

}  // namespace pijit
