// itertools: each iterator keeps what it draws from in its fields, and is made again from them (virtuals.def, kLazy).
//
// One whose state its own constructor cannot express cannot be rebuilt at an exit from then on (`no_rebuild`).
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/values.h"

namespace pijit {
namespace {

uint32_t position_of(Heap& heap, Val iterator) {
  return heap.model(iterator).get<family::Progress>().position;
}

void no_rebuild(Heap& heap, Val iterator) {
  heap.note_begun(iterator);
}

Val make(Recorder& recorder, PyTypeObject* type, const Vals& fields) {
  Val iterator = new_virtual(recorder, VirtualKind::kLazy, type);
  for (size_t i = 0; i < fields.size(); ++i) set_field(recorder, iterator, static_cast<uint32_t>(i), fields[i]);
  return iterator;
}

Val empty_iterator(Recorder& recorder) {
  Val iterator = new_virtual(recorder, VirtualKind::kIterator, &PyTupleIter_Type);
  set_field(recorder, iterator, 0, recorder.new_tuple(&PyTuple_Type, nullptr, 0));
  return iterator;
}

// The keyword argument of this name, or Null; every other is an error that the caller does not mirror.
Val keyword(const Arguments& args, const char* name) {
  for (size_t i = 0; i < args.names.size(); ++i)
    if (has_name(args.names[i], name)) return args.values[args.positional() + i];
  return Val();
}

template <const char* kName>
PyTypeObject* known_type() {
  static PyTypeObject* const type = find_type("itertools", kName);
  return type;
}

constexpr char kChain[] = "chain", kIslice[] = "islice", kRepeat[] = "repeat", kCount[] = "count", kCycle[] = "cycle",
               kStarmap[] = "starmap", kTakewhile[] = "takewhile", kDropwhile[] = "dropwhile",
               kFilterfalse[] = "filterfalse", kAccumulate[] = "accumulate", kPairwise[] = "pairwise",
               kZipLongest[] = "zip_longest", kCompress[] = "compress";

// How far it is: logged, so that it can be taken back. One that is rebuilt is drawn from so many times.
void set_position(Recorder& recorder, Val iterator, uint32_t position) {
  uint32_t& known = recorder.heap.model(iterator).get<family::Progress>().position;
  if (known == position) return;
  known = position;
  log(recorder, iterator, LogOp::kIndex, Val(), Val(), position);
}

// --- chain: the iterables that are left; the first is an iterator once it is drawn from, and an empty tuple at its
// end.

Task<Val> make_chain(Drive& drive, Arguments args) {
  co_return make(drive.recorder(), known_type<kChain>(), args.values);
}

Task<Val> chain_from_iterable(Drive& drive, Arguments args) {
  const Vals sources = co_await collect(drive, args.values.back());
  co_return make(drive.recorder(), known_type<kChain>(), sources);
}

Task<Val> next_of_chain(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  const Val over = recorder.new_tuple(&PyTuple_Type, nullptr, 0);
  for (uint32_t at = 0; at < recorder.heap.model(self).items.size(); ++at) {
    Val source = recorder.heap.virtual_field(self, at);
    if (source == over) continue;
    if (!is_iterator(recorder.heap, source)) {
      source = co_await get_iter(drive, source);
      set_field(recorder, self, at, source);
    }
    Val item = co_await iter_next(drive, source);
    if (!item.is_null()) co_return item;
    set_field(recorder, self, at, over);
  }
  co_return Val();
}

// --- islice(iterable, stop) and (iterable, start, stop, step): how many to skip, and what is left of stop.

Task<Val> make_islice(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val start = number_value(recorder.reads, 0), stop = args.values[1], step = number_value(recorder.reads, 1);
  if (args.values.size() > 2) {
    start = args.values[1].object() == Py_None ? start : args.values[1];
    stop = args.values[2];
    if (args.values.size() > 3 && args.values[3].object() != Py_None) step = args.values[3];
  }
  for (Val* value : {&start, &stop, &step}) {
    *value = force(recorder, *value);
    PyObject* object = value->object();
    if (object == nullptr || !(PyLong_CheckExact(object) || (value == &stop && object == Py_None)))
      co_await drive.unknown();
    if (PyLong_CheckExact(object) && cpython::int_sign(object) < (value == &step ? 1 : 0)) co_await drive.raise();
  }
  Vals fields;
  Val source = co_await get_iter(drive, args.values[0]);
  fields.push_back(source);
  fields.push_back(start);
  fields.push_back(stop);
  fields.push_back(step);
  co_return make(recorder, known_type<kIslice>(), fields);
}

Task<Val> next_of_islice(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0], source = recorder.heap.virtual_field(self, 0),
            last = recorder.heap.virtual_field(self, 2);
  const Py_ssize_t skip = PyLong_AsSsize_t(recorder.heap.virtual_field(self, 1).object());
  const Py_ssize_t step = PyLong_AsSsize_t(recorder.heap.virtual_field(self, 3).object());
  const bool endless = last.object() == Py_None;
  const Py_ssize_t stop = endless ? 0 : PyLong_AsSsize_t(last.object());
  const Py_ssize_t wanted = endless || skip < stop ? skip : stop;
  Val item;
  for (Py_ssize_t i = 0; i < wanted; ++i) {
    item = co_await iter_next(drive, source);
    if (item.is_null()) break;
  }
  const bool over = !endless && skip >= stop;
  if (!over && !(wanted > 0 && item.is_null())) item = co_await iter_next(drive, source);
  if (over || item.is_null()) {
    set_field(recorder, self, 0, empty_iterator(recorder));
    set_field(recorder, self, 1, number_value(recorder.reads, 0));
    set_field(recorder, self, 2, number_value(recorder.reads, 0));
    co_return Val();
  }
  // Counted from here: the next one is step - 1 further, the end is so much nearer.
  Py_ssize_t next = step - 1, left = stop - skip - 1;
  if (!endless && next > left) next = left;
  set_field(recorder, self, 1, number_value(recorder.reads, next));
  if (!endless) set_field(recorder, self, 2, number_value(recorder.reads, left));
  co_return item;
}

// --- repeat, count, cycle

Task<Val> make_repeat(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val times = args.values.size() > args.positional() ? keyword(args, "times") : Val();
  if (args.positional() == 2) times = args.values[1];
  Vals fields(1, args.values[0]);
  if (!times.is_null()) {
    times = force(recorder, times);
    if (times.object() == nullptr || !PyLong_CheckExact(times.object())) co_await drive.unknown();
    fields.push_back(cpython::int_sign(times.object()) < 0 ? number_value(recorder.reads, 0) : times);
  }
  co_return make(recorder, known_type<kRepeat>(), fields);
}

Task<Val> next_of_repeat(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0], item = recorder.heap.virtual_field(self, 0);
  if (recorder.heap.model(self).items.size() == 1) co_return item;
  const Py_ssize_t left = PyLong_AsSsize_t(recorder.heap.virtual_field(self, 1).object());
  if (left == 0) co_return Val();
  set_field(recorder, self, 1, number_value(recorder.reads, left - 1));
  co_return item;
}

Task<Val> make_count(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val start = args.positional() > 0 ? args.values[0] : keyword(args, "start");
  Val step = args.positional() > 1 ? args.values[1] : keyword(args, "step");
  const PyTypeObject* type = start.is_null() ? &PyLong_Type : recorder.heap.type_of(start);
  if (type == nullptr) co_await drive.unknown();
  // From a bool or an instance of another class of integers it counts in plain ones.
  if (type != &PyLong_Type && (type->tp_flags & Py_TPFLAGS_LONG_SUBCLASS) != 0) co_await drive.unknown();
  Vals fields;
  fields.push_back(start.is_null() ? number_value(recorder.reads, 0) : start);
  fields.push_back(step.is_null() ? number_value(recorder.reads, 1) : step);
  co_return make(recorder, known_type<kCount>(), fields);
}

Task<Val> next_of_count(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0], item = recorder.heap.virtual_field(self, 0);
  Val next = co_await binary(drive, nb::kAdd, item, recorder.heap.virtual_field(self, 1));
  set_field(recorder, self, 0, next);
  co_return item;
}

Task<Val> make_cycle(Drive& drive, Arguments args) {
  Vals fields(1);
  fields[0] = co_await get_iter(drive, args.values[0]);
  co_return make(drive.recorder(), known_type<kCycle>(), fields);
}

// Field 1 on: what the source gave.
Task<Val> next_of_cycle(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  no_rebuild(recorder.heap, self);
  if (position_of(recorder.heap, self) == 0) {
    Val item = co_await iter_next(drive, recorder.heap.virtual_field(self, 0));
    if (!item.is_null()) {
      set_field(recorder, self, static_cast<uint32_t>(recorder.heap.model(self).items.size()), item);
      co_return item;
    }
  }
  const Vals& items = recorder.heap.model(self).items;
  if (items.size() == 1) co_return Val();
  const uint32_t last = position_of(recorder.heap, self), at = last + 1 >= items.size() ? 1 : last + 1;
  set_position(recorder, self, at);
  co_return items[at];
}

// --- those that call a function of their items: field 0 the function, field 1 the source.

template <const char* kName>
Task<Val> make_with_function(Drive& drive, Arguments args) {
  Vals fields(1, args.values[0]);
  Val source = co_await get_iter(drive, args.values[1]);
  fields.push_back(source);
  co_return make(drive.recorder(), known_type<kName>(), fields);
}

Task<Val> next_of_starmap(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  Val item = co_await iter_next(drive, recorder.heap.virtual_field(self, 1));
  if (item.is_null()) co_return Val();
  Arguments inner;
  inner.values = co_await collect(drive, item);
  Val result = co_await call(drive, recorder.heap.virtual_field(self, 0), inner);
  co_return result;
}

Task<Val> next_of_takewhile(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  Val item = co_await iter_next(drive, recorder.heap.virtual_field(self, 1));
  if (item.is_null()) co_return Val();
  Val answer = co_await call_one(drive, recorder.heap.virtual_field(self, 0), item);
  const bool yes = co_await is_true(drive, answer);
  if (yes) co_return item;
  set_field(recorder, self, 1, empty_iterator(recorder));
  co_return Val();
}

Task<Val> next_of_dropwhile(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  for (;;) {
    Val item = co_await iter_next(drive, recorder.heap.virtual_field(self, 1));
    if (item.is_null() || position_of(recorder.heap, self) > 0) co_return item;
    Val answer = co_await call_one(drive, recorder.heap.virtual_field(self, 0), item);
    const bool drop = co_await is_true(drive, answer);
    if (drop) continue;
    set_position(recorder, self, 1);
    no_rebuild(recorder.heap, self);
    co_return item;
  }
}

Task<Val> next_of_filterfalse(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val function = recorder.heap.virtual_field(args.values[0], 0);
  for (;;) {
    Val item = co_await iter_next(drive, recorder.heap.virtual_field(args.values[0], 1));
    if (item.is_null()) co_return Val();
    Val answer = item;
    if (function.object() != Py_None) answer = co_await call_one(drive, function, item);
    const bool yes = co_await is_true(drive, answer);
    if (!yes) co_return item;
  }
}

// --- accumulate(iterable, function, initial=): field 0 the source, 1 the function or None.
//
// Behind its first item it is one that has drawn once from a source which gives the total first.

// The source of an iterator that has given something: these items, and then what is left.
Val preceded(Recorder& recorder, const Vals& items, Val rest) {
  Vals fields(1, recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
  fields.push_back(rest);
  return make(recorder, known_type<kChain>(), fields);
}

// Its items before `rest`, if the iterator has given something.
Vals given_before(Heap& heap, Val self, Val* rest) {
  *rest = heap.virtual_field(self, 0);
  if (position_of(heap, self) == 0) return {};
  const Vals items = heap.model(heap.virtual_field(*rest, 0)).items;
  *rest = heap.virtual_field(*rest, 1);
  return items;
}

Task<Val> make_accumulate(Drive& drive, Arguments args) {
  const Val function = args.positional() > 1 ? args.values[1] : keyword(args, "func");
  const Val initial = keyword(args, "initial");
  Vals fields(2);
  fields[1] = function.is_null() ? none_value() : function;
  fields[0] = co_await get_iter(drive, args.values[0]);
  if (!initial.is_null() && initial.object() != Py_None)
    fields[0] = preceded(drive.recorder(), Vals(1, initial), fields[0]);
  co_return make(drive.recorder(), known_type<kAccumulate>(), fields);
}

Task<Val> next_of_accumulate(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0], function = recorder.heap.virtual_field(self, 1);
  Val rest;
  const bool begins = given_before(recorder.heap, self, &rest).empty();
  Val total = co_await iter_next(drive, rest);
  if (total.is_null()) co_return Val();
  if (!begins) {
    const Val before = given_before(recorder.heap, self, &rest)[0];
    if (function.object() == Py_None) {
      total = co_await binary(drive, nb::kAdd, before, total);
    } else {
      total = co_await call_two(drive, function, before, total);
    }
  }
  set_field(recorder, self, 0, preceded(recorder, Vals(1, total), rest));
  set_position(recorder, self, 1);
  co_return total;
}

// --- pairwise, zip_longest, compress

// Behind its first pair it is one that has drawn once from a source which gives that pair first.
Task<Val> make_pairwise(Drive& drive, Arguments args) {
  Vals fields(1);
  fields[0] = co_await get_iter(drive, args.values[0]);
  co_return make(drive.recorder(), known_type<kPairwise>(), fields);
}

Task<Val> next_of_pairwise(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0];
  Val rest;
  const bool begins = given_before(recorder.heap, self, &rest).empty();
  Vals pair(2);
  if (begins) pair[0] = co_await iter_next(drive, rest);
  if (begins && pair[0].is_null()) co_return Val();
  pair[1] = co_await iter_next(drive, rest);
  if (pair[1].is_null()) co_return Val();
  if (!begins) pair[0] = given_before(recorder.heap, self, &rest)[1];
  set_field(recorder, self, 0, preceded(recorder, pair, rest));
  set_position(recorder, self, 1);
  co_return recorder.new_tuple(&PyTuple_Type, pair.data(), 2);
}

// Field 0: what fills up; the sources follow, each replaced by an empty one at its end.
Task<Val> make_zip_longest(Drive& drive, Arguments args) {
  Vals fields(1, keyword(args, "fillvalue"));
  if (fields[0].is_null()) fields[0] = Val::constant(Py_None);
  for (size_t i = 0; i < args.positional(); ++i) {
    Val source = co_await get_iter(drive, args.values[i]);
    fields.push_back(source);
  }
  Val iterator = make(drive.recorder(), known_type<kZipLongest>(), fields);
  no_rebuild(drive.recorder().heap, iterator);
  co_return iterator;
}

Task<Val> next_of_zip_longest(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val self = args.values[0], fill = recorder.heap.virtual_field(self, 0);
  const Vals fields = recorder.heap.model(self).items;
  Vals row;
  bool any = false;
  for (size_t i = 1; i < fields.size(); ++i) {
    Val item;
    if (!fields[i].is_null()) item = co_await iter_next(drive, fields[i]);
    if (item.is_null() && !fields[i].is_null()) set_field(recorder, self, static_cast<uint32_t>(i), Val());
    any = any || !item.is_null();
    row.push_back(item.is_null() ? fill : item);
  }
  co_return any ? recorder.new_tuple(&PyTuple_Type, row.data(), row.size()) : Val();
}

Task<Val> make_compress(Drive& drive, Arguments args) {
  Vals fields(2);
  fields[0] = co_await get_iter(drive, args.values[0]);
  fields[1] = co_await get_iter(drive, args.values[1]);
  co_return make(drive.recorder(), known_type<kCompress>(), fields);
}

Task<Val> next_of_compress(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  for (;;) {
    Val item = co_await iter_next(drive, recorder.heap.virtual_field(args.values[0], 0));
    if (item.is_null()) co_return Val();
    Val chosen = co_await iter_next(drive, recorder.heap.virtual_field(args.values[0], 1));
    if (chosen.is_null()) co_return Val();
    const bool yes = co_await is_true(drive, chosen);
    if (yes) co_return item;
  }
}

// --- product, permutations, combinations: CPython's own, of the positions.

template <const char* kName>
Task<Val> make_selection(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = find_type("itertools", kName);
  const bool product = kName[0] == 'p' && kName[1] == 'r';
  std::vector<Vals> pools;
  const size_t count = product ? args.positional() : 1;
  for (size_t i = 0; i < count; ++i) {
    Vals pool = co_await collect_all(drive, args.values[i], count == 1);
    pools.push_back(std::move(pool));
  }
  Ref call_args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.positional())));
  for (size_t i = 0; i < args.positional(); ++i) {
    Ref item = i < count ? Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "n",
                                                            static_cast<Py_ssize_t>(pools[i].size())))
                         : Ref::borrow(force(recorder, args.values[i]).object());
    if (!item) co_await drive.unknown();
    PyTuple_SET_ITEM(call_args.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  Ref options = Ref::steal(PyDict_New());
  for (size_t i = 0; i < args.names.size(); ++i) {
    Val value = force(recorder, args.values[args.positional() + i]);
    if (value.object() == nullptr || PyDict_SetItem(options.get(), args.names[i], value.object()) < 0)
      co_await drive.unknown();
  }
  Ref made = Ref::steal(PyObject_Call(reinterpret_cast<PyObject*>(type), call_args.get(), options.get()));
  Vals rows;
  while (made && rows.size() <= 20000) {
    Ref row = Ref::steal(PyIter_Next(made.get()));
    if (!row) break;
    Vals items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(row.get()); ++i) {
      const size_t pool = product ? static_cast<size_t>(i) % pools.size() : 0;
      items.push_back(pools[pool][PyLong_AsSize_t(PyTuple_GET_ITEM(row.get(), i))]);
    }
    rows.push_back(recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
  }
  const bool failed = !made || PyErr_Occurred() != nullptr || rows.size() > 20000;
  PyErr_Clear();
  if (failed) co_await drive.unknown();
  Val iterator = new_virtual(recorder, VirtualKind::kIterator, type);
  set_field(recorder, iterator, 0, recorder.new_tuple(&PyTuple_Type, rows.data(), rows.size()));
  no_rebuild(recorder.heap, iterator);
  co_return iterator;
}

constexpr char kProduct[] = "product", kPermutations[] = "permutations", kCombinations[] = "combinations",
               kReplacement[] = "combinations_with_replacement";

constexpr KnownCallable kItertoolsRows[] = {
    {"itertools", "chain", make_chain, 0, kAny, 0, next_of_chain},
    {"itertools", "chain.from_iterable", chain_from_iterable, 1, 2},
    {"itertools", "islice", make_islice, 2, 4, 0, next_of_islice},
    {"itertools", "repeat", make_repeat, 1, 2, kNamed, next_of_repeat},
    {"itertools", "count", make_count, 0, 2, kNamed, next_of_count},
    {"itertools", "cycle", make_cycle, 1, 1, 0, next_of_cycle},
    {"itertools", "starmap", make_with_function<kStarmap>, 2, 2, 0, next_of_starmap},
    {"itertools", "takewhile", make_with_function<kTakewhile>, 2, 2, 0, next_of_takewhile},
    {"itertools", "dropwhile", make_with_function<kDropwhile>, 2, 2, 0, next_of_dropwhile},
    {"itertools", "filterfalse", make_with_function<kFilterfalse>, 2, 2, 0, next_of_filterfalse},
    {"itertools", "accumulate", make_accumulate, 1, 3, kNamed, next_of_accumulate},
    {"itertools", "pairwise", make_pairwise, 1, 1, 0, next_of_pairwise},
    {"itertools", "zip_longest", make_zip_longest, 0, kAny, kOptions, next_of_zip_longest},
    {"itertools", "compress", make_compress, 2, 2, 0, next_of_compress},
    {"itertools", "product", make_selection<kProduct>, 0, kAny, kOptions},
    {"itertools", "permutations", make_selection<kPermutations>, 1, 2, kNamed},
    {"itertools", "combinations", make_selection<kCombinations>, 1, 2, kNamed},
    {"itertools", "combinations_with_replacement", make_selection<kReplacement>, 1, 2, kNamed},
};

}  // namespace

constinit const KnownCalls kItertoolsCalls = kItertoolsRows;

}  // namespace pijit
