// What known containers hold: items of sequences, keys and values of dicts, fields of slices.
#include <algorithm>

#include "cpython/keys.h"
#include "record/state/contents.h"

#include "record/state/instances.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {

bool holds_dict(const Model& content) {
  return content.kind == VirtualKind::kDict ||
         (content.kind == VirtualKind::kInstance && PyType_IsSubtype(content.type, &PyDict_Type));
}

// Of a __dict__: those of the object whose it is. Null: it is none.
const family::Attributes* attributes_of(Heap& heap, const Model& dict) {
  return dict.owner() == kNone ? nullptr : &heap.model(dict.owner()).attributes();
}

namespace {

bool is_exhausted(const Model& iterator) {
  return iterator.get<family::Iterator>().position == kExhausted;
}

// The order of a set is its hash table's: that of the set itself, if it was made of scalars by this trace alone.
bool set_items_in_order(ReadSet& reads, const Model& set, Vals* out) {
  if (set.real == nullptr || !set.get<family::Written>().home.is_null() || !PyAnySet_CheckExact(set.real) ||
      PySet_GET_SIZE(set.real) != static_cast<Py_ssize_t>(set.keys().size()))
    return false;
  Py_ssize_t position = 0;
  PyObject* item;
  while (cpython::next_set_item(set.real, &position, &item)) {
    if (!cpython::is_scalar(item) || !set.keys().holds(item)) return false;
    out->push_back(reads.owned(item));
  }
  return true;
}

// Items of dict.keys(), .values(), .items() of a known dict.
bool view_items(Recorder& recorder, const Model& view, Vals* out) {
  PyTypeObject* type = view.type;
  Val dict = view.items[0];
  bool keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type,
       values = type == &PyDictValues_Type || type == &PyODictValues_Type;
  bool pairs = type == &PyDictItems_Type || type == &PyODictItems_Type;
  if (!keys && !values && !pairs) return false;
  Objects names;
  Vals contents;
  if (!dict_content(recorder, dict, &names, &contents)) return false;
  for (size_t i = 0; i < names.size(); ++i) {
    Val key = keep_key(recorder, names[i]);
    if (keys) {
      out->push_back(key);
    } else if (values) {
      out->push_back(contents[i]);
    } else {
      Val pair[2] = {key, contents[i]};
      out->push_back(recorder.new_tuple(&PyTuple_Type, pair, 2));
    }
  }
  return true;
}

// A dict that gives its keys as dicts do.
bool gives_keys(const PyTypeObject* type) {
  return PyType_HasFeature(const_cast<PyTypeObject*>(type), Py_TPFLAGS_DICT_SUBCLASS) &&
         (type->tp_iter == PyDict_Type.tp_iter || type->tp_iter == PyODict_Type.tp_iter);
}

// A list that does as lists do with its items.
bool is_plain_list(Recorder& recorder, PyObject* object) {
  if (!cpython::is_plain_list(Py_TYPE(object))) return false;
  recorder.reads.guard_type_version(Py_TYPE(object));
  return recorder.live();
}

// What iterating over an object gives that existed before.
bool items_of_found(Recorder& recorder, PyObject* object, Vals* out) {
  if (PyTuple_Check(object) && Py_TYPE(object)->tp_iter == PyTuple_Type.tp_iter) {
    if (!is_plain_const(object) && !recorder.reads.guard_parts(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      out->push_back(constant(recorder, PyTuple_GET_ITEM(object, i)));
    return true;
  }
  if (is_plain_list(recorder, object)) {
    if (!recorder.reads.guard_list(object)) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i)
      out->push_back(constant(recorder, PyList_GET_ITEM(object, i)));
    return true;
  }
  if (gives_keys(Py_TYPE(object))) {
    bool by_item;
    if (!read_keys(recorder, object, &by_item)) return false;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) out->push_back(constant(recorder, key));
    return true;
  }
  if (PyFrozenSet_CheckExact(object)) {
    recorder.trace().of_this_process |= PySet_GET_SIZE(object) > 1;
    Py_ssize_t position = 0;
    PyObject* item;
    while (cpython::next_set_item(object, &position, &item)) out->push_back(constant(recorder, item));
    return true;
  }
  if (PyRange_Check(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) {
    Py_ssize_t length = PyObject_Length(object);
    if (length < 0 || length > 100000) {
      PyErr_Clear();
      return false;
    }
    for (Py_ssize_t i = 0; i < length; ++i) {
      out->push_back(recorder.reads.owned(Ref::steal(cpython::new_item(object, i)).get()));
    }
    return true;
  }
  return false;
}

}  // namespace

// The items that iterating over a known container gives, in order.
bool try_items(Recorder& recorder, Val iterable, Vals* out) {
  iterable = content_of(recorder, iterable);
  if (!iterable.is_virtual()) return iterable.object() != nullptr && items_of_found(recorder, iterable.object(), out);
  Model& content = recorder.heap.model(iterable);
  switch (content.kind) {
    case VirtualKind::kTuple:
    case VirtualKind::kList:
    case VirtualKind::kDeque:
      *out = content.items;
      return true;
    case VirtualKind::kInstance:
    case VirtualKind::kDict:
      if (!gives_keys(content.type)) return false;
      if (const family::Attributes* attributes = attributes_of(recorder.heap, content)) {
        if (attributes->any_order) return false;
        for (PyObject* name : attributes->names) out->push_back(keep_key(recorder, name));
        return true;
      }
      [[fallthrough]];
    case VirtualKind::kSet:
      if (content.kind == VirtualKind::kSet && content.keys().size() > 1)
        return recorder.trace().of_this_process = true, set_items_in_order(recorder.reads, content, out);
      for (PyObject* key : content.keys()) out->push_back(keep_key(recorder, key));
      return true;
    case VirtualKind::kIterator:
      if (is_exhausted(content) && content.type != deque_iterator_type()) return true;
      if (recorder.heap.is_stale(iterable.index(), recorder.trace().clock) || !has_first_size(recorder, content))
        return false;
      if (!try_items(recorder, content.items[0], out)) return false;
      if (content.type == &PyListRevIter_Type) {
        const auto size = static_cast<Py_ssize_t>(out->size()), next = next_reversed(content);
        out->resize(next < size ? static_cast<size_t>(next + 1) : 0);
        std::reverse(out->begin(), out->end());
        return true;
      }
      if (is_reversed(content)) std::reverse(out->begin(), out->end());
      out->erase(out->begin(), out->begin() + std::min<ptrdiff_t>(content.get<family::Iterator>().position,
                                                                  static_cast<ptrdiff_t>(out->size())));
      return true;
    case VirtualKind::kView:
      return view_items(recorder, content, out);
    default:
      return false;
  }
}

namespace {

// What a dict that existed before holds under one of its keys, which are guarded. False: it is not known.
bool read_entry(Recorder& recorder, PyObject* dict, bool by_item, PyObject* key, PyObject* content, Val* value) {
  if (overlay_find(recorder, dict, key, value)) return recorder.live();
  meet_key(recorder, key);
  if (by_item) return find_item(recorder, dict, key, value) > 0 && recorder.live();
  *value = constant(recorder, content);
  return true;
}

}  // namespace

// Key and value number `position` of a dict shadow, in order: 1, 0 behind the last, -1 not known.
int entry_at(Recorder& recorder, Val dict, size_t position, bool reversed, PyObject** key, Val* value) {
  if (dict.is_virtual()) {
    const Model& content = recorder.heap.model(dict);
    if (content.kind == VirtualKind::kView) return entry_at(recorder, content.items[0], position, reversed, key, value);
    const family::Attributes* attributes = attributes_of(recorder.heap, content);
    if (attributes == nullptr && (!holds_dict(content) || has_changed(recorder, dict))) return -1;
    if (attributes != nullptr && attributes->any_order) return -1;
    const auto& keys = attributes != nullptr ? attributes->names : content.keys();
    const auto& values = attributes != nullptr ? attributes->values : content.items;
    if (position >= keys.size()) return 0;
    const size_t at = reversed ? keys.size() - 1 - position : position;
    *key = keys[at];
    *value = values[at];
    return 1;
  }
  PyObject* object = dict.object();
  bool by_item;
  if (object == nullptr || !PyDict_Check(object) || !read_keys(recorder, object, &by_item)) return -1;
  const auto size = static_cast<size_t>(PyDict_GET_SIZE(object));
  if (position >= size) return 0;
  PyObject* content = nullptr;
  cpython::dict_entry(object, static_cast<Py_ssize_t>(reversed ? size - 1 - position : position), key, &content);
  if (!cpython::is_native_key(*key)) return -1;
  return read_entry(recorder, object, by_item, *key, content, value) ? 1 : -1;
}

namespace {

// The same of what iterating over a dict or a view of it gives.
int dict_item_at(Recorder& recorder, Val source, size_t position, bool reversed, Val* item) {
  const bool view = recorder.heap.is_virtual(source, VirtualKind::kView);
  PyTypeObject* type = view ? recorder.heap.model(source).type : &PyDictKeys_Type;
  const bool keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type;
  const bool pairs = type == &PyDictItems_Type || type == &PyODictItems_Type;
  if (!keys && !pairs && type != &PyDictValues_Type && type != &PyODictValues_Type) return -1;
  PyObject* key;
  Val value;
  const int more = entry_at(recorder, source, position, reversed, &key, &value);
  if (more <= 0) return more;
  if (keys) {
    *item = keep_key(recorder, key);
  } else if (pairs) {
    const Val pair[2] = {keep_key(recorder, key), value};
    *item = recorder.new_tuple(&PyTuple_Type, pair, 2);
  } else {
    *item = value;
  }
  return 1;
}

}  // namespace

// How many items a known sequence has; -1: not known.
Py_ssize_t count_items(Recorder& recorder, Val sequence) {
  sequence = content_of(recorder, sequence);
  if (sequence.is_virtual()) {
    const Model& content = recorder.heap.model(sequence);
    const bool known = content.kind == VirtualKind::kTuple || content.kind == VirtualKind::kList ||
                       content.kind == VirtualKind::kDeque;
    return known ? static_cast<Py_ssize_t>(content.items.size()) : -1;
  }
  PyObject* object = sequence.object();
  if (object == nullptr) return -1;
  if (PyTuple_Check(object) && Py_TYPE(object)->tp_iter == PyTuple_Type.tp_iter)
    return is_plain_const(object) || recorder.reads.guard_parts(object) ? PyTuple_GET_SIZE(object) : -1;
  if (is_plain_list(recorder, object))
    return recorder.reads.guard_list(object, ReadSet::kSize) ? PyList_GET_SIZE(object) : -1;
  if (!PyRange_Check(object) && !PyUnicode_CheckExact(object) && !PyBytes_CheckExact(object)) return -1;
  const Py_ssize_t size = PyObject_Length(object);
  if (size < 0) PyErr_Clear();
  return size;
}

Py_ssize_t iterated_size(Recorder& recorder, Val source) {
  source = content_of(recorder, source);
  if (source.is_virtual()) {
    const Model& content = recorder.heap.model(source);
    switch (content.kind) {
      case VirtualKind::kView:
        return iterated_size(recorder, content.items[0]);
      case VirtualKind::kDict:
        if (const auto* attributes = attributes_of(recorder.heap, content))
          return static_cast<Py_ssize_t>(attributes->names.size());
        [[fallthrough]];
      case VirtualKind::kInstance:
      case VirtualKind::kSet:
        return static_cast<Py_ssize_t>(content.keys().size());
      case VirtualKind::kDeque:
        return static_cast<Py_ssize_t>(content.items.size());
      default:
        return -1;
    }
  }
  PyObject* object = source.object();
  if (object == nullptr) return -1;
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  return PySet_Check(object) ? PySet_GET_SIZE(object) : -1;
}

// Its source has the size that it had when the iterator was made.
bool has_first_size(Recorder& recorder, const Model& iterator) {
  if (iterator.items.size() <= 2 || is_exhausted(iterator)) return true;
  const Py_ssize_t size = iterated_size(recorder, iterator.items[0]);
  return size < 0 || size == PyLong_AsSsize_t(iterator.items[2].object());
}

// The item number `position` (from the end, if reversed) of a known container, without a look at the others: 1 and
// *item, 0 behind the last, -1 not known.
int item_at(Recorder& recorder, Val source, size_t position, bool reversed, Val* item) {
  source = content_of(recorder, source);
  const auto place = [&](size_t size) { return reversed ? size - 1 - position : position; };
  const auto among = [&](const Vals& items) {
    if (position >= items.size()) return 0;
    *item = items[place(items.size())];
    return 1;
  };
  if (source.is_virtual()) {
    const Model& content = recorder.heap.model(source);
    if (content.kind == VirtualKind::kTuple || content.kind == VirtualKind::kList ||
        content.kind == VirtualKind::kDeque)
      return among(content.items);
    if (content.kind == VirtualKind::kView || content.kind == VirtualKind::kDict || gives_keys(content.type))
      return dict_item_at(recorder, source, position, reversed, item);
  }
  PyObject* object = source.object();
  const bool tuple = object != nullptr && PyTuple_Check(object) && Py_TYPE(object)->tp_iter == PyTuple_Type.tp_iter;
  if (tuple || (object != nullptr && is_plain_list(recorder, object))) {
    const auto size = static_cast<size_t>(PySequence_Fast_GET_SIZE(object));
    const Py_ssize_t at = position < size ? static_cast<Py_ssize_t>(place(size)) : ReadSet::kSize;
    if (tuple ? !is_plain_const(object) && !recorder.reads.guard_parts(object) : !recorder.reads.guard_list(object, at))
      return -1;
    if (position >= size) return 0;
    *item = constant(recorder, PySequence_Fast_GET_ITEM(object, at));
    return 1;
  }
  if (object != nullptr && (PyRange_Check(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object))) {
    const Py_ssize_t size = PyObject_Length(object);
    if (size < 0) return PyErr_Clear(), -1;
    if (position >= static_cast<size_t>(size)) return 0;
    const auto at = static_cast<Py_ssize_t>(place(static_cast<size_t>(size)));
    *item = recorder.reads.owned(Ref::steal(cpython::new_item(object, at)).get());
    return 1;
  }
  if (object != nullptr && gives_keys(Py_TYPE(object))) return dict_item_at(recorder, source, position, reversed, item);
  Vals items;
  return try_items(recorder, source, &items) ? among(items) : -1;
}

// Keys and values of a dict shadow, in order.
bool dict_content(Recorder& recorder, Val dict, Objects* keys, Vals* values) {
  if (dict.is_virtual()) {
    Model& content = recorder.heap.model(dict);
    if (content.kind == VirtualKind::kView) return dict_content(recorder, content.items[0], keys, values);
    if (const auto* attributes = attributes_of(recorder.heap, content)) {
      if (attributes->any_order) return false;
      *keys = attributes->names;
      *values = attributes->values;
      return true;
    }
    if (!holds_dict(content) || has_changed(recorder, dict)) return false;
    *keys = content.keys();
    *values = content.items;
    return true;
  }
  PyObject* object = dict.object();
  bool by_item;
  if (object == nullptr || !PyDict_Check(object) || !read_keys(recorder, object, &by_item)) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(object, &position, &key, &value)) {
    if (!cpython::is_native_key(key)) return false;
    keys->push_back(key);
    values->emplace_back();
    if (!read_entry(recorder, object, by_item, key, value, &values->back())) return false;
  }
  return true;
}

// What another dict takes over of a mapping: if its class iterates in its own way, what its keys() says.
bool merge_content(Recorder& recorder, Val mapping, Objects* keys, Vals* values) {
  const PyTypeObject* type = recorder.heap.type_of(mapping);
  const bool direct =
      type != nullptr && (type->tp_iter == PyDict_Type.tp_iter || type == &PyODict_Type || type == &PyDictProxy_Type);
  return direct && dict_content(recorder, mapping, keys, values);
}

namespace {

// A list that existed before, and has another number of items in each call: an operator that takes all of them, as
// torch.stack does of a history, is an opaque call. Else each number of items would be a trace.
bool grows(const Recorder& recorder, Val sequence) {
  if (recorder.varying() == nullptr) return false;
  PyObject* list = sequence.object();
  if (sequence.is_virtual() && recorder.trace().virtuals[sequence.index()].is_real(0))
    list = recorder.heap.real(sequence);
  return list != nullptr && PyList_CheckExact(list) && recorder.varying()->has(list, Varying::sizes());
}

}  // namespace

bool Recorder::sequence_items(Operand sequence, std::vector<Operand>* items) {
  Vals values;
  PyTypeObject* type = heap.type_of(sequence.value);
  if (type == nullptr || !(PyType_IsSubtype(type, &PyTuple_Type) || PyType_IsSubtype(type, &PyList_Type))) return false;
  if (grows(*this, sequence.value) || !try_items(*this, sequence.value, &values)) return false;
  for (Val value : values) items->push_back({value, heap.real(value)});
  return true;
}

bool Recorder::slice_fields(Operand slice, Operand fields[3]) {
  if (heap.is_virtual(slice.value, VirtualKind::kSlice)) {
    for (size_t i = 0; i < 3; ++i) {
      Val value = heap.virtual_field(slice.value, i);
      fields[i] = {value, heap.real(value)};
    }
    return true;
  }
  PyObject* object = slice.value.object();
  if (object == nullptr || !PySlice_Check(object) || !reads.guard_parts(object)) return false;
  auto* content = reinterpret_cast<PySliceObject*>(object);
  PyObject* parts[3] = {content->start, content->stop, content->step};
  for (size_t i = 0; i < 3; ++i) fields[i] = {constant(*this, parts[i]), parts[i]};
  return true;
}

bool slice_bounds(Recorder& recorder, const Operand fields[3], Py_ssize_t bounds[3]) {
  Val parts[3];
  for (int i = 0; i < 3; ++i) {
    parts[i] = force(recorder, fields[i].value);
    PyObject* part = parts[i].object();
    if (part == nullptr || (part != Py_None && !PyLong_Check(part))) return false;  // __index__ is the program's
  }
  const Ref slice = Ref::steal(PySlice_New(parts[0].object(), parts[1].object(), parts[2].object()));
  if (slice && PySlice_Unpack(slice.get(), &bounds[0], &bounds[1], &bounds[2]) == 0) return true;
  PyErr_Clear();
  return false;
}

bool is_reversed(const Model& iterator) {
  return iterator.items.size() > 1 && iterator.items[1].object() == Py_True;
}

Py_ssize_t next_reversed(const Model& iterator) {
  return PyLong_AsSsize_t(iterator.items[2].object()) - 1 -
         static_cast<Py_ssize_t>(iterator.get<family::Iterator>().position);
}

}  // namespace pijit
