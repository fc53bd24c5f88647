// Writes to lists, sets and dicts: those made while recording are logged, real ones are written by a node.
//
// A real container is an argument, one that escaped, or one that existed before. The first two have models from the
// start. A list or set that existed before gets one when it is first written (it is adopted): its own content is
// guarded only if the program reads it, so that appending to a growing list needs no guard of what is in it. A dict
// that existed before keeps its facts, and what the trace writes to it is the overlay.
// 1. An instruction emits at most one node that writes, and nothing that may leave after it: a write that is repeated
//    cannot be taken back.
// 2. What a write takes out of a container may have been proven alive by it: it is pinned.
// 3. Two arguments are never one object (bind_root guards that); an argument and an object that existed before must not
//    be either, once one of them is written (see guard_found).
// 4. All that is known of real containers is kept in, or found through, the facts: forgetting those forgets it all.
#include "record/state/writes.h"

#include <algorithm>

#include "cpython/keys.h"
#include "record/recorder.h"
#include "record/state/found.h"
#include "record/state/instances.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"

namespace pijit {
namespace {

PyObject* method_of(PyTypeObject* type, const char* name) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return cpython::lookup_type(type, key.get());
}

// The object that existed before and has this model, or Null.
Val existing(Heap& heap, Val model_of) {
  const auto* written = heap.model(model_of).find<family::Written>();
  return written == nullptr ? Val() : written->home;
}

// The object of a real one.
Val home(Heap& heap, Val model_of) {
  const Val place = existing(heap, model_of);
  return place.is_null() ? Val::reg(heap.trace().virtuals[model_of.index()].reg) : place;
}

}  // namespace

bool is_real(Heap& heap, Val model_of) {
  return model_of.is_virtual() &&
         (heap.trace().virtuals[model_of.index()].reg != kNone || !existing(heap, model_of).is_null());
}

// Facts are forgotten together: what was adopted, and which objects are arguments with known content, are facts too.
void note_argument(ReadSet& reads, PyObject* object, Val container) {
  bool created;
  reads.facts.find(object, FactKind::kArgument, &created).guard = container.index();
}

// The argument that is this object, or Null.
Val argument(Recorder& recorder, PyObject* object) {
  const Fact* fact = recorder.reads.facts.get(object, FactKind::kArgument);
  if (fact == nullptr) return Val();
  const Val container = Val::virtual_object(fact->guard);
  return is_argument(recorder, container, object) ? container : Val();
}

// Whether a container that the caller passed is an object that existed before. Guards that it is, or is not.
bool is_argument(Recorder& recorder, Val container, PyObject* object) {
  const Virtual& record = recorder.trace().virtuals[container.index()];
  return record.reg != kNone && record.reg_time == 0 &&
         is_same_object(recorder.reads, record.reg, recorder.heap.model(container).real, object);
}

// Whether the register, which has `real` now, holds that object; guarded.
bool is_same_object(ReadSet& reads, uint32_t reg, PyObject* real, PyObject* object) {
  // Bits that no address has: the lowest four, and those above the 47 of user space that a fact's name leaves.
  constexpr uint32_t kLow = 4, kHigh = 11;
  const uint64_t pair = reinterpret_cast<uintptr_t>(object) | (reg & ((1u << kLow) - 1)) | uint64_t{reg >> kLow} << 47;
  bool created = true;
  Fact uncounted;
  Fact& fact = reg < (1u << (kLow + kHigh))
                   ? reads.facts.find(reinterpret_cast<const void*>(pair), FactKind::kSame, &created)
                   : uncounted;
  const bool same = real == object;
  if (!created) return fact.stamp != 0;
  fact.stamp = same;
  Guard guard{};
  guard.op = same ? GuardOp::kSame : GuardOp::kNotSame;
  guard.subject = Val::constant(object);
  guard.number = reg;
  fact.guard = reads.add_guard(guard);
  return same;
}

// The model of a container that the program is about to write, or Null. Its content may not be known (see content_of).
Val writable(Recorder& recorder, Val container) {
  if (container.is_virtual()) {
    const VirtualKind kind = recorder.heap.model(container).kind;
    const bool known = kind == VirtualKind::kList || kind == VirtualKind::kSet || kind == VirtualKind::kDeque;
    return known && !has_changed(recorder, container) ? container : Val();
  }
  PyObject* object = container.object();
  const bool list = object != nullptr && cpython::is_plain_list(Py_TYPE(object));
  if (!list && (object == nullptr || !PySet_CheckExact(object))) return Val();
  if (const Fact* found = recorder.reads.facts.get(object, FactKind::kAdopted)) {
    const Val known = Val::virtual_object(found->guard);
    return has_changed(recorder, known) ? Val() : known;
  }
  const bool guarded = recorder.reads.facts.get(object, list ? FactKind::kList : FactKind::kSet) != nullptr;
  if (guarded && !(list ? recorder.reads.guard_list(object) : recorder.reads.guard_set(object))) return Val();
  Val made = new_virtual(recorder, list ? VirtualKind::kList : VirtualKind::kSet, Py_TYPE(object));
  recorder.trace().virtuals[made.index()].buildable = false;
  auto& written = recorder.heap.model(made).get<family::Written>();
  written.home = container;
  written.unread = true;
  written.guarded = guarded;
  if (list) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) written.original.push_back(PyList_GET_ITEM(object, i));
  } else {
    Py_ssize_t position = 0;
    PyObject* item;
    while (cpython::next_set_item(object, &position, &item)) written.original.push_back(item);
  }
  bool created;
  recorder.reads.facts.find(object, FactKind::kAdopted, &created).guard = made.index();
  return made;
}

// A list or set that existed before and was only added to so far.
bool is_unread(Recorder& recorder, Val container) {
  PyObject* object = container.object();
  const Fact* fact = object == nullptr ? nullptr : recorder.reads.facts.get(object, FactKind::kAdopted);
  if (fact == nullptr) return false;
  const auto& written = recorder.heap.model(fact->guard).get<family::Written>();
  return written.unread && !written.guarded;
}

// Where the content of a container is: the model of one that was adopted, else itself. Null: it cannot be known.
Val content_of(Recorder& recorder, Val container) {
  PyObject* object = container.object();
  const Fact* fact = object == nullptr ? nullptr : recorder.reads.facts.get(object, FactKind::kAdopted);
  if (fact == nullptr) return container.is_virtual() && has_changed(recorder, container) ? Val() : container;
  const Val found = Val::virtual_object(fact->guard);
  if (has_changed(recorder, found)) return Val();
  Model& content = recorder.heap.model(found);
  auto& written = content.get<family::Written>();
  if (!written.unread) return found;
  if (written.original.size() > 4096) return Val();
  recorder.heap.note_lasting();
  written.unread = false;
  Guard guard{};
  guard.op = content.kind == VirtualKind::kList ? GuardOp::kList : GuardOp::kSet;
  guard.subject = container;
  guard.first = static_cast<uint32_t>(recorder.trace().guard_items.size());
  guard.count = static_cast<uint32_t>(written.original.size());
  Vals items;
  for (PyObject* item : written.original) {
    if (content.kind == VirtualKind::kSet && !cpython::is_native_key(item)) return Val();
    items.push_back(constant(recorder, item));
    if (content.kind == VirtualKind::kSet) meet_key(recorder, item);
    if (!written.guarded) recorder.trace().guard_items.push_back(item);
  }
  if (!written.guarded) recorder.trace().guards.push_back(guard);
  if (content.kind == VirtualKind::kList) {
    content.items.insert(content.items.begin(), items.begin(), items.end());
    for (size_t i = 0; i < items.size(); ++i) recorder.heap.mention(found, items[i], i);
    return found;
  }
  KeyList& keys = content.keys();
  const KeyList added = std::move(keys);
  keys = Objects(written.original.begin(), written.original.end());
  for (PyObject* key : added)
    if (!keys.holds(key)) keys.push_back(key);
  content.items.clear();
  for (PyObject* key : keys) {
    content.items.push_back(keep_key(recorder, key));
    recorder.heap.mention(found, content.items.back(), content.items.size() - 1);
  }
  return found;
}

// All that an existing container held is about to be dropped: it need not be known when nobody is told of that.
// Otherwise, what content_of() says.
Val content_to_drop(Recorder& recorder, Val container) {
  PyObject* object = container.object();
  const Val made = writable(recorder, container);
  if (object == nullptr || made.is_null()) return made;
  auto& written = recorder.heap.model(made).get<family::Written>();
  if (!written.unread || written.guarded || !cpython::holds_quiet_items(object)) return content_of(recorder, container);
  Guard guard{};
  guard.op = GuardOp::kQuiet;
  guard.subject = container;
  recorder.reads.add_guard(guard);
  recorder.heap.note_lasting();
  written.unread = false;
  written.original.clear();
  return made;
}

void pin(Kernel& recording, Val value) {
  if (value.is_const() && !cpython::is_scalar(value.object()))
    recording.trace().dropped.push_back({value.object(), static_cast<uint32_t>(recording.trace().epochs.size())});
}

// The value that a write takes out of a dict, if a guard proves it alive: one that the trace put there is its own.
void pin_item(Recorder& recorder, PyObject* dict, PyObject* key) {
  if (const Val* written = recorder.reads.overlay.find(dict, key)) return pin(recorder, *written);
  PyObject* old = nullptr;
  const Fact* fact = recorder.reads.facts.get(dict, FactKind::kDict);
  if (fact == nullptr || cpython::dict_lookup(dict, key, &old) < 0 || old == nullptr) return;
  const auto& items = recorder.reads.dict_items[recorder.trace().guards[fact->guard].aux];
  bool read = items.size() % 2 != 0;
  for (size_t i = 0; i < items.size() && !read; i += 2) read = cpython::keys_equal(items[i], key);
  if (read) pin(recorder, Val::constant(old));
}

// Where C code called what writes, and cannot be gone back to, a replay could not be left at the write: the call of the
// C code is an opaque call then. Else the trace would end before it.
bool may_write_here(Recorder& recorder) {
  const bool driven = std::any_of(recorder.frames.begin(), recorder.frames.end(),
                                  [](const auto& frame) { return static_cast<bool>(frame->drive); });
  if (!driven || snapshot_usable(recorder, snapshot(recorder))) return true;
  return recorder.stop(Abort::kUnbuildable, recorder.snapshots.unusable_reason), false;
}

// The node that calls a method of a real container. False: stopped.
bool call_method(Recorder& recorder, Val container, const char* method, Vals args) {
  if (!may_write_here(recorder)) return false;
  for (Val& value : args) {
    value = materialize(recorder, value);
    if (!recorder.live()) return false;
  }
  PyTypeObject* type = recorder.heap.type_of(container);
  if (PyType_IsSubtype(type, &PyList_Type)) type = &PyList_Type;  // a derived class may have its own
  const Val object = container.is_virtual() ? home(recorder.heap, container) : container;
  Node& node = emit_node(recorder, Op::kCall);
  node.a = Val::constant(method_of(type, method));
  node.first = static_cast<uint32_t>(recorder.trace().operands.size());
  node.count = static_cast<uint32_t>(args.size() + 1);
  recorder.trace().operands.push_back(object);
  recorder.trace().operands.insert(recorder.trace().operands.end(), args.begin(), args.end());
  return true;
}

bool call_known(Recorder& recorder, PyObject* callable, Vals args) {
  if (!may_write_here(recorder)) return false;
  for (Val& value : args) {
    value = materialize(recorder, value);
    if (!recorder.live()) return false;
  }
  Node& node = emit_node(recorder, Op::kCall);
  node.a = Val::constant(callable);
  node.first = static_cast<uint32_t>(recorder.trace().operands.size());
  node.count = static_cast<uint32_t>(args.size());
  recorder.trace().operands.insert(recorder.trace().operands.end(), args.begin(), args.end());
  return true;
}

// What a C callable that runs no Python makes of materialised arguments, by a node.
Val call_for(Recorder& recorder, PyTypeObject* type, PyObject* callable, Vals args) {
  for (Val& value : args) {
    value = materialize(recorder, value);
    if (!recorder.live()) return Val();
  }
  Val out = add_reg(recorder, Rep::kObject, type, nullptr);
  Node& node = emit_node(recorder, Op::kCall);
  node.a = Val::constant(callable);
  node.out = out.index();
  node.first = static_cast<uint32_t>(recorder.trace().operands.size());
  node.count = static_cast<uint32_t>(args.size());
  recorder.trace().operands.insert(recorder.trace().operands.end(), args.begin(), args.end());
  return out;
}

// A container that is real from the start, as the call makes it. Used where a copy built item by item would not be the
// same (the order of a set is that of its table).
Val new_by_call(Recorder& recorder, VirtualKind kind, PyTypeObject* type, PyObject* callable, Vals args) {
  const Val out = call_for(recorder, type, callable, std::move(args));
  if (out.is_null()) return Val();
  const Val made = new_virtual(recorder, kind, type);
  recorder.heap.becomes_real(made, out.index(), ++recorder.trace().clock);
  return made;
}

// What the recording knows of a dict that existed before follows dict[key] = value; a node writes it later.
bool put_in_dict(Recorder& recorder, PyObject* dict, PyObject* key, Val value) {
  PyObject* old = nullptr;
  Val before;
  if (cpython::dict_lookup(dict, key, &old) < 0 || !recorder.reads.touch_dict(dict)) return false;
  const bool written = overlay_find(recorder, dict, key, &before);
  pin_item(recorder, dict, key);
  note_write(recorder, dict, key, old, value);
  if (written ? before.is_null() : old == nullptr) recorder.heap.reshape(Val::constant(dict));
  overlay_set(recorder, dict, key, value);
  return recorder.live();
}

// dict[key] = value or (Null) del dict[key], of a dict that existed before: the node and the overlay. False: stopped.
bool write_dict(Recorder& recorder, PyObject* dict, PyObject* key, Val value) {
  PyObject* old = nullptr;
  if (!may_write_here(recorder)) return false;
  const Val real = value.is_null() ? value : materialize(recorder, value);
  const Val shadow = recorder.live() ? materialize(recorder, keep_key(recorder, key)) : Val();
  if (!recorder.live() || cpython::dict_lookup(dict, key, &old) < 0 || !recorder.reads.touch_dict(dict)) return false;
  pin_item(recorder, dict, key);
  note_write(recorder, dict, key, old, value);
  if (value.is_null() || old == nullptr) recorder.heap.reshape(Val::constant(dict));
  Node& node = emit_node(recorder, value.is_null() ? Op::kDelItem : Op::kStoreItem);
  node.a = Val::constant(dict);
  node.b = shadow;
  node.c = real;
  overlay_set(recorder, dict, key, value);
  return true;
}

// After the instruction: the tags of the dicts that it wrote moved on.
void refresh_written(Recorder& recorder) {
  for (PyObject* dict : recorder.reads.written) recorder.reads.written_dict(dict);
  recorder.reads.written.clear();
  guard_found(recorder);
}

}  // namespace pijit
