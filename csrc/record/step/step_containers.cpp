// Containers on shadows: building, items, membership, iteration.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/contents.h"
#include "record/state/known_objects.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/writes.h"
#include "record/step/open_items.h"
#include "record/step/step.h"

namespace pijit {

void take_sequence(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  const Vals& items = frame.collected;
  frame.pending.result = PyList_Check(result)
                             ? new_sequence(recorder, VirtualKind::kList, Py_TYPE(result), items.data(), items.size())
                             : recorder.new_tuple(Py_TYPE(result), items.data(), items.size());
}

namespace {

void build_map(Recorder& recorder, ShadowFrame& frame, int count, PyObject* names) {
  Val dict = new_dict(recorder);
  int pops = names != nullptr ? count + 1 : 2 * count;
  for (int i = 0; i < count; ++i) {
    Val key = names != nullptr ? constant(recorder, PyTuple_GET_ITEM(names, i)) : frame.top(2 * (count - i));
    Val value = names != nullptr ? frame.top(count + 1 - i) : frame.top(2 * (count - i) - 1);
    PyObject* object = key_in(recorder, dict, key);
    if (object == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a dict key") : void();
    dict_set(recorder, dict, object, value);
  }
  known(frame, pops, dict);
}

void build_string(Recorder& recorder, ShadowFrame& frame, int count) {
  Vals pieces;
  bool varies = false;
  for (int i = count; i >= 1; --i) {
    const Val piece = frame.top(i);
    varies = varies || is_scalar_reg(recorder, piece);
    if (piece.object() == nullptr && !is_scalar_reg(recorder, piece))
      return recorder.stop(Abort::kUnknownOperand, "a formatted result");
    pieces.push_back(piece);
  }
  if (!varies) return observe(frame, count, take_owned);
  const Val all = recorder.new_tuple(&PyTuple_Type, pieces.data(), pieces.size());
  compute(recorder, frame, string_function(-1), {all}, count);
}

// A scalar that differs from call to call is formatted at replay.
bool format_varying(Recorder& recorder, ShadowFrame& frame, int conversion, bool with_spec) {
  const int pops = with_spec ? 2 : 1;
  const Val value = frame.top(pops);
  if (!is_scalar_reg(recorder, value) || (conversion != 0 && with_spec)) return false;
  Vals args = {value};
  if (with_spec) args.push_back(frame.top());
  compute(recorder, frame, string_function(conversion), args, pops);
  return true;
}

// Adds the items of an iterable to a list or set that the instruction made.
Task<Val> extend(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val target = args.values[0];
  const bool set = recorder.heap.model(target).kind == VirtualKind::kSet;
  if (set) {
    args.values[0] = target;
    co_await set_update(drive, args);
    co_return Val::constant(Py_None);
  }
  const Vals items = co_await collect_all(drive, args.values[1]);
  Vals made;
  if (is_real(recorder.heap, target)) made.push_back(recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
  if (!add_items(recorder, target, items, "extend", made)) co_await drive.unknown();
  co_return Val::constant(Py_None);
}

// The item on top goes into the list or set of a comprehension, which exists already where a trace begins in its loop.
void add_to_comprehension(Recorder& recorder, ShadowFrame& frame, Val target, bool set) {
  const Val item = frame.top();
  const Vals added(1, item);
  bool done = false;
  if (set && target.is_virtual()) {
    PyObject* key = key_of(recorder, item);
    if (key == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a set item") : void();
    const bool real = is_real(recorder.heap, target);
    done = !real || add_keys(recorder, target, Objects(1, key), "add", added);
    if (!real) dict_set(recorder, target, key, item);
  } else if (target.is_virtual()) {
    done = add_items(recorder, target, added, "append", added);
  } else if (!set && is_own_list(recorder.heap, target)) {
    done = call_known(recorder, method_of_list("append"), {target, item});
  }
  if (!done) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a comprehension") : void();
  frame.sp -= 1;
}

void start_extend(Recorder& recorder, ShadowFrame& frame, Val target) {
  Arguments args;
  args.values = {target, frame.top()};
  if (!target.is_virtual()) return recorder.stop(Abort::kUnknownOperand, "extending an unknown container");
  if (drive(recorder, frame, extend, args, 1, Then::kDrop) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "extending from an unknown iterable");
}

void update(Recorder& recorder, ShadowFrame& frame, Val target, Val source) {
  Objects keys;
  Vals values;
  if (!target.is_virtual() || !merge_content(recorder, source, &keys, &values)) {
    Arguments args;
    args.values = {target, source};
    const bool asked = recorder.live() && target.is_virtual() && has_keys(recorder, source);
    if (asked && drive(recorder, frame, merge_mapping, args, 1, Then::kDrop) != Invoke::kUnknown) return;
    if (recorder.live()) recorder.stop(Abort::kUnknownOperand, "merging an unknown mapping");
    return;
  }
  for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder, target, keys[i], values[i]);
  frame.sp -= 1;
}

// A slice of a sequence whose items are known.
bool observe_part(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  Operand fields[3];
  if (!recorder.slice_fields({key, recorder.heap.real(key)}, fields)) return false;
  const Py_ssize_t size = count_items(recorder, container);
  Vals items;
  Py_ssize_t bounds[3];
  if (size < 0 || !try_items(recorder, container, &items) || !slice_bounds(recorder, fields, bounds)) return false;
  auto& [start, stop, step] = bounds;
  Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
  if (recorder.heap.type_of(container) == &PyTuple_Type && start == 0 && step == 1 && count == size)
    return known(frame, pops, container), true;
  Vals part;
  for (Py_ssize_t i = 0; i < count; ++i) part.push_back(items[static_cast<size_t>(start + i * step)]);
  frame.collected = part;
  observe(frame, pops, take_sequence);
  return true;
}

// A constant index, or a slice of such.
bool is_plain_key(Recorder& recorder, Val key) {
  Operand fields[3];
  if (!recorder.slice_fields({key, recorder.heap.real(key)}, fields))
    return key.object() != nullptr && cpython::is_scalar(key.object());
  for (const Operand& field : fields)
    if (field.value.object() == nullptr || !cpython::is_scalar(field.value.object())) return false;
  return true;
}

// What writes or deletes an item of a built-in container; null: a class's own method, or not known.
Driven item_writer(Recorder& recorder, Val container, bool store) {
  PyTypeObject* type = recorder.heap.type_of(container);
  if (type == nullptr || container.is_reg()) return nullptr;
  if (cpython::is_plain_list(type)) return store ? list_setitem : list_delitem;
  if (!is_dict_like(recorder.heap, container)) return nullptr;
  PyObject* name = store ? names().setitem : names().delitem;
  const bool own = !cpython::is_builtin_dict(type) &&
                   recorder.reads.lookup_type(type, name) != cpython::lookup_type(&PyDict_Type, name);
  return own ? nullptr : store ? dict_setitem : dict_delitem;
}

// Writes or deletes (container, key, value or nothing). False: not known how.
bool write_item(Recorder& recorder, ShadowFrame& frame, Arguments args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(args.values[0]);
  const bool store = args.values.size() == 3;
  Driven write = item_writer(recorder, args.values[0], store);
  if (write == nullptr && type != nullptr && type->tp_as_mapping != nullptr &&
      type->tp_as_mapping->mp_ass_subscript == cpython::slot_functions().ass_subscript) {
    write = special_of;
    args.values.insert(args.values.begin() + 1, Val::constant(store ? names().setitem : names().delitem));
  }
  return recorder.live() && write != nullptr &&
         drive(recorder, frame, write, args, pops, Then::kDrop) != Invoke::kUnknown;
}

// The classes of this class have no items but those of __class_getitem__: it is `type`, or adds no such method to it, as
// that of abstract classes.
bool asks_class_getitem(Recorder& recorder, PyTypeObject* type) {
  if (type == &PyType_Type) return true;
  if (!PyType_IsSubtype(type, &PyType_Type) || type->tp_getattro != PyType_Type.tp_getattro) return false;
  return recorder.reads.lookup_type(type, names().getitem) == nullptr && recorder.live() &&
         recorder.reads.lookup_type(type, names().class_getitem) == nullptr && recorder.live();
}

// cls[key] of a plain class: its __class_getitem__, if that is a class method in Python.
Invoke class_subscript(Recorder& recorder, ShadowFrame& frame, Val cls, Val key, int pops) {
  PyObject* method = nullptr;
  if (cls.object() != nullptr)
    method = recorder.reads.lookup_type(reinterpret_cast<PyTypeObject*>(cls.object()), names().class_getitem);
  if (!recorder.live()) return Invoke::kStopped;
  PyObject* function = nullptr;
  if (method != nullptr && Py_TYPE(method) == &PyClassMethod_Type) function = classmethod_callable(method);
  if (function == nullptr || Py_TYPE(function) != &PyFunction_Type)
    return generic_alias(recorder, frame, cls, key, pops);
  Arguments args;
  args.values = {cls, key};
  return invoke_function(recorder, frame, Val::constant(function), args, Then::kPush, pops);
}

// What only CPython's own result tells: a part of a sequence, an item of a constant. False: another.
bool observe_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  PyTypeObject* type = recorder.heap.type_of(container);
  if (is_item_sequence(type)) return observe_part(recorder, frame, container, key, pops);
  const bool plain = type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type;
  if (!plain || !container.is_const() || !is_plain_key(recorder, key)) return false;
  observe(frame, pops, take_owned);
  frame.pending.folds = true;
  return true;
}

}  // namespace

static void load_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  if (ask_about(recorder, frame, SiteKind::kSubscr, {container, key}, pops, 1)) return;
  PyTypeObject* type = recorder.heap.type_of(container);
  if (type != nullptr && !container.is_reg()) {
    if (load_open_item(recorder, frame, container, key, pops)) return;
    if (Val item; find_by_reference(recorder, container, key, &item)) return known(frame, pops, item);
    const bool special =
        type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_subscript == cpython::slot_functions().subscript;
    if (key.is_reg() && !touches_tensor(recorder, key) && !special)  // a method in Python gets the number as it is
      if (const Val forced = force(recorder, key); !forced.is_null()) key = forced;
    if (observe_item(recorder, frame, container, key, pops) || !recorder.live()) return;
    Val item;
    const int found = known_item(recorder, container, key, &item);
    if (!recorder.live()) return;
    if (found > 0) return known(frame, pops, item);
    if (found == 0) return will_raise(recorder, frame, pops);
    if (asks_class_getitem(recorder, type) &&
        class_subscript(recorder, frame, container, key, pops) == Invoke::kStarted)
      return;
    Arguments args;
    args.values = {container, key};
    if (!recorder.live() || drive(recorder, frame, item_of, args, pops) != Invoke::kUnknown) return;
  }
  if (recorder.live())
    recorder.stop(Abort::kUnknownOperand, std::string("an item of ") + (type == nullptr ? "?" : type->tp_name));
}

void step_subscr(Recorder& recorder, ShadowFrame& frame) {
  load_item(recorder, frame, frame.top(2), frame.top(1), 2);
}

Val slice_of(Recorder& recorder, Val start, Val stop) {
  const Val slice = new_virtual(recorder, VirtualKind::kSlice, &PySlice_Type);
  set_field(recorder, slice, field::kSlice::kStart, start);
  set_field(recorder, slice, field::kSlice::kStop, stop);
  set_field(recorder, slice, field::kSlice::kStep, Val::constant(Py_None));
  return slice;
}

// The slice by which the instruction looks into the container below its bounds. CPython makes the object where it
// calls out; the adapter looks at one before that.
static Val slice_on_top(Recorder& recorder, ShadowFrame& frame) {
  const Val slice = slice_of(recorder, frame.top(2), frame.top(1));
  PyObject *start = recorder.heap.real(frame.top(2)), *stop = recorder.heap.real(frame.top(1));
  if (!touches_tensor(recorder, frame.top(3)) || start == nullptr || stop == nullptr) return slice;
  const Ref object = Ref::steal(PySlice_New(start, stop, nullptr));
  if (object) recorder.heap.model(slice).real = recorder.reads.owned(object.get()).object();
  return slice;
}

void step_load_slice(Recorder& recorder, ShadowFrame& frame) {
  load_item(recorder, frame, frame.top(3), slice_on_top(recorder, frame), 3);
}

void step_contains(Recorder& recorder, ShadowFrame& frame, bool invert) {
  Val key = frame.top(2), container = frame.top(1);
  if (ask_about(recorder, frame, SiteKind::kContains, {container, key}, 2, 1, invert ? 1 : 0)) return;
  if (look_for_open_key(recorder, frame, container, key, 2, invert)) return;
  if (!contains(recorder, frame, container, key, 2, invert) && recorder.live()) {
    PyTypeObject* type = recorder.heap.type_of(container);
    recorder.stop(Abort::kUnknownOperand, std::string("membership in ") + (type == nullptr ? "?" : type->tp_name));
  }
}

static void store_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, Val value, int pops) {
  if (ask_about(recorder, frame, SiteKind::kStoreSubscr, {container, key, value}, pops, 0)) return;
  recorder.numbers.stay_open = stores_open_item(recorder, container, key);
  if (recorder.numbers.stay_open)
    return recorder.stop(Abort::kWrite, "an item at a place that differs from call to call");
  Arguments args;
  args.values = {container, key, value};
  if (write_item(recorder, frame, args, pops)) return;
  PyTypeObject* type = recorder.heap.type_of(container);
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
  Arguments args;
  args.values = {frame.top(2), frame.top(1)};
  if (!write_item(recorder, frame, args, 2) && recorder.live()) recorder.stop(Abort::kWrite, "deletion of an item");
}

void step_build(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const int count = now.argument;
  const Val* operands = &frame.slots[static_cast<size_t>(frame.locals + frame.sp - count)];
  switch (now.operation) {
    case Operation::kBuildTuple:
      return known(frame, count, recorder.new_tuple(&PyTuple_Type, operands, static_cast<size_t>(count)));
    case Operation::kBuildList:
      return known(frame, count, recorder.new_list(operands, static_cast<size_t>(count)));
    case Operation::kBuildSlice: {
      Val slice = new_virtual(recorder, VirtualKind::kSlice, &PySlice_Type);
      for (int i = 0; i < count; ++i) set_field(recorder, slice, static_cast<uint32_t>(i), operands[i]);
      if (count == 2) set_field(recorder, slice, field::kSlice::kStep, Val::constant(Py_None));
      return known(frame, count, slice);
    }
    case Operation::kBuildSet: {
      Val set = new_virtual(recorder, VirtualKind::kSet, &PySet_Type);
      for (int i = 0; i < count; ++i) {
        PyObject* item = key_of(recorder, operands[i]);
        if (item == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a set item") : void();
        dict_set(recorder, set, item, operands[i]);
      }
      return known(frame, count, set);
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
      return add_to_comprehension(recorder, frame, frame.top(count + 1), now.is(Operation::kSetAdd));
    }
    case Operation::kMapAdd: {
      Val target = frame.top(count + 2), key = frame.top(2), value = frame.top(1);
      PyObject* object = target.is_virtual() ? key_in(recorder, target, key) : nullptr;
      if (object == nullptr) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "a dict key") : void();
      dict_set(recorder, target, object, value);
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
      if (!try_items(recorder, frame.top(), &items)) return recorder.stop(Abort::kUnknownOperand, "a list");
      return known(frame, 1, recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
    }
    default:
      if (!step_match(recorder, frame, now))
        recorder.stop(Abort::kUnknownOpcode, cpython::instruction_name(frame.code, frame.operation));
  }
}

}  // namespace pijit
