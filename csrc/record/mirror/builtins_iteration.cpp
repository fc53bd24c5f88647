// Known C callables that iterate: constructors of containers, all, any, sum, min, max, sorted, zip, enumerate, iter,
// next.
#include <algorithm>
#include <cmath>

#include "cpython/bytecode.h"
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/limits.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/mirror/restart.h"
#include "record/state/contents.h"
#include "record/state/known_objects.h"
#include "record/state/values.h"
#include "record/state/varying.h"

namespace pijit {
namespace {

Task<Val> make_tuple(Drive& drive, Arguments args) {
  if (args.values.empty()) co_return drive.recorder().new_tuple(&PyTuple_Type, nullptr, 0);
  if (drive.recorder().heap.type_of(args.values[0]) == &PyTuple_Type) co_return args.values[0];
  const Vals items = co_await collect_all(drive, args.values[0]);
  co_return drive.recorder().new_tuple(&PyTuple_Type, items.data(), items.size());
}

Task<Val> make_list(Drive& drive, Arguments args) {
  if (args.values.empty()) co_return drive.recorder().new_list(nullptr, 0);
  const Vals items = co_await collect_all(drive, args.values[0]);
  co_return drive.recorder().new_list(items.data(), items.size());
}

template <PyTypeObject* kType>
Task<Val> make_set(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (kType == &PyFrozenSet_Type && !args.values.empty() && recorder.heap.type_of(args.values[0]) == kType)
    co_return args.values[0];
  KeyList keys;
  if (args.values.empty()) co_return new_set(recorder, kType, keys);
  const bool table = has_table(recorder.heap, args.values[0]);
  if (!set_keys(recorder, args.values[0], &keys)) {
    Restart restart(drive, args.values[0]);
    const Val iterator = co_await get_iter(drive, args.values[0]);
    restart.draws_from(iterator);
    for (;;) {
      const Val item = co_await iter_next(drive, restart.ask());
      if (item.is_null()) break;
      PyObject* key = key_of(recorder, item);
      if (key == nullptr) co_await drive.unknown();
      if (!keys.holds(key)) keys.push_back(key);
      restart.keep(item);
    }
  }
  if (!table) co_return new_set(recorder, kType, keys);
  Val set = new_set(recorder, kType, keys, reinterpret_cast<PyObject*>(kType), args.values);
  if (set.is_null()) co_await drive.unknown();
  co_return set;
}

// dict(pairs): an iterable of pairs; dict(mapping, **more) is in builtins_containers.cpp.
template <PyTypeObject* kType>
Task<Val> make_dict_of_pairs(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Restart restart(drive, args.values[0]);
  Val dict = new_virtual(recorder, VirtualKind::kDict, kType);
  Val iterator = co_await get_iter(drive, args.values[0]);
  restart.draws_from(iterator);
  for (;;) {
    Val pair = co_await iter_next(drive, restart.ask());
    restart.answered();
    if (pair.is_null()) break;
    const Vals fields = co_await collect(drive, pair);
    if (fields.size() != 2) co_await drive.raise();
    PyObject* key = key_of(recorder, fields[0]);
    if (key == nullptr) co_await drive.unknown();
    dict_set(recorder, dict, key, fields[1]);
    restart.keep(recorder.new_tuple(&PyTuple_Type, fields.data(), 2));  // as it was: the pair itself may change
  }
  for (size_t i = 0; i < args.names.size(); ++i)
    dict_set(recorder, dict, args.names[i], args.values[args.positional() + i]);
  co_return dict;
}

template <bool kAll>
Task<Val> all_any(Drive& drive, Arguments args) {
  Restart restart(drive, args.values[0]);
  Val iterator = co_await get_iter(drive, args.values[0]);
  restart.draws_from(iterator);
  for (;;) {
    Val item = co_await iter_next(drive, restart.ask());
    restart.answered();
    if (item.is_null()) co_return truth_value(kAll);
    if (item.is_reg()) restart.keep_only(item);
    const bool yes = co_await is_true(drive, item);
    if (yes != kAll) co_return truth_value(!kAll);
    restart.forget();
  }
}

Task<Val> builtin_iter(Drive& drive, Arguments args) {
  if (args.values.size() == 1) {
    Val iterator = co_await get_iter(drive, args.values[0]);
    co_return iterator;
  }
  Val iterator = new_virtual(drive.recorder(), VirtualKind::kLazy, &PyCallIter_Type);
  set_field(drive.recorder(), iterator, 0, args.values[0]);
  set_field(drive.recorder(), iterator, 1, args.values[1]);
  co_return iterator;
}

}  // namespace

// iter(callable, sentinel): exhausted once the sentinel came.
Task<Val> next_of_callable(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val iterator = args.values[0], sentinel = recorder.heap.virtual_field(iterator, 1);
  if (sentinel.is_null()) co_return Val();
  Arguments none;
  Val item = co_await call(drive, recorder.heap.virtual_field(iterator, 0), none);
  const bool last = co_await equals(drive, item, sentinel);
  if (!last) co_return item;
  set_field(recorder, iterator, 1, Val());
  recorder.heap.note_begun(iterator);
  co_return Val();
}

namespace {

Task<Val> builtin_next(Drive& drive, Arguments args) {
  if (drive.recorder().heap.type_of(args.values[0]) == &PyGen_Type && args.values[0].is_virtual()) {
    const Inner inner = co_await resume_generator(drive, args.values[0], Val());
    if (!inner.ended) co_return inner.value;
    if (args.values.size() == 1) co_await drive.raise(new_stop(drive.recorder(), inner.returned));
    co_return args.values[1];
  }
  Val item = co_await iter_next(drive, args.values[0]);
  if (!item.is_null()) co_return item;
  if (args.values.size() == 1) co_await drive.raise();
  co_return args.values[1];
}

Task<Val> make_enumerate(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!args.names.empty() && !has_name(args.names[0], "start")) co_await drive.unknown();
  Val start = args.values.size() == 2 ? force(recorder, args.values[1]) : number_value(recorder.reads, 0);
  if (start.object() == nullptr || !PyLong_CheckExact(start.object())) co_await drive.unknown();
  Val inner = co_await get_iter(drive, args.values[0]);
  Val result = new_virtual(recorder, VirtualKind::kEnumerate, &PyEnum_Type);
  set_field(recorder, result, field::kEnumerate::kIterator, inner);
  set_field(recorder, result, field::kEnumerate::kCount, start);
  co_return result;
}

Task<Val> make_zip(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  bool strict = false;
  if (!args.names.empty()) {
    if (args.names.size() > 1 || !has_name(args.names[0], "strict")) co_await drive.unknown();
    strict = co_await is_true(drive, args.values.back());
  }
  Vals sources;
  for (size_t i = 0; i < args.positional(); ++i) {
    Val source = co_await get_iter(drive, args.values[i]);
    sources.push_back(source);
  }
  Val zip = new_sequence(recorder, VirtualKind::kZip, &PyZip_Type, sources.data(), sources.size());
  recorder.heap.model(zip).get<family::Zip>().strict = strict;
  if (strict) log(recorder, zip, LogOp::kField, Val(), Val::constant(Py_True));
  co_return zip;
}

// reversed() asks it for its items as it asks a tuple. In a class of Python sq_item is another one, which looks for the
// method of tuple.
bool is_read_as_tuple(Heap& heap, Val value, const PyTypeObject* type) noexcept {
  const PySequenceMethods *its = type->tp_as_sequence, *tuples = PyTuple_Type.tp_as_sequence;
  if (type == &PyTuple_Type) return true;
  if (!PyType_FastSubclass(const_cast<PyTypeObject*>(type), Py_TPFLAGS_TUPLE_SUBCLASS) || its == nullptr) return false;
  if (its->sq_length != tuples->sq_length) return false;
  return its->sq_item == tuples->sq_item ||
         (heap.is_virtual(value, VirtualKind::kTuple) && is_item_sequence(const_cast<PyTypeObject*>(type)));
}

Task<Val> make_reversed(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  static PyObject* const special = PyUnicode_InternFromString("__reversed__");
  PyTypeObject* type = touches_tensor(recorder, args.values[0]) ? recorder.heap.type_of(args.values[0])
                                                                : guarded_type(recorder, args.values[0]);
  if (type == nullptr) co_await drive.unknown();
  if (python_method(recorder.reads, type, special) != nullptr) {
    Vals none;
    Val made = co_await call_special(drive, args.values[0], special, none);
    co_return made;
  }
  const bool range = type == &PyRange_Type && args.values[0].is_const();
  const bool list = cpython::is_plain_list(type);
  PyTypeObject* of = list                                                    ? &PyListRevIter_Type
                     : is_read_as_tuple(recorder.heap, args.values[0], type) ? &PyReversed_Type
                     : type == &PyDict_Type                                  ? &PyDictRevIterKey_Type
                     : range ? range_iterator_type(args.values[0].object(), true)
                             : nullptr;
  Vals items;
  if (of == nullptr || (count_items(recorder, args.values[0]) < 0 && !try_items(recorder, args.values[0], &items)))
    co_await drive.unknown();
  Val iterator = new_virtual(recorder, VirtualKind::kIterator, of);
  set_field(recorder, iterator, field::kIterator::kSource, args.values[0]);
  set_field(recorder, iterator, field::kIterator::kReversed, Val::constant(Py_True));
  const Py_ssize_t size = list ? count_items(recorder, args.values[0]) : iterated_size(recorder, args.values[0]);
  if (size >= 0) set_field(recorder, iterator, field::kIterator::kSize, number_value(recorder.reads, size));
  co_return iterator;
}

Task<Val> builtin_sum(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val total = args.values.size() == 2 ? args.values[1] : number_value(recorder.reads, 0);
  PyTypeObject* type = recorder.heap.type_of(total);
  if (type == nullptr) co_await drive.unknown();
  if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyByteArray_Type) co_await drive.raise();
  Restart restart(drive, args.values[0]);
  Val iterator = co_await get_iter(drive, args.values[0]);
  restart.draws_from(iterator);
  for (bool first = true;; first = false) {
    Val item = co_await iter_next(drive, restart.ask());
    restart.answered();
    if (item.is_null()) {
      const bool copies = first && (type == &PyLong_Type || type == &PyFloat_Type);
      if (copies)
        total = co_await binary(drive, nb::kSubtract, total, number_value(recorder.reads, 0));  // -0.0 stays what it is
      co_return total;
    }
    if (touches_tensor(recorder, item) || touches_tensor(recorder, total)) {
      if (args.values.size() == 2) restart.give_up();  // it would be added again
      restart.keep(item);
      total = compute_tensors(recorder, SiteKind::kBinary, {total, item}, nb::kAdd);
      if (total.is_null()) co_await drive.unknown();
      restart.keep_only(total);
      continue;
    }
    PyTypeObject* of = recorder.heap.type_of(item);
    const bool number = of == &PyLong_Type || of == &PyFloat_Type || of == &PyBool_Type;
    if (!number || (type != &PyLong_Type && type != &PyFloat_Type)) restart.give_up();  // what was added may change
    restart.keep(item);
    total = co_await binary(drive, nb::kAdd, total, item);
  }
}

// Keyword arguments `key`, `default`, `reverse` of min, max and sorted. False: another.
bool read_options(const Arguments& args, Val* key, Val* fallback, Val* reverse) {
  for (size_t i = 0; i < args.names.size(); ++i) {
    Val value = args.values[args.positional() + i];
    PyObject* name = args.names[i];
    Val* option = has_name(name, "key")       ? key
                  : has_name(name, "default") ? fallback
                  : has_name(name, "reverse") ? reverse
                                              : nullptr;
    if (option == nullptr) return false;
    *option = value;
  }
  if (key->object() == Py_None) *key = Val();
  return true;
}

template <int kOp>
Task<Val> min_max(Drive& drive, Arguments args) {
  Val key, fallback, unused, best, best_key;
  if (!read_options(args, &key, &fallback, &unused) || !unused.is_null()) co_await drive.unknown();
  Val source = args.values[0];
  if (args.positional() > 1) {
    if (!fallback.is_null()) co_await drive.raise();
    source = drive.recorder().new_tuple(&PyTuple_Type, args.values.data(), args.positional());
  }
  Restart restart(drive, source);
  if (!key.is_null()) restart.give_up();
  Val iterator = co_await get_iter(drive, source);
  restart.draws_from(iterator);
  for (;;) {
    Val item = co_await iter_next(drive, restart.ask());
    restart.answered();
    if (item.is_null()) break;
    Val item_key = item;
    if (!key.is_null()) item_key = co_await call_one(drive, key, item);
    bool better = best.is_null();
    if (item.is_reg()) restart.keep(item);
    if (!better) {
      best_key = drive.recorder().heap.now(best_key);
      Val answer = co_await compare(drive, kOp, item_key, best_key);
      better = co_await is_true(drive, answer);
    }
    if (better) {
      best = item;
      best_key = item_key;
    }
    if (better || item.is_reg()) restart.keep_only(best);
  }
  best = drive.recorder().heap.now(best);
  if (best.is_null()) best = fallback;
  if (best.is_null()) co_await drive.raise();
  co_return best;
}

struct Sorted {
  Ref key;
  Val item;
};

}  // namespace

// What list.sort does: the keys of all items first, then a stable order. Only keys of plain values are compared, so the
// order of comparisons does not show.
Task<Vals> sort_items(Drive& drive, Vals items, Val key, bool reverse, bool in_place) {
  std::vector<Sorted> rows(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    Val item_key = items[i];
    if (!key.is_null()) item_key = co_await call_one(drive, key, items[i]);
    rows[i].key = plain_object(drive.recorder(), item_key);
    rows[i].item = items[i];
    if (!rows[i].key) co_await drive.unknown();
  }
  bool failed = false;
  auto less = [&failed](const Sorted& a, const Sorted& b) {
    const int yes = failed ? 0 : PyObject_RichCompareBool(a.key.get(), b.key.get(), Py_LT);
    if (yes < 0) PyErr_Clear();
    failed = failed || yes < 0;
    return yes > 0;
  };
  // NaN has no place in an order: CPython's algorithm decides where it lands.
  for (const Sorted& row : rows)
    failed = failed || PyObject_RichCompareBool(row.key.get(), row.key.get(), Py_EQ) != 1 ||
             (PyFloat_CheckExact(row.key.get()) && std::isnan(PyFloat_AS_DOUBLE(row.key.get())));
  if (failed) co_await drive.unknown();
  if (reverse) std::reverse(rows.begin(), rows.end());
  std::stable_sort(rows.begin(), rows.end(), less);
  if (reverse) std::reverse(rows.begin(), rows.end());
  if (failed && in_place) co_await drive.unknown();  // CPython leaves them half sorted
  if (failed) co_await drive.raise();
  Vals sorted;
  for (const Sorted& row : rows) sorted.push_back(row.item);
  co_return sorted;
}

namespace {

Task<Val> builtin_sorted(Drive& drive, Arguments args) {
  Val key, unused, reverse;
  if (!read_options(args, &key, &unused, &reverse) || !unused.is_null()) co_await drive.unknown();
  bool backwards = false;
  Vals items = co_await collect_all(drive, args.values[0]);
  if (!reverse.is_null()) backwards = co_await is_true(drive, reverse);
  const Vals sorted = co_await sort_items(drive, items, key, backwards, false);
  co_return drive.recorder().new_list(sorted.data(), sorted.size());
}

template <PyTypeObject* kType>
Task<Val> make_lazy(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Vals fields;
  fields.push_back(args.values[0]);
  for (size_t i = 1; i < args.values.size(); ++i) {
    Val source = co_await get_iter(drive, args.values[i]);
    fields.push_back(source);
  }
  Val iterator = new_virtual(recorder, VirtualKind::kLazy, kType);
  for (size_t i = 0; i < fields.size(); ++i) set_field(recorder, iterator, static_cast<uint32_t>(i), fields[i]);
  co_return iterator;
}

Task<Val> next_of_map(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Vals fields = recorder.heap.model(args.values[0]).items;
  Arguments inner;
  for (size_t i = 1; i < fields.size(); ++i) {
    Val item = co_await iter_next(drive, fields[i]);
    if (item.is_null()) co_return Val();
    inner.values.push_back(item);
  }
  Val result = co_await call(drive, fields[0], inner);
  co_return result;
}

Task<Val> next_of_filter(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val function = recorder.heap.virtual_field(args.values[0], 0),
            source = recorder.heap.virtual_field(args.values[0], 1);
  const bool plain = function.object() == Py_None || function.object() == reinterpret_cast<PyObject*>(&PyBool_Type);
  for (;;) {
    Val item = co_await iter_next(drive, source);
    if (item.is_null()) co_return Val();
    Val answer = item;
    if (!plain) answer = co_await call_one(drive, function, item);
    const bool yes = co_await is_true(drive, answer);
    if (yes) co_return item;
  }
}

}  // namespace

Invoke dict_of_pairs(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, const Arguments& args, int pops) {
  Driven made = type == &PyODict_Type ? make_dict_of_pairs<&PyODict_Type> : make_dict_of_pairs<&PyDict_Type>;
  return drive(recorder, frame, made, args, pops);
}

namespace {

// How many items there have to be: a loop of fewer is short in each call.
constexpr Py_ssize_t kLeastWalked = 4;
constexpr int kMostSteps = 8;

// What it was computed from was learned to differ from call to call.
bool is_learned(const Recorder& recorder, Val number, int steps) {
  if (!number.is_reg()) return false;
  if (is_varying(recorder, number)) return true;
  const Vec<Node>& nodes = recorder.trace().nodes;
  if (steps == 0) return false;
  for (size_t i = nodes.size(); i-- > 0;)
    if (nodes[i].out == number.index())
      return (nodes[i].op == Op::kUnbox || nodes[i].op == Op::kScalar) &&
             (is_learned(recorder, nodes[i].a, steps - 1) || is_learned(recorder, nodes[i].b, steps - 1));
  return false;
}

// A `for` walks over what the instruction gives, and nothing else gets it.
bool is_walked_at_once(const ShadowFrame& frame) {
  int at = cpython::next_index(frame.code, frame.operation);
  if (cpython::instruction_at(frame.code, at).operation != Operation::kGetIter) return false;
  at = cpython::next_index(frame.code, at);
  return cpython::instruction_at(frame.code, at).operation == Operation::kForIter;
}

}  // namespace

// The loop makes another number of turns in each call: a trace for each number would never be enough. The range and its
// iterator are real, and the loop is left to traces of its own (loops.cpp).
Invoke open_range(Recorder& recorder, ShadowFrame& frame, const Arguments& args, int pops) {
  if (frame.drive || recorder.way_of_loops() == Loops::kUnrolled || !args.names.empty() || !is_walked_at_once(frame))
    return Invoke::kUnknown;
  bool learned = false;
  Vals real;
  for (Val value : args.values) {
    PyObject* now = recorder.heap.real(value);
    if (now == nullptr || !PyLong_CheckExact(now)) return Invoke::kUnknown;
    learned = learned || is_learned(recorder, value, kMostSteps);
    real.push_back(value);
  }
  Py_ssize_t count = PyLong_AsSsize_t(recorder.heap.real(real[real.size() > 1 ? 1 : 0]));
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (!learned || count < kLeastWalked) return Invoke::kUnknown;
  return compute_object(recorder, frame, reinterpret_cast<PyObject*>(&PyRange_Type), real, pops);
}

bool walk_open_range(Recorder& recorder, ShadowFrame& frame, Val range) {
  static PyObject* const make = find_object("builtins", "iter");
  if (frame.drive || !range.is_reg() || recorder.heap.type_of(range) != &PyRange_Type) return false;
  return compute_object(recorder, frame, make, {range}, 1) == Invoke::kStarted;
}

namespace {

constexpr KnownCallable kIterationRows[] = {
    {"builtins", "tuple", make_tuple, 0, 1},
    {"builtins", "list", make_list, 0, 1},
    {"builtins", "set", make_set<&PySet_Type>, 0, 1},
    {"builtins", "frozenset", make_set<&PyFrozenSet_Type>, 0, 1},
    {"builtins", "all", all_any<true>, 1, 1},
    {"builtins", "any", all_any<false>, 1, 1},
    {"builtins", "iter", builtin_iter, 1, 2},
    {"builtins", "next", builtin_next, 1, 2},
    {"builtins", "enumerate", make_enumerate, 1, 2, kNamed},
    {"builtins", "zip", make_zip, 0, kAny, kOptions},
    {"builtins", "reversed", make_reversed, 1, 1},
    {"builtins", "sum", builtin_sum, 1, 2, kNamed},
    {"builtins", "min", folded<min_max<Py_LT>>, 1, kAny, kOptions},
    {"builtins", "max", folded<min_max<Py_GT>>, 1, kAny, kOptions},
    {"builtins", "sorted", builtin_sorted, 1, 1, kOptions},
    {"builtins", "map", make_lazy<&PyMap_Type>, 2, kAny, 0, next_of_map},
    {"builtins", "filter", make_lazy<&PyFilter_Type>, 2, 2, 0, next_of_filter},
};

}  // namespace

constinit const KnownCalls kIterationCalls = kIterationRows;

}  // namespace pijit
