// Items at a place that differs from call to call: `data[i % 8]`, `vocabulary[word]`, `step in milestones`.
//
// A node takes the item out, and the number or text that says where stays open. Rejected: the place is fixed, so that
// the item is known, and there is a trace for each place.
//
// 1. A scalar is a register. A tensor or a container is looked into by the guards of an epoch, as what foreign code
// returned is (found.cpp). So is an instance where there are more of them than traces should be.
// 2. Modules, functions, classes and None decide what the program does next. Their place is fixed.
// 3. Items of several classes are fixed, too: a node expects the class that it has seen.
// 4. A dict or set is looked into only as far as that runs no Python. A class that derives from dict, such as a Counter,
// is one if it has the methods of dict for that.
// 5. A list that has another number of items in each call (a history, a buffer) is asked for its items, and for parts
// of it, in the same way. Else each number of items would be a trace.
// 6. A list or dict that the trace has made is not looked into here: its items are known to the trace.
#include "record/step/open_items.h"

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/known_objects.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/varying.h"

namespace pijit {
namespace {

constexpr Py_ssize_t kMostLooked = 256, kFew = 8;
constexpr int kDeepestData = 3;

PyObject* item_of_dict(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject* value = nullptr;
  if (cpython::dict_lookup(args[0], args[1], &value) > 0) return new_reference(value);
  PyErr_SetNone(PyExc_KeyError);  // CPython looks again
  return nullptr;
}

PyObject* item_or_default(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject* value = nullptr;
  const int there = cpython::dict_lookup(args[0], args[1], &value);
  if (there >= 0) return new_reference(there > 0 ? value : args[2]);
  PyErr_SetNone(PyExc_TypeError);  // CPython looks again
  return nullptr;
}

// 1: the set has the key, 0: it does not; -1: that cannot be said, or would take long.
int set_lookup(PyObject* set, PyObject* key) {
  PyObject* item = nullptr;
  Py_ssize_t position = 0;
  if (PySet_GET_SIZE(set) > kMostLooked || !cpython::is_native_key(key)) return -1;
  bool found = false;
  while (cpython::next_set_item(set, &position, &item)) {
    if (!cpython::is_native_key(item)) return -1;
    found = found || cpython::keys_equal(item, key);
  }
  return found ? 1 : 0;
}

PyObject* is_in(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject* value = nullptr;
  const int there =
      PyAnySet_CheckExact(args[0]) ? set_lookup(args[0], args[1]) : cpython::dict_lookup(args[0], args[1], &value);
  if (there >= 0) return PyBool_FromLong(there);
  PyErr_SetNone(PyExc_TypeError);  // CPython looks again
  return nullptr;
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
PyMethodDef as_row(const char* name, Fast function) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

struct OpenFunctions {
  PyObject *item, *item_of_dict, *item_or_default, *is_in;
};

const OpenFunctions& open_functions() {
  static PyMethodDef rows[] = {as_row("getitem", item_of_dict), as_row("get", item_or_default),
                               as_row("contains", is_in)};
  static const OpenFunctions all = {find_object("_operator", "getitem"), PyCFunction_New(&rows[0], nullptr),
                                    PyCFunction_New(&rows[1], nullptr), PyCFunction_New(&rows[2], nullptr)};
  return all;
}

bool is_open_number(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type;
}

bool is_number_or_text(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyComplex_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type;
}

// Tensors, scalars, and containers of such.
bool is_data(const Recorder& recorder, PyObject* object, int depth) {
  if (cpython::is_scalar(object)) return true;
  if (recorder.adapter() != nullptr && recorder.adapter()->is_tensor(object)) return true;
  if (depth > kDeepestData) return false;
  if (PyDict_CheckExact(object)) {
    PyObject *key, *value;
    if (PyDict_GET_SIZE(object) > kMostLooked) return false;
    for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &value) != 0;)
      if (!cpython::is_scalar(key) || !is_data(recorder, value, depth + 1)) return false;
    return true;
  }
  if (!cpython::is_plain_tuple(object) && !PyList_CheckExact(object)) return false;
  if (PySequence_Fast_GET_SIZE(object) > kMostLooked) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!is_data(recorder, PySequence_Fast_GET_ITEM(object, i), depth + 1)) return false;
  return true;
}

// An object that is not called and has no class among what it holds: one of many alike.
bool is_record(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_call == nullptr && !PyType_Check(object) &&
         cpython::is_importable(type);
}

bool may_stay_open(const Recorder& recorder, PyObject* item, Py_ssize_t count) {
  if (item == Py_None || PyBool_Check(item)) return false;
  if (is_number_or_text(Py_TYPE(item))) return count > kFew || is_open_number(Py_TYPE(item));
  return is_data(recorder, item, 0) || (count > kFew && is_record(item));
}

// All items, as far as they are looked at, are of this class.
bool are_alike(PyObject* container, const PyTypeObject* type) {
  Py_ssize_t looked = 0;
  if (PyDict_Check(container)) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; looked < kMostLooked && PyDict_Next(container, &position, &key, &value) != 0;
         ++looked)
      if (Py_TYPE(value) != type) return false;
    return true;
  }
  for (; looked < kMostLooked && looked < PySequence_Fast_GET_SIZE(container); ++looked)
    if (Py_TYPE(PySequence_Fast_GET_ITEM(container, looked)) != type) return false;
  return true;
}

// A number or text that differs from call to call.
bool is_open(Recorder& recorder, Val key) {
  if (!is_scalar_reg(recorder, key) || touches_tensor(recorder, key)) return false;
  const PyTypeObject* type = recorder.heap.type_of(key);
  return type == &PyLong_Type || type == &PyUnicode_Type;
}

// A container that existed before, as CPython has it now; null: another.
PyObject* existing(Recorder& recorder, Val container) {
  if (container.is_const()) return container.object();
  if (!container.is_virtual() || !recorder.trace().virtuals[container.index()].is_real(0)) return nullptr;
  return recorder.heap.real(container);
}

// A dict, or one of a class that derives from it and does this as dict does.
bool is_dict_for(Recorder& recorder, PyObject* object, PyObject* method) {
  if (!PyDict_Check(object)) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (cpython::is_builtin_dict(type)) return true;
  return recorder.reads.lookup_type(type, method) == cpython::lookup_type(&PyDict_Type, method) && recorder.live();
}

bool is_slice(Recorder& recorder, Val key) {
  return recorder.heap.is_virtual(key, VirtualKind::kSlice) || (key.object() != nullptr && PySlice_Check(key.object()));
}

PyObject* item_now(Recorder& recorder, PyObject* container, Val key) {
  PyObject *place = recorder.heap.real(key), *item = nullptr;
  if (place == nullptr) return nullptr;
  if (PyDict_Check(container)) return cpython::dict_lookup(container, place, &item) > 0 ? item : nullptr;
  if (!PyLong_CheckExact(place)) return nullptr;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(container);
  Py_ssize_t at = PyLong_AsSsize_t(place);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (at < 0) at += size;
  return at >= 0 && at < size ? PySequence_Fast_GET_ITEM(container, at) : nullptr;
}

void take_open_item(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  take_object(recorder, frame, result);
  if (cpython::is_scalar_type(Py_TYPE(result))) return;
  const Val out = frame.pending.result;
  recorder.heap.reg_objects[out.index()] = result;
  recorder.foreign.epoch_result = out;
  recorder.foreign.epoch_due = true;
}

bool take(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops) {
  const Invoke outcome = compute(recorder, frame, callable, args, pops);
  if (outcome == Invoke::kStarted) frame.pending.finish = take_open_item;
  return outcome != Invoke::kUnknown;
}

// Whether it is there decides what the program does next. The node says whether it is; CPython's result may be the
// opposite.
void take_membership(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  const bool inverts = frame.pending.y.object() == Py_True;
  PyObject* there = (result == Py_True) != inverts ? Py_True : Py_False;
  take_object(recorder, frame, there);
  Val answer = recorder.unbox(frame.pending.result, there);
  if (!answer.is_null()) answer = recorder.force_const(answer, there);
  if (answer.is_null()) return recorder.stop(Abort::kUnknownOperand, "membership");
  frame.pending.result = truth_value(result == Py_True);
}

}  // namespace

bool load_open_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops) {
  if (frame.drive || recorder.varying() == nullptr) return false;
  const bool grows = changes_size(recorder, container);
  if (grows && is_slice(recorder, key)) {
    return take(recorder, frame, open_functions().item, {container, key}, pops);
  }
  const bool number = key.object() != nullptr && PyLong_CheckExact(key.object());
  if (!is_open(recorder, key) && !(grows && number)) return false;
  PyObject* object = existing(recorder, container);
  if (object == nullptr) return false;
  const bool dict = is_dict_for(recorder, object, names().getitem);
  if (!dict && !PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  PyObject* item = item_now(recorder, object, key);
  const Py_ssize_t count = dict ? PyDict_GET_SIZE(object) : PySequence_Fast_GET_SIZE(object);
  if (item == nullptr || !(may_stay_open(recorder, item, count) || (grows && is_record(item)))) return false;
  if (!are_alike(object, Py_TYPE(item))) return false;
  PyObject* callable = dict ? open_functions().item_of_dict : open_functions().item;
  return take(recorder, frame, callable, {container, key}, pops);
}

// `get` gives a number in any case, and of one class.
bool get_open_item(Recorder& recorder, ShadowFrame& frame, Val container, Val key, Val otherwise, int pops) {
  if (frame.drive || recorder.varying() == nullptr || !is_open(recorder, key)) return false;
  PyObject* object = existing(recorder, container);
  if (object == nullptr || !PyDict_Check(object) || !cpython::is_builtin_dict(Py_TYPE(object))) return false;
  PyObject* item = item_now(recorder, object, key);
  PyObject* result = item != nullptr ? item : recorder.heap.real(otherwise);
  if (result == nullptr || !is_open_number(Py_TYPE(result)) || !are_alike(object, Py_TYPE(result))) return false;
  return take(recorder, frame, open_functions().item_or_default, {container, key, otherwise}, pops);
}

bool look_for_open_key(Recorder& recorder, ShadowFrame& frame, Val container, Val key, int pops, bool invert) {
  if (frame.drive || recorder.varying() == nullptr || !is_open(recorder, key)) return false;
  PyObject* object = existing(recorder, container);
  if (object == nullptr) return false;
  const bool set = PyAnySet_CheckExact(object) && PySet_GET_SIZE(object) <= kMostLooked;
  if (!set && !is_dict_for(recorder, object, names().contains)) return false;
  const Invoke outcome = compute(recorder, frame, open_functions().is_in, {container, key}, pops);
  if (outcome != Invoke::kStarted) return outcome != Invoke::kUnknown;
  frame.pending.finish = take_membership;
  frame.pending.y = truth_value(invert);
  return true;
}

// Another reference is there. It equals this one, since both refer to one object, whose hash runs no Python.
bool find_by_reference(Recorder& recorder, Val container, Val reference, Val* item) {
  PyObject* dict = container.object();
  if (dict == nullptr || !PyDict_CheckExact(dict) || !reference.is_reg() || PyDict_GET_SIZE(dict) > kMostLooked ||
      recorder.heap.type_of(reference) != cpython::reference_type())
    return false;
  // What C code calls is better left to an opaque call than followed: the trace would end where it has effects.
  for (const auto& frame : recorder.frames)
    if (frame->drive) return false;
  PyObject *object = made_of(recorder.trace(), reference).object(), *key, *value;
  if (object == nullptr || !cpython::is_native_key(object)) return false;
  for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value) != 0;) {
    if (!PyWeakref_CheckRef(key) || PyWeakref_GET_OBJECT(key) != object) continue;
    const Py_hash_t hash = PyObject_Hash(object);
    if (hash == -1) return PyErr_Clear(), false;
    if (!recorder.reads.read_same(dict, key, hash, &value)) return false;
    *item = constant(recorder, value);
    return recorder.live();
  }
  return false;
}

bool stores_open_item(Recorder& recorder, Val container, Val key) {
  if (recorder.varying() == nullptr || !is_open(recorder, key)) return false;
  PyObject* object = existing(recorder, container);
  return object != nullptr && (PyDict_CheckExact(object) || PyList_CheckExact(object));
}

}  // namespace pijit
