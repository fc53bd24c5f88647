// Known C callables about containers, iterators and numbers.
#include "cpython/keys.h"
#include "record/builtins.h"

namespace pijit {
namespace {

bool is_dict_like(Recorder& recorder, Val value) {
  if (value.is_virtual()) {
    VirtualKind kind = recorder.model(value).kind;
    return kind == VirtualKind::kDict ||
           (kind == VirtualKind::kInstance && PyType_IsSubtype(recorder.model(value).type, &PyDict_Type));
  }
  return value.object() != nullptr && PyDict_Check(value.object());
}

// 1 found, 0 absent, -1 unknown.
int dict_get(Recorder& recorder, Val dict, Val key, Val* value) {
  PyObject* object = key.object();
  if (object == nullptr || !cpython::is_native_key(object)) return -1;
  if (dict.is_virtual()) return recorder.dict_find(dict, object, value) ? 1 : 0;
  PyObject* found = nullptr;
  if (recorder.overlay_find(dict.object(), object, value)) return value->is_null() ? 0 : 1;
  if (!recorder.read_dict(dict.object(), object, &found)) return -1;
  if (found == nullptr) return 0;
  *value = recorder.constant(found);
  return 1;
}

Invoke method_get(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() < 2 || args.values.size() > 3 || !args.names.empty()) return Invoke::kUnknown;
  Val container = args.values[0], value;
  if (recorder.is_virtual(container, VirtualKind::kView)) container = recorder.virtual_field(container, 0);
  if (!is_dict_like(recorder, container)) return Invoke::kUnknown;
  int found = dict_get(recorder, container, args.values[1], &value);
  if (found < 0) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  if (found == 0) value = args.values.size() == 3 ? args.values[2] : Val::constant(Py_None);
  return give(recorder, frame, pops, value);
}

Invoke method_pop(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() < 2 || !recorder.is_virtual(args.values[0], VirtualKind::kDict)) return Invoke::kUnknown;
  Val value;
  int found = dict_get(recorder, args.values[0], args.values[1], &value);
  if (found < 0) return Invoke::kUnknown;
  if (found > 0) {
    if (!recorder.dict_delete(args.values[0], args.values[1].object())) return Invoke::kUnknown;
  } else if (args.values.size() == 3) {
    value = args.values[2];
  } else {
    recorder.will_raise(frame, pops);
    return Invoke::kStarted;
  }
  return give(recorder, frame, pops, value);
}

template <bool kOrdered>
Invoke view_of(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops, PyTypeObject* type) {
  if (args.values.size() != 1) return Invoke::kUnknown;
  Val dict = args.values[0];
  if (recorder.is_virtual(dict, VirtualKind::kView)) dict = recorder.virtual_field(dict, 0);
  if (!is_dict_like(recorder, dict)) return Invoke::kUnknown;
  Val view = recorder.new_virtual(VirtualKind::kView, type);
  recorder.set_field(view, 0, dict);
  return give(recorder, frame, pops, view);
}

Invoke dict_keys(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return view_of<false>(r, f, a, p, &PyDictKeys_Type);
}
Invoke dict_values(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return view_of<false>(r, f, a, p, &PyDictValues_Type);
}
Invoke dict_items(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return view_of<false>(r, f, a, p, &PyDictItems_Type);
}
Invoke odict_keys(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return view_of<true>(r, f, a, p, &PyODictKeys_Type);
}
Invoke odict_values(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return view_of<true>(r, f, a, p, &PyODictValues_Type);
}
Invoke odict_items(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return view_of<true>(r, f, a, p, &PyODictItems_Type);
}

// A proxy hands its methods on to the mapping: the type of the view is the mapping's own.
Invoke proxy_view(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops, PyTypeObject* plain,
                  PyTypeObject* ordered) {
  if (args.values.size() != 1 || !recorder.is_virtual(args.values[0], VirtualKind::kView)) return Invoke::kUnknown;
  PyTypeObject* type = recorder.type_of(recorder.virtual_field(args.values[0], 0));
  if (type != &PyDict_Type && type != &PyODict_Type) return Invoke::kUnknown;
  return view_of<false>(recorder, frame, args, pops, type == &PyDict_Type ? plain : ordered);
}
Invoke proxy_keys(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return proxy_view(r, f, a, p, &PyDictKeys_Type, &PyODictKeys_Type);
}
Invoke proxy_values(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return proxy_view(r, f, a, p, &PyDictValues_Type, &PyODictValues_Type);
}
Invoke proxy_items(Recorder& r, ShadowFrame& f, Arguments& a, int p) {
  return proxy_view(r, f, a, p, &PyDictItems_Type, &PyODictItems_Type);
}

Invoke dict_setitem(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 3 || !args.values[0].is_virtual() || !is_dict_like(recorder, args.values[0]))
    return Invoke::kUnknown;
  PyObject* key = args.values[1].object();
  if (key == nullptr || !cpython::is_native_key(key)) return Invoke::kUnknown;
  recorder.dict_set(args.values[0], key, args.values[2]);
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Invoke dict_update(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.empty() || !recorder.is_virtual(args.values[0], VirtualKind::kDict) || args.positional() > 2)
    return Invoke::kUnknown;
  std::vector<PyObject*> keys;
  std::vector<Val> values;
  if (args.positional() == 2 && !recorder.dict_content(args.values[1], &keys, &values))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  keys.insert(keys.end(), args.names.begin(), args.names.end());
  values.insert(values.end(), args.values.begin() + static_cast<ptrdiff_t>(args.positional()), args.values.end());
  for (size_t i = 0; i < keys.size(); ++i) recorder.dict_set(args.values[0], keys[i], values[i]);
  return give(recorder, frame, pops, Val::constant(Py_None));
}

// A method of dict that writes, called on a dict that keeps an order of its own, puts the two out of step.
template <Builtin kHandler>
Invoke unless_ordered(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyTypeObject* type = args.values.empty() ? nullptr : recorder.type_of(args.values[0]);
  const bool ordered = type != nullptr && PyType_IsSubtype(type, &PyODict_Type) != 0;
  return ordered ? Invoke::kUnknown : kHandler(recorder, frame, args, pops);
}

Invoke container_contains(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 2) return Invoke::kUnknown;
  return contains(recorder, frame, args.values[0], args.values[1], pops, false) ? Invoke::kStarted : Invoke::kUnknown;
}

Invoke list_append(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 2 || !recorder.is_virtual(args.values[0], VirtualKind::kList)) return Invoke::kUnknown;
  recorder.model(args.values[0]).items.push_back(args.values[1]);
  recorder.log(args.values[0], LogOp::kItem, Val(), args.values[1]);
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Task<Val> list_extend(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (args.values.size() != 2 || !recorder.is_virtual(args.values[0], VirtualKind::kList)) co_await drive.unknown();
  const std::vector<Val> items = co_await collect(drive, args.values[1]);
  for (Val item : items) {
    recorder.model(args.values[0]).items.push_back(item);
    recorder.log(args.values[0], LogOp::kItem, Val(), item);
  }
  co_return Val::constant(Py_None);
}

Invoke sequence_index(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  std::vector<Val> items;
  if (args.values.size() != 2 || args.values[1].object() == nullptr || !recorder.try_items(args.values[0], &items))
    return Invoke::kUnknown;
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* item = items[i].object();
    if (item == nullptr || !is_plain_const(item) || !is_plain_const(args.values[1].object())) return Invoke::kUnknown;
    if (!cpython::scalars_equal(item, args.values[1].object())) continue;
    return give(recorder, frame, pops, recorder.owned(Ref::steal(PyLong_FromSize_t(i)).get()));
  }
  recorder.will_raise(frame, pops);
  return Invoke::kStarted;
}

Invoke list_insert(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 3 || !recorder.is_virtual(args.values[0], VirtualKind::kList) ||
      args.values[1].object() == nullptr)
    return Invoke::kUnknown;
  auto& items = recorder.model(args.values[0]).items;
  long at = PyLong_AsLong(args.values[1].object());
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), Invoke::kUnknown;
  long size = static_cast<long>(items.size());
  if (at < 0) at = at + size < 0 ? 0 : at + size;
  if (at > size) at = size;
  items.insert(items.begin() + at, args.values[2]);
  recorder.log(args.values[0], LogOp::kInsert, args.values[1], args.values[2], static_cast<uint32_t>(at));
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Invoke set_add(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 2 || !recorder.is_virtual(args.values[0], VirtualKind::kSet)) return Invoke::kUnknown;
  PyObject* item = args.values[1].object();
  if (item == nullptr || !cpython::is_native_key(item)) return Invoke::kUnknown;
  recorder.dict_set(args.values[0], item, args.values[1]);
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Invoke builtin_len(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 1) return Invoke::kUnknown;
  Val value = args.values[0];
  PyTypeObject* type = recorder.type_of(value);
  if (type == nullptr) return Invoke::kUnknown;
  if (recorder.touches_tensor(value)) {
    if (recorder.ask_about(frame, SiteKind::kLen, {value}, pops, 1))
      return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
    return Invoke::kUnknown;
  }
  Py_ssize_t size = -1;
  std::vector<Val> items;
  std::vector<PyObject*> keys;
  if (value.is_virtual() && recorder.model(value).kind == VirtualKind::kSet) {
    size = static_cast<Py_ssize_t>(recorder.model(value).keys.size());
  } else if (recorder.is_virtual(value, VirtualKind::kView) || is_dict_like(recorder, value)) {
    bool python = type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_length == cpython::slot_functions().len;
    if (!python && recorder.dict_content(value, &keys, &items)) size = static_cast<Py_ssize_t>(keys.size());
  } else if (value.object() != nullptr &&
             (PyUnicode_CheckExact(value.object()) || PyBytes_CheckExact(value.object()))) {
    size = PyObject_Length(value.object());
  } else if (value.object() != nullptr && PyAnySet_CheckExact(value.object())) {
    if (recorder.guard_set(value.object())) size = PySet_GET_SIZE(value.object());
  } else if (type == &PyList_Type || type == &PyTuple_Type || PyType_IsSubtype(type, &PyTuple_Type) ||
             (value.object() != nullptr && PyRange_Check(value.object()))) {
    if (recorder.try_items(value, &items)) size = static_cast<Py_ssize_t>(items.size());
  }
  if (!recorder.live()) return Invoke::kStopped;
  if (size >= 0) return give(recorder, frame, pops, recorder.owned(Ref::steal(PyLong_FromSsize_t(size)).get()));
  PyObject* method = recorder.lookup_type(type, names().len);
  PyObject* dict = nullptr;
  if (method == nullptr || Py_TYPE(method) != &PyFunction_Type) return Invoke::kUnknown;
  if (value.is_const() && !recorder.guard_instance(value.object(), &dict)) return Invoke::kStopped;
  Arguments inner;
  inner.values = {value};
  return recorder.invoke_function(frame, Val::constant(method), inner, Then::kPush, pops);
}

template <PyTypeObject* kType>
Invoke type_dict(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.positional() > 1) return Invoke::kUnknown;
  if (args.positional() == 1 && !is_dict_like(recorder, args.values[0]) &&
      !recorder.is_virtual(args.values[0], VirtualKind::kView)) {
    return dict_of_pairs(recorder, frame, kType, args, pops);
  }
  std::vector<PyObject*> keys;
  std::vector<Val> values;
  if (args.positional() == 1) {
    Val source = args.values[0];
    PyTypeObject* type = recorder.type_of(source);
    if (recorder.is_virtual(source, VirtualKind::kView) && type != &PyDictProxy_Type)
      return dict_of_pairs(recorder, frame, kType, args, pops);
    if (!recorder.dict_content(source, &keys, &values)) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  }
  keys.insert(keys.end(), args.names.begin(), args.names.end());
  values.insert(values.end(), args.values.begin() + static_cast<ptrdiff_t>(args.positional()), args.values.end());
  Val dict = recorder.new_virtual(VirtualKind::kDict, kType);
  for (size_t i = 0; i < keys.size(); ++i) recorder.dict_set(dict, keys[i], values[i]);
  return give(recorder, frame, pops, dict);
}

Invoke type_proxy(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 1 || !is_dict_like(recorder, args.values[0])) return Invoke::kUnknown;
  Val view = recorder.new_virtual(VirtualKind::kView, &PyDictProxy_Type);
  recorder.set_field(view, 0, args.values[0]);
  return give(recorder, frame, pops, view);
}

void add_folding() {
  for (const char* name : {"abs", "divmod", "pow", "round", "chr", "ord", "hash", "repr", "ascii", "bin", "hex", "oct",
                           "format", "int", "float", "complex", "range", "bytes"})
    add_builtin("builtins", name, fold);
  for (const char* name : {"sqrt", "floor",    "ceil",     "exp",   "log",   "log2", "log10", "pow",  "sin",
                           "cos",  "tan",      "isfinite", "isinf", "isnan", "prod", "gcd",   "fabs", "trunc",
                           "tanh", "copysign", "fmod",     "hypot", "atan2", "atan", "asin",  "acos"})
    add_builtin("math", name, fold);
  for (const char* name : {"add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pos", "lt", "le", "eq", "ne",
                           "ge", "gt", "not_", "index", "and_", "or_", "xor"})
    add_builtin("_operator", name, fold);
}

}  // namespace

void add_container_builtins() {
  for (const char* type : {"dict", "OrderedDict"}) {
    bool ordered = type[0] == 'O';
    auto add = [&](const char* method, Builtin handler) {
      add_builtin(ordered ? "collections" : "builtins", (std::string(type) + "." + method).c_str(), handler);
    };
    add("get", method_get);
    add("pop", ordered ? method_pop : unless_ordered<method_pop>);
    add("keys", ordered ? odict_keys : dict_keys);
    add("values", ordered ? odict_values : dict_values);
    add("items", ordered ? odict_items : dict_items);
    add("update", ordered ? dict_update : unless_ordered<dict_update>);
    add("__setitem__", ordered ? dict_setitem : unless_ordered<dict_setitem>);
    add("__contains__", container_contains);
  }
  add_builtin("types", "MappingProxyType.get", method_get);
  add_builtin("types", "MappingProxyType.keys", proxy_keys);
  add_builtin("types", "MappingProxyType.values", proxy_values);
  add_builtin("types", "MappingProxyType.items", proxy_items);
  add_builtin("types", "MappingProxyType", type_proxy);
  for (const char* name : {"frozenset.__contains__", "set.__contains__", "list.__contains__", "tuple.__contains__"})
    add_builtin("builtins", name, container_contains);
  add_builtin("builtins", "list.append", list_append);
  add_driven("builtins", "list.extend", list_extend);
  add_builtin("builtins", "list.insert", list_insert);
  add_builtin("builtins", "list.index", sequence_index);
  add_builtin("builtins", "tuple.index", sequence_index);
  add_builtin("builtins", "set.add", set_add);
  add_builtin("builtins", "len", builtin_len);
  add_builtin("builtins", "dict", type_dict<&PyDict_Type>);
  add_builtin("collections", "OrderedDict", type_dict<&PyODict_Type>);
  add_folding();
}

}  // namespace pijit
