// What `copy` asks objects for, object.__reduce_ex__, and what pickle makes of plain keyword arguments.
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/values.h"

namespace pijit {
namespace {

PyObject* name(const char* text) {
  return PyUnicode_InternFromString(text);  // lives as long as the process
}

// An object of a class of its own, with no slots, that leaves all of the protocol to `object`.
bool is_reduced_by_object(Recorder& recorder, Val object, PyTypeObject* type) {
  static PyObject *const reduce = name("__reduce__"), *const state = name("__getstate__");
  static PyObject *const args = name("__getnewargs__"), *const more_args = name("__getnewargs_ex__");
  static PyObject* const slots = name("__slotnames__");
  PyTypeObject* base = type;
  while (base != nullptr && (base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) base = base->tp_base;
  if (base != &PyBaseObject_Type || type == base) return false;
  PyObject* dict = nullptr;
  if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return false;
  for (PyObject* own : {reduce, state})
    if (recorder.reads.lookup_type(type, own) != cpython::lookup_type(&PyBaseObject_Type, own)) return false;
  for (PyObject* own : {args, more_args})
    if (recorder.reads.lookup_type(type, own) != nullptr) return false;
  // The first time the class gets it: what CPython does then is not repeated by a replay.
  PyObject* names_of_slots = PyDict_GetItemWithError(cpython::type_dict(type), slots);
  return names_of_slots != nullptr && PyList_CheckExact(names_of_slots) && recorder.reads.guard_list(names_of_slots) &&
         PyList_GET_SIZE(names_of_slots) == 0 && recorder.live();
}

// copyreg.__newobj__; null: not known.
PyObject* maker(ReadSet& reads) {
  static PyObject *const module_name = name("copyreg"), *const function = name("__newobj__");
  PyObject *module = nullptr, *found = nullptr;
  if (!reads.read_dict(PyImport_GetModuleDict(), module_name, &module) || module == nullptr ||
      !PyModule_CheckExact(module) || !reads.read_dict(PyModule_GetDict(module), function, &found))
    return nullptr;
  return found;
}

// getattr(object, name, None); what a class's own __getattribute__ does happens, in its order.
Task<Val> attribute_or_none(Drive& drive, Val object, PyObject* of) {
  static PyObject* const getattr = find_object("builtins", "getattr");
  Arguments args;
  args.values = {object, Val::constant(of), Val::constant(Py_None)};
  Val value = co_await call(drive, Val::constant(getattr), args);
  co_return value;
}

// Whether it is the method of `object`, of this one.
bool is_own_method(Heap& heap, Val method, Val self, PyObject* of) {
  return heap.is_virtual(method, VirtualKind::kBuiltinMethod) && heap.virtual_field(method, 1) == self &&
         heap.virtual_field(method, 0).object() == cpython::lookup_type(&PyBaseObject_Type, of);
}

// object.__reduce_ex__(self, protocol), of protocols that make the object by its class alone.
Task<Val> object_reduce(Drive& drive, Arguments args) {
  static PyObject *const reduce = name("__reduce__"), *const get_state = name("__getstate__");
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  PyObject* protocol = args.values[1].object();
  PyTypeObject* type = recorder.heap.type_of(self);
  int overflow = 0;
  if (type == nullptr || self.is_reg() || protocol == nullptr || !PyLong_CheckExact(protocol) ||
      PyLong_AsLongAndOverflow(protocol, &overflow) < 2 || overflow != 0 || !is_reduced_by_object(recorder, self, type))
    co_await drive.unknown();
  PyObject *newobj = maker(recorder.reads), *dict = nullptr;
  if (newobj == nullptr || (self.is_const() && (!guard_instance(recorder, self.object(), &dict) || dict == nullptr)))
    co_await drive.unknown();
  if (type->tp_getattro != PyObject_GenericGetAttr) {
    co_await attribute_or_none(drive, self, reduce);
    const Val method = co_await attribute_or_none(drive, self, get_state);
    if (!is_own_method(recorder.heap, method, self, get_state)) co_await drive.unknown();
  }
  Objects keys;
  Vals values;
  const Val own = dict != nullptr ? Val::constant(dict) : dict_of(recorder, self);
  if (own.is_null() || !dict_content(recorder, own, &keys, &values)) co_await drive.unknown();
  const Val none = Val::constant(Py_None), cls = Val::constant(reinterpret_cast<PyObject*>(type));
  const Val parts[] = {Val::constant(newobj), recorder.new_tuple(&PyTuple_Type, &cls, 1), keys.empty() ? none : own,
                       none, none};
  co_return recorder.new_tuple(&PyTuple_Type, parts, 5);
}

void take_name(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (!PyUnicode_CheckExact(result)) return recorder.stop(Abort::kUnknownCall, "object.__reduce_ex__");
  frame.pending.result = recorder.reads.owned(result);
}

// The same of an object of C that is known by a name, such as torch.float32: that is what its own __reduce__ gives.
Invoke reduce_ex(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  static PyObject* const own = name("__reduce__");
  PyObject *self = args.values[0].object(), *protocol = args.values[1].object();
  PyTypeObject* type = self == nullptr ? nullptr : Py_TYPE(self);
  constexpr unsigned long kNotOfC = Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_HAVE_GC;
  if (type == nullptr || (type->tp_flags & kNotOfC) != 0 || protocol == nullptr || !PyLong_CheckExact(protocol))
    return drive(recorder, frame, object_reduce, args, pops);
  PyObject* method = recorder.reads.lookup_type(type, own);
  if (!recorder.live()) return Invoke::kStopped;
  if (method == nullptr || Py_TYPE(method) != &PyMethodDescr_Type || PyDescr_TYPE(method) != type)
    return drive(recorder, frame, object_reduce, args, pops);
  recorder.reads.owned(self);
  observe(frame, pops, take_name);
  return Invoke::kStarted;
}

void take_bytes(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (!PyBytes_CheckExact(result)) return recorder.stop(Abort::kUnknownCall, "pickle.dumps");
  frame.pending.result = recorder.reads.owned(result);
}

// pickle.dumps(dict), of keyword arguments such as a memo is kept under: names, and values that have no identity.
Invoke pickle_dumps(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Objects keys;
  Vals values;
  if (recorder.heap.type_of(args.values[0]) != &PyDict_Type || args.values[0].is_reg()) return Invoke::kUnknown;
  if (!dict_content(recorder, args.values[0], &keys, &values))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  for (size_t i = 0; i < keys.size(); ++i) {
    PyObject* value = values[i].object();
    const bool plain = value != nullptr && (value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
                                            PyFloat_CheckExact(value));
    if (!plain || !PyUnicode_CheckExact(keys[i])) return Invoke::kUnknown;
  }
  observe(frame, pops, take_bytes);
  return Invoke::kStarted;
}

constexpr KnownCallable kCopyRows[] = {
    {"builtins", "object.__reduce_ex__", reduce_ex, 2, 2},
    {"_pickle", "dumps", pickle_dumps, 1, 1},
};

}  // namespace

constinit const KnownCalls kCopyCalls = kCopyRows;

}  // namespace pijit
