// Reads of objects that existed before: each leaves one guard per container, and later reads of the same container
// merge into it.
//
// 1. A guard is emitted where the first read happens, so everything it names was proven by the guards before it.
// 2. A container that changed since its guard was taken, and not by a write that the trace itself replays, ends the
// recording.
#include <algorithm>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "guard/instances.h"
#include "record/state/counting.h"
#include "record/state/read_set.h"

namespace pijit {

namespace {

constexpr Py_ssize_t kMaxGuarded = 256;  // of a dict that is guarded item by item
constexpr int kMostMembers = 8;          // keys that a set is asked for one by one

Guard make_guard(GuardOp op, PyObject* subject) {
  Guard guard{};
  guard.op = op;
  guard.subject = Val::constant(subject);
  return guard;
}

// The dict has its keys of now, in order.
void guard_keys_now(ReadSet* reads, Trace* trace, PyObject* dict) {
  Guard guard = make_guard(GuardOp::kDictSize, dict);
  guard.number = static_cast<uint64_t>(PyDict_GET_SIZE(dict));
  guard.first = static_cast<uint32_t>(trace->guard_items.size());
  guard.count = static_cast<uint32_t>(guard.number);
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) trace->guard_items.push_back(reads->owned(key).object());
  reads->add_guard(guard);
}

// Order and size matter: all that the dict holds is compared where the tag has moved. Where it cannot be, the tag alone
// decides.
void note_all(ReadSet* reads, PyObject* dict, bool is_written, Objects* items) {
  Objects all;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  bool scalars = !is_written && PyDict_GET_SIZE(dict) <= kMaxGuarded;
  while (scalars && PyDict_Next(dict, &position, &key, &value)) {
    scalars = cpython::is_scalar(key);
    all.push_back(key);
    all.push_back(value);
  }
  if (!scalars) return items->push_back(nullptr);
  for (PyObject* object : all)
    if (cpython::is_scalar(object)) reads->owned(object);
  all.push_back(dict);
  *items = all;
}

}  // namespace

void ReadSet::undo(const TraceMark& mark) {
  // An epoch that is taken back has forgotten the facts before it, and those that are there are its own.
  const bool same_epoch = mark.epochs == trace().epochs.size();
  facts.truncate(same_epoch ? mark.facts : 0);
  overlay.truncate(same_epoch ? mark.overlay : 0);
  items.fill(ReadItem());
  written.clear();
  const auto& epochs = trace().epochs;
  const uint32_t epoch = mark.epochs == 0 ? 0 : epochs[mark.epochs - 1].first;
  for (auto each = written_dicts.lower_bound(epoch); each != written_dicts.end();)
    each = each->first < mark.guards && each->second.fact < mark.facts ? std::next(each) : written_dicts.erase(each);
  guarded_sets.erase(guarded_sets.lower_bound(mark.guards), guarded_sets.end());
  while (!members.empty() && (!same_epoch || members.back().guard >= mark.guards)) members.pop_back();
}

Val ReadSet::owned(PyObject* object) {
  if (object == Py_None || object == Py_True || object == Py_False) return Val::constant(object);
  bool created;
  facts.find(object, FactKind::kOwned, &created);
  if (created) trace().owned.push_back(Ref::borrow(object));
  return Val::constant(object);
}

uint32_t ReadSet::add_guard(const Guard& guard) {
  trace().guards.push_back(guard);
  return static_cast<uint32_t>(trace().guards.size() - 1);
}

void ReadSet::guard_type_version(PyTypeObject* type, PyObject* instance) {
  if (!cpython::may_change(type)) return;
  if (counts_in(recording.varying(), type)) return guard_counting_class(*this, recording, type, instance);
  bool created;
  Fact& fact = facts.find(type, FactKind::kTypeVersion, &created);
  uint32_t version = cpython::type_version(type);
  if (!created) {
    if (fact.stamp != version) recording.stop(Abort::kChanged, std::string("class ") + type->tp_name);
    return;
  }
  if (version == 0)
    return recording.stop(Abort::kUnknownAttribute, std::string("class without a version: ") + type->tp_name);
  fact.stamp = version;
  Guard guard = make_guard(GuardOp::kTypeVersion, reinterpret_cast<PyObject*>(type));
  guard.number = version;
  guard.expected = instance;
  fact.guard = add_guard(guard);
}

PyObject* ReadSet::lookup_type(PyTypeObject* type, PyObject* name, PyObject* instance) {
  guard_type_version(type, instance);
  return cpython::lookup_type(type, name);
}

bool ReadSet::dict_fact(PyObject* dict, Fact** out) {
  bool created;
  Fact& fact = facts.find(dict, FactKind::kDict, &created);
  uint64_t version = cpython::dict_version(dict);
  if (created) {
    Guard guard = make_guard(GuardOp::kDict, dict);
    guard.number = version;
    fact.stamp = version;
    fact.guard = add_guard(guard);
    dict_items.emplace_back();
    trace().guards[fact.guard].aux = static_cast<uint32_t>(dict_items.size() - 1);
  } else if (fact.stamp != version) {
    recording.stop(Abort::kChanged, "a dict");
    return false;
  }
  *out = &fact;
  return true;
}

bool ReadSet::read_dict(PyObject* dict, PyObject* key, PyObject** value) {
  return cpython::dict_lookup(dict, key, value) >= 0 && guard_item(dict, key, *value);
}

bool ReadSet::guard_item(PyObject* dict, PyObject* key, PyObject* value) {
  Fact* fact;
  if (!dict_fact(dict, &fact)) return false;
  auto& items = dict_items[trace().guards[fact->guard].aux];
  if (items.size() % 2 != 0) return true;
  for (size_t i = 0; i < items.size(); i += 2)
    if (items[i] == key) return true;
  if (cpython::is_scalar(key))
    owned(key);
  else if (cpython::is_address_key(key))
    trace().address_keys.push_back(key);
  if (value != nullptr && cpython::is_scalar(value)) owned(value);
  const size_t most = facts.get(dict, FactKind::kWrittenKeys) != nullptr ? 2 * kMaxGuarded + 2 : 64;
  if (items.size() < most) {
    items.push_back(key);
    items.push_back(value);
  }
  if (items.size() == most) items.push_back(nullptr);  // too many to compare one by one: the tag alone decides
  return true;
}

bool ReadSet::read_same(PyObject* dict, PyObject* key, Py_hash_t hash, PyObject** value) {
  Fact* fact;
  if (cpython::dict_lookup_same(dict, key, hash, value) <= 0 || !dict_fact(dict, &fact)) return false;
  if (written_dicts.count(fact->guard) != 0) return false;
  auto& items = dict_items[trace().guards[fact->guard].aux];
  if (items.size() % 2 == 0) items.push_back(nullptr);  // such keys cannot be compared: the tag alone decides
  return true;
}

bool ReadSet::guard_dict_whole(PyObject* dict) {
  Fact* fact;
  // CPython has not written yet what the trace writes already: keys and order are not those that the dict shows.
  if (std::find(written.begin(), written.end(), dict) != written.end()) return false;
  const Fact* native = facts.get(dict, FactKind::kNativeKeys);
  const bool known = native != nullptr && native->stamp == cpython::dict_version(dict);
  if ((!known && !cpython::dict_is_native(dict)) || !dict_fact(dict, &fact)) return false;
  bool created;
  facts.find(dict, FactKind::kNativeKeys, &created).stamp = fact->stamp;
  auto& items = dict_items[trace().guards[fact->guard].aux];
  if (items.size() % 2 == 0) note_all(this, dict, written_dicts.count(fact->guard) != 0, &items);
  guard_written_keys(dict, *fact);
  return true;
}

bool ReadSet::guard_dict_keys(PyObject* dict) {
  Fact* fact;
  if (std::find(written.begin(), written.end(), dict) != written.end()) return false;
  if (PyDict_GET_SIZE(dict) > kMaxGuarded || !cpython::dict_is_native(dict) || !dict_fact(dict, &fact)) return false;
  if (PyODict_Check(dict) && !cpython::odict_in_dict_order(dict)) return false;
  if (written_dicts.count(fact->guard) != 0) return guard_written_keys(dict, *fact), true;
  bool created;
  facts.find(dict, FactKind::kWrittenKeys, &created);
  if (created) guard_keys_now(this, &trace(), dict);
  return true;
}

// The order of an OrderedDict is its own and moves no version tag.
bool ReadSet::guard_dict_order(PyObject* dict) {
  if (!guard_dict_whole(dict)) return false;
  if (!PyODict_Check(dict) || PyDict_GET_SIZE(dict) < 2) return true;
  const uint64_t state = cpython::odict_state(dict);
  if (const Fact* known = facts.get(dict, FactKind::kDictWhole); known != nullptr && known->stamp == state) return true;
  if (!cpython::odict_in_dict_order(dict)) return false;
  cpython::DictCursor cursor;
  PyObject *key, *value;
  while (cpython::dict_next(dict, &cursor, &key, &value))
    if (!cpython::is_scalar(key)) return false;
  bool created;
  facts.find(dict, FactKind::kDictWhole, &created).stamp = state;
  if (created) guard_keys_now(this, &trace(), dict);
  return true;
}

// After our own write: the tag moved on, and the trace repeats the write.
void ReadSet::written_dict(PyObject* dict) {
  Fact *fact = facts.get(dict, FactKind::kDict), *native = facts.get(dict, FactKind::kNativeKeys);
  if (fact == nullptr) return;
  const uint64_t version = cpython::dict_version(dict);
  if (native != nullptr && native->stamp == fact->stamp) native->stamp = version;  // the trace writes native keys
  fact->stamp = version;
}

namespace {

uint64_t mix(uint64_t hash, const void* pointer) {
  return (hash ^ (reinterpret_cast<uintptr_t>(pointer) >> 4)) * 0x9E3779B97F4A7C15ull;
}

}  // namespace

bool ReadSet::guard_list(PyObject* list, Py_ssize_t at) {
  if (is_adopted(list)) {
    recording.stop(Abort::kChanged, "a list that the trace writes");
    return false;
  }
  Py_ssize_t size = PyList_GET_SIZE(list);
  if (size > 4096) return false;
  if (const Fact* known = at == kWhole ? nullptr : facts.get(list, FactKind::kList)) {
    const Guard& guard = trace().guards[known->guard];
    const bool same = size == static_cast<Py_ssize_t>(guard.count) &&
                      (at < 0 || PyList_GET_ITEM(list, at) == trace().guard_items[guard.first + at]);
    if (!same) recording.stop(Abort::kChanged, "a list");
    return recording.live();
  }
  uint64_t stamp = static_cast<uint64_t>(size);
  for (Py_ssize_t i = 0; i < size; ++i) stamp = mix(stamp, PyList_GET_ITEM(list, i));
  bool created;
  Fact& fact = facts.find(list, FactKind::kList, &created);
  if (!created) {
    if (fact.stamp != stamp) recording.stop(Abort::kChanged, "a list");
    return recording.live();
  }
  fact.stamp = stamp;
  Guard guard = make_guard(GuardOp::kList, list);
  guard.first = static_cast<uint32_t>(trace().guard_items.size());
  guard.count = static_cast<uint32_t>(size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (cpython::is_scalar(item)) owned(item);
    trace().guard_items.push_back(item);
  }
  fact.guard = add_guard(guard);
  return true;
}

bool ReadSet::guard_parts(PyObject* object) {
  const Py_ssize_t count = cpython::part_count(object);
  if (count < 0 || count > 4096) return false;
  bool created;
  Fact& fact = facts.find(object, FactKind::kParts, &created);
  if (!created) return true;
  Guard guard = make_guard(GuardOp::kParts, object);
  guard.expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
  guard.number = cpython::part_definition(object);
  guard.first = static_cast<uint32_t>(trace().guard_items.size());
  guard.count = static_cast<uint32_t>(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* part = cpython::part(object, i);
    if (part != nullptr && cpython::is_scalar(part)) owned(part);
    trace().guard_items.push_back(part);
  }
  fact.guard = add_guard(guard);
  return true;
}

void ReadSet::guard_value(PyObject* object) {
  if (cpython::part_count(object) >= 0) {
    guard_parts(object);
    return;
  }
  const Ref plain = Ref::steal(cpython::plain_value(object));
  if (!plain) return;
  bool created;
  Fact& fact = facts.find(object, FactKind::kParts, &created);
  if (!created) return;
  Guard guard = make_guard(GuardOp::kValue, object);
  guard.expected = owned(plain.get()).object();
  fact.guard = add_guard(guard);
}

bool ReadSet::guard_set(PyObject* set, Py_ssize_t at) {
  if (is_adopted(set)) {
    recording.stop(Abort::kChanged, "a set that the trace writes");
    return false;
  }
  Py_ssize_t size = PySet_GET_SIZE(set), position = 0;
  if (size > 4096) return false;
  if (const Fact* known = at == kWhole ? nullptr : facts.get(set, FactKind::kSet)) {
    if (size != static_cast<Py_ssize_t>(trace().guards[known->guard].count)) recording.stop(Abort::kChanged, "a set");
    return recording.live();
  }
  bool created;
  Fact& fact = facts.find(set, FactKind::kSet, &created);
  uint64_t stamp = static_cast<uint64_t>(size);
  PyObject* item;
  while (cpython::next_set_item(set, &position, &item)) stamp = mix(stamp, item);
  if (!created) {
    if (fact.stamp != stamp) recording.stop(Abort::kChanged, "a set");
    return recording.live();
  }
  fact.stamp = stamp;
  Guard guard = make_guard(GuardOp::kSet, set);
  guard.first = static_cast<uint32_t>(trace().guard_items.size());
  guard.count = static_cast<uint32_t>(size);
  position = 0;
  while (cpython::next_set_item(set, &position, &item)) {
    if (cpython::is_scalar(item)) owned(item);
    trace().guard_items.push_back(item);
  }
  fact.guard = add_guard(guard);
  return true;
}

// A guard for this key alone: the program may add others to the set, such as a registry. -1: all of it has to be guarded.
int ReadSet::guard_member(PyObject* set, PyObject* key) {
  if (is_adopted(set) || facts.get(set, FactKind::kSet) != nullptr) return -1;
  if (PyTuple_CheckExact(key) || cpython::is_value_type(Py_TYPE(key))) return -1;
  const Py_hash_t hash = PyObject_Hash(key);
  if (hash == -1) PyErr_Clear();
  const int found = hash == -1 ? -1 : cpython::set_has(set, key, hash, cpython::is_scalar(key));
  if (found < 0) return -1;
  int asked = 0;
  for (const Member& member : members) {
    if (member.set != set) continue;
    ++asked;
    if (member.key != key && !(cpython::is_scalar(key) && cpython::same_scalar(member.key, key))) continue;
    if (member.found != found) recording.stop(Abort::kChanged, "a set");
    return found;
  }
  if (asked == kMostMembers) return -1;
  if (cpython::is_scalar(key)) owned(key);
  Guard guard = make_guard(found == 1 ? GuardOp::kHas : GuardOp::kHasNot, set);
  guard.expected = key;
  guard.number = static_cast<uint64_t>(hash);
  members.push_back({add_guard(guard), set, key, found});
  return found;
}

// Whether a set that existed before has a key. The guard says so, and so does the set.
int ReadSet::guarded_set_holds(PyObject* set, PyObject* key) {
  if (!cpython::is_native_key(key)) return -1;
  if (const int found = guard_member(set, key); found >= 0 || !recording.live()) return found;
  if (!guard_set(set, kSize)) return -1;
  const uint32_t at = facts.get(set, FactKind::kSet)->guard;
  const Guard& guard = trace().guards[at];
  const auto first = trace().guard_items.begin() + guard.first;
  const auto [content, created] = guarded_sets.try_emplace(at);
  if (created) content->second = Objects(first, first + guard.count);
  if (created && !std::all_of(first, first + guard.count, cpython::is_native_key)) content->second = Objects{nullptr};
  if (content->second.size() == 1 && content->second[0] == nullptr) return -1;
  const int found = PySet_Contains(set, key);
  if (found < 0) PyErr_Clear();
  if (found == (content->second.holds(key) ? 1 : 0)) return found;
  recording.stop(Abort::kChanged, "a set");
  return -1;
}

bool ReadSet::guard_function(PyFunctionObject* function) {
  bool created;
  Fact& fact = facts.find(function, FactKind::kFunction, &created);
  uint32_t version = cpython::function_version(reinterpret_cast<PyObject*>(function));
  if (version == 0) return false;
  if (!created) {
    if (fact.stamp != version) recording.stop(Abort::kChanged, "a function");
    return recording.live();
  }
  fact.stamp = version;
  Guard guard = make_guard(GuardOp::kFunction, reinterpret_cast<PyObject*>(function));
  guard.number = version;
  fact.guard = add_guard(guard);
  return true;
}

bool ReadSet::guard_cell(PyObject* cell, PyObject** content) {
  *content = PyCell_GET(cell);
  bool created;
  Fact& fact = facts.find(cell, FactKind::kCell, &created);
  if (!created) {
    if (fact.stamp != reinterpret_cast<uintptr_t>(*content)) recording.stop(Abort::kChanged, "a closure variable");
    return recording.live();
  }
  fact.stamp = reinterpret_cast<uintptr_t>(*content);
  Guard guard = make_guard(GuardOp::kCell, cell);
  guard.expected = *content;
  if (*content != nullptr && cpython::is_scalar(*content)) owned(*content);
  fact.guard = add_guard(guard);
  return true;
}

bool ReadSet::guard_slot(PyObject* object, Py_ssize_t offset, PyObject** value) {
  char* address = reinterpret_cast<char*>(object) + offset;
  *value = *reinterpret_cast<PyObject**>(address);
  bool created;
  Fact& fact = facts.find(address, FactKind::kSlot, &created);
  if (!created) {
    if (fact.stamp != reinterpret_cast<uintptr_t>(*value)) recording.stop(Abort::kChanged, "a slot");
    return recording.live();
  }
  fact.stamp = reinterpret_cast<uintptr_t>(*value);
  Guard guard = make_guard(GuardOp::kSlot, object);
  guard.number = static_cast<uint64_t>(offset);
  guard.expected = *value;
  if (*value != nullptr && cpython::is_scalar(*value)) owned(*value);
  fact.guard = add_guard(guard);
  return true;
}

// The object (found at `source`) has neither an instance dict nor inline values yet.
void ReadSet::guard_no_dict(PyObject* object, Val source) {
  Guard unset{};
  unset.op = GuardOp::kSlot;
  unset.subject = source;
  unset.number =
      static_cast<uint64_t>(reinterpret_cast<char*>(cpython::dict_slot(object)) - reinterpret_cast<char*>(object));
  add_guard(unset);
  if (!cpython::kValuesBeforeDict || !cpython::has_managed_dict(Py_TYPE(object))) return;
  unset.number -= sizeof(void*);
  add_guard(unset);
}

// The inline value of an instance; null: unset.
uint32_t ReadSet::guard_inline_slot(Val source, PyTypeObject* type, Py_ssize_t index, PyObject* value) {
  Guard guard = inline_guard(GuardOp::kInlineSlot, source, type, index);
  guard.first = static_cast<uint32_t>(trace().guard_items.size());
  guard.count = 1;
  trace().guard_items.push_back(value);
  if (value != nullptr && cpython::is_scalar(value)) owned(value);
  return add_guard(guard);
}

bool ReadSet::guard_inline(PyObject* object, PyObject* name, PyObject** value) {
  PyTypeObject* type = Py_TYPE(object);
  Py_ssize_t index = cpython::shared_key_index(type, name);
  *value = index < 0 ? nullptr : cpython::inline_value(object, index);
  if (index < 0) {
    bool created;
    Fact& fact = facts.find(object, FactKind::kNoInline, &created);
    uint32_t version = cpython::shared_keys_version(type);
    if (version == 0) return false;
    if (created || fact.stamp != version) {
      Guard guard = make_guard(GuardOp::kNoInlineSlot, object);
      guard.expected = reinterpret_cast<PyObject*>(type);
      guard.number = version;
      fact.stamp = version;
      fact.guard = add_guard(guard);
    }
    return true;
  }
  char* address = reinterpret_cast<char*>(cpython::inline_values(object)) + 8 * index;
  bool created;
  Fact& fact = facts.find(address, FactKind::kSlot, &created);
  if (!created) {
    if (fact.stamp != reinterpret_cast<uintptr_t>(*value)) recording.stop(Abort::kChanged, "an attribute");
    return recording.live();
  }
  fact.stamp = reinterpret_cast<uintptr_t>(*value);
  fact.guard = guard_inline_slot(Val::constant(object), type, index, *value);
  return true;
}

// Not written here, so it is as it was when the object had inline values.
bool ReadSet::guard_before_dict(PyObject* object, PyObject* name, PyObject** value) {
  if (cpython::dict_lookup(cpython::instance_dict(object), name, value) < 0) return false;
  if (*value != nullptr) {
    const Py_ssize_t index = cpython::shared_key_index(Py_TYPE(object), name);
    if (index >= 0) guard_inline_slot(Val::constant(object), Py_TYPE(object), index, *value);
    return index >= 0;
  }
  Guard guard = make_guard(GuardOp::kNoAttribute, object);
  guard.expected = owned(name).object();
  add_guard(guard);
  return true;
}

bool ReadSet::guard_context_var(PyObject* var, PyObject** value) {
  bool created;
  Fact& fact = facts.find(var, FactKind::kContextVar, &created);
  if (PyContextVar_Get(var, nullptr, value) < 0) {
    PyErr_Clear();
    return false;
  }
  drop_reference(*value);  // the context keeps it
  if (!created) return fact.stamp == reinterpret_cast<uintptr_t>(*value);
  fact.stamp = reinterpret_cast<uintptr_t>(*value);
  Guard guard = make_guard(GuardOp::kContextVar, var);
  guard.expected = *value;
  fact.guard = add_guard(guard);
  return true;
}

void ReadSet::guard_abc_registry() {
  bool created;
  Fact& fact = facts.find(&facts, FactKind::kSlot, &created);
  if (!created) return;
  Guard guard = make_guard(GuardOp::kAbcRegistry, Py_None);
  guard.number = cpython::abc_registrations();
  fact.guard = add_guard(guard);
  refused.erase(fact.guard);  // of a guard that was taken back
}

void ReadSet::note_refused(PyObject* abstract, PyObject* cls) {
  bool created;
  const Fact& fact = facts.find(&facts, FactKind::kSlot, &created);
  if (created) return recording.fail("a class was asked for without a guard");
  Objects& pairs = refused[fact.guard];
  PyObject* const known = cls != nullptr ? cls : Py_None;
  for (size_t i = 0; i < pairs.size(); i += 2)
    if (pairs[i] == abstract && pairs[i + 1] == known) return;
  pairs.push_back(abstract);
  pairs.push_back(known);
}

void ReadSet::guard_recursion_limit() {
  bool created;
  facts.find(this, FactKind::kSlot, &created);
  if (!created) return;
  Guard guard = make_guard(GuardOp::kRecursionLimit, Py_None);
  guard.number = static_cast<uint64_t>(Py_GetRecursionLimit());
  add_guard(guard);
}

void ReadSet::close_abc_guards() {
  for (const auto& [index, pairs] : refused) {
    if (index >= trace().guards.size() || trace().guards[index].op != GuardOp::kAbcRegistry) continue;  // taken back
    Guard& guard = trace().guards[index];
    guard.first = static_cast<uint32_t>(trace().guard_items.size());
    guard.count = static_cast<uint32_t>(pairs.size());
    trace().guard_items.insert(trace().guard_items.end(), pairs.begin(), pairs.end());
  }
}

// Puts what was read of each dict into the guards, once it is complete.
void ReadSet::close_dict_guards() {
  for (Guard& guard : trace().guards) {
    if (guard.op != GuardOp::kDict) continue;
    auto& items = dict_items[guard.aux];
    guard.aux = 0;
    auto written = written_dicts.find(static_cast<uint32_t>(&guard - trace().guards.data()));
    if (items.size() % 2 != 0 && written != written_dicts.end()) {
      // The trace moves the tag itself: all of the items before, and their order, take its place.
      items = written->second.items;
    }
    if (items.size() % 2 != 0) {
      guard.aux = 1;  // all of it, or the tag alone
      if (items.back() != guard.subject.object()) continue;
      items.pop_back();
    }
    guard.first = static_cast<uint32_t>(trace().guard_items.size());
    guard.count = static_cast<uint32_t>(items.size());
    trace().guard_items.insert(trace().guard_items.end(), items.begin(), items.end());
  }
}

bool ReadSet::is_adopted(PyObject* object) {
  return facts.get(object, FactKind::kAdopted) != nullptr;
}

// A dict that existed before is about to be written: what it held is remembered, for a guard of all of it.
bool ReadSet::touch_dict(PyObject* dict) {
  Fact* fact;
  if (!dict_fact(dict, &fact)) return false;
  if (written.empty() || written.back() != dict) written.push_back(dict);
  if (written_dicts.count(fact->guard) > 0 || PyDict_GET_SIZE(dict) > kMaxGuarded) return true;
  BeforeWrite& before = written_dicts[fact->guard];
  Objects& items = before.items;
  bool created;
  before.fact = facts.size();
  facts.find(dict, FactKind::kTouched, &created);
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) {
    items.push_back(key);
    items.push_back(value);
    // The write to come may free a number or a string, which is compared by value later.
    if (cpython::is_scalar(key)) owned(key);
    if (cpython::is_scalar(value)) owned(value);
  }
  if (dict_items[trace().guards[fact->guard].aux].size() % 2 != 0) guard_written_keys(dict, *fact);
  return true;
}

// A dict of which all is read, and which the trace writes, is no dict whose tag could decide: its keys, in order, are
// guarded, and its values (close_dict_guards), as they were before the first write.
void ReadSet::guard_written_keys(PyObject* dict, const Fact& fact) {
  auto written = written_dicts.find(fact.guard);
  bool created = false;
  if (written == written_dicts.end()) return;
  facts.find(dict, FactKind::kWrittenKeys, &created);
  if (!created) return;
  Guard guard{};
  guard.op = GuardOp::kDictSize;
  guard.subject = Val::constant(dict);
  guard.first = static_cast<uint32_t>(trace().guard_items.size());
  guard.number = guard.count = static_cast<uint32_t>(written->second.items.size() / 2);
  for (size_t i = 0; i < written->second.items.size(); i += 2) trace().guard_items.push_back(written->second.items[i]);
  add_guard(guard);
}

}  // namespace pijit
