// Classes in which a program counts: an attribute that is another number in each call, as of handles that are numbered.
//
// A write to a class gives it, and all that derive from it, another version. So nothing that such a class is said to be
// may be guarded by its version. Its dict is guarded in place of that: its keys, and what they have, all but the places
// that vary (varying.cpp). Its MRO is guarded, too. A recording learns from a write that a class is such a one; until
// the next recording the write is an opaque call.
#include "record/state/counting.h"

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/recorder.h"
#include "record/state/instances.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"

namespace pijit {
namespace {

// A number or a text, where there was another of its class.
bool is_count(PyObject* old, const PyTypeObject* type) noexcept {
  return old != nullptr && Py_TYPE(old) == type &&
         (type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type);
}

// type.__setattr__ puts it into the dict of the class and does no more. Names with underscores on both sides may fill
// slots of the class.
bool is_put_in_dict(ReadSet& reads, PyTypeObject* type, PyObject* name) {
  PyTypeObject* meta = Py_TYPE(type);
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) PyErr_Clear();
  if (text == nullptr || (text[0] == '_' && text[1] == '_') || meta->tp_setattro != PyType_Type.tp_setattro ||
      (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0)
    return false;
  PyObject* descriptor = reads.lookup_type(meta, name);
  return descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_set == nullptr;
}

}  // namespace

bool counted_attribute(Recorder& recorder, PyTypeObject* type, PyObject* name, Val* value) {
  if (!counts_in(recorder.varying(), type)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* dict = cpython::type_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
    PyObject* item = nullptr;
    if (dict == nullptr || cpython::dict_lookup(dict, name, &item) <= 0) continue;
    return recorder.varying()->has(dict, name) && find_item(recorder, dict, name, value) > 0;
  }
  return false;
}

bool count_in_class(Recorder& recorder, Val object, PyObject* name, Val value) {
  if (!object.is_const() || !PyType_Check(object.object()) || recorder.varying() == nullptr || value.is_null())
    return false;
  auto* type = reinterpret_cast<PyTypeObject*>(object.object());
  PyObject *dict = cpython::type_dict(type), *old = nullptr;
  if (!is_put_in_dict(recorder.reads, type, name) || dict == nullptr || cpython::dict_lookup(dict, name, &old) <= 0 ||
      !is_count(old, recorder.heap.type_of(value)))
    return false;
  if (!recorder.varying()->has(dict, name)) {
    recorder.numbers.counts.emplace_back(dict, recorder.reads.owned(name).object());
    return false;
  }
  recorder.reads.guard_type_version(type);
  const Val real = recorder.live() ? materialize(recorder, value) : Val();
  if (!recorder.live() || !recorder.reads.touch_dict(dict)) return false;
  note_write(recorder, dict, name, old, value);
  Node& node = emit_node(recorder, Op::kStoreAttr);
  node.a = object;
  node.b = recorder.reads.owned(name);
  node.c = real;
  overlay_set(recorder, dict, name, value);
  return true;
}

}  // namespace pijit
