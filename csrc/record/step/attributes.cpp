// Attribute access, mirrored: the lookup that CPython is about to make, on shadows, under guards.
//
// A lookup is followed step by step as the type's slot would: generic lookup, module, type, super, or a class's own
// __getattribute__ and __getattr__ (whose frames are followed). C getters are mirrored one by one; others are unknown.
#include "guard/instances.h"
#include "record/mirror/audits.h"
#include "record/mirror/builtins.h"

#include <string_view>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "cpython/members.h"
#include "mindspore/library.h"
#include "numpy/library.h"
#include "pandas/library.h"
#include "record/calls.h"
#include "record/shared.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/counting.h"
#include "record/state/exceptions.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/step/opaque.h"

namespace pijit {

bool is_read_as_property(Recorder& recorder, PyTypeObject* kind) {
  if (kind == &PyProperty_Type) return true;
  if (!PyType_IsSubtype(kind, &PyProperty_Type) || kind->tp_descr_get != PyProperty_Type.tp_descr_get ||
      kind->tp_descr_set != PyProperty_Type.tp_descr_set)
    return false;
  recorder.reads.guard_type_version(kind);
  return recorder.live();
}

PyObject* classmethod_callable(PyObject* descriptor) {
  // classmethod and staticmethod have the same layout: the callable is their first field.
  struct Layout {
    PyObject_HEAD PyObject* callable;
  };
  return reinterpret_cast<Layout*>(descriptor)->callable;
}

namespace {

// Some attributes of its instances are not in their __dict__.
bool has_slots(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    if ((reinterpret_cast<PyTypeObject*>(base)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) continue;
    PyObject* slots = reinterpret_cast<PyHeapTypeObject*>(base)->ht_slots;
    if (slots != nullptr && PyTuple_GET_SIZE(slots) > 0) return true;
  }
  return false;
}

// A C getter whose value is decided by guarded facts. Returns Null if it is not known.
Val c_getter(Recorder& recorder, Val object, PyObject* name) {
  PyObject* self = object.object();
  PyTypeObject* type = recorder.heap.type_of(object);
  if (has_name(name, "__class__")) return Val::constant(reinterpret_cast<PyObject*>(type));
  if (has_name(name, "__dict__")) {
    if (has_slots(type)) return Val();
    if (object.is_virtual()) {
      Model& content = recorder.heap.model(object);
      const bool attributes = content.kind == VirtualKind::kInstance || content.kind == VirtualKind::kFunction ||
                              content.kind == VirtualKind::kList;
      if (!attributes) return Val();
      return dict_of(recorder, object);
    }
    if (self == nullptr) return Val();
    if (PyType_Check(self)) {
      Val view = new_virtual(recorder, VirtualKind::kView, &PyDictProxy_Type);
      set_field(recorder, view, field::kView::kSource,
                Val::constant(cpython::type_dict(reinterpret_cast<PyTypeObject*>(self))));
      return view;
    }
    PyObject* dict = nullptr;
    if (!guard_instance(recorder, self, &dict) || dict == nullptr) return Val();
    return Val::constant(dict);
  }
  if (self == nullptr) {
    if (recorder.heap.is_virtual(object, VirtualKind::kFunction)) return function_attribute(recorder, object, name);
    if (recorder.heap.is_virtual(object, VirtualKind::kGenerator))
      return generator_attribute(recorder.heap, object, name);
    if (recorder.heap.is_virtual(object, VirtualKind::kException)) return exception_attribute(recorder, object, name);
    if (object.is_virtual() && recorder.heap.model(object).kind == VirtualKind::kBoundMethod) {
      if (has_name(name, "__func__")) return recorder.heap.virtual_field(object, field::kBoundMethod::kFunction);
      if (has_name(name, "__self__")) return recorder.heap.virtual_field(object, field::kBoundMethod::kSelf);
    }
    return Val();
  }
  if (PyFunction_Check(self)) return function_attribute(recorder, object, name);
  if (PyType_Check(self)) {
    auto* of = reinterpret_cast<PyTypeObject*>(self);
    recorder.reads.guard_type_version(of);
    if (has_name(name, "__name__")) {
      if ((of->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
        return recorder.reads.owned(reinterpret_cast<PyHeapTypeObject*>(of)->ht_name);
      const char* dot = strrchr(of->tp_name, '.');
      return recorder.reads.owned(Ref::steal(PyUnicode_InternFromString(dot == nullptr ? of->tp_name : dot + 1)).get());
    }
    if (has_name(name, "__qualname__") && (of->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
      return recorder.reads.owned(reinterpret_cast<PyHeapTypeObject*>(of)->ht_qualname);
    if (has_name(name, "__mro__")) return Val::constant(of->tp_mro);
    if (has_name(name, "__bases__")) return Val::constant(of->tp_bases);
    if (has_name(name, "__base__"))
      return Val::constant(of->tp_base == nullptr ? Py_None : reinterpret_cast<PyObject*>(of->tp_base));
    if (has_name(name, "__module__")) {
      PyObject* dict = cpython::type_dict(of);
      PyObject* module = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
      if (module != nullptr && (of->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) return constant(recorder, module);
    }
    return Val();
  }
  return Val();
}

void take_attribute(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  bool plain = cpython::is_scalar(result);
  if (PyTuple_CheckExact(result)) {
    plain = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
      plain = plain && cpython::is_scalar(PyTuple_GET_ITEM(result, i));
  }
  if (!plain) return recorder.stop(Abort::kUnknownAttribute, Py_TYPE(result)->tp_name);
  frame.pending.result = recorder.reads.owned(result);
}

// An attribute that C computes from an immutable object: what CPython finds is what it always is.
bool is_fixed(Val object) {
  PyObject* self = object.object();
  return self != nullptr && (PyCode_Check(self) || PyLong_CheckExact(self) || PyFloat_CheckExact(self) ||
                             PyComplex_CheckExact(self) || PyRange_Check(self));
}

Val bound_method(Recorder& recorder, Val function, Val self) {
  Val method = new_virtual(recorder, VirtualKind::kBoundMethod, &PyMethod_Type);
  set_field(recorder, method, field::kBoundMethod::kFunction, function);
  set_field(recorder, method, field::kBoundMethod::kSelf, self);
  return method;
}

Val builtin_method(Recorder& recorder, PyObject* descriptor, Val self) {
  PyTypeObject* type = &PyCFunction_Type;
  if (Py_TYPE(descriptor) == &PyWrapperDescr_Type) {
    type = cpython::method_wrapper_type();
  } else if (numpy::draws(descriptor)) {
    type = &PyMethod_Type;
  } else if ((reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method->ml_flags & METH_METHOD) != 0) {
    type = &PyCMethod_Type;
  }
  Val method = new_virtual(recorder, VirtualKind::kBuiltinMethod, type);
  set_field(recorder, method, field::kBuiltinMethod::kMethod, Val::constant(descriptor));
  set_field(recorder, method, field::kBuiltinMethod::kSelf, self);
  return method;
}

// A member of a fresh object that keeps what it was made with; Null: not one.
Val fixed_member(Recorder& recorder, Val object, PyObject* name) {
  constexpr const char *kSlice[] = {"start", "stop", "step"}, *kPartial[] = {"func", "args", "keywords"};
  const bool slice = recorder.heap.is_virtual(object, VirtualKind::kSlice);
  for (size_t i = 0; i < 3; ++i) {
    if (!slice && !recorder.heap.is_virtual(object, VirtualKind::kPartial)) break;
    if (has_name(name, slice ? kSlice[i] : kPartial[i])) return recorder.heap.virtual_field(object, i);
  }
  if (recorder.heap.is_virtual(object, VirtualKind::kFunction)) return function_attribute(recorder, object, name);
  if (recorder.heap.is_virtual(object, VirtualKind::kInstance) && has_name(name, "__dict__"))
    return namespace_dict(recorder, object);
  Val written;
  if (!has_name(name, "__suppress_context__") || !recorder.heap.is_virtual(object, VirtualKind::kException) ||
      is_foreign(recorder.heap, object) || attr_find(recorder.heap, object, name, &written))
    return Val();
  const auto& fields = recorder.heap.model(object).items;
  return Val::constant(fields.size() > 2 && !fields[2].is_null() ? Py_True : Py_False);
}

// What the fields of a named tuple are.
PyTypeObject* tuple_getter_type() {
  static PyTypeObject* const type = find_type("_collections", "_tuplegetter");
  return type;
}

struct Lookup {
  Recorder& recorder;
  ShadowFrame& frame;
  int pops;
  Val* result;
  bool* missing;
};

Invoke found(Lookup& lookup, Val value) {
  *lookup.result = value;
  return Invoke::kStarted;
}

// descriptor.__get__(object, type) for a descriptor that is not data, or a data descriptor's get. object may be Null
// (access through a class).
// An attribute that C computes, of an object that the adapter knows.
bool ask_about_constant(Lookup& lookup, PyObject* descriptor, Val object, PyObject* name) {
  return object.is_const() &&
         ask_about(lookup.recorder, lookup.frame, SiteKind::kGetAttr, {object}, lookup.pops, 1, 0, name, descriptor);
}

Invoke read_audited(Lookup& lookup, Val function, PyObject* name) {
  // Elsewhere something else is done with the value, which nobody would know of when the hooks have returned.
  if (lookup.frame.drive || lookup.frame.current().flag != 0) return Invoke::kUnknown;
  Arguments args;
  args.values = {function, lookup.recorder.reads.owned(name)};
  return drive(lookup.recorder, lookup.frame, audited_attribute, args, lookup.pops);
}

// A field of a struct sequence is an item of the tuple that it is.
Val struct_field(Recorder& recorder, Val object, const PyMemberDef* member) {
  if (!recorder.heap.is_virtual(object, VirtualKind::kTuple)) return Val();
  const Vals& items = recorder.heap.model(object).items;
  const auto first = static_cast<Py_ssize_t>(offsetof(PyTupleObject, ob_item));
  const Py_ssize_t at = (member->offset - first) / static_cast<Py_ssize_t>(sizeof(PyObject*));
  return member->offset >= first && at < static_cast<Py_ssize_t>(items.size()) ? items[static_cast<size_t>(at)] : Val();
}

// A slot of an instance, or a field that C declares.
Invoke bind_member(Lookup& lookup, PyObject* descriptor, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  if (object.is_null()) return found(lookup, Val::constant(descriptor));
  if (ask_about_constant(lookup, descriptor, object, name))
    return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
  if (is_fixed(object)) {
    recorder.reads.owned(object.object());
    observe(lookup.frame, lookup.pops, take_attribute);
    return Invoke::kStarted;
  }
  const PyMemberDef* member = cpython::member_of(descriptor);
  if (const Val field = fixed_member(recorder, object, name); !field.is_null()) return found(lookup, field);
  if (member->type != T_OBJECT_EX && member->type != T_OBJECT) return Invoke::kUnknown;
  if (object.is_virtual()) {
    Val value;
    const bool exception = recorder.heap.is_virtual(object, VirtualKind::kException);
    if (exception && is_foreign(recorder.heap, object)) return Invoke::kUnknown;
    if (attr_find(recorder.heap, object, name, &value)) return found(lookup, value);
    if (const Val item = struct_field(recorder, object, member); !item.is_null()) return found(lookup, item);
    if (exception && has_name(name, "value") &&
        reinterpret_cast<PyDescrObject*>(descriptor)->d_type == reinterpret_cast<PyTypeObject*>(PyExc_StopIteration))
      return found(lookup, stop_value(recorder.heap, object));
    const VirtualKind is = recorder.heap.model(object).kind;
    *lookup.missing = (is == VirtualKind::kInstance || is == VirtualKind::kList) && member->type == T_OBJECT_EX;
    return Invoke::kUnknown;
  }
  if (object.object() == nullptr) return Invoke::kUnknown;
  Val written;
  PyObject* dict = nullptr;
  if (!guard_instance(recorder, object.object(), &dict)) return Invoke::kStopped;
  if (overlay_find(recorder, object.object(), name, &written)) {
    *lookup.missing = written.is_null() && member->type == T_OBJECT_EX;
    return written.is_null() ? Invoke::kUnknown : found(lookup, written);
  }
  PyObject* value = cpython::object_at(object.object(), member->offset);
  if (varies(recorder, object.object(), name, value)) {
    Guard guard{};
    guard.op = GuardOp::kLoadSlot;
    guard.subject = object;
    guard.number = static_cast<uint64_t>(member->offset);
    return found(lookup, load_varying(recorder, object.object(), name, value, guard));
  }
  if (!recorder.reads.guard_slot(object.object(), member->offset, &value)) return Invoke::kStopped;
  if (value == nullptr) {
    *lookup.missing = member->type == T_OBJECT_EX;
    return Invoke::kUnknown;
  }
  return found(lookup, constant(recorder, value));
}

// What a function of C tells.
Invoke bind_getset(Lookup& lookup, PyObject* descriptor, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  if (object.is_null()) return found(lookup, Val::constant(descriptor));
  if (ask_about_constant(lookup, descriptor, object, name))
    return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
  if (is_fixed(object) && !has_name(name, "__class__")) {
    recorder.reads.owned(object.object());
    observe(lookup.frame, lookup.pops, take_attribute);
    return Invoke::kStarted;
  }
  Val value = c_getter(recorder, object, name);
  if (!value.is_null() && is_audited_attribute(name) && is_audited() &&
      recorder.heap.type_of(object) == &PyFunction_Type)
    return read_audited(lookup, object, name);
  if (value.is_null() && object.object() != nullptr && PyFunction_Check(object.object()) && recorder.live() &&
      observe_function_dict(lookup.frame, object, name, lookup.pops))
    return Invoke::kStarted;
  return value.is_null() ? Invoke::kUnknown : found(lookup, value);
}

Invoke bind(Lookup& lookup, PyObject* descriptor, Val object, Val type, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind == &PyFunction_Type || kind == cpython::lru_cache_type()) {
    Val function = Val::constant(descriptor);
    return found(lookup, object.is_null() ? function : bound_method(recorder, function, object));
  }
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || numpy::draws(descriptor))
    return found(lookup, object.is_null() ? Val::constant(descriptor) : builtin_method(recorder, descriptor, object));
  if (kind == &PyInstanceMethod_Type && mindspore::is_loaded()) {  // a function of C, bound as one of Python is
    const Val function = recorder.reads.owned(PyInstanceMethod_GET_FUNCTION(descriptor));
    return found(lookup, object.is_null() ? function : bound_method(recorder, function, object));
  }
  if (kind == &PyClassMethod_Type) {
    PyObject* callable = classmethod_callable(descriptor);
    if (Py_TYPE(callable) != &PyFunction_Type) return Invoke::kUnknown;
    return found(lookup, bound_method(recorder, Val::constant(callable), type));
  }
  if (kind == &PyStaticMethod_Type) return found(lookup, constant(recorder, classmethod_callable(descriptor)));
  if (kind == &PyClassMethodDescr_Type) return found(lookup, builtin_method(recorder, descriptor, type));
  if (is_read_as_property(recorder, kind)) {
    if (object.is_null()) return found(lookup, Val::constant(descriptor));
    Ref getter = Ref::steal(PyObject_GetAttrString(descriptor, "fget"));
    if (!getter || Py_TYPE(getter.get()) != &PyFunction_Type) return Invoke::kUnknown;
    Arguments args;
    args.values = {object};
    return invoke_function(recorder, lookup.frame, Val::constant(getter.get()), args, Then::kPush, lookup.pops);
  }
  if (kind == &PyMemberDescr_Type) return bind_member(lookup, descriptor, object, name);
  if (kind == &PyGetSetDescr_Type) return bind_getset(lookup, descriptor, object, name);
  if (kind == tuple_getter_type()) {
    Ref parts = Ref::steal(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
    Vals items;
    if (!parts) PyErr_Clear();
    if (!parts || object.is_null() || object.is_reg() || !try_items(recorder, object, &items)) return Invoke::kUnknown;
    const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(parts.get(), 1), 0));
    return at < static_cast<Py_ssize_t>(items.size()) ? found(lookup, items[static_cast<size_t>(at)])
                                                      : Invoke::kUnknown;
  }
  if (kind->tp_descr_get == nullptr) {
    Val counted;
    if (counted_attribute(recorder, reinterpret_cast<PyTypeObject*>(type.object()), name, &counted))
      return found(lookup, counted);
    return recorder.live() ? found(lookup, constant(recorder, descriptor)) : Invoke::kStopped;
  }
  if (kind->tp_descr_get == cpython::slot_functions().descr_get) {
    PyObject* get = python_method(recorder.reads, kind, names().get);
    if (get == nullptr) return Invoke::kUnknown;
    Arguments args;
    args.values = {Val::constant(descriptor), object.is_null() ? Val::constant(Py_None) : object, type};
    return invoke_function(recorder, lookup.frame, Val::constant(get), args, Then::kPush, lookup.pops);
  }
  return Invoke::kUnknown;
}

// Whether a tensor has an attribute of its own: results have none until foreign code runs, inputs are guarded.
int tensor_attribute(Recorder& recorder, Val tensor, PyObject* name, Val* value);

// A data descriptor that can be read: it goes before the instance's own attribute.
bool is_data(PyObject* descriptor) {
  return Py_TYPE(descriptor)->tp_descr_set != nullptr && Py_TYPE(descriptor)->tp_descr_get != nullptr;
}

// An attribute that varies.
bool load_inline(Recorder& recorder, PyObject* self, PyObject* name, Val* value) {
  const Py_ssize_t index = cpython::shared_key_index(Py_TYPE(self), name);
  PyObject* item = index < 0 ? nullptr : cpython::inline_value(self, index);
  if (!varies(recorder, self, name, item)) return false;
  const Guard guard = inline_guard(GuardOp::kLoadInline, Val::constant(self), Py_TYPE(self), index);
  *value = load_varying(recorder, self, name, item, guard);
  return true;
}

// 0: the object in this register has no attribute of its own of that name, under a guard; -1: it has.
int guard_no_attribute(Recorder& recorder, Val source, PyObject* object, PyObject* name) {
  if (!cpython::lacks_attribute(object, name)) return -1;
  Guard guard{};
  guard.op = GuardOp::kNoAttribute;
  guard.subject = source;
  guard.expected = recorder.reads.owned(name).object();
  recorder.trace().guards.push_back(guard);
  return 0;
}

// Attributes that a tuple of a class with a dict was given are not followed. Nobody but foreign code can have given it
// any: a write to them is foreign code, too.
int tuple_attribute(Recorder& recorder, Val tuple, PyObject* name) {
  const Virtual& row = recorder.trace().virtuals[tuple.index()];
  if (recorder.heap.type_of(tuple)->tp_dictoffset == 0 || row.reg == kNone) return 0;
  const bool was_there = row.reg_time == 0;
  if (!was_there && !is_older(recorder, Val::reg(row.reg))) return 0;
  PyObject* object = recorder.heap.real(tuple);
  return object == nullptr ? -1 : guard_no_attribute(recorder, Val::reg(row.reg), object, name);
}

// The instance's own attribute. 1 found, 0 absent, -1 unknown (or stopped).
int own_attribute(Recorder& recorder, Val object, PyObject* name, Val* value) {
  if (object.is_virtual()) {
    const Model& content = recorder.heap.model(object);
    if (content.kind == VirtualKind::kException && is_foreign(recorder.heap, object)) return -1;
    if (content.kind == VirtualKind::kInstance || content.kind == VirtualKind::kFunction ||
        content.kind == VirtualKind::kException || content.kind == VirtualKind::kList)
      return attr_find(recorder.heap, object, name, value) ? 1 : 0;
    return content.kind == VirtualKind::kTuple ? tuple_attribute(recorder, object, name) : 0;
  }
  PyObject* self = object.object();
  if (self == nullptr) return -1;
  if (overlay_find(recorder, self, name, value)) return value->is_null() ? 0 : 1;
  PyObject *dict = nullptr, *item = nullptr;
  switch (cpython::attribute_storage(self)) {
    case cpython::Storage::kNoDict:
      if (!guard_instance(recorder, self, &dict)) return -1;
      return 0;
    case cpython::Storage::kUnset:
      return guard_no_dict(recorder, self) ? 0 : -1;
    case cpython::Storage::kInline:
      if (load_inline(recorder, self, name, value)) return 1;
      if (!recorder.reads.guard_inline(self, name, &item)) return -1;
      break;
    case cpython::Storage::kDict:
      if (!guard_instance(recorder, self, &dict)) return -1;
      if (dict != nullptr) return find_item(recorder, dict, name, value);
      if (!recorder.reads.guard_before_dict(self, name, &item)) return -1;
      break;
    case cpython::Storage::kOther:
      return -1;
  }
  if (item == nullptr) return 0;
  *value = constant(recorder, item);
  return 1;
}

int tensor_attribute(Recorder& recorder, Val tensor, PyObject* name, Val* value) {
  Val source = tensor_source(recorder.loading, tensor);
  if (source.is_null()) {
    if (!is_older(recorder, tensor)) return 0;
    source = tensor;
  }
  if (source.is_const()) return own_attribute(recorder, source, name, value);
  return guard_no_attribute(recorder, source, recorder.heap.real(tensor), name);
}

Invoke generic_attribute(Lookup& lookup, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  PyTypeObject* type = recorder.heap.type_of(object);
  PyObject *descriptor = recorder.reads.lookup_type(type, name, object.object()), *dict = nullptr;
  if (!recorder.live()) return Invoke::kStopped;
  Val type_value = Val::constant(reinterpret_cast<PyObject*>(type));
  if (descriptor != nullptr) recorder.reads.guard_type_version(Py_TYPE(descriptor));
  if (!recorder.live()) return Invoke::kStopped;
  if (descriptor != nullptr && is_data(descriptor)) {
    if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return Invoke::kStopped;
    return bind(lookup, descriptor, object, type_value, name);
  }
  Val value;
  int own = own_attribute(recorder, object, name, &value);
  if (!recorder.live()) return Invoke::kStopped;
  if (own < 0) return Invoke::kUnknown;
  if (own > 0) return found(lookup, value);
  if (descriptor != nullptr) return bind(lookup, descriptor, object, type_value, name);
  *lookup.missing = true;
  return Invoke::kUnknown;
}

Invoke type_attribute(Lookup& lookup, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  auto* type = reinterpret_cast<PyTypeObject*>(object.object());
  PyTypeObject* meta = Py_TYPE(type);
  PyObject* of_meta = recorder.reads.lookup_type(meta, name);
  Val meta_value = Val::constant(reinterpret_cast<PyObject*>(meta));
  if (of_meta != nullptr) recorder.reads.guard_type_version(Py_TYPE(of_meta));
  if (of_meta != nullptr && is_data(of_meta)) return bind(lookup, of_meta, object, meta_value, name);
  PyObject* own = recorder.reads.lookup_type(type, name);
  if (!recorder.live()) return Invoke::kStopped;
  if (own != nullptr) recorder.reads.guard_type_version(Py_TYPE(own));
  if (!recorder.live()) return Invoke::kStopped;
  if (own != nullptr && PyInstanceMethod_Check(own) && cpython::is_of_pybind(meta)) return Invoke::kUnknown;
  if (own != nullptr) return bind(lookup, own, Val(), object, name);
  if (of_meta != nullptr) return bind(lookup, of_meta, object, meta_value, name);
  if (PyObject* fallback = python_method(recorder.reads, meta, names().getattr)) {
    Arguments args;
    args.values = {object, recorder.reads.owned(name)};
    return invoke_function(recorder, lookup.frame, Val::constant(fallback), args, Then::kPush, lookup.pops);
  }
  *lookup.missing = true;
  return Invoke::kUnknown;
}

Invoke super_attribute(Lookup& lookup, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  Val start = recorder.heap.virtual_field(object, 0), self = recorder.heap.virtual_field(object, 1);
  PyTypeObject* type = recorder.heap.type_of(self);
  bool through_class = self.is_const() && PyType_Check(self.object());
  if (through_class &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self.object()), reinterpret_cast<PyTypeObject*>(start.object())))
    type = reinterpret_cast<PyTypeObject*>(self.object());
  else
    through_class = false;
  if (type == nullptr) return Invoke::kUnknown;
  recorder.reads.guard_type_version(type);
  if (!recorder.live()) return Invoke::kStopped;
  if (has_name(name, "__class__")) return found(lookup, Val::constant(reinterpret_cast<PyObject*>(&PySuper_Type)));
  PyObject* mro = type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != start.object()) ++i;
  for (++i; i < n; ++i) {
    PyObject* dict = cpython::type_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)));
    PyObject* item = nullptr;
    if (cpython::dict_lookup(dict, name, &item) < 0) return Invoke::kUnknown;
    if (item != nullptr)
      return bind(lookup, item, through_class ? Val() : self, Val::constant(reinterpret_cast<PyObject*>(type)), name);
  }
  *lookup.missing = true;
  return Invoke::kUnknown;
}

Invoke module_attribute(Lookup& lookup, Val object, PyObject* name) {
  Invoke outcome = generic_attribute(lookup, object, name);
  if (outcome != Invoke::kUnknown || !*lookup.missing) return outcome;
  PyObject *dict = PyModule_GetDict(object.object()), *fallback = nullptr;
  if (!lookup.recorder.reads.read_dict(dict, names().getattr, &fallback)) return Invoke::kUnknown;
  if (fallback == nullptr || Py_TYPE(fallback) != &PyFunction_Type) return Invoke::kUnknown;
  *lookup.missing = false;
  Arguments args;
  args.values = {lookup.recorder.reads.owned(name)};
  return invoke_function(lookup.recorder, lookup.frame, Val::constant(fallback), args, Then::kPush, lookup.pops);
}

// Whether a module that lacks an attribute, and has a `__getattr__` of its class, runs no frame that matters before it.
bool asks_quietly(Recorder& recorder, PyObject* module) {
  static PyObject* const name = PyUnicode_InternFromString("__spec__");
  PyObject* spec = nullptr;
  if (!cpython::kModulesAskTheirSpec) return true;
  if (!recorder.reads.read_dict(PyModule_GetDict(module), name, &spec)) return false;
  if (spec == nullptr || spec == Py_None) return true;
  if (Py_TYPE(spec) != cpython::module_spec_type()) return false;
  recorder.reads.guard_type_version(Py_TYPE(spec));
  return recorder.live();
}

// A class with __getattribute__ or __getattr__ in Python.
Invoke hooked_attribute(Lookup& lookup, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  PyTypeObject* type = recorder.heap.type_of(object);
  PyObject *getattribute = recorder.reads.lookup_type(type, names().getattribute, object.object()), *dict = nullptr;
  PyObject* getattr = recorder.reads.lookup_type(type, names().getattr);
  if (!recorder.live() || getattribute == nullptr) return Invoke::kUnknown;
  Arguments args;
  args.values = {object, recorder.reads.owned(name)};
  if (Py_TYPE(getattribute) == &PyFunction_Type) {
    if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return Invoke::kStopped;
    if (getattr == nullptr)
      return invoke_function(recorder, lookup.frame, Val::constant(getattribute), args, Then::kPush, lookup.pops);
    Invoke outcome =
        invoke_function(recorder, lookup.frame, Val::constant(getattribute), args, Then::kGetAttribute, lookup.pops);
    lookup.frame.pending.x = object;
    lookup.frame.pending.y = recorder.reads.owned(name);
    return outcome;
  }
  if (Py_TYPE(getattribute) != &PyWrapperDescr_Type) return Invoke::kUnknown;
  void* wrapped = reinterpret_cast<PyWrapperDescrObject*>(getattribute)->d_wrapped;
  bool module = wrapped == reinterpret_cast<void*>(PyModule_Type.tp_getattro) && object.is_const();
  bool type_like = wrapped == reinterpret_cast<void*>(PyType_Type.tp_getattro) && object.is_const();
  if (!module && !type_like && wrapped != reinterpret_cast<void*>(PyObject_GenericGetAttr)) return Invoke::kUnknown;
  if (type_like) return type_attribute(lookup, object, name);
  Invoke outcome = module ? module_attribute(lookup, object, name) : generic_attribute(lookup, object, name);
  if (outcome != Invoke::kUnknown || !*lookup.missing || getattr == nullptr) return outcome;
  *lookup.missing = false;
  if (Py_TYPE(getattr) != &PyFunction_Type) return Invoke::kUnknown;
  if (module && !asks_quietly(recorder, object.object())) return Invoke::kUnknown;
  outcome = invoke_function(recorder, lookup.frame, Val::constant(getattr), args, Then::kPush, lookup.pops);
  if (module && outcome == Invoke::kStarted) lookup.frame.pending.ignores_frames = true;
  return outcome;
}

// A bound method hands attributes on to its function.
Invoke method_attribute(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result,
                        bool* missing) {
  Val function, self;
  if (object.is_virtual()) {
    function = recorder.heap.virtual_field(object, field::kBoundMethod::kFunction);
    self = recorder.heap.virtual_field(object, field::kBoundMethod::kSelf);
  } else {
    if (!recorder.reads.guard_parts(object.object())) return Invoke::kUnknown;
    function = Val::constant(PyMethod_GET_FUNCTION(object.object()));
    self = constant(recorder, PyMethod_GET_SELF(object.object()));
  }
  if (has_name(name, "__func__")) return *result = function, Invoke::kStarted;
  if (has_name(name, "__self__")) return *result = self, Invoke::kStarted;
  PyObject* own = recorder.reads.lookup_type(&PyMethod_Type, name);
  if (own != nullptr && Py_TYPE(own)->tp_descr_get != nullptr && !has_name(name, "__doc__")) {
    if (has_name(name, "__class__"))
      return *result = Val::constant(reinterpret_cast<PyObject*>(&PyMethod_Type)), Invoke::kStarted;
    return Invoke::kUnknown;
  }
  return get_attribute(recorder, frame, function, name, pops, result, missing);
}

// A tensor of a library that the recorder does not look into.
Invoke register_attribute(Lookup& lookup, Val object, PyObject* name) {
  Recorder& recorder = lookup.recorder;
  PyTypeObject* type = recorder.heap.type_of(object);
  if (!mindspore::is_class_of_tensors(type) || has_name(name, "__dict__")) return Invoke::kUnknown;
  PyObject* descriptor = recorder.reads.lookup_type(type, name);
  if (!recorder.live()) return Invoke::kStopped;
  if (descriptor == nullptr || (!is_data(descriptor) && !is_made_by_library(recorder, object) &&
                                guard_no_attribute(recorder, object, recorder.heap.real(object), name) < 0))
    return Invoke::kUnknown;
  return bind(lookup, descriptor, object, Val::constant(reinterpret_cast<PyObject*>(type)), name);
}

Invoke find_attribute(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result,
                      bool* missing) {
  *missing = false;
  PyTypeObject* type = recorder.heap.type_of(object);
  if (type == nullptr) return Invoke::kUnknown;
  Lookup lookup{recorder, frame, pops, result, missing};
  if (touches_tensor(recorder, object)) {
    PyObject* descriptor = recorder.reads.lookup_type(type, name);
    if (ask_about(recorder, frame, SiteKind::kGetAttr, {object}, pops, 1, 0, name, descriptor)) {
      *result = Val();
      return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
    }
    if (descriptor != nullptr && Py_TYPE(descriptor)->tp_descr_set != nullptr &&
        Py_TYPE(descriptor) != &PyProperty_Type)
      return Invoke::kUnknown;
    Val own;
    int has = tensor_attribute(recorder, object, name, &own);
    if (has != 0 || !recorder.live()) return has > 0 ? found(lookup, own) : Invoke::kUnknown;
    if (descriptor != nullptr)
      return bind(lookup, descriptor, object, Val::constant(reinterpret_cast<PyObject*>(type)), name);
    *missing = true;
    return Invoke::kUnknown;
  }
  if (has_name(name, "append") && is_own_list(recorder.heap, object))
    return bind(lookup, method_of_list("append"), object, Val::constant(reinterpret_cast<PyObject*>(type)), name);
  if (object.is_reg() && cpython::is_scalar_type(type) && has_name(name, "__class__"))  // whatever the number is
    return found(lookup, Val::constant(reinterpret_cast<PyObject*>(type)));
  if (object.is_reg() && is_type_of_arrays(type)) {  // no object of it has attributes of its own
    PyObject* descriptor = recorder.reads.lookup_type(type, name);
    if (!recorder.live()) return Invoke::kStopped;
    if (has_name(name, "__class__")) return found(lookup, Val::constant(reinterpret_cast<PyObject*>(type)));
    *missing = descriptor == nullptr;
    if (descriptor == nullptr || Py_TYPE(descriptor) != &PyMethodDescr_Type) return Invoke::kUnknown;
    return bind(lookup, descriptor, object, Val::constant(reinterpret_cast<PyObject*>(type)), name);
  }
  // What pandas does with a name is one call, but for methods.
  if (const auto kind = pandas::kind_of(type); kind == pandas::Kind::kData || kind == pandas::Kind::kDerived) {
    PyObject* descriptor = recorder.reads.lookup_type(type, name);
    if (!recorder.live()) return Invoke::kStopped;
    if (descriptor == nullptr || Py_TYPE(descriptor) != &PyFunction_Type) return Invoke::kUnknown;
    return bind(lookup, descriptor, object, Val::constant(reinterpret_cast<PyObject*>(type)), name);
  }
  if (object.is_reg()) return register_attribute(lookup, object, name);
  getattrofunc getter = type->tp_getattro;
  const cpython::SlotFunctions& slots = cpython::slot_functions();
  if (type == &PySuper_Type)
    return recorder.heap.is_virtual(object, VirtualKind::kSuper) ? super_attribute(lookup, object, name)
                                                                 : Invoke::kUnknown;
  if (getter == PyObject_GenericGetAttr || type == &PyMethod_Type) {
    if (type == &PyMethod_Type) return method_attribute(recorder, frame, object, name, pops, result, missing);
    return generic_attribute(lookup, object, name);
  }
  if (getter == PyModule_Type.tp_getattro && object.is_const()) return module_attribute(lookup, object, name);
  if ((getter == PyType_Type.tp_getattro || cpython::is_of_pybind(type)) && object.is_const())
    return type_attribute(lookup, object, name);
  // int | str: generic but for the names that it has of its class
  if (type == cpython::union_type() && object.is_const() && !has_name(name, "__module__"))
    return generic_attribute(lookup, object, name);
  // list[str]: what it is made of
  if (type == &Py_GenericAliasType && object.is_const() && (has_name(name, "__origin__") || has_name(name, "__args__")))
    return generic_attribute(lookup, object, name);
  if (getter == slots.getattr_hook || getter == slots.getattribute) return hooked_attribute(lookup, object, name);
  return Invoke::kUnknown;
}

}  // namespace

// As PyObject_GetAttr, which tells an AttributeError what it looked for; the load of a method for a call does not.
Invoke get_attribute(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result,
                     bool* missing) {
  const Invoke outcome = find_attribute(recorder, frame, object, name, pops, result, missing);
  const PyTypeObject* type = recorder.heap.type_of(object);
  const Pending& pending = frame.pending;
  if (outcome != Invoke::kStarted || !pending.active || !pending.expects_frame() || type == nullptr) return outcome;
  const Instruction now = frame.current();
  const bool method = now.is(Operation::kLoadAttribute) && now.flag != 0;
  if (method && type->tp_getattro == PyObject_GenericGetAttr) return outcome;
  const Val sought[] = {object, recorder.reads.owned(name)};
  frame.pending.sought = recorder.new_tuple(&PyTuple_Type, sought, 2);
  return outcome;
}

Invoke get_generic_attribute(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result,
                             bool* missing) {
  *missing = false;
  Lookup lookup{recorder, frame, pops, result, missing};
  if (recorder.heap.type_of(object) == nullptr || object.is_reg()) return Invoke::kUnknown;
  return generic_attribute(lookup, object, name);
}

}  // namespace pijit
