// Calls and plain values inside C code.
#include "record/mirror/abstract.h"

#include <algorithm>

#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/values.h"

namespace pijit {

Val plain_shadow(Recorder& recorder, PyObject* result) {
  if (cpython::is_scalar(result) || PyRange_Check(result)) return recorder.reads.owned(result);
  const bool tuple = PyTuple_CheckExact(result);
  if (!tuple && !PyList_CheckExact(result)) return Val();
  Vals items;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i) {
    items.push_back(plain_shadow(recorder, tuple ? PyTuple_GET_ITEM(result, i) : PyList_GET_ITEM(result, i)));
    if (items.back().is_null()) return Val();
  }
  return tuple ? recorder.new_tuple(&PyTuple_Type, items.data(), items.size())
               : recorder.new_list(items.data(), items.size());
}

Ref plain_object(Recorder& recorder, Val value) {
  if (value.is_reg() && !touches_tensor(recorder, value)) value = force(recorder, value);
  if (!recorder.live()) return Ref();
  if (value.is_const()) return is_plain_const(value.object()) ? Ref::borrow(value.object()) : Ref();
  const bool tuple =
      recorder.heap.is_virtual(value, VirtualKind::kTuple) && recorder.heap.type_of(value) == &PyTuple_Type;
  if (!tuple && !recorder.heap.is_virtual(value, VirtualKind::kList)) return Ref();
  Model& content = recorder.heap.model(value);
  if (content.building) return Ref();  // it contains itself
  content.building = true;
  const Vals items = content.items;
  const auto size = static_cast<Py_ssize_t>(items.size());
  Ref made = Ref::steal(tuple ? PyTuple_New(size) : PyList_New(size));
  for (Py_ssize_t i = 0; made && i < size; ++i) {
    Ref item = plain_object(recorder, items[static_cast<size_t>(i)]);
    if (!item) {
      made = Ref();
      break;
    }
    if (tuple) {
      PyTuple_SET_ITEM(made.get(), i, item.release());
    } else {
      PyList_SET_ITEM(made.get(), i, item.release());
    }
  }
  content.building = false;
  return made;
}

namespace {

bool holds_set(PyObject* object) {
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object) > 1;
  bool holds = false;
  for (Py_ssize_t i = 0; PyTuple_Check(object) && i < PyTuple_GET_SIZE(object); ++i)
    holds = holds || holds_set(PyTuple_GET_ITEM(object, i));
  return holds;
}

bool gives_hash(PyObject* function) {
  static PyObject* const kHash = PyDict_GetItemString(PyEval_GetBuiltins(), "hash");
  return function == kHash ||
         (Py_TYPE(function) == &PyWrapperDescr_Type &&
          PyUnicode_CompareWithASCIIString(reinterpret_cast<PyDescrObject*>(function)->d_name, "__hash__") == 0);
}

// Calls a C function that only computes on plain values. 1: *result, 0: it raises, -1: not such a call.
int compute(Recorder& recorder, Val callable, const Arguments& args, Val* result) {
  PyObject* function = callable.object();
  if (function == nullptr || !args.names.empty() || !only_computes(function)) return -1;
  std::vector<Ref> kept;
  Objects objects;
  for (Val value : args.values) {
    kept.push_back(plain_object(recorder, value));
    if (!kept.back()) return -1;
    objects.push_back(kept.back().get());
  }
  for (PyObject* object : objects) note_hashes(recorder, function, object);
  Ref made = Ref::steal(PyObject_Vectorcall(function, objects.data(), objects.size(), nullptr));
  if (!made) {
    PyErr_Clear();
    return 0;
  }
  if (has_virtual(args) && !cpython::is_scalar(made.get())) return -1;  // it may be, or hold, one of them
  *result = plain_shadow(recorder, made.get());
  return result->is_null() ? -1 : 1;
}

}  // namespace

void note_hashes(Recorder& recorder, PyObject* function, PyObject* argument) {
  const bool number = argument != nullptr && (PyLong_Check(argument) || PyFloat_Check(argument));
  if ((gives_hash(function) && !number) || (argument != nullptr && holds_set(argument)))
    recorder.trace().of_this_process = true;
}

Val compute_tensors(Recorder& recorder, SiteKind kind, const Vals& operands, int oparg, PyObject* callable) {
  Adapter* adapter = recorder.adapter();
  const auto is_tensor = [&](Val value) { return touches_tensor(recorder, value); };
  if (adapter == nullptr || std::none_of(operands.begin(), operands.end(), is_tensor)) return Val();
  std::vector<Operand> all;
  for (Val value : operands) all.push_back({value, recorder.heap.real(value)});
  CallSite site{};
  site.kind = kind;
  site.callable = callable;
  site.oparg = oparg;
  site.operands = all.data();
  site.count = all.size();
  return adapter->compute(site);
}

Task<Val> call(Drive& drive, Val callable, Arguments args, bool last) {
  Recorder& recorder = drive.recorder();
  if (recorder.heap.is_virtual(callable, VirtualKind::kBuiltinMethod)) {
    args.values.insert(args.values.begin(), recorder.heap.virtual_field(callable, 1));
    callable = recorder.heap.virtual_field(callable, 0);
  }
  Val result;
  const int computed = compute(recorder, callable, args, &result);
  if (computed == 0) co_await drive.raise();
  if (computed > 0) co_return result;
  if (!recorder.live()) co_await drive.unknown();
  last = last && !drive.is_inside();
  if (!last && callable.object() != nullptr && args.names.empty())
    result = compute_tensors(recorder, SiteKind::kCall, args.values, 0, callable.object());
  if (!result.is_null()) co_return result;
  if (!recorder.live()) co_await drive.unknown();
  const Invoke outcome = invoke(recorder, drive.frame(), callable, args, 0);
  if (last && drive.leave(outcome)) co_await Drive::Never();
  Inner inner = co_await drive.wait(outcome);
  Driven driven = drive.deferred();
  if (driven != nullptr) {
    drive.go_inside();
    Val value = co_await driven(drive, drive.deferred_args());
    drive.come_out();
    co_return value;
  }
  if (inner.raised) co_await drive.pass_on();
  if (inner.ended) co_await drive.unknown();
  co_return inner.value;
}

PyTypeObject* guarded_type(Recorder& recorder, Val value) {
  PyObject* dict = nullptr;
  if (value.is_const() && !guard_instance(recorder, value.object(), &dict)) return nullptr;
  return value.is_reg() ? nullptr : recorder.heap.type_of(value);
}

Task<Val> call_one(Drive& drive, Val callable, Val argument) {
  Arguments args;
  args.values.push_back(argument);
  Val result = co_await call(drive, callable, args);
  co_return result;
}

Task<Val> call_two(Drive& drive, Val callable, Val first, Val second) {
  Arguments args;
  args.values.push_back(first);
  args.values.push_back(second);
  Val result = co_await call(drive, callable, args);
  co_return result;
}

PyObject* python_method(ReadSet& reads, PyTypeObject* type, PyObject* name) {
  PyObject* method = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ? reads.lookup_type(type, name) : nullptr;
  return method != nullptr && Py_TYPE(method) == &PyFunction_Type ? method : nullptr;
}

PyObject* special_method(Recorder& recorder, Val object, PyObject* name) {
  PyTypeObject* type = recorder.heap.type_of(object);
  PyObject* dict = nullptr;
  if (type == nullptr || (object.is_reg() && !touches_tensor(recorder, object))) return nullptr;
  if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return nullptr;
  PyObject* method = python_method(recorder.reads, type, name);
  return recorder.live() ? method : nullptr;
}

Task<Inner> enter_function(Drive& drive, PyObject* function, Arguments args, bool last) {
  const Then then = last ? drive.then() : Then::kPush;
  const Invoke outcome = invoke_function(drive.recorder(), drive.frame(), Val::constant(function), args, then, 0);
  if (last && drive.leave(outcome)) co_await Drive::Never();
  const Inner inner = co_await drive.wait(outcome);
  co_return inner;
}

Task<Val> call_function(Drive& drive, PyObject* function, Arguments args, bool last) {
  const Inner inner = co_await enter_function(drive, function, args, last);
  if (inner.raised) co_await drive.pass_on();
  co_return inner.value;
}

Task<Val> call_special(Drive& drive, Val object, PyObject* name, Vals more, bool last) {
  PyObject* method = special_method(drive.recorder(), object, name);
  if (method == nullptr) co_await drive.unknown();
  Arguments args;
  args.values.push_back(object);
  args.values.insert(args.values.end(), more.begin(), more.end());
  const Val result = co_await call_function(drive, method, args, last);
  co_return result;
}

Task<Val> special_of(Drive& drive, Arguments args) {
  const Vals more(args.values.begin() + 2, args.values.end());
  const Val result = co_await call_special(drive, args.values[0], args.values[1].object(), more, true);
  co_return result;
}

Task<Py_hash_t> hash_in_python(Drive& drive, Val value, PyObject** object) {
  Recorder& recorder = drive.recorder();
  *object = touches_tensor(recorder, value) ? tensor_source(recorder.loading, value).object() : value.object();
  if (*object == nullptr || Py_TYPE(*object)->tp_hash != cpython::slot_functions().hash) co_await drive.unknown();
  const size_t nodes = recorder.trace().nodes.size();
  const bool before = recorder.trace().of_this_process;
  const Val hashed = co_await call_special(drive, value, names().hash, {});
  recorder.trace().of_this_process = before;  // it says only where the key is looked for
  PyObject* number = hashed.object();
  // A replay can leave no frame that a lookup has called.
  if (number == nullptr || !PyLong_CheckExact(number) || recorder.trace().nodes.size() != nodes)
    co_await drive.unknown();
  Py_hash_t hash = PyLong_AsSsize_t(number);
  if (hash == -1) {  // of a larger number, its own
    PyErr_Clear();
    hash = PyObject_Hash(number);
  }
  if (!recorder.live()) co_await drive.unknown();
  co_return hash;
}

Task<PyObject*> identity_key(Drive& drive, Val value) {
  PyObject* key = key_of(drive.recorder(), value);
  if (key != nullptr) co_return key;
  if (!drive.recorder().live()) co_await drive.unknown();
  const Py_hash_t hash = co_await hash_in_python(drive, value, &key);
  if (hash != static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(key))) co_await drive.unknown();
  drive.recorder().heap.note_key(key, value);
  co_return key;
}

Task<bool> is_true(Drive& drive, Val value) {
  Recorder& recorder = drive.recorder();
  bool yes = false;
  if (truth(recorder, value, &yes)) co_return yes;
  PyTypeObject* type = recorder.live() ? guarded_type(recorder, value) : nullptr;
  if (type == nullptr) co_await drive.unknown();
  const bool counts = recorder.reads.lookup_type(type, names().bool_) == nullptr;
  Val answer;
  if (counts) {
    answer = co_await length(drive, value);
  } else {
    Vals none;
    answer = co_await call_special(drive, value, names().bool_, none);
    // Anything but a bool makes CPython raise.
    if (recorder.heap.type_of(answer) != &PyBool_Type) co_await drive.unknown();
  }
  if (!truth(recorder, answer, &yes)) co_await drive.unknown();
  co_return yes;
}

Task<Val> truth_of(Drive& drive, Arguments args) {
  if (args.values.empty()) co_return truth_value(false);
  const bool yes = co_await is_true(drive, args.values[0]);
  co_return truth_value(yes);
}

}  // namespace pijit
