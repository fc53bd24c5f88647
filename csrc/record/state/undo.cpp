// What virtual objects are when an instruction is taken back: what their logs said of them before it.
//
// Only what was logged, made or built since then is looked at, from the end: a recording with many opaque calls takes
// as many instructions back.
#include <algorithm>

#include "cpython/keys.h"
#include "ir/log.h"
#include "record/state/heap.h"

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

// The content of an iterator is what its log says.
void restore_iterator(const Trace& trace, uint32_t object, Model* content) {
  auto* const progress = content->find<family::Progress>();
  content->items.clear();
  if (progress != nullptr) progress->position = 0;
  for (uint32_t at = trace.virtuals[object].head; at != kNone; at = trace.log[at].next) {
    const LogEntry& entry = trace.log[at];
    if (entry.op == LogOp::kIndex) content->get<family::Progress>().position = entry.index;
    if (entry.op != LogOp::kField) continue;
    if (content->items.size() <= entry.index) content->items.resize(entry.index + 1);
    content->items[entry.index] = entry.value;
  }
}

// What taken-back entries have done to an object, where that is undone without a look at all of its log.
struct Undone {
  uint32_t object;
  uint32_t items = 0;    // appended to a list
  bool indices = false;  // an iterator moved
  bool others = false;
};

}  // namespace

// What a model has for a key; null: not known any more.
PyObject* Heap::key_object(Val key) {
  if (!key.is_virtual()) return real(key);
  const Model& content = model(key);
  if (const auto* address = content.find<family::Address>()) return address->key;
  if (content.kind != VirtualKind::kTuple) return content.real;
  for (const Ref& copy : recording_.trace().owned)
    if (PyTuple_CheckExact(copy.get()) && fresh_key(copy.get()) == key) return copy.get();
  return nullptr;
}

bool Heap::set_keys(KeyList& list, const Vals& keys) {
  Objects objects;
  for (Val key : keys) objects.push_back(key_object(key));
  list = objects;
  return std::find(objects.begin(), objects.end(), nullptr) == objects.end();
}

// The content of an object that is not built yet is what its log says, from which it would be built.
void Heap::restore_all(uint32_t object) {
  const Trace& trace = recording_.trace();
  Model& content = model(object);
  const bool list = content.kind == VirtualKind::kList || content.kind == VirtualKind::kDeque;
  auto* const keyed = content.find<family::Keys>();
  const bool instance = content.kind == VirtualKind::kInstance, cell = content.kind == VirtualKind::kCell;
  const bool iterator = content.kind == VirtualKind::kIterator || content.kind == VirtualKind::kEnumerate ||
                        content.kind == VirtualKind::kLazy;
  if (iterator) return restore_iterator(trace, object, &content);
  if (content.kind == VirtualKind::kException) recording_.trace().virtuals[object].buildable = false;
  if (!list && keyed == nullptr && !cell) return;
  Vals keys, names;
  if (!cell) content.items.clear();
  if (instance) content.attributes().values.clear();
  for (uint32_t at = trace.virtuals[object].head; at != kNone; at = trace.log[at].next) {
    const LogEntry& entry = trace.log[at];
    do_work();
    if (entry.op == LogOp::kClear) {
      content.items.clear();
      keys.clear();
    } else if (entry.op == LogOp::kField) {
      if (cell) content.items[0] = entry.value;
    } else if (entry.op == LogOp::kSetAttr || entry.op == LogOp::kDelAttr) {
      apply_key(names, content.attributes().values, entry.key, entry.value, entry.op == LogOp::kDelAttr);
    } else if (list) {
      apply_item(content.items, entry, entry.value);
    } else {
      apply_key(keys, content.items, key_of(entry), entry.value, entry.op == LogOp::kDelItem);
    }
  }
  const bool known =
      (keyed == nullptr || set_keys(keyed->keys, keys)) && (!instance || set_keys(content.attributes().names, names));
  if (!known) recording_.trace().virtuals[object].buildable = false;
}

// Containers that were adopted after the mark are registers again: what was loaded from them is not there any more.
// Gives, by their indices, which.
Vals Heap::forget_adopted(size_t mark) {
  if (arguments.size() <= mark) return {};
  const Trace& trace = recording_.trace();
  Vals by;
  for (size_t i = mark; i < arguments.size(); ++i) {
    const Val object = arguments[i];
    if (by.size() <= object.index()) by.resize(object.index() + 1);
    by[object.index()] = Val::reg(trace.virtuals[object.index()].reg);
    replace(object, by[object.index()]);
    std::erase(due, object.index());
  }
  std::erase_if(virtual_keys, [&](const auto& key) {
    const Val known = key.second;
    return known.is_virtual() && known.index() < by.size() && !by[known.index()].is_null();
  });
  arguments.resize(mark);
  frames_.each_value([&](Val& value) {
    if (value.is_virtual() && value.index() < by.size() && !by[value.index()].is_null()) value = by[value.index()];
  });
  return by;
}

// They are the virtual objects again that they were at that node; those that were not adopted then are registers.
void Heap::undo_stale(uint32_t nodes, const Vals& forgotten) {
  Map<uint32_t, Val> by;
  for (; !stale.empty() && stale.back().nodes > nodes; stale.pop_back()) {
    const Stale& last = stale.back();
    stale_regs[last.object] = kNone;
    if (last.object < forgotten.size() && !forgotten[last.object].is_null()) continue;
    by[last.reg] = Val::virtual_object(last.object);
    due.push_back(last.object);
    replace(Val::reg(last.reg), Val::virtual_object(last.object));
  }
  if (by.empty()) return;
  frames_.each_value([&](Val& value) {
    const auto found = value.is_reg() ? by.find(value.index()) : by.end();
    if (found != by.end()) value = found->second;
  });
}

// An object that was made since the mark is nobody's any more: the one that it shows does not know it.
void Heap::forget_made(uint32_t made, uint32_t time) {
  const Virtual& record = recording_.trace().virtuals[made];
  const auto shown = [&]() { return record.head == kNone ? Val() : recording_.trace().log[record.head].value; };
  switch (record.kind) {
    case VirtualKind::kDict:
      if (const uint32_t owner = model(made).owner(); owner != kNone && model(owner).attributes().dict == made)
        model(owner).attributes().dict = kNone;
      break;
    case VirtualKind::kAddress:
      if (const Val of = shown(); of.is_virtual() && model(of).address == made) model(of).address = kNone;
      break;
    case VirtualKind::kTraceback:
      if (const Val of = shown(); of.is_virtual()) {
        auto& tracebacks = model(of).get<family::Exception>().tracebacks;
        if (tracebacks.empty()) break;
        std::erase_if(tracebacks.all(),
                      [&](Val each) { return recording_.trace().virtuals[each.index()].birth > time; });
      }
      break;
    case VirtualKind::kFrame:
      for (uint32_t at = record.head; at != kNone; at = recording_.trace().log[at].next) {
        const LogEntry& entry = recording_.trace().log[at];
        if (entry.op != LogOp::kField || entry.index != 2 || !entry.value.is_virtual()) continue;
        const auto& suspended = model(entry.value).get<family::Generator>().suspended;
        if (suspended != nullptr && suspended->self.index() == made) suspended->self = Val();
      }
      break;
    default:
      break;
  }
}

// The content of an object is what its log says, from whose end `items` appended ones, moves of an iterator or other
// entries were taken.
void Heap::restore(uint32_t object, uint32_t items, bool moves, bool others) {
  Model& content = model(object);
  const bool list = content.kind == VirtualKind::kList || content.kind == VirtualKind::kDeque;
  if (list && !others && !moves && items <= content.items.size())
    return content.items.resize(content.items.size() - items);
  auto* const iterator = content.find<family::Iterator>();
  if (iterator == nullptr || others || items != 0) {
    restore_all(object);
    snapshots_.usable.forget();
    // The log names what foreign code has seen since as what it was before.
    each_value(content, [&](Val& value) { value = now(value); });
    return;
  }
  iterator->position = 0;
  for (uint32_t at = recording_.trace().virtuals[object].tail; at != kNone; at = log_links[at].previous) {
    if (recording_.trace().log[at].op != LogOp::kIndex) continue;
    iterator->position = recording_.trace().log[at].index;
    return;
  }
}

// Virtual objects are what they were at the mark.
void Heap::undo(const TraceMark& mark) {
  undo_stale(mark.nodes, forget_adopted(mark.arguments));
  Trace& trace = recording_.trace();
  for (auto i = static_cast<uint32_t>(models.size()); i-- > mark.virtuals;) {
    if (trace.virtuals[i].birth <= mark.time) continue;
    if (auto* generator = models[i]->find<family::Generator>()) generator->suspended.reset();  // its frame may be gone
    forget_made(i, mark.time);
  }
  for (auto& frame : frames_)
    if (!frame->self.is_null() && trace.virtuals[frame->self.index()].birth > mark.time) frame->self = Val();
  for (; !built.empty() && trace.virtuals[built.back()].reg_time > mark.time; built.pop_back()) {
    Virtual& object = trace.virtuals[built.back()];
    snapshots_.usable.forget();
    if (object.birth > mark.time) continue;
    object.reg = kNone;
    object.reg_time = UINT32_MAX;
  }
  for (; !begun.empty(); begun.pop_back()) {
    uint32_t& since = models[begun.back()]->get<family::Progress>().begun;
    if (since <= mark.time) break;
    since = UINT32_MAX;
  }
  while (!reshapes.empty()) {
    Vec<uint32_t>& times = reshaped(reshapes.back());
    if (times.empty() || times.back() <= mark.time) break;
    times.pop_back();
    reshapes.pop_back();
  }
  Vec<Undone> undone;
  Map<uint32_t, size_t> places;
  for (size_t i = trace.log.size(); i-- > 0 && trace.log[i].time > mark.time;) {
    LogEntry& entry = trace.log[i];
    do_work();
    Virtual& object = trace.virtuals[log_links[i].object];
    if (object.birth <= mark.time && object.tail == i) {
      object.tail = log_links[i].previous;
      (object.tail == kNone ? object.head : trace.log[object.tail].next) = kNone;
      const auto [at, added] = places.try_emplace(log_links[i].object, undone.size());
      if (added) undone.push_back({log_links[i].object});
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
    if (auto* generator = models[what.object]->find<family::Generator>())
      generator->suspended.reset();  // it was resumed
    if (trace.virtuals[what.object].reg == kNone) restore(what.object, what.items, what.indices, what.others);
  }
}

}  // namespace pijit
