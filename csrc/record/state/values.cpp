// Shadow values: constants, virtual objects with their content models, and what turns one kind into another.
#include "record/state/values.h"

#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "ir/scalars.h"
#include "record/pace.h"
#include "record/state/contents.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {

const Names& names() noexcept {
  static const Names table = [] {
    auto name = [](const char* text) { return PyUnicode_InternFromString(text); };
    Names n{};
    n.getattr = name("__getattr__");
    n.getattribute = name("__getattribute__");
    n.setattr = name("__setattr__");
    n.delattr = name("__delattr__");
    n.call = name("__call__");
    n.init = name("__init__");
    n.new_ = name("__new__");
    n.bool_ = name("__bool__");
    n.len = name("__len__");
    n.iter = name("__iter__");
    n.next = name("__next__");
    n.contains = name("__contains__");
    n.getitem = name("__getitem__");
    n.setitem = name("__setitem__");
    n.delitem = name("__delitem__");
    n.get = name("__get__");
    n.set = name("__set__");
    n.delete_ = name("__delete__");
    n.dict = name("__dict__");
    n.class_ = name("__class__");
    n.enter = name("__enter__");
    n.exit = name("__exit__");
    n.hash = name("__hash__");
    n.eq = name("__eq__");
    n.code = name("__code__");
    n.name = name("__name__");
    n.module = name("__module__");
    n.mro = name("__mro__");
    n.missing = name("__missing__");
    n.classcell = name("__class__");
    n.class_getitem = name("__class_getitem__");
    return n;
  }();
  return table;
}

namespace {

Val tensor_input(Recorder& recorder, PyObject* tensor) {
  bool created;
  Fact& fact = recorder.reads.facts.find(tensor, FactKind::kTensor, &created);
  if (created) {
    Val reg = add_reg(recorder, Rep::kTensor, Py_TYPE(tensor), tensor);
    fact.guard = reg.index();
    take_tensor(recorder, Val::constant(tensor), tensor, reg);
    return reg;
  }
  return Val::reg(fact.guard);
}

}  // namespace

Val constant(Recorder& recorder, PyObject* object) {
  if (is_plain_const(object) || cpython::dies_unnoticed(Py_TYPE(object))) return recorder.reads.owned(object);
  if (!recorder.heap.arguments.empty())
    if (const Val found = argument(recorder, object); !found.is_null()) return found;
  if (recorder.adapter() != nullptr && recorder.adapter()->is_tensor(object)) return tensor_input(recorder, object);
  if (PyList_Check(object))
    if (const Val loaded = list_by_kind(recorder, object); !loaded.is_null()) return loaded;
  return Val::constant(object);
}

void take_tensor(Recorder& recorder, Val source, PyObject* tensor, Val reg) {
  recorder.loading.tensor_sources[reg.index()] = source;
  recorder.adapter()->add_input(recorder.inputs(), source, tensor, reg.index());
  if (keeps_inputs()) recorder.trace().kept.emplace_back(reg.index(), Ref::borrow(tensor));
}

Val tensor_source(const Loading& loading, Val tensor) {
  auto found = loading.tensor_sources.find(tensor.index());
  return found == loading.tensor_sources.end() ? Val() : found->second;
}

Val add_reg(Recorder& recorder, Rep rep, PyTypeObject* type, PyObject* observed) {
  RegInfo info;
  info.rep = rep;
  info.type = type;
  info.epoch = static_cast<uint32_t>(recorder.trace().epochs.size());
  recorder.trace().regs.push_back(info);
  recorder.heap.reg_objects.push_back(observed);
  const Val reg = Val::reg(static_cast<uint32_t>(recorder.trace().regs.size() - 1));
  if (rep == Rep::kObject) recorder.foreign.set_type(reg, type);
  return reg;
}

Val Recorder::new_reg(Rep rep, PyTypeObject* type) {
  return add_reg(*this, rep, type, nullptr);
}

Val Recorder::new_int(int64_t observed) {
  const Ref number = Ref::steal(PyLong_FromLongLong(observed));
  return number ? add_reg(*this, Rep::kInt, &PyLong_Type, reads.owned(number.get()).object()) : Val();
}

RegFacts Recorder::facts(Val reg) const {
  const RegInfo& info = trace_->regs[reg.index()];
  return {info.rep, info.type};
}

bool touches_tensor(const Kernel& recording, Val value) {
  return value.is_reg() && recording.trace().regs[value.index()].rep == Rep::kTensor;
}

namespace {

// Objects of the kind may be of one class or another, as who looks at the trace wants to know.
bool has_own_class(VirtualKind kind) {
  return kind == VirtualKind::kTuple || kind == VirtualKind::kDict || kind == VirtualKind::kInstance ||
         kind == VirtualKind::kDeque || kind == VirtualKind::kLazy || kind == VirtualKind::kView ||
         kind == VirtualKind::kException;
}

// A class of Python is found again by the guards that led to it, one of C by nothing.
void own_class(ReadSet& reads, PyTypeObject* type) {
  if (type == nullptr || type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type) return;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) reads.owned(reinterpret_cast<PyObject*>(type));
}

}  // namespace

Val new_virtual(Recorder& recorder, VirtualKind kind, PyTypeObject* type) {
  if (has_own_class(kind)) own_class(recorder.reads, type);
  const Val made = recorder.heap.add(kind, type);
  if (auto* shared = recorder.heap.model(made).find<family::Shared>())
    shared->switches = cpython::thread_switches(recorder.thread());
  return made;
}

namespace {

// The object is real already: what is done to it now is done by a node.
void write_through(Recorder& recorder, Val object, LogOp op, Val key, Val value) {
  recorder.heap.note_lasting();
  Op node_op;
  switch (op) {
    case LogOp::kSetItem:
      node_op = Op::kStoreItem;
      break;
    case LogOp::kDelItem:
      node_op = Op::kDelItem;
      break;
    case LogOp::kSetAttr:
      node_op = Op::kStoreAttr;
      break;
    case LogOp::kDelAttr:
      node_op = Op::kDelAttr;
      break;
    default:
      return recorder.stop(Abort::kWrite, "a container that escaped");
  }
  const bool item = node_op == Op::kStoreItem || node_op == Op::kDelItem;
  if (item && !holds_dict(recorder.heap.model(object))) return recorder.stop(Abort::kWrite, "an object that escaped");
  value = materialize(recorder, value);
  key = materialize(recorder, key);
  if (!recorder.live()) return;
  Node& node = emit_node(recorder, node_op);
  node.a = Val::reg(recorder.trace().virtuals[object.index()].reg);
  node.b = key;
  node.c = value;
}

}  // namespace

void log(Recorder& recorder, Val object, LogOp op, Val key, Val value, uint32_t index) {
  LogEntry entry{};
  entry.op = op;
  entry.index = index;
  entry.key = key;
  entry.value = value;
  recorder.heap.note_part(object, entry);
  if (recorder.trace().virtuals[object.index()].reg != kNone) return write_through(recorder, object, op, key, value);
  recorder.heap.log(object, entry);
}

Val new_sequence(Recorder& recorder, VirtualKind kind, PyTypeObject* type, const Val* items, size_t count) {
  Val object = new_virtual(recorder, kind, type);
  Model& content = recorder.heap.model(object);
  content.items.assign(items, items + count);
  for (size_t i = 0; i < count; ++i) log(recorder, object, LogOp::kItem, Val(), items[i], static_cast<uint32_t>(i));
  return object;
}

Val Recorder::new_tuple(PyTypeObject* type, const Val* items, size_t count) {
  static PyObject* const empty = PyTuple_New(0);  // the one that there is
  if (count == 0 && type == &PyTuple_Type) return Val::constant(empty);
  return new_sequence(*this, VirtualKind::kTuple, type, items, count);
}

Val Recorder::new_list(const Val* items, size_t count) {
  return new_sequence(*this, VirtualKind::kList, &PyList_Type, items, count);
}

Val Recorder::new_dict(const Val* keys, const Val* values, size_t count) {
  const Val dict = pijit::new_dict(*this);
  for (size_t i = 0; i < count; ++i) dict_set(*this, dict, keys[i].object(), values[i]);
  return dict;
}

Val Recorder::product(const Val* factors, size_t count) {
  Ref known = Ref::steal(PyLong_FromLong(1));
  Val result;
  for (size_t i = 0; i < count && live(); ++i) {
    if (factors[i].is_const())
      known = Ref::steal(PyNumber_Multiply(known.get(), factors[i].object()));
    else
      result = result.is_null() ? factors[i] : scalar_node(*this, ScalarOp::kMultiply, result, factors[i]);
  }
  if (!live()) return Val();
  const Val constant = reads.owned(known.get());
  if (result.is_null()) return constant;
  int overflow = 0;
  const bool one = PyLong_AsLongAndOverflow(known.get(), &overflow) == 1;
  return one ? result : scalar_node(*this, ScalarOp::kMultiply, result, constant);
}

Val new_dict(Recorder& recorder) {
  return new_virtual(recorder, VirtualKind::kDict, &PyDict_Type);
}

Val new_iterator(Recorder& recorder, Val iterable) {
  Val iterator = new_virtual(recorder, VirtualKind::kIterator, &PyTupleIter_Type);
  set_field(recorder, iterator, field::kIterator::kSource, iterable);
  return iterator;
}

void set_field(Recorder& recorder, Val object, uint32_t field, Val value) {
  Model& content = recorder.heap.model(object);
  if (content.items.size() <= field) content.items.resize(field + 1);
  content.items[field] = value;
  log(recorder, object, LogOp::kField, Val(), value, field);
}

void dict_set(Recorder& recorder, Val dict, PyObject* key, Val value) {
  Model& content = recorder.heap.model(dict);
  if (content.owner() != kNone) return attr_set(recorder, Val::virtual_object(content.owner()), key, value);
  KeyList& keys = content.keys();
  ptrdiff_t at = keys.find(key);
  if (at >= 0) {
    content.items[static_cast<size_t>(at)] = value;
    recorder.trace().virtuals[dict.index()].rewritten = true;
  } else {
    keys.push_back(key);
    content.items.push_back(value);
    recorder.heap.reshape(dict);
  }
  if (content.kind == VirtualKind::kSet) {
    log(recorder, dict, LogOp::kItem, Val(), value);
  } else {
    log(recorder, dict, LogOp::kSetItem, keep_key(recorder, key), value);
  }
}

// A fresh object is at an address that nothing older names: its number is compared by an object that the trace keeps.
// That of a scalar is only known to be no other object's; which of several equal ones it is, no guard says.
Val address_of(Recorder& recorder, Val value) {
  if (value.is_virtual() && recorder.heap.model(value).address != kNone)
    return Val::virtual_object(recorder.heap.model(value).address);
  const Val address = new_virtual(recorder, VirtualKind::kAddress, &PyLong_Type);
  set_field(recorder, address, field::kAddress::kObject, value);
  if (!value.is_virtual()) {
    recorder.trace().virtuals[address.index()].buildable = false;
    return address;
  }
  recorder.heap.model(value).address = address.index();
  recorder.trace().owned.push_back(Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))));
  PyObject* key = recorder.trace().owned.back().get();
  recorder.heap.model(address).get<family::Address>().key = key;
  recorder.heap.virtual_keys[key] = address;
  recorder.heap.old_addresses = recorder.heap.old_addresses || !recorder.heap.is_fresh(value);
  if (recorder.heap.is_built(value) && recorder.heap.is_fresh(value)) materialize(recorder, address);
  return address;
}

// Whether the keys of a virtual dict or set are addresses of others than that object, which may be one that existed
// before: an argument, or a scalar.
bool are_other_addresses(Recorder& recorder, Val container, Val object) {
  const auto* keyed = recorder.heap.model(container).find<family::Keys>();
  for (PyObject* key : keyed == nullptr ? Objects() : Objects(keyed->keys)) {
    if (const Val fresh = recorder.heap.fresh_key(key); !fresh.is_null()) {
      if (recorder.heap.is_virtual(fresh, VirtualKind::kAddress)) continue;
      return false;
    }
    auto* known = PyLong_CheckExact(key) ? static_cast<PyObject*>(PyLong_AsVoidPtr(key)) : nullptr;
    if (recorder.heap.addresses.count(known) == 0 || (object.is_virtual() && is_argument(recorder, object, known)))
      return false;
  }
  return recorder.live();
}

namespace {

// What the number of an object is compared by; null: it is no such number, or that of a scalar.
PyObject* address_key(Heap& heap, Val value) {
  return heap.is_virtual(value, VirtualKind::kAddress) ? heap.model(value).get<family::Address>().key : nullptr;
}

// Whether a key of the container is the address of an object that existed before, and may be this number.
bool may_be_address(Heap& heap, Val container, PyObject* number) {
  if (!heap.old_addresses || !container.is_virtual() || !(PyLong_Check(number) || PyFloat_Check(number))) return false;
  const auto* keyed = heap.model(container).find<family::Keys>();
  if (keyed == nullptr) return false;
  return std::any_of(keyed->keys.begin(), keyed->keys.end(), [&](PyObject* key) {
    const Val fresh = heap.fresh_key(key);
    return heap.is_virtual(fresh, VirtualKind::kAddress) && !heap.is_fresh(heap.virtual_field(fresh, 0));
  });
}

}  // namespace

PyObject* key_in(Recorder& recorder, Val container, Val key) {
  if (PyObject* const address = address_key(recorder.heap, key)) {
    const Val object = recorder.heap.virtual_field(key, 0);
    if (!container.is_virtual() || is_real(recorder.heap, container)) return nullptr;
    if (!recorder.heap.is_fresh(object) && !are_other_addresses(recorder, container, object)) return nullptr;
    return address;
  }
  // One that existed before may compare a tensor with others.
  PyObject* plain = container.is_const() && touches_tensor(recorder, key) ? nullptr : key_of(recorder, key);
  return plain != nullptr && may_be_address(recorder.heap, container, plain) ? nullptr : plain;
}

// A fresh tuple of known items is compared by a copy that the trace keeps, and is itself wherever the key is read.
PyObject* key_of(Recorder& recorder, Val value) {
  if (touches_tensor(recorder, value)) return tensor_key(recorder, value);
  if (value.is_reg()) value = force(recorder, value);
  if (!recorder.live()) return nullptr;
  if (value.is_const()) {
    if (!cpython::is_native_key(value.object())) return nullptr;
    meet_key(recorder, value.object());
    return value.object();
  }
  if (!value.is_virtual()) return nullptr;
  if (recorder.heap.is_virtual(value, VirtualKind::kAddress)) {
    PyObject* const address = address_key(recorder.heap, value);
    return address != nullptr && recorder.heap.is_fresh(recorder.heap.virtual_field(value, 0)) ? address : nullptr;
  }
  if (!recorder.heap.is_virtual(value, VirtualKind::kTuple)) {
    PyObject* object = recorder.heap.model(value).real;
    const bool plain = recorder.heap.is_virtual(value, VirtualKind::kInstance) ||
                       recorder.heap.is_virtual(value, VirtualKind::kFunction);
    if (!plain || object == nullptr || !cpython::is_native_key(object)) return nullptr;
    const Virtual& record = recorder.trace().virtuals[value.index()];
    if (record.reg != kNone && record.reg_time == 0) return nullptr;  // an argument: another object in another call
    recorder.reads.guard_type_version(Py_TYPE(object));
    recorder.heap.virtual_keys[object] = value;
    return recorder.live() ? object : nullptr;
  }
  if (recorder.heap.type_of(value) != &PyTuple_Type) return nullptr;
  const Vals items = recorder.heap.model(value).items;
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* item = touches_tensor(recorder, items[i]) ? nullptr : key_of(recorder, items[i]);
    if (item == nullptr) return nullptr;
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), new_reference(item));
  }
  recorder.trace().owned.push_back(Ref::borrow(made.get()));
  recorder.heap.virtual_keys[made.get()] = value;
  return made.get();
}

// An object that was there before is used as a key. What a key stands for is kept by address, and nobody is told when
// such an object dies: where foreign code has run since, another may stand there. So whoever brings a key along says
// what it is now. Of two objects at one address the earlier is dead, and in no container any more. A tuple that stands
// for something is kept by the trace, and no other is ever at its address: it stays what it is.
void meet_key(Recorder& recorder, PyObject* key) {
  if (recorder.heap.virtual_keys.empty() || cpython::is_scalar(key) || PyTuple_CheckExact(key) ||
      recorder.heap.virtual_keys.count(key) == 0)
    return;
  recorder.heap.virtual_keys[key] = constant(recorder, key);
}

// A key is a value (kept) or a native identity key whose container is proven.
Val keep_key(Recorder& recorder, PyObject* key) {
  if (const Val fresh = recorder.heap.fresh_key(key); !fresh.is_null()) return fresh;
  return cpython::dies_unnoticed(Py_TYPE(key)) ? recorder.reads.owned(key) : Val::constant(key);
}

bool dict_delete(Recorder& recorder, Val dict, PyObject* key) {
  Model& content = recorder.heap.model(dict);
  if (content.owner() != kNone) return false;
  ptrdiff_t at = content.keys().find(key);
  if (at < 0) return false;
  content.keys().erase(at);
  content.items.erase(content.items.begin() + at);
  recorder.heap.reshape(dict);
  log(recorder, dict, LogOp::kDelItem, keep_key(recorder, key), Val());
  return true;
}

// The model alone: what a node has written already, or (Null) deleted.
void dict_put(Recorder& recorder, Val dict, PyObject* key, Val value) {
  const uint32_t owner = recorder.heap.model(dict).owner();
  Model& content = owner == kNone ? recorder.heap.model(dict) : recorder.heap.model(owner);
  recorder.heap.note_lasting();
  KeyList& keys = owner == kNone ? content.keys() : content.attributes().names;
  Vals& values = owner == kNone ? content.items : content.attributes().values;
  const ptrdiff_t at = keys.find(key);
  if (at >= 0 && !value.is_null()) {
    values[static_cast<size_t>(at)] = value;
    recorder.heap.mention(owner == kNone ? dict : Val::virtual_object(owner), value, static_cast<size_t>(at));
    return;
  }
  recorder.heap.reshape(dict);
  if (at >= 0) {
    keys.erase(at);
    values.erase(values.begin() + at);
  } else {
    keys.push_back(owner == kNone ? key : recorder.reads.owned(key).object());
    values.push_back(value);
    recorder.heap.mention(owner == kNone ? dict : Val::virtual_object(owner), value, values.size() - 1);
  }
}

bool dict_find(Heap& heap, Val dict, PyObject* key, Val* value) {
  Model& content = heap.model(dict);
  if (content.owner() != kNone) return attr_find(heap, Val::virtual_object(content.owner()), key, value);
  ptrdiff_t at = content.keys().find(key);
  if (at < 0) return false;
  *value = content.items[static_cast<size_t>(at)];
  return true;
}

void attr_set(Recorder& recorder, Val object, PyObject* name, Val value) {
  auto& attributes = recorder.heap.model(object).attributes();
  const ptrdiff_t at = attributes.names.find(name);
  if (at >= 0) {
    attributes.values[static_cast<size_t>(at)] = value;
    recorder.trace().virtuals[object.index()].rewritten = true;
  } else {
    attributes.names.push_back(name);
    attributes.values.push_back(value);
    recorder.heap.reshape(object);
  }
  log(recorder, object, LogOp::kSetAttr, recorder.reads.owned(name), value);
}

bool attr_delete(Recorder& recorder, Val object, PyObject* name) {
  auto& attributes = recorder.heap.model(object).attributes();
  const ptrdiff_t at = attributes.names.find(name);
  if (at < 0) return false;
  attributes.names.erase(at);
  attributes.values.erase(attributes.values.begin() + at);
  recorder.heap.reshape(object);
  log(recorder, object, LogOp::kDelAttr, recorder.reads.owned(name), Val());
  return recorder.live();
}

bool attr_find(Heap& heap, Val object, PyObject* name, Val* value) {
  const auto* attributes = heap.model(object).find<family::Attributes>();
  const ptrdiff_t at = attributes == nullptr ? -1 : attributes->names.find(name);
  if (at < 0) return false;
  *value = attributes->values[static_cast<size_t>(at)];
  return true;
}

Val Recorder::force_const(Val value, PyObject* observed) {
  if (!value.is_reg()) return value.is_const() ? value : Val();
  const RegInfo info = trace_->regs[value.index()];
  if (observed == nullptr) observed = heap.reg_objects[value.index()];
  if (observed == nullptr) return Val();
  if (info.rep == Rep::kObject) return fix(*this, value, observed) ? reads.owned(observed) : Val();
  Reg now{};
  if (!number_of(observed, &now) || now.rep != info.rep) return Val();
  const ShadowFrame& frame = frames.top();
  if (info.rep != Rep::kBool && frames.size() > 1 && varying() != nullptr &&
      varying()->has_left_at(frame.code, frame.operation)) {
    numbers.stay_open = numbers.leave_frame = true;
    return stop(Abort::kUnknownOperand, "a number that differs from call to call"), Val();
  }
  const uint64_t bits = number_bits(now);
  const Op op = info.rep == Rep::kInt ? Op::kGuardInt : info.rep == Rep::kFloat ? Op::kGuardFloat : Op::kGuardBool;
  Node& node = emit_node(*this, op);
  node.a = value;
  node.imm = bits;
  return reads.owned(observed);
}

Val Recorder::unbox(Val value, PyObject* observed) {
  if (!value.is_reg() || observed == nullptr) return Val();
  const RegInfo info = trace_->regs[value.index()];
  Reg now{};
  if (info.rep != Rep::kObject || info.type != Py_TYPE(observed) || !number_of(observed, &now)) return Val();
  uint32_t& at = numbers.of[value.index()].node;
  if (at < trace_->nodes.size() && trace_->nodes[at].op == Op::kUnbox && trace_->nodes[at].a == value)
    return Val::reg(trace_->nodes[at].out);
  const Val number = add_reg(*this, now.rep, info.type, observed);
  Node& node = emit_node(*this, Op::kUnbox);
  node.a = value;
  node.out = number.index();
  at = static_cast<uint32_t>(trace_->nodes.size() - 1);
  return number;
}

Val force(Recorder& recorder, Val value) {
  return value.is_const() ? value : recorder.force_const(value, nullptr);
}

bool can_build(Heap& heap, uint32_t index, uint32_t time) {
  const auto* progress = heap.model(index).find<family::Progress>();
  if (!heap.trace().virtuals[index].buildable || (progress != nullptr && progress->begun <= time)) return false;
  return heap.model(index).kind != VirtualKind::kIterator || !heap.is_stale(index, time);
}

}  // namespace pijit
