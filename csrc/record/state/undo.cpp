// What virtual objects are when an instruction is taken back: what their logs said of them before it.
//
// Only what was logged, made or built since then is looked at, from the end: a recording with many opaque calls takes
// as many instructions back.
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

bool set_keys(Recorder& recorder, KeyList& list, const Vals& keys) {
  Objects objects;
  for (Val key : keys) objects.push_back(key_object(recorder, key));
  list = objects;
  return std::find(objects.begin(), objects.end(), nullptr) == objects.end();
}

// The content of an iterator is what its log says.
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
void restore_all(Recorder& recorder, uint32_t object) {
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
    do_work();
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

// What taken-back entries have done to an object, where that is undone without a look at all of its log.
struct Undone {
  uint32_t object;
  uint32_t items = 0;    // appended to a list
  bool indices = false;  // an iterator moved
  bool others = false;
};

}  // namespace

// An object that was made since the mark is nobody's any more: the one that it shows does not know it.
void Recorder::forget_made(uint32_t made, uint32_t time) {
  const Virtual& record = trace_->virtuals[made];
  const auto shown = [&]() { return record.head == kNone ? Val() : trace_->log[record.head].value; };
  switch (record.kind) {
    case VirtualKind::kDict:
      if (const uint32_t owner = model(made).owner; owner != kNone && model(owner).dict == made)
        model(owner).dict = kNone;
      break;
    case VirtualKind::kAddress:
      if (const Val of = shown(); of.is_virtual() && model(of).address == made) model(of).address = kNone;
      break;
    case VirtualKind::kTraceback:
      if (const Val of = shown(); of.is_virtual() && !model(of).tracebacks.empty())
        std::erase_if(model(of).tracebacks.all(),
                      [&](Val each) { return trace_->virtuals[each.index()].birth > time; });
      break;
    case VirtualKind::kFrame:
      for (uint32_t at = record.head; at != kNone; at = trace_->log[at].next) {
        const LogEntry& entry = trace_->log[at];
        if (entry.op != LogOp::kField || entry.index != 2 || !entry.value.is_virtual()) continue;
        if (auto& suspended = model(entry.value).suspended; suspended != nullptr && suspended->self.index() == made)
          suspended->self = Val();
      }
      break;
    default:
      break;
  }
}

// The content of an object is what its log says, from whose end `items` appended ones, moves of an iterator or other
// entries were taken.
void Recorder::restore(uint32_t object, uint32_t items, bool moves, bool others) {
  Model& content = model(object);
  const bool list = content.kind == VirtualKind::kList || content.kind == VirtualKind::kDeque;
  if (list && !others && !moves && items <= content.items.size())
    return content.items.resize(content.items.size() - items);
  if (content.kind != VirtualKind::kIterator || others || items != 0) {
    restore_all(*this, object);
    usable_.forget();
    // The log names what foreign code has seen since as what it was before.
    for (auto* values : {&content.items, &content.attrs})
      for (Val& value : *values)
        if (value.is_virtual() && value.index() < stale_regs_.size() && stale_regs_[value.index()] != kNone)
          value = Val::reg(stale_regs_[value.index()]);
    return;
  }
  content.position = 0;
  for (uint32_t at = trace_->virtuals[object].tail; at != kNone; at = log_links_[at].previous) {
    if (trace_->log[at].op != LogOp::kIndex) continue;
    content.position = trace_->log[at].index;
    return;
  }
}

// Virtual objects are what they were at the mark.
void Recorder::undo_objects(const TraceMark& mark) {
  Trace& trace = *trace_;
  for (auto i = static_cast<uint32_t>(models_.size()); i-- > mark.virtuals;) {
    if (trace.virtuals[i].birth <= mark.time) continue;
    models_[i]->suspended.reset();  // CPython's frame may be gone
    forget_made(i, mark.time);
  }
  for (auto& frame : frames_)
    if (!frame->self.is_null() && trace.virtuals[frame->self.index()].birth > mark.time) frame->self = Val();
  for (; !built_.empty() && trace.virtuals[built_.back()].reg_time > mark.time; built_.pop_back()) {
    Virtual& object = trace.virtuals[built_.back()];
    usable_.forget();
    if (object.birth > mark.time) continue;
    object.reg = kNone;
    object.reg_time = UINT32_MAX;
  }
  for (; !begun_.empty() && models_[begun_.back()]->begun > mark.time; begun_.pop_back())
    models_[begun_.back()]->begun = UINT32_MAX;
  while (!reshapes_.empty()) {
    Vec<uint32_t>& times = reshaped(reshapes_.back());
    if (times.empty() || times.back() <= mark.time) break;
    times.pop_back();
    reshapes_.pop_back();
  }
  Vec<Undone> undone;
  Map<uint32_t, size_t> places;
  for (size_t i = trace.log.size(); i-- > 0 && trace.log[i].time > mark.time;) {
    LogEntry& entry = trace.log[i];
    do_work();
    Virtual& object = trace.virtuals[log_links_[i].object];
    if (object.birth <= mark.time && object.tail == i) {
      object.tail = log_links_[i].previous;
      (object.tail == kNone ? object.head : trace.log[object.tail].next) = kNone;
      const auto [at, added] = places.try_emplace(log_links_[i].object, undone.size());
      if (added) undone.push_back({log_links_[i].object});
      Undone& what = undone[at->second];
      what.items += entry.op == LogOp::kItem;
      what.indices |= entry.op == LogOp::kIndex;
      what.others |= entry.op != LogOp::kItem && entry.op != LogOp::kIndex;
    }
    // What the entry names may be dead at a replay.
    entry.key = entry.value = Val();
    entry.index = kNone;
  }
  for (const Undone& what : undone) {
    models_[what.object]->suspended.reset();  // it was resumed since
    if (trace.virtuals[what.object].reg == kNone) restore(what.object, what.items, what.indices, what.others);
  }
}

}  // namespace pijit
