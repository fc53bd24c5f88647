// container[key] and key in container: what is known at once, and the tasks for what code of the program decides.
//
// An instruction takes the first way without a task. Only where a frame may be needed does it start one.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/pending.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {

// The slot is filled by a method in Python.
static bool has_own_getitem(PyTypeObject* type) {
  return type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript;
}

bool is_item_sequence(PyTypeObject* type) {
  return cpython::is_plain_list(type) || (PyType_IsSubtype(type, &PyTuple_Type) != 0 && !has_own_getitem(type));
}

namespace {

bool index_of(Recorder& recorder, Val key, Py_ssize_t size, Py_ssize_t* index) {
  if (key.is_reg() && !touches_tensor(recorder, key)) key = force(recorder, key);
  PyObject* object = key.object();
  if (object == nullptr || !(PyLong_CheckExact(object) || PyBool_Check(object))) return false;
  *index = PyLong_AsSsize_t(object);
  if (*index == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  if (*index < 0) *index += size;
  return true;
}

// Subclasses of dict have the slot of a method in Python, and in it the method of dict.
bool inherits_getitem(Recorder& recorder, Val container, PyTypeObject* type) {
  return is_dict_like(recorder.heap, container) &&
         recorder.reads.lookup_type(type, names().getitem) ==
             PyDict_GetItem(cpython::type_dict(&PyDict_Type), names().getitem);
}

// dict[key] of a dict that existed before, where the class of the key computes the hash in Python.
Task<Val> get_item_hashed(Drive& drive, Val dict, Val key) {
  Recorder& recorder = drive.recorder();
  PyObject *object = nullptr, *value = nullptr;
  const Py_hash_t hash = co_await hash_in_python(drive, key, &object);
  if (!recorder.reads.read_same(dict.object(), object, hash, &value)) co_await drive.unknown();
  co_return constant(recorder, value);
}

// What a subclass of dict gives for a key that is not there.
Task<Val> missing_item(Drive& drive, Val container, Val key, bool last) {
  Recorder& recorder = drive.recorder();
  Vals more(1, key);
  Val value;
  if (recorder.heap.type_of(container) != cpython::default_dict_type()) {
    value = co_await call_special(drive, container, names().missing, more, last);
    co_return value;
  }
  PyObject* method = cpython::lookup_type(cpython::default_dict_type(), names().missing);
  value = co_await call_two(drive, Val::constant(method), container, key);
  co_return value;
}

// dict[key], whatever the class's own method is.
Task<Val> dict_item(Drive& drive, Val container, Val key, bool last) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = recorder.heap.type_of(container);
  Val item;
  if (type == nullptr || container.is_reg() || !is_dict_like(recorder.heap, container)) co_await drive.unknown();
  const int found = mapping_find(recorder, container, key, &item);
  if (found > 0) co_return item;
  if (found < 0 && (!container.is_const() || !recorder.live())) co_await drive.unknown();
  if (found < 0) {
    item = co_await get_item_hashed(drive, container, key);
  } else if (type == cpython::default_dict_type() || !cpython::is_builtin_dict(type)) {
    item = co_await missing_item(drive, container, key, last);
  } else {
    co_await drive.raise();
  }
  co_return item;
}

}  // namespace

// dict.__getitem__(container, key)
Task<Val> dict_getitem(Drive& drive, Arguments args) {
  Val item = co_await dict_item(drive, args.values[0], args.values[1], true);
  co_return item;
}

int known_item(Recorder& recorder, Val container, Val key, Val* item) {
  PyTypeObject* type = recorder.heap.type_of(container);
  if (type == nullptr || container.is_reg()) return -1;
  if (is_item_sequence(type)) {
    Py_ssize_t index = 0;
    const Py_ssize_t size = count_items(recorder, container);
    if (size < 0 || !index_of(recorder, key, size, &index)) return -1;
    if (index < 0 || index >= size) return 0;
    return item_at(recorder, container, static_cast<size_t>(index), false, item) > 0 ? 1 : -1;
  }
  if (recorder.heap.is_virtual(container, VirtualKind::kView) && type == &PyDictProxy_Type)
    return mapping_find(recorder, recorder.heap.virtual_field(container, field::kView::kSource), key, item);
  const bool dict = cpython::is_builtin_dict(type) && type != cpython::default_dict_type();
  return dict ? mapping_find(recorder, container, key, item) : -1;
}

// tensor[key]: as an instruction where that ends it.
static Task<Val> tensor_item(Drive& drive, Val tensor, Val key, bool last) {
  Recorder& recorder = drive.recorder();
  const bool ends = last && !drive.is_inside();
  if (ends && ask_about(recorder, drive.frame(), SiteKind::kSubscr, {tensor, key}, 0, 1)) {
    if (drive.leave(Invoke::kStarted)) co_await Drive::Never();
    co_await drive.unknown();
  }
  const Val item = compute_tensors(recorder, SiteKind::kSubscr, {tensor, key});
  if (item.is_null()) co_await drive.unknown();
  co_return item;
}

Task<Val> get_item(Drive& drive, Val container, Val key, bool last) {
  Recorder& recorder = drive.recorder();
  Val item;
  if (touches_tensor(recorder, container)) {
    item = co_await tensor_item(drive, container, key, last);
    co_return item;
  }
  const int known = known_item(recorder, container, key, &item);
  if (known > 0) co_return item;
  if (known == 0) co_await drive.raise();
  PyTypeObject* type = recorder.live() ? recorder.heap.type_of(container) : nullptr;
  if (type == nullptr || container.is_reg()) co_await drive.unknown();
  if (has_own_getitem(type) && !inherits_getitem(recorder, container, type)) {
    Vals more(1, key);
    item = co_await call_special(drive, container, names().getitem, more, last);
    co_return item;
  }
  if (is_dict_like(recorder.heap, container)) {
    item = co_await dict_item(drive, container, key, last);
    co_return item;
  }
  const Val index = co_await index_of_value(drive, key);
  const Py_ssize_t size = count_items(recorder, container);
  if (size < 0) co_await drive.unknown();
  Py_ssize_t at = PyLong_AsSsize_t(index.object());
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (at < 0) at += size;
  if (at < 0 || at >= size) co_await drive.raise();
  if (item_at(recorder, container, static_cast<size_t>(at), false, &item) <= 0) co_await drive.unknown();
  co_return item;
}

Task<Val> item_of(Drive& drive, Arguments args) {
  Val item = co_await get_item(drive, args.values[0], args.values[1], true);
  co_return item;
}

namespace {

// `in` walks through it and compares: sequences, views of values, iterators, classes with __iter__ alone.
bool is_searched(Heap& heap, Val container) {
  PyTypeObject* type = heap.type_of(container);
  if (type->tp_as_sequence == nullptr || type->tp_as_sequence->sq_contains == nullptr) return true;
  return type == &PyDictValues_Type || type->tp_as_sequence->sq_contains == PyList_Type.tp_as_sequence->sq_contains ||
         type->tp_as_sequence->sq_contains == PyTuple_Type.tp_as_sequence->sq_contains ||
         heap.is_virtual(container, VirtualKind::kDeque);
}

// A dict of a class of the program's whose `in` is that of dict.
bool contains_as_dict(Recorder& recorder, PyTypeObject* type) {
  if (type->tp_as_sequence == nullptr || !PyType_HasFeature(type, Py_TPFLAGS_DICT_SUBCLASS)) return false;
  if (type->tp_as_sequence->sq_contains == PyDict_Type.tp_as_sequence->sq_contains) return true;
  return recorder.reads.lookup_type(type, names().contains) == cpython::lookup_type(&PyDict_Type, names().contains);
}

bool has_own_contains(PyTypeObject* type) {
  return type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_contains == cpython::slot_functions().contains;
}

Task<bool> search(Drive& drive, Val container, Val key) {
  const Val iterator = co_await get_iter(drive, container);
  for (;;) {
    const Val item = co_await iter_next(drive, iterator);
    if (item.is_null()) co_return false;
    const bool equal = co_await equals(drive, item, key);
    if (equal) co_return true;
  }
}

// (container, key, the opposite): where the items are compared one by one, the class has a method, or the class of the
// key computes the hash in Python.
Task<Val> look_into(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val container = args.values[0], key = args.values[1];
  bool found = false;
  if (recorder.heap.is_virtual(container, VirtualKind::kSet)) {
    PyObject* object = co_await identity_key(drive, key);
    found = recorder.heap.model(container).keys().holds(object);
  } else if (is_searched(recorder.heap, container) && !has_own_contains(recorder.heap.type_of(container))) {
    found = co_await search(drive, container, key);
  } else {
    Vals more(1, key);
    const Val answer = co_await call_special(drive, container, names().contains, more);
    found = co_await is_true(drive, answer);
  }
  co_return truth_value(found != (args.values[2].object() == Py_True));
}

enum class Membership : int8_t { kUnknown, kOut, kIn, kLookedInto };

Membership membership_of(int found) {
  return found < 0 ? Membership::kUnknown : found > 0 ? Membership::kIn : Membership::kOut;
}

// Of a container that is known. kLookedInto: look_into() finds it. A view of keys becomes what it views.
Membership membership(Recorder& recorder, Val* container, Val key) {
  PyTypeObject* type = recorder.heap.type_of(*container);
  if (type == nullptr || container->is_reg()) return Membership::kUnknown;
  bool viewed = false;
  if (recorder.heap.is_virtual(*container, VirtualKind::kView) && type != &PyDictValues_Type) {
    viewed = true;
    const bool of_keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type || type == &PyDictProxy_Type;
    if (!of_keys) return Membership::kUnknown;  // pairs are compared one by one
    *container = recorder.heap.virtual_field(*container, field::kView::kSource);
    if (recorder.heap.is_virtual(*container, VirtualKind::kView)) return Membership::kUnknown;
    type = recorder.heap.type_of(*container);
  }
  const bool searched = is_searched(recorder.heap, *container);
  PyObject* object = searched ? key.object() : key_in(recorder, *container, key);
  if (!recorder.live()) return Membership::kUnknown;
  Val value;
  const bool set = recorder.heap.is_virtual(*container, VirtualKind::kSet);
  const bool instance = recorder.heap.is_virtual(*container, VirtualKind::kInstance);
  // A dict of a class of the program's is looked into as others are, by its view whatever the class says.
  const bool derived =
      recorder.heap.is_virtual(*container, VirtualKind::kDict) && (viewed || contains_as_dict(recorder, type));
  if (container->is_virtual() && (cpython::is_builtin_dict(type) || derived || set || instance)) {
    if (instance && !contains_as_dict(recorder, type)) return Membership::kLookedInto;
    if (object == nullptr || (!cpython::is_native_key(object) && !touches_tensor(recorder, key)))
      return set ? Membership::kLookedInto : Membership::kUnknown;
    return membership_of(dict_find(recorder.heap, *container, object, &value));
  }
  PyObject* real = container->object();
  if (real != nullptr && PyDict_Check(real) && contains_as_dict(recorder, type))
    return membership_of(object == nullptr ? -1 : find_item(recorder, real, object, &value));
  if (real != nullptr && PyAnySet_CheckExact(real))
    return membership_of(object == nullptr ? -1 : recorder.reads.guarded_set_holds(real, object));
  if (real != nullptr && object != nullptr && type == &PyUnicode_Type)
    return membership_of(PyUnicode_CheckExact(object) ? PyUnicode_Contains(real, object) : -1);
  if (has_own_contains(type)) return Membership::kLookedInto;
  if (object != nullptr && type == &PyRange_Type && cpython::is_scalar(object))
    return membership_of(PySequence_Contains(real, object));
  return searched ? Membership::kLookedInto : Membership::kUnknown;
}

}  // namespace

bool contains(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops, bool invert) {
  container = content_of(recorder, container);
  const Membership found = membership(recorder, &container, key);
  if (found == Membership::kUnknown || !recorder.live()) return false;
  if (found == Membership::kLookedInto) {
    Arguments args;
    args.values = {container, key, truth_value(invert)};
    return drive(recorder, frame, look_into, args, pops) == Invoke::kStarted;
  }
  known(frame, pops, truth_value((found == Membership::kIn) != invert));
  return true;
}

}  // namespace pijit
