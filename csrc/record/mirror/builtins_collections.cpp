// Known callables about what `collections` and `types` have besides lists and dicts: defaultdict, Counter's counting,
// SimpleNamespace.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/members.h"
#include "cpython/operators.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/instances.h"
#include "record/state/values.h"

namespace pijit {
namespace {

PyObject* factory_name() {
  static PyObject* const name = PyUnicode_InternFromString("default_factory");
  return name;
}

// The factory of a defaultdict, fresh or not; Null: not known.
Val factory_of(Recorder& recorder, Val dict) {
  Val factory;
  if (dict.is_virtual()) return attr_find(recorder.heap, dict, factory_name(), &factory) ? factory : Val();
  const PyMemberDef* member = cpython::member_of(cpython::lookup_type(cpython::default_dict_type(), factory_name()));
  PyObject* value = nullptr;
  if (member == nullptr || !recorder.reads.guard_slot(dict.object(), member->offset, &value)) return Val();
  return value == nullptr ? Val::constant(Py_None) : constant(recorder, value);
}

// defaultdict(default_factory=None, *more of dict's)
Task<Val> make_default_dict(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val factory = Val::constant(Py_None);
  if (args.positional() > 0) {
    factory = args.values[0];
    args.values.erase(args.values.begin());
    PyTypeObject* type = guarded_type(recorder, factory);
    if (type == nullptr || (factory.object() != Py_None && type->tp_call == nullptr)) co_await drive.unknown();
  }
  const Val dict = new_virtual(recorder, VirtualKind::kDict, cpython::default_dict_type());
  recorder.heap.model(dict).attributes().names.push_back(factory_name());
  recorder.heap.model(dict).attributes().values.push_back(factory);
  log(recorder, dict, LogOp::kField, Val(), factory, 1);
  if (args.values.empty()) co_return dict;
  args.values.insert(args.values.begin(), dict);
  co_await dict_update(drive, args);
  co_return dict;
}

// defaultdict.__missing__(key), of exactly that class: others have methods that it calls.
Task<Val> default_dict_missing(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (recorder.heap.type_of(args.values[0]) != cpython::default_dict_type() || args.values[0].is_reg())
    co_await drive.unknown();
  const Val factory = factory_of(recorder, args.values[0]);
  if (factory.is_null()) co_await drive.unknown();
  if (factory.object() == Py_None) co_await drive.raise();
  const Arguments nothing;
  const Val value = co_await call(drive, factory, nothing);
  Arguments item;
  item.values.push_back(args.values[0]);
  item.values.push_back(args.values[1]);
  item.values.push_back(value);
  co_await dict_setitem(drive, item);
  co_return value;
}

bool leaves_methods_of_dict(ReadSet& reads, PyTypeObject* type) {
  static PyObject* const get = PyUnicode_InternFromString("get");
  return reads.lookup_type(type, get) == cpython::lookup_type(&PyDict_Type, get) &&
         reads.lookup_type(type, names().setitem) == cpython::lookup_type(&PyDict_Type, names().setitem);
}

// _count_elements(mapping, iterable): nobody sees the mapping before all are counted.
Task<Val> count_elements(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val mapping = args.values[0], iterable = args.values[1];
  PyTypeObject *type = recorder.heap.type_of(mapping), *of = recorder.heap.type_of(iterable);
  if (!mapping.is_virtual() || recorder.heap.is_built(mapping) || !is_dict_like(recorder.heap, mapping) ||
      of == nullptr || !leaves_methods_of_dict(recorder.reads, type) || is_iterator(recorder.heap, iterable) ||
      (iterator_type(of) == nullptr && of != &PyUnicode_Type))
    co_await drive.unknown();
  KeyList keys;
  Vals counts;
  const Val one = recorder.reads.owned(Ref::steal(PyLong_FromLong(1)).get());
  const Val iterator = co_await get_iter(drive, iterable);
  for (;;) {
    const Val item = co_await iter_next(drive, iterator);
    if (item.is_null()) break;
    PyObject* key = key_of(recorder, item);
    if (key == nullptr) co_await drive.unknown();
    const ptrdiff_t place = keys.find(key);
    const size_t at = place < 0 ? keys.size() : static_cast<size_t>(place);
    Val count;
    const bool known = at < keys.size() || dict_find(recorder.heap, mapping, key, &count);
    if (at < keys.size()) count = counts[at];
    PyTypeObject* number = known ? recorder.heap.type_of(count) : &PyLong_Type;
    if (number != &PyLong_Type && number != &PyFloat_Type) co_await drive.unknown();  // its + may look at the mapping
    if (at < keys.size()) {
      count = co_await binary(drive, nb::kAdd, counts[at], one);
    } else if (dict_find(recorder.heap, mapping, key, &count)) {
      count = co_await binary(drive, nb::kAdd, count, one);
    } else {
      count = one;
    }
    if (at == keys.size()) keys.push_back(key);
    counts.resize(keys.size());
    counts[at] = count;
  }
  for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder, mapping, keys[i], counts[i]);
  co_return Val::constant(Py_None);
}

// object()
Invoke make_object(Recorder& recorder, ShadowFrame& frame, Arguments&, int pops) {
  return give(recorder, frame, pops, new_virtual(recorder, VirtualKind::kInstance, &PyBaseObject_Type));
}

// SimpleNamespace(**attributes)
Task<Val> make_namespace(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val space = new_virtual(recorder, VirtualKind::kInstance, namespace_type());
  for (size_t i = 0; i < args.names.size(); ++i) attr_set(recorder, space, args.names[i], args.values[i]);
  co_return space;
}

}  // namespace

Val namespace_dict(Recorder& recorder, Val space) {
  PyObject* dict = nullptr;
  if (space.is_virtual()) return dict_of(recorder, space);
  return space.is_const() && guard_instance(recorder, space.object(), &dict) && dict != nullptr ? Val::constant(dict)
                                                                                                : Val();
}

namespace {

constexpr KnownCallable kCollectionRows[] = {
    {"_collections", "defaultdict", make_default_dict, 0, 2, kOptions},
    {"_collections", "defaultdict.__missing__", default_dict_missing, 2, 2},
    {"_collections", "_count_elements", count_elements, 2, 2},
    {"types", "SimpleNamespace", make_namespace, 0, 0, kOptions},
    {"builtins", "object", make_object, 0, 0},
};

}  // namespace

constinit const KnownCalls kCollectionCalls = kCollectionRows;

}  // namespace pijit
