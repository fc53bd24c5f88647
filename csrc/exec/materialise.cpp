// Builds virtual objects, one function per family of virtuals.def.
#include "exec/materialise.h"

#include "cpython/frame.h"
#include "cpython/iterators.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "exec/registers.h"
#include "ir/log.h"

namespace pijit {

namespace {

using namespace function_field;

PyObject* empty_tuple() noexcept {
  static PyObject* const empty = PyTuple_New(0);
  return empty;
}

bool is_dict_kind(PyObject* object) noexcept {
  return PyDict_Check(object);
}

bool set_dict_item(PyObject* dict, PyObject* key, PyObject* value) noexcept {
  return (PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value)) == 0;
}

bool delete_dict_item(PyObject* dict, PyObject* key) noexcept {
  return (PyODict_Check(dict) ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key)) == 0;
}

bool unsupported(const char* what) noexcept {
  PyErr_Format(PyExc_SystemError, "pijit: cannot build %s", what);
  return false;
}

// Takes `steps` items from a built-in iterator; one that ends early is left exhausted.
bool advance(PyObject* iterator, uint32_t steps) noexcept {
  for (uint32_t i = 0; i < steps; ++i) {
    Ref item = Ref::steal(Py_TYPE(iterator)->tp_iternext(iterator));
    if (item) continue;
    if (PyErr_Occurred() == nullptr) return true;
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return false;
    PyErr_Clear();
    return true;
  }
  return true;
}

bool replace(PyObject*& slot, PyObject* value) noexcept {
  const Ref old = Ref::steal(std::exchange(slot, new_reference(value)));
  return true;
}

Py_ssize_t list_index(const LogEntry& entry) noexcept {
  PyObject* key = entry.key.object();
  return key != nullptr && PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : static_cast<Py_ssize_t>(entry.index);
}

}  // namespace

Materialiser::~Materialiser() {
  for (size_t i = 0; i < count_; ++i) drop_reference(memo_[i].second);
  for (auto& [key, object] : overflow_) drop_reference(object);
}

PyObject* Materialiser::find(Key key) const noexcept {
  for (size_t i = 0; i < count_; ++i)
    if (memo_[i].first == key) return memo_[i].second;
  if (overflow_.empty()) return nullptr;
  auto found = overflow_.find(key);
  return found == overflow_.end() ? nullptr : found->second;
}

PyObject* Materialiser::keep(Key key, PyObject* object) noexcept {
  if (object == nullptr) return nullptr;
  if (count_ < kInline) {
    memo_[count_++] = {key, object};
  } else {
    overflow_.emplace(key, object);
  }
  return object;
}

PyObject* Materialiser::value(Val value) noexcept {
  if (value.is_reg()) {  // most common: no memo for what has an identity of its own
    const Reg& reg = regs_[value.index()];
    if (reg.rep == Rep::kObject || reg.rep == Rep::kTensor) return box_register(reg);
  }
  return new_reference(borrow(value));
}

PyObject* Materialiser::build(uint32_t index) noexcept {
  PyObject* found = find(index);
  if (found == nullptr) found = make(index);
  return found == nullptr ? nullptr : new_reference(found);
}

// Not built yet; borrowed. What an object is made of may hold it, and was made with one then: there is no second.
PyObject* Materialiser::make(uint32_t index) noexcept {
  const Virtual& object = trace_.virtuals[index];
  const size_t made_before = count_ + overflow_.size();
  Ref made = Ref::steal(make_empty(object));
  PyObject* const within = count_ + overflow_.size() == made_before ? nullptr : find(index);
  if (within != nullptr) return within;
  PyObject* const kept = keep(index, made.release());
  return kept != nullptr && fill(object, kept) ? kept : nullptr;
}

PyObject* Materialiser::borrow(Val value) noexcept {
  switch (value.kind()) {
    case ValueKind::kConst:
      return value.object();
    case ValueKind::kVirtual:
      return object_of(value.index());
    case ValueKind::kReg: {
      PyObject* found = find(reg_key(value.index()));
      return found != nullptr ? found : keep(reg_key(value.index()), box_register(regs_[value.index()]));
    }
    case ValueKind::kNull:
      break;
  }
  unsupported("an empty slot");
  return nullptr;
}

// Null is a value here; *ok is cleared on an error.
PyObject* Materialiser::borrow_optional(Val value, bool* ok) noexcept {
  if (value.is_null()) return nullptr;
  PyObject* object = borrow(value);
  if (object == nullptr) *ok = false;
  return object;
}

PyObject* Materialiser::object_of(uint32_t index) noexcept {
  const Virtual& object = trace_.virtuals[index];
  if (object.is_real(time_)) return borrow(Val::reg(object.reg));
  PyObject* found = find(index);
  return found != nullptr ? found : make(index);
}

PyObject* Materialiser::function_to_show(Val function) noexcept {
  const bool made = !function.is_virtual() || trace_.virtuals[function.index()].is_real(time_);
  return made ? value(function) : make_empty(trace_.virtuals[function.index()]);
}

PyObject* Materialiser::make_dict(const Virtual& object) noexcept {
  if (object.head != kNone && trace_.log[object.head].op == LogOp::kField) {
    PyObject* of = borrow(trace_.log[object.head].value);
    if (of == nullptr) return nullptr;
    if (trace_.log[object.head].index == 0) return PyObject_GenericGetDict(of, nullptr);
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(object.type), of);
  }
  return object.type == &PyODict_Type ? PyODict_New() : PyDict_New();
}

// The object as it is before its log is applied; kinds that cannot hold themselves are made complete.
PyObject* Materialiser::make_empty(const Virtual& object) noexcept {
  switch (object.kind) {
    case VirtualKind::kTuple:
      return make_tuple(object);
    case VirtualKind::kList:
      return PyList_New(0);
    case VirtualKind::kDeque:
      return make_deque(object);
    case VirtualKind::kDict:
      return make_dict(object);
    case VirtualKind::kSet:
      return object.type == &PyFrozenSet_Type ? PyFrozenSet_New(nullptr) : PySet_New(nullptr);
    case VirtualKind::kInstance:
      return make_instance(object.type);
    case VirtualKind::kCell:
      return PyCell_New(nullptr);
    case VirtualKind::kException:
      return make_exception(object);
    case VirtualKind::kTraceback:
      return make_traceback(object);
    case VirtualKind::kFrame:  // what stands for it is never looked at
      return new_reference(Py_None);
    case VirtualKind::kHandled: {
      PyObject* handled = cpython::handled_exception(PyThreadState_Get());
      return new_reference(handled == nullptr ? Py_None : handled);
    }
    case VirtualKind::kGenerator:
      return make_generator(object);
    case VirtualKind::kUnmodelled:
      unsupported(virtual_name(object.kind));
      return nullptr;
    default:
      return make_from_fields(object);
  }
}

// One that was there when the trace was entered is filled again.
PyObject* Materialiser::emptied_generator(const Virtual& object) const noexcept {
  const uint32_t at = trace_.log[object.head].next;
  if (at == kNone || trace_.log[at].op != LogOp::kField) return nullptr;
  return regs_[trace_.log[at].value.index()].object;
}

PyObject* Materialiser::make_generator(const Virtual& object) noexcept {
  if (PyObject* emptied = emptied_generator(object)) return new_reference(emptied);
  PyObject* function = borrow(trace_.log[object.head].value);
  return function == nullptr ? nullptr : cpython::new_generator(PyThreadState_Get(), function);
}

// One that runs is given its frame by the side exit.
bool Materialiser::fill_generator(const Virtual& object, PyObject* generator) noexcept {
  const LogEntry& entry = trace_.generator_state(static_cast<uint32_t>(&object - trace_.virtuals.data()), time_);
  const bool emptied = emptied_generator(object) != nullptr;
  if (entry.op == LogOp::kClear && emptied) return cpython::end_emptied_generator(generator), true;
  if (entry.op == LogOp::kClear) return cpython::end_generator(generator), true;
  if (entry.index == kNone) return true;
  const FrameState& state = trace_.frame_states[entry.index];
  Objects slots(state.locals + state.stack);
  bool ok = true;
  for (uint32_t i = 0; i < slots.size() && ok; ++i)
    slots[i] = new_reference(borrow_optional(trace_.slots[state.first + i], &ok));
  PyObject* handled = ok ? borrow_optional(state.handled, &ok) : nullptr;
  if (ok) cpython::suspend_generator(generator, slots.data(), static_cast<int>(slots.size()), state.resume, handled);
  for (PyObject* slot : slots) drop_reference(slot);
  return ok;
}

PyObject* Materialiser::make_tuple(const Virtual& object) noexcept {
  Py_ssize_t size = 0;
  each(object, [&](const LogEntry&) { return ++size; });
  return object.type == nullptr || object.type == &PyTuple_Type ? PyTuple_New(size)
                                                                : object.type->tp_alloc(object.type, size);
}

PyObject* Materialiser::make_instance(PyTypeObject* type) noexcept {
  PyTypeObject* base = type;
  while (base->tp_new == cpython::slot_functions().new_) base = base->tp_base;
  return base->tp_new(type, empty_tuple(), nullptr);
}

bool Materialiser::fill(const Virtual& object, PyObject* made) noexcept {
  uint32_t position = 0;
  switch (object.kind) {
    case VirtualKind::kTuple:
    case VirtualKind::kList:
    case VirtualKind::kDeque:
    case VirtualKind::kDict:
    case VirtualKind::kSet:
    case VirtualKind::kInstance:
    case VirtualKind::kCell:
    case VirtualKind::kFunction:
    case VirtualKind::kException:
      return each(object, [&](const LogEntry& entry) { return apply(object, made, entry, &position); });
    case VirtualKind::kGenerator:
      return fill_generator(object, made);
    case VirtualKind::kFrame:
      return frames_.push_back(&object), true;
    default:
      return true;
  }
}

bool Materialiser::apply(const Virtual& object, PyObject* made, const LogEntry& entry, uint32_t* position) noexcept {
  if (is_removed(trace_, object, index_of(entry), time_)) return true;
  if (object.kind == VirtualKind::kList) return apply_list(made, entry);
  if (object.kind == VirtualKind::kDeque) return apply_deque(made, entry);
  if (object.kind == VirtualKind::kSet) return apply_set(made, entry);
  if (object.kind == VirtualKind::kFunction && entry.op == LogOp::kField) return apply_function(made, entry);
  if (object.kind == VirtualKind::kException && (entry.op == LogOp::kField || entry.op == LogOp::kTraced))
    return apply_exception(object, made, entry, position);
  bool ok = true;
  PyObject* key = borrow_optional(entry.key, &ok);
  PyObject* value = ok ? borrow_optional(value_of(entry), &ok) : nullptr;
  if (!ok) return false;
  switch (entry.op) {
    case LogOp::kItem:  // a tuple
      PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>((*position)++), new_reference(value));
      return true;
    case LogOp::kField:  // a cell, or what a dict was made of
      return object.kind == VirtualKind::kDict || PyCell_Set(made, value) == 0;
    case LogOp::kSetAttr:
      return cpython::store_attribute(made, key, value) == 0;
    case LogOp::kDelAttr:
      return cpython::store_attribute(made, key, nullptr) == 0;
    case LogOp::kSetItem:
      return is_dict_kind(made) ? set_dict_item(made, key, value) : unsupported("an item store");
    case LogOp::kDelItem:
      return is_dict_kind(made) ? delete_dict_item(made, key) : unsupported("an item delete");
    case LogOp::kClear:
      if (!is_dict_kind(made)) return unsupported("a clear");
      if (!PyODict_Check(made)) return PyDict_Clear(made), true;
      return static_cast<bool>(
          Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "clear", "O", made)));
    default:
      return unsupported(virtual_name(object.kind));
  }
}

bool Materialiser::apply_list(PyObject* list, const LogEntry& entry) noexcept {
  PyObject* value = nullptr;
  if (!entry.value.is_null() && (value = borrow(value_of(entry))) == nullptr) return false;
  switch (entry.op) {
    case LogOp::kItem:
      return PyList_Append(list, value) == 0;
    case LogOp::kSetItem:
      return PySequence_SetItem(list, list_index(entry), value) == 0;  // the index may be negative
    case LogOp::kDelItem:
      return PySequence_DelItem(list, list_index(entry)) == 0;
    case LogOp::kInsert:
      return PyList_Insert(list, list_index(entry), value) == 0;
    case LogOp::kClear:
      return PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr) == 0;
    default:
      return unsupported("a list");
  }
}

PyObject* Materialiser::make_deque(const Virtual& object) noexcept {
  Val maxlen;
  each(object, [&](const LogEntry& entry) {
    if (entry.op == LogOp::kField) maxlen = entry.value;
    return true;
  });
  Ref args = Ref::steal(Py_BuildValue("(()O)", maxlen.is_null() ? Py_None : maxlen.object()));
  return args ? PyObject_Call(reinterpret_cast<PyObject*>(object.type), args.get(), nullptr) : nullptr;
}

bool Materialiser::apply_deque(PyObject* deque, const LogEntry& entry) noexcept {
  if (entry.op == LogOp::kField) return true;
  PyObject* value = nullptr;
  if (!entry.value.is_null() && (value = borrow(value_of(entry))) == nullptr) return false;
  switch (entry.op) {
    case LogOp::kItem:
      return static_cast<bool>(Ref::steal(PyObject_CallMethod(deque, "append", "(O)", value)));
    case LogOp::kSetItem:
      return PySequence_SetItem(deque, list_index(entry), value) == 0;
    case LogOp::kDelItem:
      return PySequence_DelItem(deque, list_index(entry)) == 0;
    case LogOp::kInsert:
      return static_cast<bool>(Ref::steal(PyObject_CallMethod(deque, "insert", "nO", list_index(entry), value)));
    default:
      return unsupported("a deque");
  }
}

bool Materialiser::apply_set(PyObject* set, const LogEntry& entry) noexcept {
  if (entry.op == LogOp::kClear) return PySet_Clear(set) == 0;
  PyObject* item = borrow(entry.value.is_null() ? entry.key : entry.value);
  if (item == nullptr) return false;
  return entry.op == LogOp::kItem ? PySet_Add(set, item) == 0 : PySet_Discard(set, item) >= 0;
}

// Fields that a function gets after it is made, so that its closure may hold it.
bool Materialiser::apply_function(PyObject* function, const LogEntry& entry) noexcept {
  if (entry.index < kDefaults || entry.value.is_null()) return true;
  PyObject* value = borrow(entry.value);
  if (value == nullptr) return false;
  switch (entry.index) {
    case kDefaults:
      return PyFunction_SetDefaults(function, value) == 0;
    case kKwDefaults:
      return PyFunction_SetKwDefaults(function, value) == 0;
    case kClosure:
      return PyFunction_SetClosure(function, value) == 0;
    case kAnnotations:
      return replace(reinterpret_cast<PyFunctionObject*>(function)->func_annotations, value);
    case kAnnotate:
      return replace(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(function) + cpython::kAnnotate), value);
    case kName:
      return replace(reinterpret_cast<PyFunctionObject*>(function)->func_name, value);
    case kModule:
      return replace(reinterpret_cast<PyFunctionObject*>(function)->func_module, value);
    case kDoc:
      return replace(reinterpret_cast<PyFunctionObject*>(function)->func_doc, value);
    default:
      return unsupported("a function");
  }
}

PyObject* Materialiser::make_from_fields(const Virtual& object) noexcept {
  if (object.kind == VirtualKind::kZip) return make_zip(object);
  if (object.kind == VirtualKind::kLazy) return make_lazy(object);
  Val fields[kFields];
  each(object, [&](const LogEntry& entry) {
    if (entry.op == LogOp::kField && entry.index < kFields) fields[entry.index] = entry.value;
    return true;
  });
  if (object.kind == VirtualKind::kPartial) return make_partial(object, fields);
  // A function's later fields are applied afterwards, see apply_function.
  const uint32_t count = object.kind == VirtualKind::kFunction ? kDefaults : kFields;
  PyObject* f[kFields] = {};
  bool ok = true;
  for (uint32_t i = 0; i < count && ok; ++i) f[i] = borrow_optional(fields[i], &ok);
  if (!ok) return nullptr;
  switch (object.kind) {
    case VirtualKind::kFunction:
      return PyFunction_NewWithQualName(f[kCode], f[kGlobals], f[kQualname]);
    case VirtualKind::kBoundMethod:
      return PyMethod_New(f[0], f[1]);
    case VirtualKind::kBuiltinMethod: {
      auto* type = reinterpret_cast<PyObject*>(Py_TYPE(f[1]));
      const bool of_class = Py_TYPE(f[0]) == &PyClassMethodDescr_Type;
      return Py_TYPE(f[0])->tp_descr_get(f[0], of_class ? nullptr : f[1], of_class && PyType_Check(f[1]) ? f[1] : type);
    }
    case VirtualKind::kAddress:
      return PyLong_FromVoidPtr(f[0]);
    case VirtualKind::kSlice:
      return PySlice_New(f[0], f[1], f[2]);
    case VirtualKind::kSuper:
      return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), f[0], f[1], nullptr);
    case VirtualKind::kIterator:
      return make_iterator(object, f);
    case VirtualKind::kEnumerate:
      return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyEnum_Type), f[0], f[1], nullptr);
    case VirtualKind::kView:
      return object.type == &PyDictProxy_Type ? PyDictProxy_New(f[0]) : cpython::new_dict_view(f[0], object.type);
    default:
      unsupported(virtual_name(object.kind));
      return nullptr;
  }
}

PyObject* Materialiser::make_iterator(const Virtual& object, PyObject* const* fields) noexcept {
  PyObject* const iterable = fields[0];
  const bool reversed = fields[1] != nullptr && PyObject_IsTrue(fields[1]) == 1;
  uint32_t position = 0;
  each(object, [&](const LogEntry& entry) {
    if (entry.op == LogOp::kIndex) position = entry.index;
    return true;
  });
  if (iterable == nullptr) return unsupported("an iterator"), nullptr;
  Ref iterator = Ref::steal(reversed ? PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), iterable)
                                     : PyObject_GetIter(iterable));
  if (!iterator) return nullptr;
  const Py_ssize_t size = fields[2] == nullptr ? 0 : PyLong_AsSsize_t(fields[2]);
  if (object.type == &PyListIter_Type || object.type == &PyListRevIter_Type) {
    if (position == kExhausted) return advance(iterator.get(), position) ? iterator.release() : nullptr;
    cpython::set_next_index(iterator.get(), reversed ? size - 1 - Py_ssize_t{position} : Py_ssize_t{position});
    return iterator.release();
  }
  if (fields[2] != nullptr && position != kExhausted && cpython::set_first_size(iterator.get(), size))
    return iterator.release();
  return advance(iterator.get(), position) ? iterator.release() : nullptr;
}

PyObject* Materialiser::make_zip(const Virtual& object) noexcept {
  Objects iterators;
  Ref keywords;
  const bool ok = each(object, [&](const LogEntry& entry) {
    if (entry.op == LogOp::kField) keywords = Ref::steal(Py_BuildValue("{sO}", "strict", Py_True));
    if (entry.op == LogOp::kField) return bool(keywords);
    iterators.push_back(borrow(entry.value));
    return iterators.back() != nullptr;
  });
  Ref arguments = Ref::steal(ok ? PyTuple_New(static_cast<Py_ssize_t>(iterators.size())) : nullptr);
  if (!arguments) return nullptr;
  for (size_t i = 0; i < iterators.size(); ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), new_reference(iterators[i]));
  return PyObject_Call(reinterpret_cast<PyObject*>(&PyZip_Type), arguments.get(), keywords.get());
}

PyObject* Materialiser::make_lazy(const Virtual& object) noexcept {
  Vals fields;
  uint32_t position = 0;
  each(object, [&](const LogEntry& entry) {
    if (entry.op == LogOp::kIndex) position = entry.index;
    if (entry.op != LogOp::kField) return true;
    if (fields.size() <= entry.index) fields.resize(entry.index + 1);
    fields[entry.index] = entry.value;
    return true;
  });
  Ref args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(fields.size())));
  for (size_t i = 0; i < fields.size() && args; ++i) {
    PyObject* field = borrow(fields[i]);
    if (field == nullptr) return nullptr;
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), new_reference(field));
  }
  if (!args) return nullptr;
  // One that its arguments hold was made with them: another one would draw from them.
  if (PyObject* within = find(static_cast<uint32_t>(&object - trace_.virtuals.data()))) return new_reference(within);
  Ref iterator = Ref::steal(object.type == &PyCallIter_Type
                                ? PyCallIter_New(PyTuple_GET_ITEM(args.get(), 0), PyTuple_GET_ITEM(args.get(), 1))
                                : PyObject_Call(reinterpret_cast<PyObject*>(object.type), args.get(), nullptr));
  return iterator && advance(iterator.get(), position) ? iterator.release() : nullptr;
}

PyObject* Materialiser::make_partial(const Virtual& object, const Val* fields) noexcept {
  PyObject* function = borrow(fields[0]);
  bool ok = function != nullptr;
  PyObject* args = ok ? borrow_optional(fields[1], &ok) : nullptr;
  PyObject* keywords = ok ? borrow_optional(fields[2], &ok) : nullptr;
  if (!ok) return nullptr;
  Ref first = Ref::steal(PyTuple_Pack(1, function));
  Ref all = first ? Ref::steal(PySequence_Concat(first.get(), args != nullptr ? args : empty_tuple())) : Ref();
  Ref made = all ? Ref::steal(object.type->tp_new(object.type, all.get(), keywords)) : Ref();
  if (!made || keywords == nullptr) return made.release();
  // It has a copy of the keywords, and the program may have asked for the very dict.
  static PyObject* const name = PyUnicode_InternFromString("__setstate__");
  PyObject* const method = cpython::lookup_type(object.type, name);
  if (method == nullptr || Py_TYPE(method) != &PyMethodDescr_Type) return made.release();
  const Ref state = Ref::steal(PyTuple_Pack(4, function, args != nullptr ? args : empty_tuple(), keywords, Py_None));
  if (!state || !Ref::steal(PyObject_CallFunctionObjArgs(method, made.get(), state.get(), nullptr))) return nullptr;
  return made.release();
}

}  // namespace pijit
