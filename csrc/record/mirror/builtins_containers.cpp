// Known C callables about containers, iterators and numbers.
#include "cpython/keys.h"
#include "record/mirror/builtins.h"

namespace pijit {

bool is_dict_like(Recorder& recorder, Val value) {
  if (value.is_virtual()) return holds_dict(recorder.model(value));
  return value.object() != nullptr && PyDict_Check(value.object());
}

// An object of a class of the program's that dict() would ask for its keys.
bool may_be_mapping(Recorder& recorder, Val value) {
  static PyObject* const keys = PyUnicode_InternFromString("keys");
  PyTypeObject* type = recorder.type_of(value);
  if (type == nullptr || (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type == nullptr;
  Val own;
  if (!value.is_virtual() || recorder.is_built(value) || recorder.attr_find(value, keys, &own)) return true;
  return recorder.lookup_type(type, keys) != nullptr;
}

namespace {

Invoke method_get(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() < 2 || args.values.size() > 3 || !args.names.empty()) return Invoke::kUnknown;
  Val container = args.values[0], value;
  if (recorder.is_virtual(container, VirtualKind::kView))
    container = recorder.virtual_field(container, field::kView::kSource);
  if (!is_dict_like(recorder, container)) return Invoke::kUnknown;
  int found = mapping_find(recorder, container, args.values[1], &value);
  if (found < 0) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  if (found == 0) value = args.values.size() == 3 ? args.values[2] : Val::constant(Py_None);
  return give(recorder, frame, pops, value);
}

template <bool kOrdered>
Invoke view_of(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops, PyTypeObject* type) {
  if (args.values.size() != 1) return Invoke::kUnknown;
  Val dict = args.values[0];
  if (recorder.is_virtual(dict, VirtualKind::kView)) dict = recorder.virtual_field(dict, field::kView::kSource);
  if (!is_dict_like(recorder, dict)) return Invoke::kUnknown;
  Val view = recorder.new_virtual(VirtualKind::kView, type);
  recorder.set_field(view, field::kView::kSource, dict);
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

Invoke container_contains(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 2) return Invoke::kUnknown;
  return contains(recorder, frame, args.values[0], args.values[1], pops, false) ? Invoke::kStarted : Invoke::kUnknown;
}

Invoke builtin_len(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() != 1) return Invoke::kUnknown;
  if (recorder.is_unread(args.values[0]) && !recorder.is_filled(args.values[0]))
    return recorder.compute(frame, recorder.called, args.values, pops);
  Val value = recorder.content_of(args.values[0]);
  PyTypeObject* type = recorder.type_of(value);
  if (type == nullptr) return Invoke::kUnknown;
  if (recorder.touches_tensor(value)) {
    if (recorder.ask_about(frame, SiteKind::kLen, {value}, pops, 1))
      return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
    return Invoke::kUnknown;
  }
  Py_ssize_t size = -1;
  Vals items;
  Objects keys;
  if (value.is_virtual() && recorder.model(value).kind == VirtualKind::kSet) {
    size = static_cast<Py_ssize_t>(recorder.model(value).keys.size());
  } else if (recorder.is_virtual(value, VirtualKind::kView) || is_dict_like(recorder, value)) {
    bool python = type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_length == cpython::slot_functions().len;
    if (!python && recorder.dict_content(value, &keys, &items)) size = static_cast<Py_ssize_t>(keys.size());
  } else if (value.object() != nullptr &&
             (PyUnicode_CheckExact(value.object()) || PyBytes_CheckExact(value.object()))) {
    size = PyObject_Length(value.object());
  } else if (value.object() != nullptr && PyAnySet_CheckExact(value.object())) {
    if (recorder.reads().guard_set(value.object(), ReadSet::kSize)) size = PySet_GET_SIZE(value.object());
  } else if (type == &PyList_Type || PyType_IsSubtype(type, &PyTuple_Type) ||
             recorder.is_virtual(value, VirtualKind::kDeque) ||
             (value.object() != nullptr && PyRange_Check(value.object()))) {
    size = recorder.count_items(value);
  }
  if (!recorder.live()) return Invoke::kStopped;
  if (size >= 0) return give(recorder, frame, pops, recorder.owned(Ref::steal(PyLong_FromSsize_t(size)).get()));
  PyObject* dict = nullptr;
  if (value.is_const() && !recorder.guard_instance(value.object(), &dict)) return Invoke::kStopped;
  PyObject* method = recorder.lookup_type(type, names().len);
  if (method == nullptr || Py_TYPE(method) != &PyFunction_Type) return Invoke::kUnknown;
  Arguments inner;
  inner.values = {value};
  return recorder.invoke_function(frame, Val::constant(method), inner, Then::kPush, pops);
}

template <PyTypeObject* kType>
Invoke type_dict(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.positional() > 1) return Invoke::kUnknown;
  if (args.positional() == 1 && !is_dict_like(recorder, args.values[0]) &&
      !recorder.is_virtual(args.values[0], VirtualKind::kView)) {
    if (may_be_mapping(recorder, args.values[0])) return Invoke::kUnknown;
    return dict_of_pairs(recorder, frame, kType, args, pops);
  }
  Objects keys;
  Vals values;
  if (args.positional() == 1) {
    Val source = args.values[0];
    PyTypeObject* type = recorder.type_of(source);
    if (recorder.is_virtual(source, VirtualKind::kView) && type != &PyDictProxy_Type)
      return dict_of_pairs(recorder, frame, kType, args, pops);
    if (!recorder.merge_content(source, &keys, &values)) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
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
  recorder.set_field(view, field::kView::kSource, args.values[0]);
  return give(recorder, frame, pops, view);
}

void add_folding() {
  for (const char* name : {"abs", "divmod", "pow", "round", "chr", "ord", "hash", "repr", "ascii", "bin", "hex", "oct",
                           "format", "int", "float", "complex", "range", "bytes"})
    add_builtin("builtins", name, fold);
  for (const char* name :
       {"sqrt",      "floor",     "ceil",    "exp",      "log",   "log2",  "log10", "pow",     "sin",  "cos",  "tan",
        "isfinite",  "isinf",     "isnan",   "prod",     "gcd",   "fabs",  "trunc", "isclose", "comb", "perm", "fsum",
        "dist",      "factorial", "radians", "degrees",  "log1p", "expm1", "cosh",  "sinh",    "erf",  "lcm",  "isqrt",
        "remainder", "ldexp",     "tanh",    "copysign", "fmod",  "hypot", "atan2", "atan",    "asin", "acos"})
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
    add("keys", ordered ? odict_keys : dict_keys);
    add("values", ordered ? odict_values : dict_values);
    add("items", ordered ? odict_items : dict_items);
    add("__contains__", container_contains);
  }
  add_builtin("types", "MappingProxyType.get", method_get);
  add_builtin("types", "MappingProxyType.keys", proxy_keys);
  add_builtin("types", "MappingProxyType.values", proxy_values);
  add_builtin("types", "MappingProxyType.items", proxy_items);
  add_builtin("types", "MappingProxyType", type_proxy);
  for (const char* name : {"frozenset.__contains__", "set.__contains__", "list.__contains__", "tuple.__contains__"})
    add_builtin("builtins", name, container_contains);
  add_builtin("builtins", "len", builtin_len);
  add_builtin("builtins", "dict", type_dict<&PyDict_Type>);
  add_builtin("collections", "OrderedDict", type_dict<&PyODict_Type>);
  add_folding();
}

}  // namespace pijit
