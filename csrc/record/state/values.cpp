// Shadow values: constants, virtual objects with their content models, and what turns one kind into another.
#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "ir/scalars.h"
#include "record/limits.h"
#include "record/pace.h"
#include "record/state/contents.h"

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

Val Recorder::constant(PyObject* object) {
  if (is_plain_const(object) || cpython::dies_unnoticed(Py_TYPE(object))) return owned(object);
  if (!heap_.arguments.empty())
    if (const Val found = argument(object); !found.is_null()) return found;
  if (adapter_ != nullptr && adapter_->is_tensor(object)) return tensor_input(object);
  if (PyList_CheckExact(object))
    if (const Val loaded = list_by_kind(object); !loaded.is_null()) return loaded;
  return Val::constant(object);
}

Val Recorder::tensor_input(PyObject* tensor) {
  bool created;
  Fact& fact = reads_.facts.find(tensor, FactKind::kTensor, &created);
  if (created) {
    Val reg = add_reg(Rep::kTensor, Py_TYPE(tensor), tensor);
    fact.guard = reg.index();
    take_tensor(Val::constant(tensor), tensor, reg);
    return reg;
  }
  return Val::reg(fact.guard);
}

void Recorder::take_tensor(Val source, PyObject* tensor, Val reg) {
  loading_.tensor_sources[reg.index()] = source;
  adapter_->add_input(inputs(), source, tensor, reg.index());
  if (keeps_inputs()) trace_->kept.emplace_back(reg.index(), Ref::borrow(tensor));
}

Val Recorder::tensor_source(Val tensor) const {
  auto found = loading_.tensor_sources.find(tensor.index());
  return found == loading_.tensor_sources.end() ? Val() : found->second;
}

Val Recorder::add_reg(Rep rep, PyTypeObject* type, PyObject* observed) {
  RegInfo info;
  info.rep = rep;
  info.type = type;
  info.epoch = static_cast<uint32_t>(trace_->epochs.size());
  trace_->regs.push_back(info);
  heap_.reg_objects.push_back(observed);
  const Val reg = Val::reg(static_cast<uint32_t>(trace_->regs.size() - 1));
  if (rep == Rep::kObject) set_type(reg, type);
  return reg;
}

void Recorder::set_type(Val reg, PyTypeObject* type) {
  trace_->regs[reg.index()].type = type;
  if (type != nullptr && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0) foreign_.typed.push_back(reg.index());
}

Val Recorder::new_int(int64_t observed) {
  const Ref number = Ref::steal(PyLong_FromLongLong(observed));
  return number ? add_reg(Rep::kInt, &PyLong_Type, owned(number.get()).object()) : Val();
}

RegFacts Recorder::facts(Val reg) const {
  const RegInfo& info = trace_->regs[reg.index()];
  return {info.rep, info.type};
}

bool Recorder::touches_tensor(Val value) const {
  return value.is_reg() && trace_->regs[value.index()].rep == Rep::kTensor;
}

namespace {

// Objects of the kind may be of one class or another, as who looks at the trace wants to know.
bool has_own_class(VirtualKind kind) {
  return kind == VirtualKind::kTuple || kind == VirtualKind::kDict || kind == VirtualKind::kInstance ||
         kind == VirtualKind::kDeque || kind == VirtualKind::kLazy || kind == VirtualKind::kView ||
         kind == VirtualKind::kException;
}

}  // namespace

// A class of Python is found again by the guards that led to it, one of C by nothing.
void Recorder::own_class(PyTypeObject* type) {
  if (type == nullptr || type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type) return;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) owned(reinterpret_cast<PyObject*>(type));
}

Val Recorder::new_virtual(VirtualKind kind, PyTypeObject* type) {
  if (has_own_class(kind)) own_class(type);
  const Val made = heap_.add(kind, type);
  model(made).switches = cpython::thread_switches(thread_);
  return made;
}

void Recorder::log(Val object, LogOp op, Val key, Val value, uint32_t index) {
  LogEntry entry{};
  entry.op = op;
  entry.index = index;
  entry.key = key;
  entry.value = value;
  heap_.note_part(object, entry);
  if (trace_->virtuals[object.index()].reg != kNone) return write_through(object, op, key, value);
  heap_.log(object, entry);
}

// The object is real already: what is done to it now is done by a node.
void Recorder::write_through(Val object, LogOp op, Val key, Val value) {
  note_lasting();
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
      return stop(Abort::kWrite, "a container that escaped");
  }
  const bool item = node_op == Op::kStoreItem || node_op == Op::kDelItem;
  if (item && model(object).kind != VirtualKind::kDict) return stop(Abort::kWrite, "an object that escaped");
  value = materialize(value);
  key = materialize(key);
  if (!live_) return;
  Node& node = emit_node(node_op);
  node.a = Val::reg(trace_->virtuals[object.index()].reg);
  node.b = key;
  node.c = value;
}

Val Recorder::new_sequence(VirtualKind kind, PyTypeObject* type, const Val* items, size_t count) {
  Val object = new_virtual(kind, type);
  Model& content = model(object);
  content.items.assign(items, items + count);
  for (size_t i = 0; i < count; ++i) log(object, LogOp::kItem, Val(), items[i], static_cast<uint32_t>(i));
  return object;
}

Val Recorder::new_tuple(PyTypeObject* type, const Val* items, size_t count) {
  static PyObject* const empty = PyTuple_New(0);  // the one that there is
  if (count == 0 && type == &PyTuple_Type) return Val::constant(empty);
  return new_sequence(VirtualKind::kTuple, type, items, count);
}

Val Recorder::new_list(const Val* items, size_t count) {
  return new_sequence(VirtualKind::kList, &PyList_Type, items, count);
}

Val Recorder::new_dict() {
  return new_virtual(VirtualKind::kDict, &PyDict_Type);
}

Val Recorder::new_iterator(Val iterable) {
  Val iterator = new_virtual(VirtualKind::kIterator, &PyTupleIter_Type);
  set_field(iterator, field::kIterator::kSource, iterable);
  return iterator;
}

void Recorder::set_field(Val object, uint32_t field, Val value) {
  Model& content = model(object);
  if (content.items.size() <= field) content.items.resize(field + 1);
  content.items[field] = value;
  log(object, LogOp::kField, Val(), value, field);
}

void Recorder::dict_set(Val dict, PyObject* key, Val value) {
  Model* content = &model(dict);
  if (content->owner != kNone) return attr_set(Val::virtual_object(content->owner), key, value);
  ptrdiff_t at = content->keys.find(key);
  if (at >= 0) {
    content->items[static_cast<size_t>(at)] = value;
    trace_->virtuals[dict.index()].rewritten = true;
  } else {
    content->keys.push_back(key);
    content->items.push_back(value);
    reshape(dict);
  }
  if (content->kind == VirtualKind::kSet) {
    log(dict, LogOp::kItem, Val(), value);
  } else {
    log(dict, LogOp::kSetItem, keep_key(key), value);
  }
}

// A fresh object is at an address that nothing older names: its number is compared by an object that the trace keeps.
// That of a scalar is only known to be no other object's; which of several equal ones it is, no guard says.
Val Recorder::address_of(Val value) {
  if (value.is_virtual() && model(value).address != kNone) return Val::virtual_object(model(value).address);
  const Val address = new_virtual(VirtualKind::kAddress, &PyLong_Type);
  set_field(address, field::kAddress::kObject, value);
  if (!value.is_virtual()) {
    trace_->virtuals[address.index()].buildable = false;
    return address;
  }
  model(value).address = address.index();
  trace_->owned.push_back(Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))));
  PyObject* key = trace_->owned.back().get();
  model(address).keys.push_back(key);
  heap_.virtual_keys[key] = address;
  heap_.old_addresses = heap_.old_addresses || !is_fresh(value);
  if (is_built(value) && is_fresh(value)) materialize(address);
  return address;
}

// Whether the keys of a virtual dict or set are addresses of others than that object, which may be one that existed
// before: an argument, or a scalar.
bool Recorder::are_other_addresses(Val container, Val object) {
  for (PyObject* key : Objects(model(container).keys)) {
    if (const Val fresh = heap_.fresh_key(key); !fresh.is_null()) {
      if (is_virtual(fresh, VirtualKind::kAddress)) continue;
      return false;
    }
    auto* known = PyLong_CheckExact(key) ? static_cast<PyObject*>(PyLong_AsVoidPtr(key)) : nullptr;
    if (heap_.addresses.count(known) == 0 || (object.is_virtual() && is_argument(object, known))) return false;
  }
  return live_;
}

PyObject* Recorder::key_in(Val container, Val key) {
  if (is_virtual(key, VirtualKind::kAddress) && !model(key).keys.empty()) {
    const Val object = virtual_field(key, 0);
    if (!container.is_virtual() || is_real(container)) return nullptr;
    if (!is_fresh(object) && !are_other_addresses(container, object)) return nullptr;
    return model(key).keys[0];
  }
  PyObject* plain = key_of(key);
  return plain != nullptr && may_be_address(container, plain) ? nullptr : plain;
}

// Whether a key of the container is the address of an object that existed before, and may be this number.
bool Recorder::may_be_address(Val container, PyObject* number) {
  if (!heap_.old_addresses || !container.is_virtual() || !(PyLong_Check(number) || PyFloat_Check(number))) return false;
  const auto& keys = model(container).keys;
  return std::any_of(keys.begin(), keys.end(), [&](PyObject* key) {
    const Val fresh = heap_.fresh_key(key);
    return is_virtual(fresh, VirtualKind::kAddress) && !is_fresh(virtual_field(fresh, 0));
  });
}

// A fresh tuple of known items is compared by a copy that the trace keeps, and is itself wherever the key is read.
PyObject* Recorder::key_of(Val value) {
  if (value.is_reg() && !touches_tensor(value)) value = force(value);
  if (!live_) return nullptr;
  if (value.is_const()) {
    if (!cpython::is_native_key(value.object())) return nullptr;
    meet_key(value.object());
    return value.object();
  }
  if (!value.is_virtual()) return nullptr;
  if (is_virtual(value, VirtualKind::kAddress))
    return model(value).keys.empty() || !is_fresh(virtual_field(value, 0)) ? nullptr : model(value).keys[0];
  if (!is_virtual(value, VirtualKind::kTuple)) {
    PyObject* object = model(value).real;
    const bool plain = is_virtual(value, VirtualKind::kInstance) || is_virtual(value, VirtualKind::kFunction);
    if (!plain || object == nullptr || !cpython::is_native_key(object)) return nullptr;
    const Virtual& record = trace_->virtuals[value.index()];
    if (record.reg != kNone && record.reg_time == 0) return nullptr;  // an argument: another object in another call
    guard_type_version(Py_TYPE(object));
    heap_.virtual_keys[object] = value;
    return live_ ? object : nullptr;
  }
  if (type_of(value) != &PyTuple_Type) return nullptr;
  const Vals items = model(value).items;
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* item = key_of(items[i]);
    if (item == nullptr) return nullptr;
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), new_reference(item));
  }
  trace_->owned.push_back(Ref::borrow(made.get()));
  heap_.virtual_keys[made.get()] = value;
  return made.get();
}

// An object that was there before is used as a key. What a key stands for is kept by address, and nobody is told when
// such an object dies: where foreign code has run since, another may stand there. So whoever brings a key along says
// what it is now. Of two objects at one address the earlier is dead, and in no container any more. A tuple that stands
// for something is kept by the trace, and no other is ever at its address: it stays what it is.
void Recorder::meet_key(PyObject* key) {
  if (heap_.virtual_keys.empty() || cpython::is_scalar(key) || PyTuple_CheckExact(key) ||
      heap_.virtual_keys.count(key) == 0)
    return;
  heap_.virtual_keys[key] = constant(key);
}

// A key is a value (kept) or a native identity key whose container is proven.
Val Recorder::keep_key(PyObject* key) {
  if (const Val fresh = heap_.fresh_key(key); !fresh.is_null()) return fresh;
  return cpython::dies_unnoticed(Py_TYPE(key)) ? owned(key) : Val::constant(key);
}

bool Recorder::dict_delete(Val dict, PyObject* key) {
  Model& content = model(dict);
  if (content.owner != kNone) return false;
  ptrdiff_t at = content.keys.find(key);
  if (at < 0) return false;
  content.keys.erase(at);
  content.items.erase(content.items.begin() + at);
  reshape(dict);
  log(dict, LogOp::kDelItem, keep_key(key), Val());
  return true;
}

// The model alone: what a node has written already, or (Null) deleted.
void Recorder::dict_put(Val dict, PyObject* key, Val value) {
  const uint32_t owner = model(dict).owner;
  Model& content = owner == kNone ? model(dict) : model(owner);
  note_lasting();
  KeyList& keys = owner == kNone ? content.keys : content.names;
  Vals& values = owner == kNone ? content.items : content.attrs;
  const ptrdiff_t at = keys.find(key);
  if (at >= 0 && !value.is_null()) {
    values[static_cast<size_t>(at)] = value;
    mention(owner == kNone ? dict : Val::virtual_object(owner), value, static_cast<size_t>(at));
    return;
  }
  reshape(dict);
  if (at >= 0) {
    keys.erase(at);
    values.erase(values.begin() + at);
  } else {
    keys.push_back(owner == kNone ? key : owned(key).object());
    values.push_back(value);
    mention(owner == kNone ? dict : Val::virtual_object(owner), value, values.size() - 1);
  }
}

bool Recorder::dict_find(Val dict, PyObject* key, Val* value) {
  Model& content = model(dict);
  if (content.owner != kNone) return attr_find(Val::virtual_object(content.owner), key, value);
  ptrdiff_t at = content.keys.find(key);
  if (at < 0) return false;
  *value = content.items[static_cast<size_t>(at)];
  return true;
}

void Recorder::attr_set(Val object, PyObject* name, Val value) {
  Model& content = model(object);
  ptrdiff_t at = content.names.find(name);
  if (at >= 0) {
    content.attrs[static_cast<size_t>(at)] = value;
    trace_->virtuals[object.index()].rewritten = true;
  } else {
    content.names.push_back(name);
    content.attrs.push_back(value);
    reshape(object);
  }
  log(object, LogOp::kSetAttr, owned(name), value);
}

bool Recorder::attr_delete(Val object, PyObject* name) {
  Model& content = model(object);
  const ptrdiff_t at = content.names.find(name);
  if (at < 0) return false;
  content.names.erase(at);
  content.attrs.erase(content.attrs.begin() + at);
  reshape(object);
  log(object, LogOp::kDelAttr, owned(name), Val());
  return live_;
}

bool Recorder::attr_find(Val object, PyObject* name, Val* value) {
  Model& content = model(object);
  ptrdiff_t at = content.names.find(name);
  if (at < 0) return false;
  *value = content.attrs[static_cast<size_t>(at)];
  return true;
}

Val Recorder::force_const(Val value, PyObject* observed) {
  if (!value.is_reg()) return value.is_const() ? value : Val();
  const RegInfo info = trace_->regs[value.index()];
  if (observed == nullptr) observed = heap_.reg_objects[value.index()];
  if (observed == nullptr) return Val();
  if (info.rep == Rep::kObject) return fix(value, observed) ? owned(observed) : Val();
  Reg now{};
  if (!number_of(observed, &now) || now.rep != info.rep) return Val();
  const uint64_t bits = number_bits(now);
  const Op op = info.rep == Rep::kInt ? Op::kGuardInt : info.rep == Rep::kFloat ? Op::kGuardFloat : Op::kGuardBool;
  Node& node = emit_node(op);
  node.a = value;
  node.imm = bits;
  return owned(observed);
}

Val Recorder::unbox(Val value, PyObject* observed) {
  if (!value.is_reg() || observed == nullptr) return Val();
  const RegInfo info = trace_->regs[value.index()];
  Reg now{};
  if (info.rep != Rep::kObject || info.type != Py_TYPE(observed) || !number_of(observed, &now)) return Val();
  uint32_t& at = numbers_.of[value.index()].node;
  if (at < trace_->nodes.size() && trace_->nodes[at].op == Op::kUnbox && trace_->nodes[at].a == value)
    return Val::reg(trace_->nodes[at].out);
  const Val number = add_reg(now.rep, info.type, observed);
  Node& node = emit_node(Op::kUnbox);
  node.a = value;
  node.out = number.index();
  at = static_cast<uint32_t>(trace_->nodes.size() - 1);
  return number;
}

Val Recorder::force(Val value) {
  return value.is_const() ? value : force_const(value, nullptr);
}

bool Recorder::can_build(uint32_t index, uint32_t time) {
  if (!trace_->virtuals[index].buildable || model(index).begun <= time) return false;
  return model(index).kind != VirtualKind::kIterator || !is_stale(index, time);
}

// The __dict__ of a fresh instance.
Val Recorder::dict_of(Val instance) {
  const uint32_t known = model(instance).dict;
  if (known != kNone) return Val::virtual_object(known);
  const Val dict = new_virtual(VirtualKind::kDict, &PyDict_Type);
  model(dict).owner = instance.index();
  model(instance).dict = dict.index();
  log(dict, LogOp::kField, Val(), instance);
  if (is_built(instance)) share_dict(instance);
  return dict;
}

// The instance is real, and so is its __dict__.
void Recorder::share_dict(Val instance) {
  const Val out = add_reg(Rep::kObject, &PyDict_Type, nullptr);
  Node& node = emit_node(Op::kPure);  // it makes one where there is none; nobody sees that
  node.a = Val::constant(getattr_function());
  node.imm = reinterpret_cast<uintptr_t>(&PyDict_Type);
  node.out = out.index();
  node.first = static_cast<uint32_t>(trace_->operands.size());
  node.count = 2;
  trace_->operands.insert(trace_->operands.end(),
                          {Val::reg(trace_->virtuals[instance.index()].reg), owned(names().dict)});
  heap_.becomes_real(Val::virtual_object(model(instance).dict), out.index(), ++trace_->clock);
}

// What a generator holds. It is CPython's from now on.
void Recorder::materialize_suspended(uint32_t generator) {
  model(generator).suspended = nullptr;
  const LogEntry state = trace_->generator_state(generator, trace_->clock);
  if (state.op != LogOp::kFrame) return;
  const FrameState frame = trace_->frame_states[state.index];
  materialize(frame.handled);
  for (uint32_t i = 0; i < frame.locals + frame.stack && live_; ++i) materialize(trace_->slots[frame.first + i]);
}

// What the adapter is given, it may look into.
Val Recorder::materialize(Operand operand) {
  const Val value = operand.value;
  const bool real = value.is_virtual() ? is_built(value) : !are_scalars({value});
  if (!heap_.fillings.empty() && real) flush_fillings();
  return live_ ? materialize(value) : Val();
}

Val Recorder::materialize(Val value) {
  if (!heap_.fillings.empty() && is_filled(value)) flush_fillings();
  if (value.is_const() || value.is_null()) return value;
  if (value.is_reg()) {
    const RegInfo info = trace_->regs[value.index()];
    if (info.rep == Rep::kObject || info.rep == Rep::kTensor) return value;
    Val boxed = add_reg(Rep::kObject, info.type, heap_.reg_objects[value.index()]);
    Node& node = emit_node(Op::kBox);
    node.b = value;
    node.out = boxed.index();
    return boxed;
  }
  uint32_t index = value.index();
  Model& content = model(index);
  if (trace_->virtuals[index].reg != kNone) {
    if (std::exchange(content.own, false)) {  // and what it holds
      heap_.due.push_back(index);
      const Vals items = content.items;
      for (Val item : items)
        if (item.is_virtual()) materialize(item);
    }
    return Val::reg(trace_->virtuals[index].reg);
  }
  if (content.owner != kNone) {
    materialize(Val::virtual_object(content.owner));
    if (live_ && trace_->virtuals[index].reg != kNone) return Val::reg(trace_->virtuals[index].reg);
  }
  if (!live_) return Val();
  const Nesting nesting;
  if (nesting.too_deep()) return stop(Abort::kUnbuildable, "objects nested too deeply"), Val();
  const bool address = content.kind == VirtualKind::kAddress;
  if (address) {  // of a scalar: from now on it is this very one
    if (content.items[0].is_const()) trace_->exact.push_back(content.items[0].object());
    trace_->virtuals[index].buildable = true;
  }
  if (content.building || is_running(value) || !can_build(index, trace_->clock)) {
    stop(Abort::kUnbuildable, virtual_name(content.kind));
    return Val();
  }
  content.building = true;
  for (size_t i = 0; i < content.items.size() && live_; ++i)
    if (!is_virtual(content.items[i], VirtualKind::kHandled)) materialize(content.items[i]);
  for (size_t i = 0; i < content.attrs.size() && live_; ++i) materialize(content.attrs[i]);
  if (!address && !heap_.virtual_keys.empty())
    for (size_t i = 0; i < content.keys.size() && live_; ++i) materialize(heap_.fresh_key(content.keys[i]));
  if (content.kind == VirtualKind::kGenerator && live_) materialize_suspended(index);
  for (size_t i = 0; i < content.traced.size() && live_; ++i) materialize_frame(content.traced[i].frame);
  content.building = false;
  const bool traced = !content.traced.empty();
  if (live_ && traced && !snapshot_usable(snapshot())) stop(Abort::kUnbuildable, snapshots_.unusable_reason);
  if (!live_) return Val();
  Val built = add_reg(Rep::kObject, content.type, content.real);
  uint32_t time = ++trace_->clock;
  Node& node = emit_node(Op::kBuild);
  node.a = value;
  node.out = built.index();
  node.time = time;
  if (traced) {
    node.snapshot = snapshot();
    raise_.any_traced_built = true;
  }
  heap_.becomes_real(value, built.index(), time);
  if (content.dict != kNone) share_dict(value);
  // Its number may be needed longer than the object, which is not to live longer for it.
  if (content.address != kNone && !model(content.address).building) materialize(Val::virtual_object(content.address));
  for (size_t i = 0; i < content.tracebacks.size() && live_; ++i)
    if (const Val shown = content.tracebacks[i]; !model(shown).building) materialize(shown);
  return live_ ? built : Val();
}

}  // namespace pijit
