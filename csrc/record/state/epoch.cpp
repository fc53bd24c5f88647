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
  facts_.each([&](const void* object, FactKind kind) {
    if (kind == FactKind::kInstance || kind == FactKind::kFunction || kind == FactKind::kTypeVersion)
      known_.insert(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  facts_.clear();
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
  for (uint32_t reg : typed_) {
    RegInfo& info = trace_->regs[reg];
    if (cpython::may_change(info.type)) info.type = nullptr;
  }
  typed_.clear();
}

// A generator's frame that nobody runs is found through what it has.
void Recorder::note_suspended(uint32_t generator) {
  each_value(*model(generator).suspended, [&](Val value) { holders_.note(value, generator, Holders::kSuspended); });
}

// Objects that escaped are what their registers hold: nothing is known of their content any more. Those that became
// real since the last epoch are looked at, and whatever mentions them.
void Recorder::go_stale() {
  stale_regs_.resize(models_.size(), kNone);
  for (uint32_t i : std::exchange(due_, {})) {
    const Virtual& object = trace_->virtuals[i];
    if (object.reg == kNone || !is_mutable(object.kind)) continue;
    if (stale_regs_[i] == kNone) stale_.push_back({static_cast<uint32_t>(trace_->nodes.size()), i, object.reg});
    stale_regs_[i] = object.reg;
    if (!cpython::may_change(models_[i]->type)) trace_->regs[object.reg].type = models_[i]->type;
    if (reg_objects_[object.reg] == nullptr) reg_objects_[object.reg] = models_[i]->real;
    replace_in_models(Val::virtual_object(i), Val::reg(object.reg));
  }
  if (stale_.empty()) return;
  for (auto& frame : frames_)
    each_value(*frame, [&](Val& value) {
      if (value.is_virtual() && stale_regs_[value.index()] != kNone) value = Val::reg(stale_regs_[value.index()]);
    });
}

// They are the virtual objects again that they were at that node; those that were not adopted then are registers.
void Recorder::undo_stale(uint32_t nodes, const Vals& forgotten) {
  Map<uint32_t, Val> by;
  for (; !stale_.empty() && stale_.back().nodes > nodes; stale_.pop_back()) {
    const Stale& last = stale_.back();
    stale_regs_[last.object] = kNone;
    if (last.object < forgotten.size() && !forgotten[last.object].is_null()) continue;
    by[last.reg] = Val::virtual_object(last.object);
    due_.push_back(last.object);
    replace_in_models(Val::reg(last.reg), Val::virtual_object(last.object));
  }
  if (by.empty()) return;
  for (auto& frame : frames_)
    each_value(*frame, [&](Val& value) {
      const auto found = value.is_reg() ? by.find(value.index()) : by.end();
      if (found != by.end()) value = found->second;
    });
}

// Every mention of it in a model, or in the frame of a generator, becomes a mention of the other.
void Recorder::replace_in_models(Val value, Val by) {
  const auto one = [&](Val& known) {
    const bool same = known == value;
    if (same) known = by;
    return same;
  };
  holders_.each(value, [&](uint32_t holder, uint32_t place) {
    Model& content = *models_[holder];
    do_work();
    if (place == Holders::kSuspended) {
      if (content.suspended != nullptr) each_value(*content.suspended, one);
      return;
    }
    if (place < content.items.size() && one(content.items[place])) return;
    if (place < content.attrs.size() && one(content.attrs[place])) return;
    do_work(content.items.size() + content.attrs.size());
    for (auto* values : {&content.items, &content.attrs})
      for (Val& known : *values) one(known);
  });
  holders_.move(value, by);
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
