// The root frame's arguments: each is a tensor input, a guarded constant, or a container of such.
//
// A container that the caller passed is an object of its own (its register is the argument); the tuple of *args and the
// dict of **kwargs were made for this call, so they are virtual like any other.
#include "cpython/keys.h"
#include "record/recorder.h"

namespace pijit {
namespace {

constexpr int kMaxDepth = 4;
constexpr Py_ssize_t kMaxItems = 256;

bool may_vary_argument(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object);
}

}  // namespace

Guard& Recorder::input_guard(GuardOp op, Val source) {
  Guard guard{};
  guard.op = op;
  guard.subject = source;
  trace_->guards.push_back(guard);
  return trace_->guards.back();
}

Val Recorder::load_input(GuardOp op, Val source, Py_ssize_t index, PyObject* object) {
  Val reg = add_reg(Rep::kObject, Py_TYPE(object), object);
  Guard& guard = input_guard(op, source);
  guard.number = static_cast<uint64_t>(index);
  guard.out = reg.index();
  return reg;
}

// Gives a container that exists already its register: it is real from the start.
Val Recorder::real_container(Val object, Val source) {
  Virtual& record = trace_->virtuals[object.index()];
  record.reg = source.index();
  record.birth = record.reg_time = 0;
  note_argument(model(object).real, object);
  arguments_.push_back(object);
  return object;
}

Val Recorder::input_sequence(PyObject* object, Val source, int depth, bool fresh) {
  bool tuple = PyTuple_CheckExact(object);
  Py_ssize_t size = tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object);
  if (size > kMaxItems || depth > kMaxDepth) return Val();
  input_guard(GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
  input_guard(tuple ? GuardOp::kTupleSize : GuardOp::kListSize, source).number = static_cast<uint64_t>(size);
  Vals items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    Val loaded = load_input(tuple ? GuardOp::kLoadTupleItem : GuardOp::kLoadListItem, source, i, item);
    items.push_back(input(item, loaded, depth + 1));
    if (items.back().is_null()) return Val();
  }
  Val result =
      new_sequence(tuple ? VirtualKind::kTuple : VirtualKind::kList, Py_TYPE(object), items.data(), items.size());
  model(result).real = object;
  if (!tuple) containers_.push_back(source);
  return fresh ? result : real_container(result, source);
}

Val Recorder::input_dict(PyObject* object, Val source, int depth, bool fresh) {
  Py_ssize_t size = PyDict_GET_SIZE(object), position = 0, index = 0;
  if (size > kMaxItems || depth > kMaxDepth) return Val();
  input_guard(GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(&PyDict_Type);
  PyObject *key, *value;
  Objects keys;
  while (PyDict_Next(object, &position, &key, &value)) {
    if (!cpython::is_scalar(key)) return Val();
    keys.push_back(owned(key).object());
  }
  Guard& sized = input_guard(GuardOp::kDictSize, source);
  sized.number = static_cast<uint64_t>(size);
  sized.first = static_cast<uint32_t>(trace_->guard_items.size());
  sized.count = static_cast<uint32_t>(size);
  trace_->guard_items.insert(trace_->guard_items.end(), keys.begin(), keys.end());
  Val result = new_dict();
  model(result).real = object;
  position = 0;
  while (PyDict_Next(object, &position, &key, &value)) {
    Val item = input(value, load_input(GuardOp::kLoadDictValueAt, source, index++, value), depth + 1);
    if (item.is_null()) return Val();
    dict_set(result, key, item);
  }
  if (!fresh) containers_.push_back(source);
  return fresh ? result : real_container(result, source);
}

Val Recorder::input(PyObject* object, Val source, int depth) {
  if (adapter_ != nullptr && adapter_->is_tensor(object)) {
    Val tensor = add_reg(Rep::kTensor, Py_TYPE(object), object);
    adapter_->add_input(inputs(), source, object, tensor.index());
    tensor_sources_[tensor.index()] = source;
    return tensor;
  }
  if (cpython::is_scalar(object)) {
    if (varying_ != nullptr && may_vary_argument(object) && varying_->has_argument(argument_way(*trace_, source)))
      return vary(source, object);
    input_guard(GuardOp::kScalar, source).expected = object;
    return owned(object);
  }
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) return input_sequence(object, source, depth, false);
  if (PyDict_CheckExact(object)) return input_dict(object, source, depth, false);
  if (PyGen_CheckExact(object)) {
    input_guard(GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(&PyGen_Type);
    return source;
  }
  input_guard(GuardOp::kIs, source).expected = object;
  input_guard(GuardOp::kType, source).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return cpython::dies_unnoticed(Py_TYPE(object)) ? owned(object) : Val::constant(object);
}

bool Recorder::bind_root() {
  auto shadow = std::make_unique<ShadowFrame>();
  shadow->frame = root_;
  shadow->code = cpython::code(root_);
  shadow->function = Val::constant(cpython::function(root_));
  shadow->locals = shadow->code->co_nlocalsplus;
  shadow->slots.assign(static_cast<size_t>(shadow->locals + shadow->code->co_stacksize + 1), Val());
  PyCodeObject* code = shadow->code;
  int slots = cpython::argument_slots(code), named = code->co_argcount + code->co_kwonlyargcount;
  bool star = (code->co_flags & CO_VARARGS) != 0;
  trace_->inputs = static_cast<uint32_t>(slots);
  for (int i = 0; i < slots; ++i) {
    PyObject* object = cpython::slots(root_)[i];
    add_reg(Rep::kObject, object == nullptr ? nullptr : Py_TYPE(object), object);
  }
  for (int i = 0; i < slots; ++i) {
    PyObject* object = cpython::slots(root_)[i];
    Val source = Val::reg(static_cast<uint32_t>(i));
    if (object == nullptr) return false;
    if (i >= named) {
      bool tuple = star && i == named;
      shadow->local(i) = tuple ? input_sequence(object, source, 0, true) : input_dict(object, source, 0, true);
    } else {
      shadow->local(i) = input(object, source, 0);
    }
    if (shadow->local(i).is_null()) return false;
  }
  // Two containers that are distinct objects now may be one object in another call.
  for (size_t i = 0; i < containers_.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      if (real(containers_[i]) == real(containers_[k])) return false;
      input_guard(GuardOp::kNotSame, containers_[i]).number = containers_[k].index();
    }
  push_frame(std::move(shadow));
  run_prologue(*this, top_frame());
  return true;
}

}  // namespace pijit
