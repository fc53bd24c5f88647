// Containers on shadows: building, items, membership, iteration.
#include "cpython/keys.h"
#include "record/mirror/builtins.h"
#include "record/step/step.h"

namespace pijit {

void take_sequence(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  const Vals& items = frame.collected;
  frame.pending.result = PyList_Check(result)
                             ? recorder.new_sequence(VirtualKind::kList, Py_TYPE(result), items.data(), items.size())
                             : recorder.new_tuple(Py_TYPE(result), items.data(), items.size());
}

namespace {

void build_map(Recorder& recorder, ShadowFrame& frame, int count, PyObject* names) {
  Val dict = recorder.new_dict();
  int pops = names != nullptr ? count + 1 : 2 * count;
  for (int i = 0; i < count; ++i) {
    Val key = names != nullptr ? recorder.constant(PyTuple_GET_ITEM(names, i)) : frame.top(2 * (count - i));
    Val value = names != nullptr ? frame.top(count + 1 - i) : frame.top(2 * (count - i) - 1);
    PyObject* object = recorder.key_in(dict, key);
    if (object == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a dict key") : void();
    recorder.dict_set(dict, object, value);
  }
  recorder.known(frame, pops, dict);
}

void build_string(Recorder& recorder, ShadowFrame& frame, int count) {
  Vals pieces;
  bool varies = false;
  for (int i = count; i >= 1; --i) {
    const Val piece = frame.top(i);
    varies = varies || recorder.is_scalar_reg(piece);
    if (piece.object() == nullptr && !recorder.is_scalar_reg(piece))
      return recorder.stop(Abort::kUnknownOperand, "a formatted result");
    pieces.push_back(piece);
  }
  if (!varies) return recorder.observe(frame, count, take_owned);
  const Val all = recorder.new_tuple(&PyTuple_Type, pieces.data(), pieces.size());
  recorder.compute(frame, string_function(-1), {all}, count);
}

// A scalar that differs from call to call is formatted at replay.
bool format_varying(Recorder& recorder, ShadowFrame& frame, int conversion, bool with_spec) {
  const int pops = with_spec ? 2 : 1;
  const Val value = frame.top(pops);
  if (!recorder.is_scalar_reg(value) || (conversion != 0 && with_spec)) return false;
  Vals args = {value};
  if (with_spec) args.push_back(frame.top());
  recorder.compute(frame, string_function(conversion), args, pops);
  return true;
}

// Adds the items of an iterable to a list or set that the instruction made.
Task<Val> extend(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val target = args.values[0];
  const bool set = recorder.model(target).kind == VirtualKind::kSet;
  if (set) {
    args.values[0] = target;
    co_await set_update(drive, args);
    co_return Val::constant(Py_None);
  }
  const Vals items = co_await collect_all(drive, args.values[1]);
  for (Val item : items) {
    recorder.model(target).items.push_back(item);
    recorder.log(target, LogOp::kItem, Val(), item);
  }
  co_return Val::constant(Py_None);
}

void start_extend(Recorder& recorder, ShadowFrame& frame, Val target) {
  Arguments args;
  args.values = {target, frame.top()};
  if (!target.is_virtual()) return recorder.stop(Abort::kUnknownOperand, "extending an unknown container");
  if (drive(recorder, frame, extend, args, 1, Completion::kDrop) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "extending from an unknown iterable");
}

void update(Recorder& recorder, ShadowFrame& frame, Val target, Val source) {
  Objects keys;
  Vals values;
  if (!target.is_virtual() || !recorder.merge_content(source, &keys, &values)) {
    if (recorder.live()) recorder.stop(Abort::kUnknownOperand, "merging an unknown mapping");
    return;
  }
  for (size_t i = 0; i < keys.size(); ++i) recorder.dict_set(target, keys[i], values[i]);
  frame.sp -= 1;
}

bool index_of(Recorder& recorder, Val key, Py_ssize_t size, Py_ssize_t* index) {
  if (key.is_reg() && !recorder.touches_tensor(key)) key = recorder.force(key);
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

bool sequence_subscript(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  Py_ssize_t index = 0;
  const Py_ssize_t size = recorder.count_items(container);
  if (size < 0) return false;
  Operand fields[3];
  if (recorder.slice_fields({key, recorder.real(key)}, fields)) {
    Vals items;
    if (!recorder.try_items(container, &items)) return false;
    Py_ssize_t bounds[3];
    if (!recorder.slice_bounds(fields, bounds)) return false;
    auto& [start, stop, step] = bounds;
    Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
    if (recorder.type_of(container) == &PyTuple_Type && start == 0 && step == 1 && count == size)
      return recorder.known(frame, pops, container), true;
    Vals part;
    for (Py_ssize_t i = 0; i < count; ++i) part.push_back(items[static_cast<size_t>(start + i * step)]);
    frame.collected = part;
    recorder.observe(frame, pops, take_sequence);
    return true;
  }
  if (!index_of(recorder, key, size, &index)) return false;
  if (index < 0 || index >= size) return recorder.will_raise(frame, pops), true;
  Val item;
  if (recorder.item_at(container, static_cast<size_t>(index), false, &item) <= 0) return false;
  recorder.known(frame, pops, item);
  return true;
}

bool dict_subscript(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  PyObject* object = recorder.key_in(container, key);
  if (object == nullptr) return false;
  Val value;
  if (container.is_virtual()) {
    if (!cpython::is_native_key(object) || recorder.has_changed(container)) return false;
    if (!recorder.dict_find(container, object, &value)) return recorder.will_raise(frame, pops), true;
  } else {
    const int found = recorder.find_item(container.object(), object, &value);
    if (found < 0) return false;
    if (found == 0) return recorder.will_raise(frame, pops), true;
  }
  if (recorder.live()) recorder.known(frame, pops, value);
  return true;
}

bool is_builtin_dict(PyTypeObject* type) {
  return type == &PyDict_Type || type == &PyODict_Type || type == default_dict_type();
}

// A constant index, or a slice of such.
bool is_plain_key(Recorder& recorder, Val key) {
  Operand fields[3];
  if (!recorder.slice_fields({key, recorder.real(key)}, fields))
    return key.object() != nullptr && cpython::is_scalar(key.object());
  for (const Operand& field : fields)
    if (field.value.object() == nullptr || !cpython::is_scalar(field.value.object())) return false;
  return true;
}

// What writes or deletes an item of a built-in container; null: a class's own method, or not known.
Driven item_writer(Recorder& recorder, Val container, bool store) {
  PyTypeObject* type = recorder.type_of(container);
  if (type == nullptr || container.is_reg()) return nullptr;
  if (type == &PyList_Type) return store ? list_setitem : list_delitem;
  if (!is_dict_like(recorder, container)) return nullptr;
  PyObject* name = store ? names().setitem : names().delitem;
  const bool own =
      !is_builtin_dict(type) && recorder.lookup_type(type, name) != cpython::lookup_type(&PyDict_Type, name);
  return own ? nullptr : store ? dict_setitem : dict_delitem;
}

}  // namespace

// A method that the class defines in Python for an operator slot.
Invoke invoke_special(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name,
                      std::initializer_list<Val> more, Then then, int pops) {
  PyTypeObject* type = recorder.type_of(object);
  if (type == nullptr || object.is_reg()) return Invoke::kUnknown;
  PyObject* dict = nullptr;
  if (object.is_const() && !recorder.guard_instance(object.object(), &dict)) return Invoke::kUnknown;
  PyObject* method = recorder.lookup_type(type, name);
  if (!recorder.live()) return Invoke::kStopped;
  if (method == nullptr || Py_TYPE(method) != &PyFunction_Type) return Invoke::kUnknown;
  Arguments args;
  args.values.push_back(object);
  args.values.insert(args.values.end(), more.begin(), more.end());
  return recorder.invoke_function(frame, Val::constant(method), args, then, pops);
}

namespace {

// cls[key] of a plain class: its __class_getitem__, if that is a class method in Python.
Invoke class_subscript(Recorder& recorder, ShadowFrame& frame, Val cls, Val key, int pops) {
  PyObject* method = nullptr;
  if (cls.object() != nullptr)
    method = recorder.lookup_type(reinterpret_cast<PyTypeObject*>(cls.object()), names().class_getitem);
  if (!recorder.live()) return Invoke::kStopped;
  PyObject* function = nullptr;
  if (method != nullptr && Py_TYPE(method) == &PyClassMethod_Type) function = classmethod_callable(method);
  if (function == nullptr || Py_TYPE(function) != &PyFunction_Type)
    return generic_alias(recorder, frame, cls, key, pops);
  Arguments args;
  args.values = {cls, key};
  return recorder.invoke_function(frame, Val::constant(function), args, Then::kPush, pops);
}

}  // namespace

bool subscript(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  PyTypeObject* type = recorder.type_of(container);
  if (type == nullptr || container.is_reg()) return false;
  if (key.is_reg() && !recorder.touches_tensor(key)) {
    Val forced = recorder.force(key);
    if (!forced.is_null()) key = forced;
  }
  if (is_builtin_dict(type) && type != default_dict_type())
    return dict_subscript(recorder, frame, container, key, pops);
  bool own = type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript;
  if (type == &PyList_Type || (PyType_IsSubtype(type, &PyTuple_Type) && !own))
    return sequence_subscript(recorder, frame, container, key, pops);
  if (recorder.is_virtual(container, VirtualKind::kView) && type == &PyDictProxy_Type)
    return dict_subscript(recorder, frame, recorder.virtual_field(container, 0), key, pops);
  if (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript)
    return invoke_special(recorder, frame, container, names().getitem, {key}, Then::kPush, pops) == Invoke::kStarted;
  if (type == &PyType_Type) return class_subscript(recorder, frame, container, key, pops) == Invoke::kStarted;
  const bool plain = type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type;
  if (plain && container.is_const() && is_plain_key(recorder, key)) {
    recorder.observe(frame, pops, take_owned);
    frame.pending.folds = true;
    return true;
  }
  return false;
}

namespace {

// Subclasses of dict have the slot of a method in Python, and in it the method of dict.
bool inherits_getitem(Recorder& recorder, Val container, PyTypeObject* type) {
  return is_dict_like(recorder, container) && recorder.lookup_type(type, names().getitem) ==
                                                  PyDict_GetItem(cpython::type_dict(&PyDict_Type), names().getitem);
}

// dict[key] of a dict that existed before, where the class of the key computes the hash in Python.
Task<Val> get_item_hashed(Drive& drive, Val dict, Val key) {
  Recorder& recorder = drive.recorder();
  PyObject *object = nullptr, *value = nullptr;
  const Py_hash_t hash = co_await hash_in_python(drive, key, &object);
  if (!recorder.reads().read_same(dict.object(), object, hash, &value)) co_await drive.unknown();
  co_return recorder.constant(value);
}

// What a subclass of dict gives for a key that is not there.
Task<Val> missing_item(Drive& drive, Val container, Val key) {
  Recorder& recorder = drive.recorder();
  Vals more(1, key);
  Val value;
  if (recorder.type_of(container) != default_dict_type()) {
    value = co_await call_special(drive, container, names().missing, more);
    co_return value;
  }
  PyObject* method = cpython::lookup_type(default_dict_type(), names().missing);
  value = co_await call_two(drive, Val::constant(method), container, key);
  co_return value;
}

// key in set, of a set that the trace made, where the class of the key computes the hash in Python.
Task<Val> contains_hashed(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val set = recorder.content_of(args.values[0]);
  PyObject* key = co_await identity_key(drive, args.values[1]);
  const bool found = recorder.model(set).keys.holds(key);
  co_return Val::constant(found != (args.values[2].object() == Py_True) ? Py_True : Py_False);
}

}  // namespace

// container[key] inside C code.
Task<Val> get_item(Drive& drive, Val container, Val key) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = recorder.type_of(container);
  if (type == nullptr || container.is_reg()) co_await drive.unknown();
  if (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript &&
      !inherits_getitem(recorder, container, type)) {
    Vals more(1, key);
    Val result = co_await call_special(drive, container, names().getitem, more);
    co_return result;
  }
  if (is_dict_like(recorder, container)) {
    Val value;
    const int found = mapping_find(recorder, container, key, &value);
    if (found < 0 && container.is_const() && recorder.live()) {
      value = co_await get_item_hashed(drive, container, key);
      co_return value;
    }
    if (found < 0) co_await drive.unknown();
    if (found == 0 && (type == default_dict_type() || !is_builtin_dict(type))) {
      value = co_await missing_item(drive, container, key);
    } else if (found == 0) {
      co_await drive.raise();
    }
    co_return value;
  }
  Val index = co_await index_of_value(drive, key), item;
  const Py_ssize_t size = recorder.count_items(container);
  if (size < 0) co_await drive.unknown();
  Py_ssize_t at = PyLong_AsSsize_t(index.object());
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (at < 0) at += size;
  if (at < 0 || at >= size) co_await drive.raise();
  if (recorder.item_at(container, static_cast<size_t>(at), false, &item) <= 0) co_await drive.unknown();
  co_return item;
}

namespace {

Task<Val> item_of(Drive& drive, Arguments args) {
  Val item = co_await get_item(drive, args.values[0], args.values[1]);
  co_return item;
}

}  // namespace

static void load_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  if (recorder.ask_about(frame, SiteKind::kSubscr, {container, key}, pops, 1)) return;
  if (!subscript(recorder, frame, container, key, pops) && recorder.live()) {
    Arguments args;
    args.values = {container, key};
    if (drive(recorder, frame, item_of, args, pops) != Invoke::kUnknown) return;
    PyTypeObject* type = recorder.type_of(container);
    recorder.stop(Abort::kUnknownOperand, std::string("an item of ") + (type == nullptr ? "?" : type->tp_name));
  }
}

void step_subscr(Recorder& recorder, ShadowFrame& frame) {
  load_item(recorder, frame, frame.top(2), frame.top(1), 2);
}

Val slice_of(Recorder& recorder, Val start, Val stop) {
  const Val slice = recorder.new_virtual(VirtualKind::kSlice, &PySlice_Type);
  recorder.set_field(slice, field::kSlice::kStart, start);
  recorder.set_field(slice, field::kSlice::kStop, stop);
  recorder.set_field(slice, field::kSlice::kStep, Val::constant(Py_None));
  return slice;
}

// The slice by which the instruction looks into the container below its bounds. CPython makes the object where it
// calls out; the adapter looks at one before that.
static Val slice_on_top(Recorder& recorder, ShadowFrame& frame) {
  const Val slice = slice_of(recorder, frame.top(2), frame.top(1));
  PyObject *start = recorder.real(frame.top(2)), *stop = recorder.real(frame.top(1));
  if (!recorder.touches_tensor(frame.top(3)) || start == nullptr || stop == nullptr) return slice;
  const Ref object = Ref::steal(PySlice_New(start, stop, nullptr));
  if (object) recorder.model(slice).real = recorder.owned(object.get()).object();
  return slice;
}

void step_load_slice(Recorder& recorder, ShadowFrame& frame) {
  load_item(recorder, frame, frame.top(3), slice_on_top(recorder, frame), 3);
}

namespace {

// `in` walks through it and compares: sequences, views of values, iterators, classes with __iter__ alone.
bool is_searched(Recorder& recorder, Val container) {
  PyTypeObject* type = recorder.type_of(container);
  if (type->tp_as_sequence == nullptr || type->tp_as_sequence->sq_contains == nullptr) return true;
  return type == &PyDictValues_Type || type->tp_as_sequence->sq_contains == PyList_Type.tp_as_sequence->sq_contains ||
         type->tp_as_sequence->sq_contains == PyTuple_Type.tp_as_sequence->sq_contains ||
         recorder.is_virtual(container, VirtualKind::kDeque);
}

Task<Val> search(Drive& drive, Arguments args) {
  const bool invert = args.values[2].object() == Py_True;
  Val iterator = co_await get_iter(drive, args.values[0]);
  for (;;) {
    Val item = co_await iter_next(drive, iterator);
    if (item.is_null()) break;
    const bool equal = co_await equals(drive, item, args.values[1]);
    if (equal) co_return Val::constant(invert ? Py_False : Py_True);
  }
  co_return Val::constant(invert ? Py_True : Py_False);
}

bool start_search(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops, bool invert) {
  Arguments args;
  args.values = {container, key, Val::constant(invert ? Py_True : Py_False)};
  return drive(recorder, frame, search, args, pops) == Invoke::kStarted;
}

}  // namespace

bool contains(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops, bool invert) {
  container = recorder.content_of(container);
  PyTypeObject* type = recorder.type_of(container);
  if (type == nullptr || container.is_reg()) return false;
  int found = -1;
  bool viewed = false;
  if (recorder.is_virtual(container, VirtualKind::kView) && type != &PyDictValues_Type) {
    viewed = true;
    const bool of_keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type || type == &PyDictProxy_Type;
    if (!of_keys) return false;  // values and pairs are compared one by one
    container = recorder.virtual_field(container, 0);
    if (type == &PyDictItems_Type) return false;
    if (recorder.model(container.is_virtual() ? container : Val::virtual_object(0)).kind == VirtualKind::kView)
      return false;
    type = recorder.type_of(container);
  }
  PyObject* object = is_searched(recorder, container) ? key.object() : recorder.key_in(container, key);
  if (!recorder.live()) return false;
  // A dict of a class of the program's is looked into as others are, by its view whatever the class says.
  const bool derived = recorder.is_virtual(container, VirtualKind::kDict) &&
                       (viewed || type->tp_as_sequence->sq_contains == PyDict_Type.tp_as_sequence->sq_contains);
  if (container.is_virtual() && (is_builtin_dict(type) || derived || type == &PySet_Type || type == &PyFrozenSet_Type ||
                                 recorder.is_virtual(container, VirtualKind::kInstance))) {
    Val value;
    if (recorder.model(container).kind == VirtualKind::kInstance) {
      if (type->tp_as_sequence == nullptr ||
          type->tp_as_sequence->sq_contains != PyDict_Type.tp_as_sequence->sq_contains) {
        if (is_searched(recorder, container)) return start_search(recorder, frame, container, key, pops, invert);
        return invoke_special(recorder, frame, container, names().contains, {key},
                              invert ? Then::kNotTruth : Then::kTruth, pops) == Invoke::kStarted;
      }
    }
    if (object == nullptr || !cpython::is_native_key(object)) return false;
    found = recorder.dict_find(container, object, &value);
  } else if (container.is_const() && PyDict_Check(container.object()) &&
             type->tp_as_sequence->sq_contains == PyDict_Type.tp_as_sequence->sq_contains) {
    Val value;
    const int there = object == nullptr ? -1 : recorder.find_item(container.object(), object, &value);
    if (there < 0) return false;
    found = there > 0;
  } else if (container.is_const() && PyAnySet_CheckExact(container.object())) {
    if (object == nullptr) return false;
    found = recorder.reads().guarded_set_holds(container.object(), object);
  } else if (type == &PyUnicode_Type && object != nullptr && container.is_const()) {
    if (!PyUnicode_CheckExact(object)) return false;
    found = PyUnicode_Contains(container.object(), object);
  } else if (type->tp_as_sequence != nullptr &&
             type->tp_as_sequence->sq_contains == cpython::slot_functions().contains) {
    return invoke_special(recorder, frame, container, names().contains, {key}, invert ? Then::kNotTruth : Then::kTruth,
                          pops) == Invoke::kStarted;
  } else if (type == &PyRange_Type && object != nullptr && cpython::is_scalar(object)) {
    found = PySequence_Contains(container.object(), object);
  } else if (is_searched(recorder, container)) {
    return start_search(recorder, frame, container, key, pops, invert);
  }
  if (found < 0 || !recorder.live()) return false;
  recorder.known(frame, pops, Val::constant((found != 0) != invert ? Py_True : Py_False));
  return true;
}

void step_contains(Recorder& recorder, ShadowFrame& frame, bool invert) {
  Val key = frame.top(2), container = frame.top(1);
  if (recorder.ask_about(frame, SiteKind::kContains, {container, key}, 2, 1, invert ? 1 : 0)) return;
  if (!contains(recorder, frame, container, key, 2, invert) && recorder.live()) {
    PyTypeObject* type = recorder.type_of(container);
    Arguments args;
    args.values = {container, key, Val::constant(invert ? Py_True : Py_False)};
    if (recorder.is_virtual(recorder.content_of(container), VirtualKind::kSet) &&
        drive(recorder, frame, contains_hashed, args, 2) != Invoke::kUnknown)
      return;
    recorder.stop(Abort::kUnknownOperand, std::string("membership in ") + (type == nullptr ? "?" : type->tp_name));
  }
}

static void store_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, Val value, int pops) {
  if (recorder.ask_about(frame, SiteKind::kStoreSubscr, {container, key, value}, pops, 0)) return;
  Driven store = item_writer(recorder, container, true);
  Arguments args;
  args.values = {container, key, value};
  if (store != nullptr && drive(recorder, frame, store, args, pops, Completion::kDrop) != Invoke::kUnknown) return;
  PyTypeObject* type = recorder.type_of(container);
  if (recorder.live() && store == nullptr && type != nullptr && type->tp_as_mapping != nullptr &&
      type->tp_as_mapping->mp_ass_subscript == cpython::slot_functions().ass_subscript &&
      invoke_special(recorder, frame, container, names().setitem, {key, value}, Then::kDrop, pops) == Invoke::kStarted)
    return;
  if (recorder.live())
    recorder.stop(Abort::kWrite, std::string("an item of ") + (type == nullptr ? "?" : type->tp_name));
}

void step_store_subscr(Recorder& recorder, ShadowFrame& frame) {
  store_item(recorder, frame, frame.top(2), frame.top(1), frame.top(3), 3);
}

void step_store_slice(Recorder& recorder, ShadowFrame& frame) {
  store_item(recorder, frame, frame.top(3), slice_on_top(recorder, frame), frame.top(4), 4);
}

void step_delete_subscr(Recorder& recorder, ShadowFrame& frame) {
  Val container = frame.top(2), key = frame.top(1);
  Driven erase = item_writer(recorder, container, false);
  Arguments args;
  args.values = {container, key};
  if (erase != nullptr && drive(recorder, frame, erase, args, 2, Completion::kDrop) != Invoke::kUnknown) return;
  PyTypeObject* type = recorder.type_of(container);
  if (recorder.live() && erase == nullptr && type != nullptr && type->tp_as_mapping != nullptr &&
      type->tp_as_mapping->mp_ass_subscript == cpython::slot_functions().ass_subscript &&
      invoke_special(recorder, frame, container, names().delitem, {key}, Then::kDrop, 2) == Invoke::kStarted)
    return;
  if (recorder.live()) recorder.stop(Abort::kWrite, "deletion of an item");
}

void step_build(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const int count = now.argument;
  const Val* operands = &frame.slots[static_cast<size_t>(frame.locals + frame.sp - count)];
  switch (now.operation) {
    case Operation::kBuildTuple:
      return recorder.known(frame, count, recorder.new_tuple(&PyTuple_Type, operands, static_cast<size_t>(count)));
    case Operation::kBuildList:
      return recorder.known(frame, count, recorder.new_list(operands, static_cast<size_t>(count)));
    case Operation::kBuildSlice: {
      Val slice = recorder.new_virtual(VirtualKind::kSlice, &PySlice_Type);
      for (int i = 0; i < count; ++i) recorder.set_field(slice, static_cast<uint32_t>(i), operands[i]);
      if (count == 2) recorder.set_field(slice, field::kSlice::kStep, Val::constant(Py_None));
      return recorder.known(frame, count, slice);
    }
    case Operation::kBuildSet: {
      Val set = recorder.new_virtual(VirtualKind::kSet, &PySet_Type);
      for (int i = 0; i < count; ++i) {
        PyObject* item = recorder.key_of(operands[i]);
        if (item == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a set item") : void();
        recorder.dict_set(set, item, operands[i]);
      }
      return recorder.known(frame, count, set);
    }
    case Operation::kBuildMap:
      return build_map(recorder, frame, count, nullptr);
    case Operation::kBuildConstKeyMap:
      return build_map(recorder, frame, count, frame.top().object());
    case Operation::kBuildString:
      return build_string(recorder, frame, count);
    case Operation::kFormat:
      if (format_varying(recorder, frame, now.flag & 3, now.flag > 3)) return;
      if (!step_format(recorder, frame, now.flag & 3, now.flag > 3))
        recorder.stop(Abort::kUnknownOperand, "formatting of an object");
      return;
    case Operation::kListAppend:
    case Operation::kSetAdd: {
      Val target = frame.top(count + 1), item = frame.top();
      if (!target.is_virtual()) return recorder.stop(Abort::kUnknownOperand, "a comprehension");
      if (now.is(Operation::kSetAdd)) {
        PyObject* key = recorder.key_of(item);
        if (key == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a set item") : void();
        recorder.dict_set(target, key, item);
      } else {
        recorder.model(target).items.push_back(item);
        recorder.log(target, LogOp::kItem, Val(), item);
      }
      frame.sp -= 1;
      return;
    }
    case Operation::kMapAdd: {
      Val target = frame.top(count + 2), key = frame.top(2), value = frame.top(1);
      PyObject* object = target.is_virtual() ? recorder.key_in(target, key) : nullptr;
      if (object == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a dict key") : void();
      recorder.dict_set(target, object, value);
      frame.sp -= 2;
      return;
    }
    case Operation::kListExtend:
    case Operation::kSetUpdate:
      return start_extend(recorder, frame, frame.top(count + 1));
    case Operation::kDictUpdate:
    case Operation::kDictMerge:
      return update(recorder, frame, frame.top(count + 1), frame.top());
    case Operation::kListToTuple: {
      Vals items;
      if (!recorder.try_items(frame.top(), &items)) return recorder.stop(Abort::kUnknownOperand, "a list");
      return recorder.known(frame, 1, recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
    }
    default:
      if (!step_match(recorder, frame, now))
        recorder.stop(Abort::kUnknownOpcode, cpython::instruction_name(frame.code, frame.operation));
  }
}

}  // namespace pijit
