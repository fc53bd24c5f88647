// Which instances can be taken apart; see instances.h.
#include "guard/instances.h"

#include <algorithm>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/members.h"
#include "cpython/objects.h"

namespace pijit {
namespace {

bool fits(PyObject* object, int depth, Room* room);

bool fit(PyObject* const* items, Py_ssize_t count, int depth, Room* room) {
  room->items -= count;
  room->looks -= count;
  if (depth > kMaxLoadedDepth || count > kMaxLoadedItems || room->items < 0 || room->looks < 0) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (items[i] != nullptr && !fits(items[i], depth + 1, room)) return false;
  return true;
}

bool dict_fits(PyObject* dict, int depth, Room* room) {
  PyObject *key, *value;
  Objects values;
  if (PyDict_GET_SIZE(dict) > kMaxLoadedItems) return false;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value) != 0;) {
    if (!cpython::is_lasting_key(key)) return false;
    values.push_back(value);
  }
  return fit(values.data(), static_cast<Py_ssize_t>(values.size()), depth, room);
}

bool has_names(PyObject* dict) {
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value) != 0;)
    if (!PyUnicode_CheckExact(key)) return false;
  return true;
}

// What input() would load of it; an instance that has too much is left what it is.
bool fits(PyObject* object, int depth, Room* room) {
  if (PyList_CheckExact(object) || cpython::is_plain_tuple(object)) return items_fit(object, depth, room);
  if (PyDict_CheckExact(object)) return dict_fits(object, depth, room);
  if (PyAnySet_Check(object)) return false;  // guarded as they are
  const Py_ssize_t before = room->items;
  const bool derived = PyDict_Check(object) || PyList_Check(object);
  if (!(derived ? derived_fits(object, depth, room) : instance_fits(object, depth, room))) room->items = before;
  return room->looks >= 0;
}

}  // namespace

bool has_space(PyObject* object, int depth, Space* space) {
  const bool dict = PyDict_Check(object) != 0, tuple = PyTuple_Check(object) != 0;
  if ((!dict && !tuple && !PyList_Check(object)) || depth > kMaxLoadedDepth) return true;
  space->items -= dict ? PyDict_GET_SIZE(object) : PySequence_Fast_GET_SIZE(object);
  space->containers -= tuple ? 0 : 1;
  if (space->items < 0 || space->containers < 0) return false;
  if (dict) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value) != 0;)
      if (!has_space(value, depth + 1, space)) return false;
    return true;
  }
  PyObject* const* items = PySequence_Fast_ITEMS(object);
  return std::all_of(items, items + PySequence_Fast_GET_SIZE(object),
                     [&](PyObject* item) { return has_space(item, depth + 1, space); });
}

bool items_fit(PyObject* sequence, int depth, Room* room) {
  return fit(PySequence_Fast_ITEMS(sequence), PySequence_Fast_GET_SIZE(sequence), depth, room);
}

Guard inline_guard(GuardOp op, Val source, PyTypeObject* type, Py_ssize_t index) noexcept {
  Guard guard{};
  guard.op = op;
  guard.subject = source;
  guard.expected = reinterpret_cast<PyObject*>(type);
  guard.number = cpython::shared_keys_id(type);
  guard.aux = static_cast<uint32_t>(index);
  return guard;
}

bool is_derived_dict(PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyDict_Check(object) || type == &PyDict_Type) return false;
  if (type == &PyODict_Type) return *cpython::dict_slot(object) == nullptr;  // it may be given attributes
  std::vector<Slot> slots;
  return type == cpython::default_dict_type() || find_slots(type, &slots);
}

Py_ssize_t factory_offset() noexcept {
  static const Py_ssize_t offset = [] {
    const Ref name = Ref::steal(PyUnicode_InternFromString("default_factory"));
    const PyMemberDef* member = cpython::member_of(cpython::lookup_type(cpython::default_dict_type(), name.get()));
    return member == nullptr ? 0 : member->offset;
  }();
  return offset;
}

bool is_derived_list(PyObject* object) noexcept {
  std::vector<Slot> slots;
  PyTypeObject* type = Py_TYPE(object);
  return type != &PyList_Type && cpython::is_plain_list(type) && find_slots(type, &slots);
}

bool derived_fits(PyObject* object, int depth, Room* room) {
  if (!is_derived_container(object)) return false;
  if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && Py_TYPE(object) != cpython::default_dict_type())
    return instance_fits(object, depth, room);
  return dict_fits(object, depth, room);
}

bool find_slots(PyTypeObject* type, std::vector<Slot>* slots) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;  // some of C are never made ready
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (base == &PyBaseObject_Type || base == &PyList_Type || base == &PyDict_Type || base == &PyODict_Type) continue;
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || base->tp_itemsize != 0) return false;
    if (cpython::slot_count(base) == 0) continue;
    PyObject *name, *value;
    const size_t before = slots->size();
    for (Py_ssize_t position = 0; PyDict_Next(cpython::type_dict(base), &position, &name, &value) != 0;) {
      const PyMemberDef* member = cpython::member_of(value);
      if (member == nullptr || member->type != T_OBJECT_EX) continue;
      for (const Slot& other : *slots)
        if (cpython::keys_equal(other.name, name)) return false;  // hidden by a class that is derived
      slots->push_back({name, member->offset});
    }
    if (static_cast<Py_ssize_t>(slots->size() - before) != cpython::slot_count(base)) return false;
  }
  return cpython::has_managed_dict(type) || !slots->empty() ||
         PyType_HasFeature(type, Py_TPFLAGS_DICT_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS);
}

bool hides_item(PyObject* object, const std::vector<Slot>& slots) noexcept {
  if (slots.empty() || cpython::attribute_storage(object) != cpython::Storage::kDict) return false;
  PyObject* unused = nullptr;
  for (const Slot& slot : slots)
    if (cpython::dict_lookup(cpython::instance_dict(object), slot.name, &unused) != 0) return true;
  return false;
}

bool instance_fits(PyObject* object, int depth, Room* room) {
  PyTypeObject* type = Py_TYPE(object);
  std::vector<Slot> slots;
  if (!find_slots(type, &slots) || hides_item(object, slots)) return false;
  if (PyDict_Check(object) && !dict_fits(object, depth, room)) return false;
  if (PyList_Check(object) && !(cpython::is_plain_list(type) && items_fit(object, depth, room))) return false;
  Objects held;
  for (const Slot& slot : slots) held.push_back(cpython::object_at(object, slot.offset));
  if (!fit(held.data(), static_cast<Py_ssize_t>(held.size()), depth, room)) return false;
  switch (cpython::attribute_storage(object)) {
    case cpython::Storage::kNoDict:
    case cpython::Storage::kUnset:
      return true;
    case cpython::Storage::kInline: {
      if (cpython::shared_keys_version(type) == 0) return false;
      Py_ssize_t count = 0;
      while (cpython::shared_key(type, count) != nullptr) ++count;
      return fit(cpython::inline_values(object)->values, count, depth, room);
    }
    case cpython::Storage::kDict:
      return PyDict_CheckExact(cpython::instance_dict(object)) && has_names(cpython::instance_dict(object)) &&
             dict_fits(cpython::instance_dict(object), depth, room);
    default:
      return false;
  }
}

}  // namespace pijit
