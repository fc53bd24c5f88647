// What `copy` asks objects for: object.__reduce_ex__.
#include "record/builtins.h"

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
  if (base != &PyBaseObject_Type || type == base || type->tp_getattro != PyObject_GenericGetAttr) return false;
  PyObject* dict = nullptr;
  if (object.is_const() && !recorder.guard_instance(object.object(), &dict)) return false;
  for (PyObject* own : {reduce, state})
    if (recorder.lookup_type(type, own) != _PyType_Lookup(&PyBaseObject_Type, own)) return false;
  for (PyObject* own : {args, more_args})
    if (recorder.lookup_type(type, own) != nullptr) return false;
  // The first time the class gets it: what CPython does then is not repeated by a replay.
  PyObject* names_of_slots = PyDict_GetItemWithError(type->tp_dict, slots);
  return names_of_slots != nullptr && PyList_CheckExact(names_of_slots) && recorder.guard_list(names_of_slots) &&
         PyList_GET_SIZE(names_of_slots) == 0 && recorder.live();
}

// copyreg.__newobj__; null: not known.
PyObject* maker(Recorder& recorder) {
  static PyObject *const module_name = name("copyreg"), *const function = name("__newobj__");
  PyObject *module = nullptr, *found = nullptr;
  if (!recorder.read_dict(PyImport_GetModuleDict(), module_name, &module) || module == nullptr ||
      !PyModule_CheckExact(module) || !recorder.read_dict(PyModule_GetDict(module), function, &found))
    return nullptr;
  return found;
}

// object.__reduce_ex__(self, protocol), of protocols that make the object by its class alone.
Invoke object_reduce(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 2 || !args.names.empty() || frame.drive) return Invoke::kUnknown;
  const Val self = args.values[0];
  PyObject* protocol = args.values[1].object();
  PyTypeObject* type = recorder.type_of(self);
  if (type == nullptr || self.is_reg() || protocol == nullptr || !PyLong_CheckExact(protocol) ||
      Py_SIZE(protocol) != 1 || PyLong_AsLong(protocol) < 2 || !is_reduced_by_object(recorder, self, type))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  PyObject *newobj = maker(recorder), *dict = nullptr;
  Objects keys;
  Vals values;
  if (newobj == nullptr || (self.is_const() && (!recorder.guard_instance(self.object(), &dict) || dict == nullptr)))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  const Val own = dict != nullptr ? Val::constant(dict) : recorder.dict_of(self);
  if (own.is_null() || !recorder.dict_content(own, &keys, &values))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  const Val none = Val::constant(Py_None), cls = Val::constant(reinterpret_cast<PyObject*>(type));
  const Val parts[] = {Val::constant(newobj), recorder.new_tuple(&PyTuple_Type, &cls, 1), keys.empty() ? none : own,
                       none, none};
  return give(recorder, frame, pops, recorder.new_tuple(&PyTuple_Type, parts, 5));
}

}  // namespace

void add_copy_builtins() {
  add_builtin("builtins", "object.__reduce_ex__", object_reduce);
}

}  // namespace pijit
