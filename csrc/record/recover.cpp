// What becomes of a stop: an opaque call, frames that CPython runs, or the end of the recording.
//
//   stop() -> at the border of the event:  the instruction as an opaque call
//                                       -> the frames from some level inwards, run by CPython to that level's return
//                                       -> the trace ends in an exit here
//
// 1. A handler that called stop() sees a recording that is not live any more and leaves everything as it is.
// 2. Going back to the start of an instruction forgets what the trace did since: its nodes, and what was logged of
// virtual objects, and its guards. So facts are not to be trusted after it: an epoch begins, or the trace ends.
// 3. Only frames whose caller takes the result in a simple way can be left to CPython.
#include <algorithm>

#include "cpython/keys.h"
#include "ir/log.h"
#include "record/recorder.h"

namespace pijit {

namespace {

// Keys and their values, as the entry leaves them. Objects that are keys may be dead: only scalars are looked into.
void apply_key(Vals& keys, Vals& values, Val key, Val value, bool remove) {
  const auto equal = [&](Val known) {
    return known == key || (known.is_const() && key.is_const() && cpython::scalars_equal(known.object(), key.object()));
  };
  const auto found = std::find_if(keys.begin(), keys.end(), equal);
  const auto at = values.begin() + (found - keys.begin());
  if (found == keys.end()) {
    if (remove) return;
    keys.push_back(key);
    values.push_back(value);
  } else if (remove) {
    keys.erase(found);
    values.erase(at);
  } else {
    *at = value;
  }
}

// What a model has for a key; null: not known any more.
PyObject* key_object(Recorder& recorder, Val key) {
  if (!key.is_virtual()) return key.object();
  const Model& content = recorder.model(key);
  if (content.kind == VirtualKind::kAddress) return content.keys.empty() ? nullptr : content.keys[0];
  if (content.kind != VirtualKind::kTuple) return content.real;
  for (const Ref& copy : recorder.trace().owned)
    if (PyTuple_CheckExact(copy.get()) && recorder.fresh_key(copy.get()) == key) return copy.get();
  return nullptr;
}

bool set_keys(Recorder& recorder, Objects& objects, const Vals& keys) {
  objects.clear();
  for (Val key : keys) objects.push_back(key_object(recorder, key));
  return std::find(objects.begin(), objects.end(), nullptr) == objects.end();
}

// ... of an iterator.
void restore_iterator(const Trace& trace, uint32_t object, Model* content) {
  content->items.clear();
  content->position = 0;
  for (uint32_t at = trace.virtuals[object].head; at != kNone; at = trace.log[at].next) {
    const LogEntry& entry = trace.log[at];
    if (entry.op == LogOp::kIndex) content->position = entry.index;
    if (entry.op != LogOp::kField) continue;
    if (content->items.size() <= entry.index) content->items.resize(entry.index + 1);
    content->items[entry.index] = entry.value;
  }
}

// The content of an object that is not built yet is what its log says, from which it would be built.
void restore(Recorder& recorder, uint32_t object) {
  const Trace& trace = recorder.trace();
  Model& content = recorder.model(object);
  const bool list = content.kind == VirtualKind::kList || content.kind == VirtualKind::kDeque;
  const bool keyed = content.kind == VirtualKind::kDict || content.kind == VirtualKind::kSet;
  const bool instance = content.kind == VirtualKind::kInstance, cell = content.kind == VirtualKind::kCell;
  const bool iterator = content.kind == VirtualKind::kIterator || content.kind == VirtualKind::kEnumerate ||
                        content.kind == VirtualKind::kLazy;
  if (iterator) return restore_iterator(trace, object, &content);
  if (content.kind == VirtualKind::kException) recorder.trace().virtuals[object].buildable = false;
  if (!list && !keyed && !instance && !cell) return;
  Vals keys, names;
  if (!cell) content.items.clear();
  if (instance) content.attrs.clear();
  for (uint32_t at = trace.virtuals[object].head; at != kNone; at = trace.log[at].next) {
    const LogEntry& entry = trace.log[at];
    if (entry.op == LogOp::kClear) {
      content.items.clear();
      keys.clear();
    } else if (entry.op == LogOp::kField) {
      if (cell) content.items[0] = entry.value;
    } else if (entry.op == LogOp::kSetAttr || entry.op == LogOp::kDelAttr) {
      apply_key(names, content.attrs, entry.key, entry.value, entry.op == LogOp::kDelAttr);
    } else if (list) {
      apply_item(content.items, entry, entry.value);
    } else {
      apply_key(keys, content.items, key_of(entry), entry.value, entry.op == LogOp::kDelItem);
    }
  }
  const bool known = set_keys(recorder, content.keys, keys) && (!instance || set_keys(recorder, content.names, names));
  if (!known) recorder.trace().virtuals[object].buildable = false;
}

}  // namespace

void Recorder::request_stop(bool final) {
  const ShadowFrame& frame = top_frame();
  live_ = false;
  stopping_ = true;
  stop_final_ = final;
  stop_changed_ = frame.changed;
}

// Containers that were adopted after the mark are registers again: what was loaded from them is not there any more.
// Gives, by their indices, which.
Vals Recorder::forget_adopted(size_t mark) {
  if (arguments_.size() <= mark) return {};
  Vals by(models_.size());
  for (size_t i = mark; i < arguments_.size(); ++i)
    by[arguments_[i].index()] = Val::reg(trace_->virtuals[arguments_[i].index()].reg);
  arguments_.resize(mark);
  std::erase_if(found_, [&](const Found& found) { return found.argument >= mark; });
  replace(by);
  return by;
}

// Takes the trace back to the start of the frame's instruction.
void Recorder::rollback(ShadowFrame& frame) {
  Trace& trace = *trace_;
  trace.nodes.resize(frame.mark.nodes);
  for (auto& each : frames_) each->repeatable = std::min(each->repeatable, frame.mark.nodes);
  trace.guards.resize(frame.mark.guards);
  trace.dropped.resize(frame.mark.dropped);
  for (Found& found : found_) {
    if (found.seen != kNone) found.seen = std::min(found.seen, frame.mark.guards);
    found.told = 0;
  }
  looked_nodes_ = std::min(looked_nodes_, frame.mark.nodes);
  facts_.truncate(frame.mark.facts);
  reads_.fill(Read());
  if (overlay_.size() > frame.mark.overlay) overlay_.resize(frame.mark.overlay);
  written_.clear();
  for (auto row = written_dicts_.begin(); row != written_dicts_.end();)
    row = row->first >= frame.mark.guards ? written_dicts_.erase(row) : std::next(row);
  trace.epochs.erase(trace.epochs.begin() + frame.mark.epochs, trace.epochs.end());
  if (adapter_ != nullptr) inputs().truncate(frame.mark.tensors);
  undo_stale(frame.mark.nodes, forget_adopted(frame.mark.arguments));
  frame.sp = frame.sp_mark;
  frame.drive.reset();
  for (Virtual& object : trace.virtuals) {
    Model& content = *models_[&object - trace.virtuals.data()];
    if (object.birth > frame.mark.time) {
      content.suspended.reset();  // CPython's frame may be gone
      continue;
    }
    if (object.reg != kNone && object.reg_time > frame.mark.time) {
      object.reg = kNone;
      object.reg_time = UINT32_MAX;
    }
    uint32_t last = kNone, at = object.head;
    for (; at != kNone && trace.log[at].time <= frame.mark.time; at = trace.log[at].next) last = at;
    if (at == kNone) continue;
    content.suspended.reset();  // it was resumed since
    if (last == kNone) {
      object.head = object.tail = kNone;
    } else {
      trace.log[last].next = kNone;
      object.tail = last;
    }
    if (object.reg == kNone) restore(*this, static_cast<uint32_t>(&object - trace.virtuals.data()));
  }
  const auto forget_times = [&](Vec<uint32_t>& times) {
    while (!times.empty() && times.back() > frame.mark.time) times.pop_back();
  };
  for (auto& [dict, times] : reshaped_) forget_times(times);
  for (const auto& model : models_) {
    if (model->begun > frame.mark.time) model->begun = UINT32_MAX;
    if (!model->reshaped.empty()) forget_times(model->reshaped.all());
    if (!model->tracebacks.empty())
      std::erase_if(model->tracebacks.all(),
                    [&](Val made) { return trace.virtuals[made.index()].birth > frame.mark.time; });
    for (uint32_t* made : {&model->dict, &model->address})
      if (*made != kNone && trace.virtuals[*made].birth > frame.mark.time) *made = kNone;
  }
  const auto forget_self = [&](ShadowFrame& of) {
    if (!of.self.is_null() && trace.virtuals[of.self.index()].birth > frame.mark.time) of.self = Val();
  };
  for (auto& of : frames_) forget_self(*of);
  for (auto& of : models_)
    if (of->suspended != nullptr) forget_self(*of->suspended);
  // What the entries name may be dead at a replay.
  for (size_t i = trace.log.size(); i-- > 0 && trace.log[i].time > frame.mark.time;)
    trace.log[i].key = trace.log[i].value = Val(), trace.log[i].index = kNone;
  while (!learned_.empty() && learned_.back().second >= frame.mark.nodes) {
    trace.regs[learned_.back().first].type = nullptr;
    singletons_.erase(learned_.back().first);
    learned_.pop_back();
  }
  raise_snapshot_ = kNone;
  taken_.clear();
}

bool Recorder::resolve_stop() {
  stopping_ = false;
  ShadowFrame& frame = top_frame();
  const StopInfo why = trace_->stop;
  const bool intact = !stop_changed_ && !frame.changed;
  if (intact) {
    rollback(frame);
    frame.pending = Pending();
  }
  if (!stop_final_ && intact && (adapter_ == nullptr || adapter_->trouble() == nullptr)) {
    live_ = true;
    if (!raising_) {
      if (go_opaque(frame) && live_) {
        trace_->detours.push_back(why);
        trace_->stop = StopInfo();
        return true;
      }
    }
    // The innermost frames first: as little as possible is left to CPython.
    for (size_t top = frames_.size() - 1; top >= 1 && !stop_final_; --top)
      for (size_t level = top; level >= 1; --level) {
        live_ = true;
        stopping_ = false;
        if (!run_in_cpython(level, top) && (level != 1 || !call_opaquely(top - 1))) continue;
        trace_->detours.push_back(why);
        trace_->stop = StopInfo();
        raising_ = exception_ = foreseen_ = false;
        return true;
      }
    rollback(top_frame());  // what was tried may have gone further back than `frame` began
  }
  live_ = true;
  stopping_ = false;
  trace_->stop = why;
  end_here();
  return false;
}

// The frames from `level` to the innermost can be rebuilt, and the caller of `level` takes what it returns simply.
bool Recorder::may_run(size_t level, size_t top) {
  for (size_t i = 0; i <= top; ++i)
    if ((i < level && !can_rebuild(*frames_[i])) || frames_[i]->generator != kNone) return false;
  const Pending& caller = frames_[level - 1]->pending;
  for (size_t i = level - 1; i < top; ++i)
    if (frames_[i]->drive) return false;
  return caller.active && caller.expects_frame && caller.generator == kNone &&
         ((caller.then == Then::kPush && caller.pushes != 2 && caller.finish == nullptr) ||
          caller.then == Then::kDrop || caller.then == Then::kInit || caller.then == Then::kReplace);
}

// What the frame handles can be built.
bool Recorder::can_rebuild(const ShadowFrame& frame) {
  ++visit_;
  visited_.resize(trace_->virtuals.size(), 0);
  for (Val exception : frame.handled)
    if (exception.is_virtual() && !virtual_usable(exception.index(), trace_->clock)) return false;
  return true;
}

// CPython runs the frames from `level` inwards, from the start of the instruction under way. A frame that handles an
// exception cannot be rebuilt, so it is run from where that was raised.
bool Recorder::run_in_cpython(size_t level, size_t top) {
  if (top >= frames_.size()) return false;
  for (size_t i = level; i <= top; ++i)
    if (!can_rebuild(*frames_[i])) {
      top = i;
      break;
    }
  if (!may_run(level, top)) return false;
  unfollow(top + 1);
  ShadowFrame &frame = *frames_[top], &outer = *frames_[level - 1];
  frame.pending = Pending();
  if (!can_rebuild(frame)) return_to_raise(frame);
  rollback(frame);
  frame.snapshot = kNone;
  if (top > 0 && frame.outer_state != kNone && unusable_[frame.outer_state] != nullptr) return false;
  // What these frames can reach is real from now on, and the same object as in the frames outside.
  for (size_t i = level; i <= top && live_; ++i) {
    const ShadowFrame& inner = *frames_[i];
    const int count = inner.locals + inner.sp - (i == top ? 0 : inner.pending.popped());
    for (int k = 0; k < count && live_; ++k) materialize(inner.slots[static_cast<size_t>(k)]);
    if (live_ && inner.function.is_virtual()) materialize(inner.function);
    if (live_ && i < top) materialize(inner.pending.x);
    if (live_ && i < top) materialize(inner.pending.y);
  }
  if (!live_) return false;
  for (size_t i = 0; i <= top; ++i) frames_[i]->outer_state = kNone;
  frame.mark.time = trace_->clock;
  frame.snapshot = kNone;
  const uint32_t here = snapshot();
  if (!snapshot_usable(here)) return false;
  Snapshot raising{};
  raising.frame = frame_state(level - 1, false);
  trace_->frame_states[raising.frame].continuation = Continuation::kNone;
  trace_->frame_states[raising.frame].extra = Val();
  raising.time = trace_->clock;
  trace_->snapshots.push_back(raising);
  const auto raised = static_cast<uint32_t>(trace_->snapshots.size() - 1);
  const Val out = add_reg(Rep::kObject, nullptr, nullptr);
  Node& node = emit_node(Op::kRun);
  node.out = out.index();
  node.aux = static_cast<uint32_t>(level);
  node.imm = raised;
  opaque_calls_ += 1;
  gc_.reset();
  Pending& pending = outer.pending;
  pending.run = frames_[level]->frame;
  pending.run_out = out.index();
  pending.opaque = pending.ignores_frames = true;
  unfollow(level);
  step_aside();
  return true;
}

// The C code that the frame's instruction called, and what that called, as an opaque call.
bool Recorder::call_opaquely(size_t level) {
  if (level + 1 >= frames_.size()) return false;
  ShadowFrame& frame = *frames_[level];
  if (!frame.drive && frame.pending.generator == kNone) return false;
  live_ = true;
  stopping_ = false;
  unfollow(level + 1);
  frame.pending = Pending();
  rollback(frame);
  return go_opaque(frame) && live_;
}

// The frames from `level` inwards are CPython's alone.
void Recorder::unfollow(size_t level) {
  for (size_t i = level; i < frames_.size(); ++i) {
    PyFrameObject* object = cpython::frame_object(frames_[i]->frame);
    if (object != nullptr) cpython::set_event_flags(object, cpython::kDefaultEvents);
    frames_[i]->drive.reset();
    spare_.push_back(std::move(frames_[i]));
  }
  frames_.resize(level);
}

// The frame as it was before the instruction that raised what it handles.
void Recorder::return_to_raise(ShadowFrame& frame) {
  const BeforeRaise& before = *frame.before_raise;
  frame.slots = before.slots;
  frame.sp_mark = before.sp;
  frame.instruction = before.instruction;
  frame.operation = before.operation;
  frame.call_start = before.call_start;
  frame.mark = before.mark;
  frame.pending = Pending();
  frame.handled.clear();
}

// The frame that CPython ran has returned to `outer`, or raised.
void Recorder::finish_run(ShadowFrame& outer, PyObject* result) {
  outer.pending.run = nullptr;
  gc_ = std::make_unique<cpython::GcPause>();
  if (result == nullptr) return is_handled() ? void() : raised_unforeseen();
  if (locals_were_seen()) return;
  const Val out = Val::reg(outer.pending.run_out);
  reg_objects_[out.index()] = result;
  if (outer.pending.then == Then::kInit) none_result_ = out;
  if (outer.pending.then == Then::kPush) epoch_result_ = out;
  inner_returned(outer, out);
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

// An exception that nothing foresaw comes out of the innermost frame's instruction.
void Recorder::raised_unforeseen() {
  raising_ = true;
  stop(Abort::kRaised, "");
}

}  // namespace pijit
