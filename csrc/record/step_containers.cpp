// Containers on shadows: building, items, membership, iteration.
#include "cpython/keys.h"
#include "cpython/opcodes.h"
#include "record/builtins.h"

namespace pijit {
namespace {

void take_sequence(Recorder& recorder, ShadowFrame& frame, PyObject* result);

void take_string(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  frame.pending.result = recorder.owned(result);
}

void build_map(Recorder& recorder, ShadowFrame& frame, int count, PyObject* names) {
  Val dict = recorder.new_dict();
  int pops = names != nullptr ? count + 1 : 2 * count;
  for (int i = 0; i < count; ++i) {
    Val key = names != nullptr ? recorder.constant(PyTuple_GET_ITEM(names, i)) : frame.top(2 * (count - i));
    Val value = names != nullptr ? frame.top(count + 1 - i) : frame.top(2 * (count - i) - 1);
    if (key.object() == nullptr || !cpython::is_native_key(key.object()))
      return recorder.stop(Abort::kUnknownOperand, "a dict key");
    recorder.dict_set(dict, key.object(), value);
  }
  recorder.known(frame, pops, dict);
}

void build_string(Recorder& recorder, ShadowFrame& frame, int count) {
  for (int i = 1; i <= count; ++i)
    if (frame.top(i).object() == nullptr) return recorder.stop(Abort::kUnknownOperand, "a formatted result");
  recorder.observe(frame, count, take_string);
}

void format_value(Recorder& recorder, ShadowFrame& frame, int oparg) {
  int pops = (oparg & 4) != 0 ? 2 : 1;
  Val value = frame.top(pops);
  if (value.is_reg() && !recorder.touches_tensor(value)) value = recorder.force(value);
  if (!recorder.live()) return;
  PyObject* object = value.object();
  if (object == nullptr || !cpython::is_scalar(object))
    return recorder.stop(Abort::kUnknownOperand, "formatting of an object");
  recorder.observe(frame, pops, take_string);
}

// Adds the items of an iterable to a list or set that the instruction made.
Task<Val> extend(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val target = args.values[0];
  const bool set = recorder.model(target).kind == VirtualKind::kSet;
  const std::vector<Val> items = co_await collect(drive, args.values[1]);
  for (Val item : items) {
    PyObject* key = set ? recorder.key_of(item) : nullptr;
    if (set && key == nullptr) co_await drive.unknown();
    if (set) {
      recorder.dict_set(target, key, item);
    } else {
      recorder.model(target).items.push_back(item);
      recorder.log(target, LogOp::kItem, Val(), item);
    }
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
  std::vector<PyObject*> keys;
  std::vector<Val> values;
  if (!target.is_virtual() || !recorder.dict_content(source, &keys, &values)) {
    if (recorder.live()) recorder.stop(Abort::kUnknownOperand, "merging an unknown mapping");
    return;
  }
  for (size_t i = 0; i < keys.size(); ++i) recorder.dict_set(target, keys[i], values[i]);
  frame.sp -= 1;
}

// A part or concatenation of known sequences, now in frame.collected; its class is what CPython made of it.
void take_sequence(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  VirtualKind kind = PyList_Check(result) ? VirtualKind::kList : VirtualKind::kTuple;
  frame.pending.result = recorder.new_sequence(kind, Py_TYPE(result), frame.collected.data(), frame.collected.size());
}

// Equality of two existing objects as containers test it, if that runs no Python. 1, 0, or -1.
int native_equal(Recorder& recorder, PyObject* a, PyObject* b) {
  if (a == b) return 1;
  if (!native_comparison(Py_TYPE(a)) || !native_comparison(Py_TYPE(b))) return -1;
  recorder.guard_type_version(Py_TYPE(a));
  recorder.guard_type_version(Py_TYPE(b));
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return recorder.live() ? equal : -1;
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
  std::vector<Val> items;
  if (!recorder.try_items(container, &items)) return false;
  Py_ssize_t size = static_cast<Py_ssize_t>(items.size()), index = 0;
  Operand fields[3];
  if (recorder.slice_fields({key, recorder.real(key)}, fields)) {
    Py_ssize_t start, stop, step;
    Ref parts[3];
    for (int i = 0; i < 3; ++i) {
      Val field = fields[i].value;
      if (field.is_reg()) field = recorder.force(field);
      if (field.object() == nullptr) return false;
      parts[i] = Ref::borrow(field.object());
    }
    Ref slice = Ref::steal(PySlice_New(parts[0].get(), parts[1].get(), parts[2].get()));
    if (!slice || PySlice_Unpack(slice.get(), &start, &stop, &step) < 0) {
      PyErr_Clear();
      return false;
    }
    Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
    std::vector<Val> part;
    for (Py_ssize_t i = 0; i < count; ++i) part.push_back(items[static_cast<size_t>(start + i * step)]);
    frame.collected = part;
    recorder.observe(frame, pops, take_sequence);
    return true;
  }
  if (!index_of(recorder, key, size, &index)) return false;
  if (index < 0 || index >= size) return recorder.will_raise(frame, pops), true;
  recorder.known(frame, pops, items[static_cast<size_t>(index)]);
  return true;
}

bool dict_subscript(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  PyObject* object = key.object();
  if (object == nullptr) return false;
  Val value;
  if (container.is_virtual()) {
    if (!cpython::is_native_key(object)) return false;
    if (!recorder.dict_find(container, object, &value)) return recorder.will_raise(frame, pops), true;
  } else {
    PyObject* item = nullptr;
    if (!recorder.overlay_find(container.object(), object, &value)) {
      if (!recorder.read_dict(container.object(), object, &item)) return false;
      if (item == nullptr) return recorder.will_raise(frame, pops), true;
      value = recorder.constant(item);
    }
    if (value.is_null()) return recorder.will_raise(frame, pops), true;
  }
  if (recorder.live()) recorder.known(frame, pops, value);
  return true;
}

bool is_builtin_dict(PyTypeObject* type) {
  return type == &PyDict_Type || type == &PyODict_Type;
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

bool subscript(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  PyTypeObject* type = recorder.type_of(container);
  if (type == nullptr || container.is_reg()) return false;
  if (key.is_reg() && !recorder.touches_tensor(key)) {
    Val forced = recorder.force(key);
    if (!forced.is_null()) key = forced;
  }
  if (is_builtin_dict(type)) return dict_subscript(recorder, frame, container, key, pops);
  bool own = type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript;
  if (type == &PyList_Type || (PyType_IsSubtype(type, &PyTuple_Type) && !own))
    return sequence_subscript(recorder, frame, container, key, pops);
  if (recorder.is_virtual(container, VirtualKind::kView) && type == &PyDictProxy_Type)
    return dict_subscript(recorder, frame, recorder.virtual_field(container, 0), key, pops);
  if (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript)
    return invoke_special(recorder, frame, container, names().getitem, {key}, Then::kPush, pops) == Invoke::kStarted;
  if (container.object() != nullptr && PyUnicode_CheckExact(container.object()) && key.object() != nullptr &&
      cpython::is_scalar(key.object()))
    return recorder.observe(frame, pops, take_string), true;
  return false;
}

void step_subscr(Recorder& recorder, ShadowFrame& frame) {
  Val container = frame.top(2), key = frame.top(1);
  if (recorder.ask_about(frame, SiteKind::kSubscr, {container, key}, 2, 1)) return;
  if (!subscript(recorder, frame, container, key, 2) && recorder.live()) {
    PyTypeObject* type = recorder.type_of(container);
    recorder.stop(Abort::kUnknownOperand, std::string("an item of ") + (type == nullptr ? "?" : type->tp_name));
  }
}

bool contains(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops, bool invert) {
  PyTypeObject* type = recorder.type_of(container);
  if (type == nullptr || container.is_reg()) return false;
  PyObject* object = key.object();
  int found = -1;
  std::vector<Val> items;
  if (recorder.is_virtual(container, VirtualKind::kView)) {
    const bool of_keys = type == &PyDictKeys_Type || type == &PyODictKeys_Type || type == &PyDictProxy_Type;
    if (!of_keys) return false;  // values and pairs are compared one by one
    container = recorder.virtual_field(container, 0);
    if (recorder.model(container.is_virtual() ? container : Val::virtual_object(0)).kind == VirtualKind::kView)
      return false;
    type = recorder.type_of(container);
  }
  if (container.is_virtual() && (is_builtin_dict(type) || type == &PySet_Type || type == &PyFrozenSet_Type ||
                                 recorder.model(container).kind == VirtualKind::kInstance)) {
    Val value;
    if (recorder.model(container).kind == VirtualKind::kInstance) {
      if (type->tp_as_sequence == nullptr ||
          type->tp_as_sequence->sq_contains != PyDict_Type.tp_as_sequence->sq_contains) {
        return invoke_special(recorder, frame, container, names().contains, {key},
                              invert ? Then::kNotTruth : Then::kTruth, pops) == Invoke::kStarted;
      }
    }
    if (object == nullptr || !cpython::is_native_key(object)) return false;
    found = recorder.dict_find(container, object, &value);
  } else if (container.is_const() && PyDict_Check(container.object()) &&
             type->tp_as_sequence->sq_contains == PyDict_Type.tp_as_sequence->sq_contains) {
    PyObject* value = nullptr;
    Val changed;
    if (object == nullptr) return false;
    if (recorder.overlay_find(container.object(), object, &changed)) {
      found = !changed.is_null();
    } else {
      if (!recorder.read_dict(container.object(), object, &value)) return false;
      found = value != nullptr;
    }
  } else if (container.is_const() && PyAnySet_CheckExact(container.object())) {
    if (object == nullptr || !recorder.guard_set(container.object())) return false;
    found = cpython::set_contains(container.object(), object);
  } else if (type == &PyUnicode_Type && object != nullptr && container.is_const()) {
    if (!PyUnicode_CheckExact(object)) return false;
    found = PyUnicode_Contains(container.object(), object);
  } else if ((type == &PyTuple_Type || type == &PyList_Type) && recorder.try_items(container, &items)) {
    found = 0;
    for (Val item : items) {
      if (item == key) {
        found = 1;
        break;
      }
      int equal = item.object() == nullptr || object == nullptr ? -1 : native_equal(recorder, item.object(), object);
      if (equal < 0) return false;
      if (equal > 0) {
        found = 1;
        break;
      }
    }
  } else if (type->tp_as_sequence != nullptr &&
             type->tp_as_sequence->sq_contains == cpython::slot_functions().contains) {
    return invoke_special(recorder, frame, container, names().contains, {key}, invert ? Then::kNotTruth : Then::kTruth,
                          pops) == Invoke::kStarted;
  }
  if (found < 0 || !recorder.live()) return false;
  recorder.known(frame, pops, Val::constant((found != 0) != invert ? Py_True : Py_False));
  return true;
}

void step_contains(Recorder& recorder, ShadowFrame& frame, int oparg) {
  Val key = frame.top(2), container = frame.top(1);
  if (recorder.ask_about(frame, SiteKind::kContains, {container, key}, 2, 1)) return;
  if (!contains(recorder, frame, container, key, 2, oparg != 0) && recorder.live()) {
    PyTypeObject* type = recorder.type_of(container);
    recorder.stop(Abort::kUnknownOperand, std::string("membership in ") + (type == nullptr ? "?" : type->tp_name));
  }
}

void step_store_subscr(Recorder& recorder, ShadowFrame& frame) {
  Val value = frame.top(3), container = frame.top(2), key = frame.top(1);
  if (recorder.ask_about(frame, SiteKind::kStoreSubscr, {container, key, value}, 3, 0)) return;
  PyTypeObject* type = recorder.type_of(container);
  PyObject* object = key.object();
  if (container.is_virtual() && is_builtin_dict(type) && object != nullptr && cpython::is_native_key(object)) {
    recorder.dict_set(container, object, value);
    frame.sp -= 3;
    return;
  }
  if (recorder.is_virtual(container, VirtualKind::kList)) {
    Model& content = recorder.model(container);
    Py_ssize_t index = 0, size = static_cast<Py_ssize_t>(content.items.size());
    if (!index_of(recorder, key, size, &index) || index < 0 || index >= size)
      return recorder.stop(Abort::kUnknownOperand, "an item assignment");
    content.items[static_cast<size_t>(index)] = value;
    recorder.log(container, LogOp::kSetItem, key, value, static_cast<uint32_t>(index));
    frame.sp -= 3;
    return;
  }
  if (type != nullptr && type->tp_as_mapping != nullptr &&
      type->tp_as_mapping->mp_ass_subscript == cpython::slot_functions().ass_subscript &&
      invoke_special(recorder, frame, container, names().setitem, {key, value}, Then::kDrop, 3) == Invoke::kStarted)
    return;
  if (container.is_const() && PyDict_CheckExact(container.object()) && object != nullptr && recorder.live()) {
    PyObject* old = nullptr;
    if (recorder.read_dict(container.object(), object, &old)) {
      if (old == nullptr) recorder.reshaped(container).push_back(++recorder.trace().clock);
      Val real = recorder.materialize(value);
      if (!recorder.live()) return;
      Node& node = recorder.emit_node(Op::kStoreItem);
      node.a = container;
      node.b = key;
      node.c = real;
      recorder.overlay_set(container.object(), object, value);
      Pending& pending = recorder.await(frame, 3, 0);
      pending.x = container;
      pending.finish = [](Recorder& r, ShadowFrame& f, PyObject*) { r.written_dict(f.pending.x.object()); };
      return;
    }
  }
  if (recorder.live())
    recorder.stop(Abort::kWrite, std::string("an item of ") + (type == nullptr ? "?" : type->tp_name));
}

void step_delete_subscr(Recorder& recorder, ShadowFrame& frame) {
  Val container = frame.top(2), key = frame.top(1);
  if (container.is_virtual() && recorder.type_of(container) == &PyDict_Type && key.object() != nullptr &&
      recorder.dict_delete(container, key.object())) {
    frame.sp -= 2;
    return;
  }
  recorder.stop(Abort::kWrite, "deletion of an item");
}

void step_build(Recorder& recorder, ShadowFrame& frame, int opcode, int oparg) {
  const Val* operands = &frame.slots[static_cast<size_t>(frame.locals + frame.sp - oparg)];
  switch (opcode) {
    case BUILD_TUPLE:
      return recorder.known(frame, oparg, recorder.new_tuple(&PyTuple_Type, operands, static_cast<size_t>(oparg)));
    case BUILD_LIST:
      return recorder.known(frame, oparg, recorder.new_list(operands, static_cast<size_t>(oparg)));
    case BUILD_SLICE: {
      Val slice = recorder.new_virtual(VirtualKind::kSlice, &PySlice_Type);
      for (int i = 0; i < oparg; ++i) recorder.set_field(slice, static_cast<uint32_t>(i), operands[i]);
      if (oparg == 2) recorder.set_field(slice, 2, Val::constant(Py_None));
      return recorder.known(frame, oparg, slice);
    }
    case BUILD_SET: {
      Val set = recorder.new_virtual(VirtualKind::kSet, &PySet_Type);
      for (int i = 0; i < oparg; ++i) {
        PyObject* item = operands[i].object();
        if (item == nullptr || !cpython::is_native_key(item))
          return recorder.stop(Abort::kUnknownOperand, "a set item");
        recorder.dict_set(set, item, operands[i]);
      }
      return recorder.known(frame, oparg, set);
    }
    case BUILD_MAP:
      return build_map(recorder, frame, oparg, nullptr);
    case BUILD_CONST_KEY_MAP:
      return build_map(recorder, frame, oparg, frame.top().object());
    case BUILD_STRING:
      return build_string(recorder, frame, oparg);
    case FORMAT_VALUE:
      return format_value(recorder, frame, oparg);
    case LIST_APPEND:
    case SET_ADD: {
      Val target = frame.top(oparg + 1), item = frame.top();
      if (!target.is_virtual()) return recorder.stop(Abort::kUnknownOperand, "a comprehension");
      if (opcode == SET_ADD) {
        if (item.object() == nullptr || !cpython::is_native_key(item.object()))
          return recorder.stop(Abort::kUnknownOperand, "a set item");
        recorder.dict_set(target, item.object(), item);
      } else {
        recorder.model(target).items.push_back(item);
        recorder.log(target, LogOp::kItem, Val(), item);
      }
      frame.sp -= 1;
      return;
    }
    case MAP_ADD: {
      Val target = frame.top(oparg + 2), key = frame.top(2), value = frame.top(1);
      if (!target.is_virtual() || key.object() == nullptr || !cpython::is_native_key(key.object()))
        return recorder.stop(Abort::kUnknownOperand, "a dict key");
      recorder.dict_set(target, key.object(), value);
      frame.sp -= 2;
      return;
    }
    case LIST_EXTEND:
    case SET_UPDATE:
      return start_extend(recorder, frame, frame.top(oparg + 1));
    case DICT_UPDATE:
    case DICT_MERGE:
      return update(recorder, frame, frame.top(oparg + 1), frame.top());
    case LIST_TO_TUPLE: {
      std::vector<Val> items;
      if (!recorder.try_items(frame.top(), &items)) return recorder.stop(Abort::kUnknownOperand, "a list");
      return recorder.known(frame, 1, recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
    }
    default:
      return recorder.stop(Abort::kUnknownOpcode, cpython::opcode_name(opcode));
  }
}

}  // namespace pijit
