// Known methods of dicts and OrderedDicts that write, and copies; the views are in builtins_containers.cpp.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/mirror/filling.h"
#include "record/mirror/restart.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/names.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {

int mapping_find(Recorder& recorder, Val dict, Val key, Val* value) {
  PyObject* object = key_in(recorder, dict, key);
  if (object == nullptr) {  // no container has the address of a scalar
    const Val scalar =
        recorder.heap.is_virtual(key, VirtualKind::kAddress) ? recorder.heap.virtual_field(key, 0) : Val();
    const bool known = !scalar.is_null() && !scalar.is_virtual() && recorder.heap.is_virtual(dict, VirtualKind::kDict);
    return known && are_other_addresses(recorder, dict, scalar) ? 0 : -1;
  }
  if (dict.is_virtual() && (!is_dict_like(recorder.heap, dict) || has_changed(recorder, dict))) return -1;
  if (dict.is_virtual()) return dict_find(recorder.heap, dict, object, value) ? 1 : 0;
  return find_item(recorder, dict.object(), object, value);
}

namespace {

// A dict whose items the recording may write, as dict's own methods do.
bool may_write(Heap& heap, Val dict) {
  if (dict.is_virtual()) return holds_dict(heap.model(dict));
  return dict.is_const() && PyDict_Check(dict.object()) != 0;
}

// dict[key] = value; Null: del dict[key], of a key that is there.
bool write_item(Recorder& recorder, Val dict, PyObject* key, Val value) {
  if (dict.is_const()) return write_dict(recorder, dict.object(), key, value);
  if (value.is_null()) return dict_delete(recorder, dict, key) && recorder.live();
  dict_set(recorder, dict, key, value);
  return recorder.live();
}

Task<Val> dict_pop(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!may_write(recorder.heap, args.values[0])) co_await drive.unknown();
  Val value;
  const int found = mapping_find(recorder, args.values[0], args.values[1], &value);
  if (found < 0) co_await drive.unknown();
  if (found == 0 && args.values.size() == 2) co_await drive.raise();
  if (found == 0) co_return args.values[2];
  if (!write_item(recorder, args.values[0], key_in(recorder, args.values[0], args.values[1]), Val()))
    co_await drive.unknown();
  co_return value;
}

Task<Val> dict_setdefault(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!may_write(recorder.heap, args.values[0])) co_await drive.unknown();
  Val value;
  const int found = mapping_find(recorder, args.values[0], args.values[1], &value);
  if (found < 0) co_await drive.unknown();
  if (found > 0) co_return value;
  value = args.values.size() == 3 ? args.values[2] : none_value();
  if (!write_item(recorder, args.values[0], key_in(recorder, args.values[0], args.values[1]), value))
    co_await drive.unknown();
  co_return value;
}

Task<Val> dict_popitem(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  PyObject* key = nullptr;
  Val value;
  if (!may_write(recorder.heap, args.values[0]) || recorder.heap.type_of(args.values[0]) != &PyDict_Type)
    co_await drive.unknown();
  const int found = entry_at(recorder, args.values[0], 0, true, &key, &value);
  if (found < 0) co_await drive.unknown();
  if (found == 0) co_await drive.raise();
  Val pair[2] = {keep_key(recorder, key), value};
  if (!write_item(recorder, args.values[0], key, Val())) co_await drive.unknown();
  co_return recorder.new_tuple(&PyTuple_Type, pair, 2);
}

// Methods that write several items are called on the real dict: its class has no others.
bool is_written_at_once(Recorder& recorder, Val dict) {
  const bool real = dict.is_const() || is_real(recorder.heap, dict);
  return real && cpython::is_builtin_dict(recorder.heap.type_of(dict));
}

// Several items at once: of a real dict by one node.
bool write_items(Recorder& recorder, Val dict, const Objects& keys, const Vals& values) {
  const bool real = is_written_at_once(recorder, dict);
  if (keys.empty()) return true;
  if (keys.size() == 1 || !real) {
    for (size_t i = 0; i < keys.size(); ++i)
      if (!write_item(recorder, dict, keys[i], values[i])) return false;
    return true;
  }
  Val more = new_dict(recorder);
  for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder, more, keys[i], values[i]);
  if (dict.is_const() && !recorder.reads.touch_dict(dict.object())) return false;
  for (PyObject* key : keys) {
    PyObject* old = nullptr;
    if (dict.is_const() && cpython::dict_lookup(dict.object(), key, &old) < 0) return false;
    if (dict.is_const()) pin_item(recorder, dict.object(), key);
  }
  const Vals args(1, more);
  if (!call_method(recorder, dict, "update", args)) return false;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (dict.is_const()) {
      overlay_set(recorder, dict.object(), keys[i], values[i]);
    } else {
      dict_put(recorder, dict, keys[i], values[i]);
    }
  }
  return true;
}

Task<Val> dict_clear(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Objects keys;
  Vals values;
  const Val dict = args.values[0];
  if (!may_write(recorder.heap, args.values[0]) || !dict_content(recorder, dict, &keys, &values))
    co_await drive.unknown();
  const Vals nothing;
  const bool at_once = is_written_at_once(recorder, dict);
  if (dict.is_const() && at_once) {
    if (!recorder.reads.touch_dict(dict.object()) || !call_method(recorder, dict, "clear", nothing))
      co_await drive.unknown();
    for (size_t i = 0; i < keys.size(); ++i) {
      pin(recorder, values[i]);
      overlay_set(recorder, dict.object(), keys[i], Val());
    }
    co_return none_value();
  }
  if (at_once) {
    if (!call_method(recorder, dict, "clear", nothing)) co_await drive.unknown();
    for (PyObject* key : keys) dict_put(recorder, dict, key, Val());
    co_return none_value();
  }
  for (PyObject* key : keys)
    if (!write_item(recorder, dict, key, Val())) co_await drive.unknown();
  co_return none_value();
}

Task<Val> dict_copy(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Objects keys;
  Vals values;
  PyTypeObject* type = recorder.heap.type_of(args.values[0]);
  if ((type != &PyDict_Type && type != &PyODict_Type) || !dict_content(recorder, args.values[0], &keys, &values))
    co_await drive.unknown();
  Val copy = new_virtual(recorder, VirtualKind::kDict, type);
  for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder, copy, keys[i], values[i]);
  co_return copy;
}

Task<Val> dict_fromkeys(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (args.values[0].object() != reinterpret_cast<PyObject*>(&PyDict_Type)) co_await drive.unknown();
  const Val value = args.values.size() == 3 ? args.values[2] : none_value();
  Val dict = new_dict(recorder);
  const Vals items = co_await collect(drive, args.values[1]);
  for (Val item : items) {
    PyObject* key = key_of(recorder, item);
    if (key == nullptr) co_await drive.unknown();
    dict_set(recorder, dict, key, value);
  }
  co_return dict;
}

// OrderedDict.move_to_end(key, last=True), of a fresh one.
Task<Val> dict_move_to_end(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!recorder.heap.is_virtual(args.values[0], VirtualKind::kDict) || is_real(recorder.heap, args.values[0]))
    co_await drive.unknown();
  bool last = true;
  Val value;
  if (args.values.size() == 3) last = co_await is_true(drive, args.values[2]);
  const int found = mapping_find(recorder, args.values[0], args.values[1], &value);
  if (found < 0) co_await drive.unknown();
  if (found == 0) co_await drive.raise();
  const Model& content = recorder.heap.model(args.values[0]);
  const Objects keys = content.keys();
  const Vals values = content.items;
  const ptrdiff_t at = content.keys().find(key_in(recorder, args.values[0], args.values[1]));
  PyObject* const key = keys[static_cast<size_t>(at)];  // not the one that is only equal to it
  if (last) {
    dict_delete(recorder, args.values[0], key);
    dict_set(recorder, args.values[0], key, value);
    co_return none_value();
  }
  for (PyObject* other : keys) dict_delete(recorder, args.values[0], other);
  dict_set(recorder, args.values[0], key, value);
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] != key) dict_set(recorder, args.values[0], keys[i], values[i]);
  co_return none_value();
}

}  // namespace

Task<Val> dict_setitem(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!may_write(recorder.heap, args.values[0])) co_await drive.unknown();
  PyObject* key = key_in(recorder, args.values[0], args.values[1]);
  if (key == nullptr || !write_item(recorder, args.values[0], key, args.values[2])) co_await drive.unknown();
  co_return none_value();
}

Task<Val> dict_delitem(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!may_write(recorder.heap, args.values[0])) co_await drive.unknown();
  Val value;
  const int found = mapping_find(recorder, args.values[0], args.values[1], &value);
  if (found < 0) co_await drive.unknown();
  if (found == 0) co_await drive.raise();
  if (!write_item(recorder, args.values[0], key_in(recorder, args.values[0], args.values[1]), Val()))
    co_await drive.unknown();
  co_return none_value();
}

// The two values of a pair: OrderedDict draws no more than three of an iterator.
static Task<Vals> pair_of(Drive& drive, Val dict, Val pair) {
  Recorder& recorder = drive.recorder();
  const PyTypeObject* type = recorder.heap.type_of(dict);
  const bool ordered = type != nullptr && PyType_IsSubtype(const_cast<PyTypeObject*>(type), &PyODict_Type) != 0;
  if (ordered && is_drawn(recorder.heap, pair)) co_await drive.unknown();
  const Vals fields = co_await collect(drive, pair);
  if (fields.size() != 2) co_await drive.unknown();
  co_return fields;
}

// dict.update(pairs, **more): each pair is in the dict before the next one is drawn.
static Task<bool> update_with_pairs(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val dict = args.values[0];
  Filling filling(drive, dict, Val(), "update");
  Restart restart(drive, args.values[1]);
  const Val iterator = co_await get_iter(drive, args.values[1]);
  restart.draws_from(iterator);
  for (;;) {
    if (filling.waits()) restart.give_up();
    const Val pair = co_await iter_next(drive, restart.ask());
    restart.answered();
    if (pair.is_null()) break;
    const Vals fields = co_await pair_of(drive, dict, pair);
    PyObject* key = key_of(recorder, fields[0]);
    if (key == nullptr || !filling.put(key, fields[1])) co_await drive.unknown();
  }
  for (size_t i = 0; i < args.names.size(); ++i)
    if (!filling.put(args.names[i], args.values[args.positional() + i])) co_await drive.unknown();
  if (!filling.flush()) co_await drive.unknown();
  co_return true;
}

// (dict, mapping): as PyDict_Update takes over what another mapping has: each key that keys() gives, with its item.
Task<Val> merge_mapping(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  static PyObject* const name = PyUnicode_InternFromString("keys");
  const Val dict = args.values[0], mapping = args.values[1];
  if (!dict.is_virtual()) co_await drive.unknown();
  const Val method = co_await call_two(drive, Val::constant(getattr_function()), mapping, Val::constant(name));
  const Arguments nothing;
  const Val given = co_await call(drive, method, nothing);
  const Val iterator = co_await get_iter(drive, given);
  const Vals items = co_await collect_all(drive, iterator, false);
  Filling filling(drive, dict, Val(), "update");
  for (const Val item : items) {
    const Val value = co_await get_item(drive, mapping, item);
    PyObject* key = key_of(recorder, item);
    if (key == nullptr || !filling.put(key, value)) co_await drive.unknown();
  }
  if (!filling.flush()) co_await drive.unknown();
  co_return none_value();
}

// dict.update(other=(), **more): of a mapping, or of pairs.
Task<Val> dict_update(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!may_write(recorder.heap, args.values[0])) co_await drive.unknown();
  Objects keys;
  Vals values;
  if (args.positional() == 2) {
    const Val other = args.values[1];
    const bool view =
        recorder.heap.is_virtual(other, VirtualKind::kView) && recorder.heap.type_of(other) != &PyDictProxy_Type;
    if (!view && merge_content(recorder, other, &keys, &values)) {
      // A mapping whose items are known.
    } else if (recorder.live() && recorder.heap.type_of(args.values[0]) == &PyDict_Type && args.names.empty() &&
               (is_dict_like(recorder.heap, other) || has_keys(recorder, other))) {
      co_await merge_mapping(drive, args);
      co_return none_value();
    } else if (!recorder.live() || is_dict_like(recorder.heap, other) || may_be_mapping(recorder, other)) {
      co_await drive.unknown();
    } else {
      co_await update_with_pairs(drive, args);
      co_return none_value();
    }
  }
  keys.insert(keys.end(), args.names.begin(), args.names.end());
  values.insert(values.end(), args.values.begin() + static_cast<ptrdiff_t>(args.positional()), args.values.end());
  if (!write_items(recorder, args.values[0], keys, values)) co_await drive.unknown();
  co_return none_value();
}

// A method of dict that writes, called on a dict that keeps an order of its own, puts the two out of step.
template <Driven kMethod>
static Task<Val> of_plain_dict(Drive& drive, Arguments args) {
  PyTypeObject* type = drive.recorder().heap.type_of(args.values[0]);
  if (type != nullptr && PyType_IsSubtype(type, &PyODict_Type) != 0) co_await drive.unknown();
  Val result = co_await kMethod(drive, args);
  co_return result;
}

namespace {

constexpr KnownCallable kDictRows[] = {
    {"builtins", "dict.pop", of_plain_dict<dict_pop>, 2, 3},
    {"builtins", "dict.setdefault", of_plain_dict<dict_setdefault>, 2, 3},
    {"builtins", "dict.popitem", of_plain_dict<dict_popitem>, 1, 1},
    {"builtins", "dict.update dict.__init__", of_plain_dict<dict_update>, 1, 2, kOptions},
    {"builtins", "dict.clear", of_plain_dict<dict_clear>, 1, 1},
    {"builtins", "dict.copy", dict_copy, 1, 1},
    {"builtins", "dict.__getitem__", dict_getitem, 2, 2},
    {"builtins", "dict.__setitem__", of_plain_dict<dict_setitem>, 3, 3},
    {"builtins", "dict.__delitem__", of_plain_dict<dict_delitem>, 2, 2},
    {"builtins", "dict.fromkeys", dict_fromkeys, 2, 3},
    {"collections", "OrderedDict.pop", dict_pop, 2, 3},
    {"collections", "OrderedDict.setdefault", dict_setdefault, 2, 3},
    {"collections", "OrderedDict.popitem", dict_popitem, 1, 1},
    {"collections", "OrderedDict.update", dict_update, 1, 2, kOptions},
    {"collections", "OrderedDict.clear", dict_clear, 1, 1},
    {"collections", "OrderedDict.copy", dict_copy, 1, 1},
    {"collections", "OrderedDict.__setitem__", dict_setitem, 3, 3},
    {"collections", "OrderedDict.__delitem__", dict_delitem, 2, 2},
    {"collections", "OrderedDict.move_to_end", dict_move_to_end, 2, 3, kNamed},
};

}  // namespace

constinit const KnownCalls kDictCalls = kDictRows;

}  // namespace pijit
