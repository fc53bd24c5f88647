// The root frame's arguments: each is a tensor input, a guarded constant, or a container of such.
//
// A container that the caller passed is an object of its own (its register is the argument); the tuple of *args and the
// dict of **kwargs were made for this call, so they are virtual like any other. An instance is the one that was seen,
// until calls have come with others: then it is a container of its attributes.
#include "record/state/inputs.h"

#include <algorithm>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/instances.h"
#include "mindspore/library.h"
#include "numpy/library.h"
#include "pandas/library.h"
#include "record/state/contents.h"
#include "record/state/found.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

bool may_vary_argument(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object);
}

// An instance of a class derived from tuple, which is loaded item by item; else it is the object that was seen.
bool tuple_fits(PyObject* object, int depth) {
  Room room;
  return !PyTuple_CheckExact(object) && cpython::is_plain_tuple(object) &&
         cpython::type_version(Py_TYPE(object)) != 0 && items_fit(object, depth, &room);
}

}  // namespace

// The class of a tuple still does as tuple does; its guard may follow one of the type of an object.
bool guard_tuple_class(Recorder& recorder, PyObject* tuple) {
  if (!PyTuple_CheckExact(tuple)) recorder.reads.guard_type_version(Py_TYPE(tuple));
  return recorder.live();
}

namespace {

void note_way(Recorder& recorder, Val reg, uint64_t way) {
  Vec<uint64_t>& ways = recorder.loading.ways;
  if (ways.size() <= reg.index()) ways.resize(recorder.trace().regs.size());
  ways[reg.index()] = way;
}

}  // namespace

Guard& input_guard(Kernel& recording, GuardOp op, Val source) {
  Guard guard{};
  guard.op = op;
  guard.subject = source;
  recording.trace().guards.push_back(guard);
  return recording.trace().guards.back();
}

Val load_input(Recorder& recorder, GuardOp op, Val source, Py_ssize_t index, PyObject* object) {
  Guard guard{};
  guard.op = op;
  guard.subject = source;
  guard.number = static_cast<uint64_t>(index);
  return load_input(recorder, guard, object);
}

Val load_input(Recorder& recorder, Guard guard, PyObject* object) {
  const Val reg = add_reg(recorder, Rep::kObject, Py_TYPE(object), object);
  if (!recorder.trace().epochs.empty()) {
    recorder.foreign.loaded.resize(recorder.trace().regs.size());
    recorder.foreign.loaded[reg.index()] = true;
    recorder.loading.items += 1;
  } else {
    recorder.loading.taken += 1;
  }
  guard.out = reg.index();
  recorder.trace().guards.push_back(guard);
  if (recorder.varying() != nullptr)
    note_way(recorder, reg, way_through(guard, guard.subject.is_reg() ? way_of(recorder, guard.subject) : 0));
  return reg;
}

uint64_t way_of(Recorder& recorder, Val source) {
  const uint32_t reg = source.index();
  if (reg < recorder.trace().inputs) return reg + 1;
  const Vec<uint64_t>& ways = recorder.loading.ways;
  if (reg < ways.size() && ways[reg] != 0) return ways[reg];
  const uint64_t way = argument_way(recorder.trace(), source);
  note_way(recorder, source, way);
  return way;
}

// Gives a container that exists already its register: it is real from the start.
Val real_container(Recorder& recorder, Val object, Val source) {
  Virtual& record = recorder.trace().virtuals[object.index()];
  record.reg = source.index();
  record.birth = record.reg_time = 0;
  recorder.heap.due.push_back(object.index());
  note_argument(recorder.reads, recorder.heap.model(object).real, object);
  recorder.heap.arguments.push_back(object);
  return object;
}

namespace {

Val input_sequence(Recorder& recorder, PyObject* object, Val source, int depth, bool fresh) {
  bool tuple = PyTuple_Check(object);
  Py_ssize_t size = tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object);
  if (size > kMaxLoadedItems || depth > kMaxLoadedDepth) return Val();
  input_guard(recorder, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (tuple && !guard_tuple_class(recorder, object)) return Val();
  input_guard(recorder, tuple ? GuardOp::kTupleSize : GuardOp::kListSize, source).number = static_cast<uint64_t>(size);
  Vals items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    Val loaded = load_input(recorder, tuple ? GuardOp::kLoadTupleItem : GuardOp::kLoadListItem, source, i, item);
    items.push_back(input(recorder, item, loaded, depth + 1));
    if (items.back().is_null()) return Val();
  }
  Val result = new_sequence(recorder, tuple ? VirtualKind::kTuple : VirtualKind::kList, Py_TYPE(object), items.data(),
                            items.size());
  recorder.heap.model(result).real = object;
  if (!tuple) note_container(recorder, object, source);
  return fresh ? result : real_container(recorder, result, source);
}

// It is a dict with these keys, in this order. False: they are none that a trace may keep.
bool guard_keys(Recorder& recorder, PyObject* dict, Val source) {
  cpython::DictCursor cursor;
  PyObject *key, *value;
  Objects keys;
  const Py_ssize_t size = PyDict_GET_SIZE(dict);
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!cpython::dict_next(dict, &cursor, &key, &value) || !cpython::is_lasting_key(key)) return false;
    keys.push_back(recorder.reads.owned(key).object());
  }
  if (!cpython::dict_ends(dict, cursor)) return false;
  if (PyDict_CheckExact(dict) || cpython::is_builtin_dict(Py_TYPE(dict)))
    input_guard(recorder, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(dict));
  Guard& sized = input_guard(recorder, GuardOp::kDictSize, source);
  sized.number = keys.size();
  sized.first = static_cast<uint32_t>(recorder.trace().guard_items.size());
  sized.count = static_cast<uint32_t>(keys.size());
  recorder.trace().guard_items.insert(recorder.trace().guard_items.end(), keys.begin(), keys.end());
  return true;
}

// A key that is a tuple is an object of its own: another one in another call, with items that are the same.
void input_key(Recorder& recorder, PyObject* key, Val source) {
  if (const Val first = recorder.heap.fresh_key(key); !first.is_null()) {
    input_guard(recorder, GuardOp::kSame, source).number = recorder.trace().virtuals[first.index()].reg;
    return;
  }
  Vals items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    const bool tuple = PyTuple_CheckExact(item) && PyTuple_GET_SIZE(item) > 0;
    if (tuple) input_key(recorder, item, load_input(recorder, GuardOp::kLoadTupleItem, source, i, item));
    items.push_back(tuple ? recorder.heap.fresh_key(item) : recorder.reads.owned(item));
  }
  const Val result = new_sequence(recorder, VirtualKind::kTuple, &PyTuple_Type, items.data(), items.size());
  recorder.heap.model(result).real = key;
  recorder.heap.virtual_keys[key] = real_container(recorder, result, source);
}

// The items of a dict, whose keys are guarded.
bool input_items(Recorder& recorder, PyObject* object, Val result, Val source, int depth, Take take) {
  cpython::DictCursor cursor;
  PyObject *key, *value;
  for (Py_ssize_t index = 0; cpython::dict_next(object, &cursor, &key, &value); ++index) {
    if (PyTuple_CheckExact(key) && PyTuple_GET_SIZE(key) > 0)
      input_key(recorder, key, load_input(recorder, GuardOp::kLoadDictKeyAt, source, index, key));
    const Val item =
        take(recorder, value, load_input(recorder, GuardOp::kLoadDictValueAt, source, index, value), depth + 1);
    if (item.is_null()) return false;
    dict_set(recorder, result, key, item);
  }
  return true;
}

bool input_list_items(Recorder& recorder, PyObject* list, Val result, Val source, int depth, Take take) {
  const Py_ssize_t size = PyList_GET_SIZE(list);
  input_guard(recorder, GuardOp::kListSize, source).number = static_cast<uint64_t>(size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* value = PyList_GET_ITEM(list, i);
    const Val item = take(recorder, value, load_input(recorder, GuardOp::kLoadListItem, source, i, value), depth + 1);
    if (item.is_null()) return false;
    recorder.heap.model(result).items.push_back(item);
    log(recorder, result, LogOp::kItem, Val(), item, static_cast<uint32_t>(i));
  }
  return true;
}

// An attribute that a list has is in no log: nobody builds the list.
void add_input_attribute(Recorder& recorder, Val object, PyObject* name, Val value) {
  Model& content = recorder.heap.model(object);
  if (content.kind != VirtualKind::kList) return attr_set(recorder, object, name, value);
  auto& attributes = content.attributes();
  attributes.names.push_back(name);
  attributes.values.push_back(value);
  recorder.heap.mention(object, value, attributes.values.size() - 1);
}

// The factory of a defaultdict.
bool input_factory(Recorder& recorder, PyObject* object, Val result, Val source, int depth, Take take) {
  PyObject* factory = cpython::object_at(object, factory_offset());
  if (factory == nullptr) return false;
  static PyObject* const name = PyUnicode_InternFromString("default_factory");
  const Val value =
      take(recorder, factory, load_input(recorder, GuardOp::kLoadSlot, source, factory_offset(), factory), depth + 1);
  if (value.is_null()) return false;
  recorder.heap.model(result).attributes().names.push_back(name);
  recorder.heap.model(result).attributes().values.push_back(value);
  log(recorder, result, LogOp::kField, Val(), value, field::kDict::kFactory);
  return true;
}

}  // namespace

Val input_dict(Recorder& recorder, PyObject* object, Val source, int depth, bool fresh, Take take) {
  const Py_ssize_t size = PyDict_GET_SIZE(object);
  if (size > kMaxLoadedItems || depth > kMaxLoadedDepth) return Val();
  if (!guard_keys(recorder, object, source)) return Val();
  Val result = new_virtual(recorder, VirtualKind::kDict, Py_TYPE(object));
  recorder.heap.model(result).real = object;
  if (Py_TYPE(object) == cpython::default_dict_type() && !input_factory(recorder, object, result, source, depth, take))
    return Val();
  if (!input_items(recorder, object, result, source, depth, take)) return Val();
  if (!fresh) note_container(recorder, object, source);
  return fresh ? result : real_container(recorder, result, source);
}

// An instance that is another one in every call: its attributes are loaded like the items of a dict, and so are its
// items, if its class is derived from dict or list.
Val input_instance(Recorder& recorder, PyObject* object, Val source, int depth, Take take, bool adopts) {
  PyTypeObject* type = Py_TYPE(object);
  input_guard(recorder, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(type);
  const bool list = PyList_Check(object) != 0;
  if (list) recorder.reads.guard_type_version(type);
  const Val result = new_virtual(recorder, list ? VirtualKind::kList : VirtualKind::kInstance, type);
  recorder.heap.model(result).real = object;
  const size_t at = recorder.foreign.found.size();
  note_container(recorder, object, source);
  recorder.loading.adopting += adopts ? 1 : 0;
  bool whole = recorder.live();
  if (PyDict_Check(object))
    whole = guard_keys(recorder, object, source) && input_items(recorder, object, result, source, depth, take);
  if (list) whole = input_list_items(recorder, object, result, source, depth, take);
  const auto add = [&](PyObject* name, PyObject* value, Val loaded) {
    recorder.loading.adopted += 1;
    const Val item = whole ? take(recorder, value, loaded, depth + 1) : Val();
    whole = !item.is_null();
    if (whole) add_input_attribute(recorder, result, name, item);
  };
  std::vector<Slot> slots;
  find_slots(type, &slots);
  recorder.heap.model(result).attributes().any_order = !slots.empty();
  for (const Slot& slot : slots) {
    PyObject* value = cpython::object_at(object, slot.offset);
    if (value != nullptr) {
      add(slot.name, value, load_input(recorder, GuardOp::kLoadSlot, source, slot.offset, value));
    } else {
      input_guard(recorder, GuardOp::kSlot, source).number = static_cast<uint64_t>(slot.offset);
    }
  }
  const cpython::Storage storage = cpython::attribute_storage(object);
  if (storage == cpython::Storage::kUnset) recorder.reads.guard_no_dict(object, source);
  if (storage == cpython::Storage::kInline) {
    recorder.heap.model(result).attributes().any_order = true;
    Guard& names = input_guard(recorder, GuardOp::kNoInlineSlot, source);
    names.expected = reinterpret_cast<PyObject*>(type);
    names.number = cpython::shared_keys_version(type);
    for (Py_ssize_t i = 0; cpython::shared_key(type, i) != nullptr; ++i) {
      PyObject* value = cpython::inline_value(object, i);
      if (value == nullptr) {
        recorder.reads.guard_inline_slot(source, type, i, nullptr);
      } else {
        const Guard load = inline_guard(GuardOp::kLoadInline, source, type, i);
        add(cpython::shared_key(type, i), value, load_input(recorder, load, value));
      }
    }
  }
  if (storage == cpython::Storage::kDict) {
    PyObject* dict = cpython::instance_dict(object);
    const Val place =
        load_input(recorder, GuardOp::kLoadSlot, source,
                   reinterpret_cast<char*>(cpython::dict_slot(object)) - reinterpret_cast<char*>(object), dict);
    PyObject *name, *value;
    guard_keys(recorder, dict, place);
    note_container(recorder, dict, place);
    recorder.foreign.found[at].dict = static_cast<uint32_t>(recorder.foreign.found.size() - 1);
    recorder.foreign.found.back().argument = recorder.foreign.found[at].argument;
    for (Py_ssize_t position = 0, i = 0; PyDict_Next(dict, &position, &name, &value) != 0; ++i)
      add(name, value, load_input(recorder, GuardOp::kLoadDictValueAt, place, i, value));
  }
  recorder.loading.adopting -= adopts ? 1 : 0;
  return whole ? real_container(recorder, result, source) : Val();
}

// The one that was loaded already; Null: there is none.
Val known_container(Recorder& recorder, PyObject* object, Val source) {
  if (recorder.heap.arguments.empty() || cpython::is_plain_tuple(object)) return Val();
  const Fact* known = recorder.reads.facts.get(object, FactKind::kArgument);
  if (known == nullptr) return Val();
  input_guard(recorder, GuardOp::kSame, source).number = recorder.trace().virtuals[known->guard].reg;
  return Val::virtual_object(known->guard);
}

namespace {

// A dict or list of another class, which is loaded item by item; Null: it is the object that was seen. What it holds is taken
// as what a plain one holds: instances are these very objects, until calls have come with others.
Val input_derived(Recorder& recorder, PyObject* object, Val source, int depth) {
  Room room{kMaxAttributes - recorder.loading.adopted};
  if (!PyDict_Check(object) && !PyList_Check(object)) return Val();
  if (recorder.loading.named.count(object) != 0) return Val();
  if (!derived_fits(object, depth, &room) || recorder.foreign.is_found(object)) return Val();
  PyObject* const attributes = cpython::instance_dict(object);
  if (attributes != nullptr && recorder.foreign.is_found(attributes)) return Val();
  if (cpython::is_builtin_dict(Py_TYPE(object))) return input_dict(recorder, object, source, depth, false);
  return input_instance(recorder, object, source, depth, input, recorder.loading.adopting > 0);
}

// A bound method is made anew each time it is asked for: it is what it has. Its class is guarded already.
Val input_method(Recorder& recorder, PyObject* method, Val source) {
  const Val result = new_virtual(recorder, VirtualKind::kBoundMethod, &PyMethod_Type);
  recorder.heap.model(result).real = method;
  recorder.heap.model(result).items.resize(2);
  recorder.loading.opening = false;  // whose method it is may well be the same in each call
  const bool by_kind = std::exchange(recorder.loading.by_kind, false);
  const auto part = [&](uint32_t field, PyObject* object, size_t offset) {
    const Val value = input(
        recorder, object, load_input(recorder, GuardOp::kLoadSlot, source, static_cast<Py_ssize_t>(offset), object), 1);
    if (!value.is_null()) set_field(recorder, result, field, value);
    return !value.is_null();
  };
  const bool whole =
      part(field::kBoundMethod::kFunction, PyMethod_GET_FUNCTION(method), offsetof(PyMethodObject, im_func)) &&
      part(field::kBoundMethod::kSelf, PyMethod_GET_SELF(method), offsetof(PyMethodObject, im_self));
  recorder.loading.by_kind = by_kind;
  return whole ? real_container(recorder, result, source) : Val();
}

}  // namespace

Val input(Recorder& recorder, PyObject* object, Val source, int depth) {
  if (const Val first = known_container(recorder, object, source); !first.is_null()) return first;
  if (recorder.adapter() != nullptr && recorder.adapter()->is_tensor(object)) {
    Val tensor = add_reg(recorder, Rep::kTensor, Py_TYPE(object), object);
    take_tensor(recorder, source, object, tensor);
    return tensor;
  }
  if (numpy::is_array(object) || numpy::is_scalar(object)) return by_type(recorder, object, source);
  if (pandas::kind_of(Py_TYPE(object)) == pandas::Kind::kData) return by_type(recorder, object, source);
  if (mindspore::is_tensor(object) && !cpython::has_own_attributes(object)) return by_type(recorder, object, source);
  if (cpython::is_scalar(object)) {
    if (recorder.frames.in_the_middle && PyUnicode_CheckExact(object) && recorder.varying() != nullptr &&
        recorder.varying()->is_taken_by_type(way_of(recorder, source)))
      return by_type(recorder, object, source);
    if (recorder.varying() != nullptr && may_vary_argument(object) &&
        (recorder.loading.by_kind || recorder.varying()->has_argument(way_of(recorder, source))))
      return vary(recorder, source, object);
    input_guard(recorder, GuardOp::kScalar, source).expected = object;
    return recorder.reads.owned(object);
  }
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object) || tuple_fits(object, depth))
    return input_sequence(recorder, object, source, depth, false);
  if (PyDict_CheckExact(object))
    return recorder.foreign.is_found(object) ? Val() : input_dict(recorder, object, source, depth, false);
  if (const Val derived = input_derived(recorder, object, source, depth); !derived.is_null()) return derived;
  if (PyMethod_Check(object)) return input_method(recorder, object, by_type(recorder, object, source));
  if (PyGen_CheckExact(object)) {
    input_guard(recorder, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(&PyGen_Type);
    return source;
  }
  const uint64_t way = recorder.varying() != nullptr ? way_of(recorder, source) : 0;
  const bool missed = way != 0 && recorder.varying()->has_argument(way);
  const bool differs = missed || (way != 0 && recorder.loading.opening);
  const bool loaded = source.index() >= recorder.trace().inputs;
  if ((loaded || missed) && !recorder.frames.in_the_middle && cpython::is_value_type(Py_TYPE(object))) {
    input_guard(recorder, GuardOp::kEqual, source).expected = object;
    return recorder.reads.owned(object);
  }
  if ((differs || recorder.loading.by_kind) && cpython::shows_memory(object)) {
    input_guard(recorder, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
    return source;
  }
  if (way != 0 && recorder.frames.in_the_middle && recorder.varying()->is_taken_by_type(way))
    return by_type(recorder, object, source);  // a guard on the object itself has failed before
  const bool named = recorder.loading.named.count(object) != 0;
  if (!named && (differs || (!recorder.loading.by_kind && recorder.loading.adopting > 0))) {
    if (Room room{kMaxAttributes - recorder.loading.adopted}; instance_fits(object, depth, &room)) {
      const bool found = recorder.foreign.is_found(object) || recorder.foreign.is_found(cpython::instance_dict(object));
      const Val taken = found ? Val() : input_instance(recorder, object, source, depth);
      if (taken.is_null() && differs && !found)
        recorder.varying()->fix_argument(way);  // the next recording gets on without
      return taken;
    }
    if (differs && recorder.frames.in_the_middle)
      return recorder.varying()->take_by_type(way), by_type(recorder, object, source);
    if (differs) recorder.varying()->fix_argument(way);
  }
  recorder.loading.named.insert(object);
  input_guard(recorder, GuardOp::kIs, source).expected = object;
  input_guard(recorder, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return cpython::dies_unnoticed(Py_TYPE(object)) ? recorder.reads.owned(object) : Val::constant(object);
}

namespace {

bool is_constant_of(PyCodeObject* code, PyObject* object) {
  PyObject* const* constants = PySequence_Fast_ITEMS(code->co_consts);
  return std::find(constants, constants + PyTuple_GET_SIZE(code->co_consts), object) !=
         constants + PyTuple_GET_SIZE(code->co_consts);
}

// An iterator of C, which is its own iterator: a new one in every call.
bool is_plain_iterator(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && type->tp_iternext != nullptr &&
         type->tp_iter == PyObject_SelfIter;
}

// The shadow of a recording's first frame, of which nothing is known yet; its first slots have the first registers.
std::unique_ptr<ShadowFrame> first_shadow(Recorder& recorder, cpython::Frame* frame, int inputs) {
  auto shadow = std::make_unique<ShadowFrame>();
  shadow->frame = frame;
  shadow->code = cpython::code(frame);
  shadow->function = Val::constant(cpython::function(frame));
  shadow->locals = shadow->code->co_nlocalsplus;
  shadow->slots.assign(static_cast<size_t>(shadow->locals + shadow->code->co_stacksize + 1), Val());
  for (int i = 0; i < inputs; ++i) {
    PyObject* object = cpython::slot(frame, i);
    add_reg(recorder, Rep::kObject, object == nullptr ? nullptr : Py_TYPE(object), object);
  }
  return shadow;
}

// A list on the stack at the head of a loop, which nothing else has: that of a comprehension. It is longer in each turn.
bool is_being_filled(Recorder& recorder, PyObject* list, Val source) {
  cpython::Frame* const root = recorder.frames.root;
  PyCodeObject* code = cpython::code(root);
  return PyList_CheckExact(list) && Py_REFCNT(list) == 1 && source.index() < recorder.trace().inputs &&
         source.index() >= static_cast<uint32_t>(code->co_nlocalsplus) &&
         cpython::slot(root, static_cast<int>(source.index())) == list &&
         cpython::loop_end(code, cpython::resume_index(root)) >= 0;
}

// Of all that it holds guards would take longer than what is done with it.
bool is_too_much(const Recorder& recorder, PyObject* object) {
  Space left{kMaxArgumentItems - recorder.loading.taken,
             static_cast<Py_ssize_t>(Foreign::kMaxFound) * 2 - static_cast<Py_ssize_t>(recorder.foreign.found.size())};
  return !has_space(object, 0, &left);
}

Val entry_value(Recorder& recorder, PyObject* object, Val source) {
  const bool list = PyList_CheckExact(object), dict = PyDict_CheckExact(object), method = PyMethod_Check(object);
  const bool shared = (!list && !dict && !method) || Py_REFCNT(object) > 1;
  if (is_being_filled(recorder, object, source) || is_too_much(recorder, object) ||
      (recorder.varying() != nullptr && recorder.varying()->is_taken_by_type(way_of(recorder, source)))) {
    if (list && !shared) input_guard(recorder, GuardOp::kUnshared, source);
    return by_type(recorder, object, source);
  }
  if (shared) return input(recorder, object, source, 0);
  by_type(recorder, object, source);
  input_guard(recorder, GuardOp::kUnshared, source);
  if (method) return input_method(recorder, object, source);
  return own(recorder, list ? input_sequence(recorder, object, source, 0, false)
                            : input_dict(recorder, object, source, 0, false));
}

Val entry_cell(Recorder& recorder, PyObject* cell, Val source) {
  PyObject* content = PyCell_GET(cell);
  by_type(recorder, cell, source);
  if (Py_REFCNT(cell) > 1) return source;
  input_guard(recorder, GuardOp::kUnshared, source);
  const Val result = new_virtual(recorder, VirtualKind::kCell, &PyCell_Type);
  recorder.heap.model(result).real = cell;
  recorder.heap.model(result).items.resize(1);
  if (content == nullptr) {
    input_guard(recorder, GuardOp::kCell, source);
    set_field(recorder, result, field::kCell::kContent, Val());
    return own(recorder, real_container(recorder, result, source));
  }
  const Val value = entry_value(recorder, content, load_input(recorder, GuardOp::kLoadCell, source, 0, content));
  if (value.is_null()) return Val();
  set_field(recorder, result, field::kCell::kContent, value);
  return own(recorder, real_container(recorder, result, source));
}

}  // namespace

// What a slot holds where a recording begins in the middle of a function: of its own frame, or of that of a generator.
Val entry_input(Recorder& recorder, cpython::Frame* frame, int slot, Val source) {
  PyObject* object = cpython::slot(frame, slot);
  PyCodeObject* code = cpython::code(frame);
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(cpython::function(frame))->func_closure;
  const int free = slot - (code->co_nlocalsplus - code->co_nfreevars);
  if (free >= 0 && slot < code->co_nlocalsplus && closure != nullptr && PyTuple_GET_ITEM(closure, free) == object) {
    if (frame != recorder.frames.root)
      input_guard(recorder, GuardOp::kIs, source).expected = object;  // the function may be another one by then
    return Val::constant(object);
  }
  if (slot >= code->co_nlocalsplus && is_constant_of(code, object)) {  // instructions look into it
    input_guard(recorder, GuardOp::kIs, source).expected = object;
    return recorder.reads.owned(object);
  }
  if (PyCell_Check(object)) return entry_cell(recorder, object, source);
  if (PyGen_CheckExact(object)) return entry_generator(recorder, object, source);
  if (Py_IS_TYPE(object, &PyEnum_Type)) return entry_enumerate(recorder, object, source);
  if (is_plain_iterator(object)) return by_type(recorder, object, source);
  return entry_value(recorder, object, source);
}

Val by_type(Kernel& recording, PyObject* object, Val source) {
  input_guard(recording, GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return source;
}

Val own(Recorder& recorder, Val container) {
  if (container.is_null()) return container;
  recorder.heap.model(container).own = true;
  std::erase(recorder.heap.due, container.index());
  return container;
}

// In a loop such a list is what turns add to, and is longer in each: it is never looked into.
bool is_own_list(Heap& heap, Val value) {
  constexpr Py_ssize_t kOfFrame = 2;  // the variable, and the stack
  const Trace& trace = heap.trace();
  if (!value.is_reg() || !is_taken(trace, value.index())) return false;
  PyObject* list = heap.real(value);
  if (list == nullptr || !PyList_CheckExact(list) || Py_REFCNT(list) > kOfFrame) return false;
  const auto guards = trace.guards.begin(), end = guards + static_cast<ptrdiff_t>(trace.entry_guards());
  if (std::none_of(guards, end,
                   [&](const Guard& guard) { return guard.op == GuardOp::kUnshared && guard.subject == value; }))
    return false;
  PyObject* append = method_of_list("append");
  return std::all_of(trace.nodes.begin(), trace.nodes.end(), [&](const Node& node) {
    const auto operands = trace.operands.begin() + node.first;
    const bool given = node.a == value || node.b == value || node.c == value ||
                       std::find(operands, operands + node.count, value) != operands + node.count;
    return !given || (node.op == Op::kCall && node.a.object() == append && operands[1] != value);
  });
}

bool bind_entry(Recorder& recorder) {
  const int used = cpython::used_slots(recorder.frames.root);
  auto shadow = first_shadow(recorder, recorder.frames.root, used);
  shadow->instruction = shadow->operation = cpython::resume_index(recorder.frames.root);
  shadow->sp = used - shadow->locals;
  recorder.trace().inputs = static_cast<uint32_t>(used);
  recorder.trace().takes_inputs = true;
  for (int i = 0; i < used; ++i) {
    PyObject* object = cpython::slot(recorder.frames.root, i);
    if (object == nullptr) continue;
    Val& slot = shadow->slots[static_cast<size_t>(i)];
    recorder.loading.opening =
        recorder.varying() != nullptr && recorder.varying()->is_open_input(static_cast<uint32_t>(i));
    slot = entry_input(recorder, recorder.frames.root, i, Val::reg(static_cast<uint32_t>(i)));
    recorder.loading.opening = false;
    if (slot.is_null()) return false;
  }
  shadow->mark = recorder.here();
  recorder.push_frame(std::move(shadow));
  snapshot(recorder);
  return true;
}

bool bind_root(Recorder& recorder) {
  PyCodeObject* code = cpython::code(recorder.frames.root);
  int slots = cpython::argument_slots(code), named = code->co_argcount + code->co_kwonlyargcount;
  bool star = (code->co_flags & CO_VARARGS) != 0;
  auto shadow = first_shadow(recorder, recorder.frames.root, slots);
  recorder.trace().inputs = static_cast<uint32_t>(slots);
  for (int i = 0; i < slots; ++i) {
    PyObject* object = cpython::slot(recorder.frames.root, i);
    Val source = Val::reg(static_cast<uint32_t>(i));
    if (object == nullptr) return false;
    if (i >= named) {
      const bool tuple = star && i == named;
      if (is_too_much(recorder, object)) return false;
      shadow->local(i) =
          tuple ? input_sequence(recorder, object, source, 0, true) : input_dict(recorder, object, source, 0, true);
    } else {
      shadow->local(i) =
          is_too_much(recorder, object) ? by_type(recorder, object, source) : input(recorder, object, source, 0);
    }
    if (shadow->local(i).is_null()) return false;
  }
  recorder.push_frame(std::move(shadow));
  run_prologue(recorder, recorder.frames.top());
  return true;
}

}  // namespace pijit
