// Known C callables about containers, iterators and numbers.
#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {

bool is_dict_like(Heap& heap, Val value) {
  if (value.is_virtual()) return holds_dict(heap.model(value));
  return value.object() != nullptr && PyDict_Check(value.object());
}

// An object of a class of the program's that dict() would ask for its keys.
bool may_be_mapping(Recorder& recorder, Val value) {
  static PyObject* const keys = PyUnicode_InternFromString("keys");
  PyTypeObject* type = recorder.heap.type_of(value);
  if (type == nullptr || (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type == nullptr;
  Val own;
  if (!value.is_virtual() || recorder.heap.is_built(value) || attr_find(recorder.heap, value, keys, &own)) return true;
  return recorder.reads.lookup_type(type, keys) != nullptr;
}

// The class of the program has keys(): dict() asks for them.
bool has_keys(Recorder& recorder, Val value) {
  static PyObject* const keys = PyUnicode_InternFromString("keys");
  PyTypeObject* type = recorder.heap.type_of(value);
  if (type == nullptr || value.is_reg() || (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  return recorder.reads.lookup_type(type, keys) != nullptr && recorder.live();
}

namespace {

Invoke method_get(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Val container = args.values[0], value;
  if (recorder.heap.is_virtual(container, VirtualKind::kView))
    container = recorder.heap.virtual_field(container, field::kView::kSource);
  if (!is_dict_like(recorder.heap, container)) return Invoke::kUnknown;
  const bool defaults = args.values.size() == 3;
  if (defaults && get_open_item(recorder, frame, container, args.values[1], args.values[2], pops))
    return Invoke::kStarted;
  int found = mapping_find(recorder, container, args.values[1], &value);
  if (found < 0) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  if (found == 0) value = defaults ? args.values[2] : Val::constant(Py_None);
  return give(recorder, frame, pops, value);
}

template <PyTypeObject* kView>
Invoke view_of(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Val dict = args.values[0];
  if (recorder.heap.is_virtual(dict, VirtualKind::kView))
    dict = recorder.heap.virtual_field(dict, field::kView::kSource);
  if (!is_dict_like(recorder.heap, dict)) return Invoke::kUnknown;
  Val view = new_virtual(recorder, VirtualKind::kView, kView);
  set_field(recorder, view, field::kView::kSource, dict);
  return give(recorder, frame, pops, view);
}

// A proxy hands its methods on to the mapping: the type of the view is the mapping's own.
template <PyTypeObject* kPlain, PyTypeObject* kOrdered>
Invoke proxy_view(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (!recorder.heap.is_virtual(args.values[0], VirtualKind::kView)) return Invoke::kUnknown;
  PyTypeObject* type = recorder.heap.type_of(recorder.heap.virtual_field(args.values[0], field::kView::kSource));
  if (type != &PyDict_Type && type != &PyODict_Type) return Invoke::kUnknown;
  return type == &PyDict_Type ? view_of<kPlain>(recorder, frame, args, pops)
                              : view_of<kOrdered>(recorder, frame, args, pops);
}

Invoke container_contains(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  return contains(recorder, frame, args.values[0], args.values[1], pops, false) ? Invoke::kStarted : Invoke::kUnknown;
}

// The class says so in Python, whatever it derives from.
bool has_own_length(Recorder& recorder, Val value, PyTypeObject* type) {
  PyObject* dict = nullptr;
  if (value.is_const() && !guard_instance(recorder, value.object(), &dict)) return false;
  return python_method(recorder.reads, type, names().len) != nullptr;
}

Invoke builtin_len(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const bool asked = is_unread(recorder, args.values[0]) || (!frame.drive && changes_size(recorder, args.values[0]));
  if (asked && !is_filled(recorder.heap, args.values[0]))
    return compute(recorder, frame, recorder.called, args.values, pops);
  Val value = args.values[0];
  PyTypeObject* type = recorder.heap.type_of(value);
  if (type == nullptr) return Invoke::kUnknown;
  if (touches_tensor(recorder, value)) {
    if (ask_about(recorder, frame, SiteKind::kLen, {value}, pops, 1))
      return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
    return Invoke::kUnknown;
  }
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && has_own_length(recorder, value, type))
    return drive(recorder, frame, length_of, args, pops);
  if (!recorder.live()) return Invoke::kStopped;
  value = content_of(recorder, value);
  Py_ssize_t size = -1;
  Vals items;
  Objects keys;
  if (value.is_virtual() && recorder.heap.model(value).kind == VirtualKind::kSet) {
    size = static_cast<Py_ssize_t>(recorder.heap.model(value).keys().size());
  } else if (recorder.heap.is_virtual(value, VirtualKind::kView) || is_dict_like(recorder.heap, value)) {
    if (dict_content(recorder, value, &keys, &items)) size = static_cast<Py_ssize_t>(keys.size());
  } else if (value.object() != nullptr &&
             (PyUnicode_CheckExact(value.object()) || PyBytes_CheckExact(value.object()))) {
    size = PyObject_Length(value.object());
  } else if (value.object() != nullptr && PyAnySet_CheckExact(value.object())) {
    if (recorder.reads.guard_set(value.object(), ReadSet::kSize)) size = PySet_GET_SIZE(value.object());
  } else if (cpython::is_plain_list(type) || PyType_IsSubtype(type, &PyTuple_Type) ||
             recorder.heap.is_virtual(value, VirtualKind::kDeque) ||
             (value.object() != nullptr && PyRange_Check(value.object()))) {
    size = count_items(recorder, value);
  }
  if (!recorder.live()) return Invoke::kStopped;
  if (size < 0) return Invoke::kUnknown;
  return give(recorder, frame, pops, recorder.reads.owned(Ref::steal(PyLong_FromSsize_t(size)).get()));
}

// dict(mapping), where code of the program may say what it has.
Task<Val> dict_of_mapping(Drive& drive, Arguments args) {
  Arguments both;
  both.values.push_back(new_dict(drive.recorder()));
  both.values.push_back(args.values[0]);
  co_await merge_mapping(drive, both);
  co_return both.values[0];
}

template <PyTypeObject* kType>
Invoke type_dict(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.positional() == 1 && !is_dict_like(recorder.heap, args.values[0]) &&
      !recorder.heap.is_virtual(args.values[0], VirtualKind::kView)) {
    if (kType == &PyDict_Type && args.names.empty() && has_keys(recorder, args.values[0]))
      return drive(recorder, frame, dict_of_mapping, args, pops);
    if (may_be_mapping(recorder, args.values[0])) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
    return dict_of_pairs(recorder, frame, kType, args, pops);
  }
  Objects keys;
  Vals values;
  if (args.positional() == 1) {
    Val source = args.values[0];
    PyTypeObject* type = recorder.heap.type_of(source);
    if (recorder.heap.is_virtual(source, VirtualKind::kView) && type != &PyDictProxy_Type)
      return dict_of_pairs(recorder, frame, kType, args, pops);
    if (!merge_content(recorder, source, &keys, &values)) {
      const bool asked = recorder.live() && kType == &PyDict_Type && args.names.empty() && has_keys(recorder, source);
      if (asked) return drive(recorder, frame, dict_of_mapping, args, pops);
      return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
    }
  }
  keys.insert(keys.end(), args.names.begin(), args.names.end());
  values.insert(values.end(), args.values.begin() + static_cast<ptrdiff_t>(args.positional()), args.values.end());
  Val dict = new_virtual(recorder, VirtualKind::kDict, kType);
  for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder, dict, keys[i], values[i]);
  return give(recorder, frame, pops, dict);
}

Invoke type_proxy(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (!is_dict_like(recorder.heap, args.values[0])) return Invoke::kUnknown;
  Val view = new_virtual(recorder, VirtualKind::kView, &PyDictProxy_Type);
  set_field(recorder, view, field::kView::kSource, args.values[0]);
  return give(recorder, frame, pops, view);
}

constexpr KnownCallable kContainerRows[] = {
    {"builtins", "dict.get", method_get, 2, 3},
    {"builtins", "dict.keys", view_of<&PyDictKeys_Type>, 1, 1},
    {"builtins", "dict.values", view_of<&PyDictValues_Type>, 1, 1},
    {"builtins", "dict.items", view_of<&PyDictItems_Type>, 1, 1},
    {"collections", "OrderedDict.keys", view_of<&PyODictKeys_Type>, 1, 1},
    {"collections", "OrderedDict.values", view_of<&PyODictValues_Type>, 1, 1},
    {"collections", "OrderedDict.items", view_of<&PyODictItems_Type>, 1, 1},
    {"types", "MappingProxyType.get", method_get, 2, 3},
    {"types", "MappingProxyType.keys", proxy_view<&PyDictKeys_Type, &PyODictKeys_Type>, 1, 1},
    {"types", "MappingProxyType.values", proxy_view<&PyDictValues_Type, &PyODictValues_Type>, 1, 1},
    {"types", "MappingProxyType.items", proxy_view<&PyDictItems_Type, &PyODictItems_Type>, 1, 1},
    {"types", "MappingProxyType", type_proxy, 1, 1},
    {"builtins", "dict.__contains__ frozenset.__contains__ set.__contains__ list.__contains__ tuple.__contains__",
     container_contains, 2, 2},
    {"builtins", "len", builtin_len, 1, 1},
    {"builtins", "dict", type_dict<&PyDict_Type>, 0, 1, kOptions},
    {"collections", "OrderedDict", type_dict<&PyODict_Type>, 0, 1, kOptions},
};

}  // namespace

constinit const KnownCalls kContainerCalls = kContainerRows;

}  // namespace pijit
