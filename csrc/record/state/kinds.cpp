// Places that hold another tensor or container in each call: state that a program keeps on an object, in a variable of
// a closure or in a list. A trace takes what is there by kind and not by identity.
//
// A tensor becomes an input of the trace: dtype, device, layout and number of dimensions are guarded as for an
// argument. A tuple, list, dict or instance is loaded item by item, as arguments are (inputs.cpp); numbers in it are
// left open. A list that stays the same object while its items change is loaded that way, too. Rejected: a guard of the
// identity of what is there, which is another object after every call that writes it.
//
// 1. The loads stand among the guards at entry (or those of an epoch), so they show what was there then. A place that
//    the trace has written since is in the overlay. A container that the trace has read by identity, or written under
//    another name, is not loaded: it would be known under two names (is_untouched).
// 2. Whether it can be loaded is found out before the first guard is taken. If it cannot be, the place is fixed.
// 3. Instances within what is loaded stay what they are, by identity.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/members.h"
#include "cpython/objects.h"
#include "guard/instances.h"
#include "record/recorder.h"
#include "record/state/found.h"
#include "record/state/inputs.h"
#include "record/state/values.h"
#include "record/state/varying.h"

namespace pijit {
namespace {

// Of a dict: all are such that a trace may keep them.
bool all_keys_last(PyObject* dict) {
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value) != 0;)
    if (!cpython::is_lasting_key(key)) return false;
  return true;
}

// What a container holds. False: it is none that could be loaded.
bool held_objects(PyObject* object, int depth, Objects* held) {
  if (cpython::is_plain_tuple(object) || PyList_CheckExact(object)) {
    held->assign(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + PySequence_Fast_GET_SIZE(object));
    return true;
  }
  PyObject* dict = PyDict_CheckExact(object) || cpython::is_builtin_dict(Py_TYPE(object)) ? object : nullptr;
  if (dict == nullptr) {
    Room room;
    std::vector<Slot> slots;
    const bool derived = PyDict_Check(object) || PyList_Check(object);
    if ((depth > 0 && !derived) || !instance_fits(object, depth, &room)) return false;
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Check(object) && PyDict_Next(object, &position, &key, &value) != 0;)
      held->push_back(value);
    for (Py_ssize_t i = 0; PyList_Check(object) && i < PyList_GET_SIZE(object); ++i)
      held->push_back(PyList_GET_ITEM(object, i));
    find_slots(Py_TYPE(object), &slots);
    for (const Slot& slot : slots)
      if (PyObject* value = cpython::object_at(object, slot.offset)) held->push_back(value);
    if (cpython::attribute_storage(object) == cpython::Storage::kInline)
      for (Py_ssize_t i = 0; cpython::shared_key(Py_TYPE(object), i) != nullptr; ++i)
        if (PyObject* value = cpython::inline_value(object, i)) held->push_back(value);
    dict = cpython::instance_dict(object);
    if (dict == nullptr) return true;
  }
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value) != 0;) held->push_back(value);
  return all_keys_last(dict);
}

bool is_container(PyObject* object) {
  Room room;
  return cpython::is_plain_tuple(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) ||
         derived_fits(object, 0, &room);
}

// The trace has neither read nor written what the container holds, and knows it under no other name.
bool is_untouched(Recorder& recorder, PyObject* container) {
  if (cpython::is_plain_tuple(container)) return true;
  if (has_met(recorder, container) || !recorder.foreign.is_new_here(container)) return false;
  PyObject* dict = PyDict_CheckExact(container) ? nullptr : cpython::instance_dict(container);
  return dict == nullptr || (!has_met(recorder, dict) && recorder.foreign.is_new_here(dict));
}

}  // namespace

// What a place holds can be loaded. At depth 0 an instance, too; within it those stay what they are.
bool may_load(Recorder& recorder, PyObject* object, int depth, Py_ssize_t* room) {
  if (cpython::is_scalar(object) || cpython::shows_memory(object)) return true;
  if (recorder.adapter() != nullptr && recorder.adapter()->is_tensor(object)) return true;
  if (PyMethod_Check(object) || (depth > 0 && !is_container(object))) return true;
  if (!cpython::is_plain_tuple(object) && recorder.reads.facts.get(object, FactKind::kArgument) != nullptr) return true;
  Objects held;
  if (depth > kMaxLoadedDepth || !held_objects(object, depth, &held) || !is_untouched(recorder, object)) return false;
  const auto count = static_cast<Py_ssize_t>(held.size());
  *room -= count;
  if (count > kMaxLoadedItems || *room < 0) return false;
  for (PyObject* item : held)
    if (!may_load(recorder, item, depth + 1, room)) return false;
  return true;
}

// The object of such a place is loaded by its kind; the caller has asked whether it may be.
Val take_by_kind(Recorder& recorder, PyObject* object, const Guard& load) {
  const Val loaded = load_input(recorder, load, object);
  const bool instance = !is_container(object) && !cpython::shows_memory(object) && !cpython::is_scalar(object) &&
                        !PyMethod_Check(object) &&
                        (recorder.adapter() == nullptr || !recorder.adapter()->is_tensor(object)) &&
                        recorder.reads.facts.get(object, FactKind::kArgument) == nullptr;
  recorder.loading.by_kind = true;
  const Val taken = instance ? input_instance(recorder, object, loaded, 0) : input(recorder, object, loaded, 0);
  recorder.loading.by_kind = false;
  if (taken.is_null()) recorder.stop(Abort::kChanged, "what a place holds");
  return taken;
}

// A list that existed before, whose items differ from call to call. Null: they do not, or cannot be loaded.
Val list_by_kind(Recorder& recorder, PyObject* list) {
  Py_ssize_t room = kMaxAttributes;
  if (recorder.varying() == nullptr || !recorder.varying()->has(list, Py_None)) return Val();
  if (recorder.reads.is_adopted(list) || !may_load(recorder, list, 0, &room))
    return recorder.varying()->fix(list, Py_None), Val();
  Guard guard{};
  guard.op = GuardOp::kLoadSelf;
  guard.subject = Val::constant(list);
  return take_by_kind(recorder, list, guard);
}

namespace {

// Its keys are guarded for that already.
bool is_read_by_item(Recorder& recorder, PyObject* dict) {
  const Fact* fact = recorder.reads.facts.get(dict, FactKind::kDict);
  return fact != nullptr && recorder.reads.facts.get(dict, FactKind::kWrittenKeys) != nullptr &&
         recorder.reads.dict_items[recorder.trace().guards[fact->guard].aux].size() % 2 == 0;
}

bool is_taken_by_item(Recorder& recorder, PyObject* dict) {
  if (is_read_by_item(recorder, dict)) return true;
  if (recorder.varying() == nullptr || !recorder.varying()->has_any(dict)) return false;
  if (const Fact* fact = recorder.reads.facts.get(dict, FactKind::kDict))
    if (recorder.reads.dict_items[recorder.trace().guards[fact->guard].aux].size() % 2 != 0) return false;
  bool varies = recorder.varying()->has(dict, Varying::all_items());
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value) != 0;) {
    if (!cpython::is_scalar(key)) return false;
    varies = varies || recorder.varying()->has(dict, key);
  }
  return varies;
}

}  // namespace

bool read_keys(Recorder& recorder, PyObject* dict, bool* by_item) {
  *by_item = is_taken_by_item(recorder, dict);
  return *by_item ? recorder.reads.guard_dict_keys(dict) : recorder.reads.guard_dict_order(dict);
}

// The place was read, so a guard says what it holds.
bool is_read(Recorder& recorder, PyObject* container, PyObject* key) {
  if (PyCell_Check(container)) return recorder.reads.facts.get(container, FactKind::kCell) != nullptr;
  if (PyDict_Check(container)) {
    const Fact* fact = recorder.reads.facts.get(container, FactKind::kDict);
    if (fact == nullptr) return false;
    const auto& items = recorder.reads.dict_items[recorder.trace().guards[fact->guard].aux];
    if (items.size() % 2 != 0) return true;
    for (size_t i = 0; i < items.size(); i += 2)
      if (cpython::keys_equal(items[i], key)) return true;
    return false;
  }
  const void* place = nullptr;
  if (const PyMemberDef* member = cpython::member_of(cpython::lookup_type(Py_TYPE(container), key))) {
    place = reinterpret_cast<char*>(container) + member->offset;
  } else if (cpython::attribute_storage(container) == cpython::Storage::kInline) {
    const Py_ssize_t index = cpython::shared_key_index(Py_TYPE(container), key);
    if (index >= 0) place = &cpython::inline_values(container)->values[index];
  }
  return place != nullptr && recorder.reads.facts.get(place, FactKind::kSlot) != nullptr;
}

// A tensor, or a container that the trace has made, takes the place of another one, or of None.
bool changes_kind(const Recorder& recorder, PyObject* old, Val value) {
  const bool tensor = touches_tensor(recorder, value);
  if ((!tensor && !value.is_virtual()) || recorder.heap.real(value) == old) return false;
  if (old == Py_None) return true;
  return tensor ? recorder.adapter()->is_tensor(old) : recorder.heap.type_of(value) == Py_TYPE(old);
}

// A list that existed before, was read, and is written: at the end it has as many items, and others.
bool has_other_items(const Recorder& recorder, const Model& list) {
  const auto* written = list.find<family::List>();
  if (written == nullptr || written->home.object() == nullptr || written->unread) return false;
  if (written->original.size() != list.items.size()) return false;
  bool differs = false;
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Val item = list.items[i];
    const Val place = touches_tensor(recorder, item) ? tensor_source(recorder.loading, item) : item;
    if (place.object() != nullptr && place.object() == written->original[i]) continue;
    const PyTypeObject* type = recorder.heap.type_of(item);
    if (!touches_tensor(recorder, item) && type != &PyLong_Type && type != &PyFloat_Type) return false;
    differs = true;
  }
  return differs;
}

}  // namespace pijit
