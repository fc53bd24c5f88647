// Known methods of sets whose keys compare without running Python.
#include <algorithm>

#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/mirror/filling.h"
#include "record/mirror/restart.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

using Keys = KeyList;

// The set that a method writes; Null: it is none.
Val written_set(Recorder& recorder, const Arguments& args) {
  Val set = writable(recorder, args.values[0]);
  return !set.is_null() && recorder.heap.model(set).kind == VirtualKind::kSet ? set : Val();
}

Val known_set(Recorder& recorder, const Arguments& args) {
  Val set = written_set(recorder, args);
  return set.is_null() || args.values[0].is_virtual() ? set : content_of(recorder, args.values[0]);
}

// The keys of any iterable, each once.
Task<Keys> keys_of(Drive& drive, Val iterable) {
  Recorder& recorder = drive.recorder();
  Keys keys;
  if (set_keys(recorder, iterable, &keys)) co_return keys;
  if (!recorder.live()) co_await drive.unknown();
  const Vals items = co_await collect(drive, iterable);
  for (Val item : items) {
    PyObject* key = key_of(recorder, item);
    if (key == nullptr) co_await drive.unknown();
    if (!keys.holds(key)) keys.push_back(key);
  }
  co_return keys;
}

// What a real set is updated with: the container itself, for its order, or what an iterator gave.
Val given(Recorder& recorder, Val iterable, const Keys& keys) {
  PyTypeObject* type = recorder.heap.type_of(iterable);
  for (PyTypeObject* known : {&PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type, &PyDict_Type, &PyRange_Type,
                              &PyUnicode_Type, &PyDictKeys_Type, &PyDictValues_Type})
    if (type == known) return iterable;
  Vals items;
  for (PyObject* key : keys) items.push_back(keep_key(recorder, key));
  return recorder.new_tuple(&PyTuple_Type, items.data(), items.size());
}

Task<Val> set_add(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val set = written_set(recorder, args);
  if (set.is_null()) co_await drive.unknown();
  PyObject* key = co_await identity_key(drive, args.values[1]);
  const Objects keys(1, key);
  const Vals real(1, args.values[1]);
  if (!add_keys(recorder, set, keys, "add", real)) co_await drive.unknown();
  co_return none_value();
}

template <bool kMustBeThere>
Task<Val> set_remove(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val set = known_set(recorder, args);
  PyObject* key = key_of(recorder, args.values[1]);
  if (set.is_null() || key == nullptr) co_await drive.unknown();
  const ptrdiff_t at = recorder.heap.model(set).keys().find(key);
  if (at < 0 && kMustBeThere) co_await drive.raise();
  if (at < 0) co_return none_value();
  const Vals real(1, args.values[1]);
  if (!remove_key(recorder, set, static_cast<size_t>(at), "discard", real)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> set_clear(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val set = written_set(recorder, args);
  if (!set.is_null()) set = content_to_drop(recorder, args.values[0]);
  const Keys nothing;
  const Vals real;
  if (set.is_null() || !replace_keys(recorder, set, nothing, "clear", real)) co_await drive.unknown();
  co_return none_value();
}

// The only item; of several, which one CPython takes is the hash table's secret.
Task<Val> set_pop(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val set = known_set(recorder, args);
  if (set.is_null() || recorder.heap.model(set).keys().size() > 1) co_await drive.unknown();
  if (recorder.heap.model(set).keys().empty()) co_await drive.raise();
  Val item = keep_key(recorder, recorder.heap.model(set).keys()[0]);
  const Vals real(1, item);
  if (!remove_key(recorder, set, 0, "discard", real)) co_await drive.unknown();
  co_return item;
}

enum class Combine : uint8_t { kUnion, kIntersection, kDifference, kSymmetric };

Keys combine(Combine how, const Keys& mine, const Keys& others) {
  Keys made;
  if (how == Combine::kUnion) {
    made = mine;
    for (PyObject* key : others)
      if (!mine.holds(key)) made.push_back(key);
    return made;
  }
  for (PyObject* key : mine)
    if (others.holds(key) == (how == Combine::kIntersection)) made.push_back(key);
  if (how == Combine::kSymmetric)
    for (PyObject* key : others)
      if (!mine.holds(key)) made.push_back(key);
  return made;
}

// Those of the keys that are neither among the known ones nor in `more` yet.
void add_new(const Keys& known, const Keys& keys, Keys* more) {
  for (PyObject* key : keys)
    if (!known.holds(key) && !more->holds(key)) more->push_back(key);
}

constexpr const char* kMethods[] = {"union", "intersection", "difference", "symmetric_difference"};
constexpr const char* kUpdates[] = {"update", "intersection_update", "difference_update",
                                    "symmetric_difference_update"};

// s.union(*others) and the like: a new set of the class of the first.
template <Combine kHow>
Task<Val> set_combine(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Keys keys;
  PyTypeObject* type = recorder.heap.type_of(args.values[0]);
  if ((type != &PySet_Type && type != &PyFrozenSet_Type) || !set_keys(recorder, args.values[0], &keys))
    co_await drive.unknown();
  Vals operands(1, args.values[0]);
  for (size_t i = 1; i < args.values.size(); ++i) {
    const Keys others = co_await keys_of(drive, args.values[i]);
    if (const bool looks = kHow == Combine::kIntersection || kHow == Combine::kSymmetric; looks && i == 1) {
      // CPython looks into the set itself, and not before the items are drawn.
      Keys now;
      if (!set_keys(recorder, args.values[0], &now)) co_await drive.unknown();
      if (kHow == Combine::kIntersection && now != keys) co_await drive.unknown();
      keys = now;
    }
    keys = combine(kHow, keys, others);
    operands.push_back(given(recorder, args.values[i], others));
  }
  Ref name = Ref::steal(PyUnicode_InternFromString(kMethods[static_cast<size_t>(kHow)]));
  Val made = new_set(recorder, type, keys, cpython::lookup_type(type, name.get()), operands);
  if (made.is_null()) co_await drive.unknown();
  co_return made;
}

// s.update(iterator) and the like: what draws from an iterator looks into the set, or writes it, between two items.
template <Combine kHow>
Task<bool> update_from(Drive& drive, Val container, Val set, Val source) {
  Recorder& recorder = drive.recorder();
  const char* method = kUpdates[static_cast<size_t>(kHow)];
  const size_t epoch = recorder.trace().epochs.size();
  Filling filling(drive, container, set, method);
  Keys found;
  Restart restart(drive, source);
  if (kHow != Combine::kUnion && kHow != Combine::kDifference) restart.give_up();
  const Val iterator = co_await get_iter(drive, source);
  restart.draws_from(iterator);
  for (;;) {
    if (filling.waits()) restart.give_up();
    const Val item = co_await iter_next(drive, restart.ask());
    restart.answered();
    if (item.is_null()) break;
    PyObject* key = key_of(recorder, item);
    bool follows = key != nullptr;
    if (follows && kHow == Combine::kUnion) {
      follows = filling.add(key);
    } else if (follows && kHow == Combine::kDifference) {
      follows = filling.discard(key);
    } else if (follows && !found.holds(key)) {
      if (kHow == Combine::kSymmetric || recorder.heap.model(set).keys().holds(key)) found.push_back(key);
    }
    if (!follows) co_await drive.unknown();
  }
  if (!filling.flush()) co_await drive.unknown();
  if (kHow == Combine::kUnion || kHow == Combine::kDifference) co_return true;
  const Keys now = recorder.heap.model(set).keys();
  const bool foreign = is_real(recorder.heap, set) && recorder.trace().epochs.size() != epoch;
  const bool lost = std::any_of(found.begin(), found.end(), [&](PyObject* key) { return !now.holds(key); });
  if (foreign || (kHow == Combine::kIntersection && lost)) co_await drive.unknown();
  const Keys keys = combine(kHow, now, found);
  if (keys.size() > 1 && !is_real(recorder.heap, set)) materialize(recorder, set);
  const Vals operands(1, given(recorder, source, found));
  if (!recorder.live() || !replace_keys(recorder, set, keys, method, operands)) co_await drive.unknown();
  co_return true;
}

// s.update(*others) and the like. A fresh set is added to key by key, if that is what CPython does.
template <Combine kHow>
Task<Val> set_combine_update(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val set = known_set(recorder, args);
  if (set.is_null()) co_await drive.unknown();
  const auto drawn = [&](Val source) { return is_drawn(recorder.heap, source); };
  if (std::any_of(args.values.begin() + 1, args.values.end(), drawn)) {
    if (args.values.size() != 2) co_await drive.unknown();
    co_await update_from<kHow>(drive, args.values[0], set, args.values[1]);
    co_return none_value();
  }
  Keys keys, more;  // all that it has in the end; what a union adds
  if (kHow != Combine::kUnion) keys = recorder.heap.model(set).keys();
  Vals operands;
  bool by_table = kHow == Combine::kIntersection || kHow == Combine::kSymmetric;
  for (size_t i = 1; i < args.values.size(); ++i) {
    const Keys others = co_await keys_of(drive, args.values[i]);
    if (kHow == Combine::kUnion) {
      add_new(recorder.heap.model(set).keys(), others, &more);
    } else {
      keys = combine(kHow, keys, others);
    }
    by_table = by_table || (kHow == Combine::kUnion && has_table(recorder.heap, args.values[i]));
    operands.push_back(given(recorder, args.values[i], others));
  }
  const size_t size = kHow == Combine::kUnion ? recorder.heap.model(set).keys().size() + more.size() : keys.size();
  if (by_table && size > 1 && !is_real(recorder.heap, set)) {
    materialize(recorder, set);
    if (!recorder.live()) co_await drive.unknown();
  }
  const char* const method = kUpdates[static_cast<size_t>(kHow)];
  if (!(kHow == Combine::kUnion ? add_keys(recorder, set, more, method, operands)
                                : replace_keys(recorder, set, keys, method, operands)))
    co_await drive.unknown();
  co_return none_value();
}

enum class Relation : uint8_t { kSubset, kSuperset, kDisjoint };

// How a set compares with what an iterator gives: as many items are drawn as the answer needs, and the set may change
// between two of them.
template <Relation kWhich>
Task<Val> relation_to_items(Drive& drive, Val set, Val source) {
  Recorder& recorder = drive.recorder();
  Keys mine, common;
  const Val iterator = co_await get_iter(drive, source);
  for (;;) {
    const Val item = co_await iter_next(drive, iterator);
    if (item.is_null()) break;
    PyObject* key = key_of(recorder, item);
    if (key == nullptr) co_await drive.unknown();
    mine.clear();
    if (!set_keys(recorder, set, &mine)) co_await drive.unknown();
    const bool there = mine.holds(key);
    if (kWhich != Relation::kSubset && there == (kWhich == Relation::kDisjoint)) co_return truth_value(false);
    if (there && !common.holds(key)) common.push_back(key);
    if (cpython::kSubsetEndsEarly && kWhich == Relation::kSubset && there && common.size() >= mine.size()) break;
  }
  mine.clear();
  if (!set_keys(recorder, set, &mine)) co_await drive.unknown();
  co_return truth_value(kWhich != Relation::kSubset || common.size() == mine.size());
}

template <Relation kWhich>
Task<Val> set_relation(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Keys mine;
  if (!set_keys(recorder, args.values[0], &mine)) co_await drive.unknown();
  if (is_drawn(recorder.heap, args.values[1])) {
    const Val answer = co_await relation_to_items<kWhich>(drive, args.values[0], args.values[1]);
    co_return answer;
  }
  const Keys others = co_await keys_of(drive, args.values[1]);
  const Keys& some = kWhich == Relation::kSuperset ? others : mine;
  const Keys& all = kWhich == Relation::kSuperset ? mine : others;
  for (PyObject* key : some)
    if (all.holds(key) == (kWhich == Relation::kDisjoint)) co_return truth_value(false);
  co_return truth_value(true);
}

Task<Val> set_copy(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Keys keys;
  if (!set_keys(recorder, args.values[0], &keys)) co_await drive.unknown();
  if (recorder.heap.type_of(args.values[0]) == &PyFrozenSet_Type) co_return args.values[0];
  Val copy = new_set(recorder, &PySet_Type, keys, reinterpret_cast<PyObject*>(&PySet_Type), args.values);
  if (copy.is_null()) co_await drive.unknown();
  co_return copy;
}

}  // namespace

Task<Val> set_update(Drive& drive, Arguments args) {
  Val done = co_await set_combine_update<Combine::kUnion>(drive, args);
  co_return done;
}

// s |= other and the like: the set itself.
Task<Val> set_inplace(Drive& drive, int op, Val set, Val other) {
  Arguments args;
  args.values.push_back(set);
  args.values.push_back(other);
  Driven function = op == nb::kInPlaceOr         ? set_combine_update<Combine::kUnion>
                    : op == nb::kInPlaceAnd      ? set_combine_update<Combine::kIntersection>
                    : op == nb::kInPlaceSubtract ? set_combine_update<Combine::kDifference>
                    : op == nb::kInPlaceXor      ? set_combine_update<Combine::kSymmetric>
                                                 : nullptr;
  if (function == nullptr) co_await drive.unknown();
  Val done = co_await function(drive, args);
  co_return done.is_null() ? done : set;
}

namespace {

constexpr KnownCallable kSetRows[] = {
    {"builtins", "set.add", set_add, 2, 2},
    {"builtins", "set.remove", set_remove<true>, 2, 2},
    {"builtins", "set.discard", set_remove<false>, 2, 2},
    {"builtins", "set.clear", set_clear, 1, 1},
    {"builtins", "set.pop", set_pop, 1, 1},
    {"builtins", "set.copy frozenset.copy", set_copy, 1, 1},
    {"builtins", "set.union frozenset.union", set_combine<Combine::kUnion>, 1, kAny},
    {"builtins", "set.intersection frozenset.intersection", set_combine<Combine::kIntersection>, 1, kAny},
    {"builtins", "set.difference frozenset.difference", set_combine<Combine::kDifference>, 1, kAny},
    {"builtins", "set.symmetric_difference frozenset.symmetric_difference", set_combine<Combine::kSymmetric>, 2, 2},
    {"builtins", "set.update", set_combine_update<Combine::kUnion>, 1, kAny},
    {"builtins", "set.intersection_update", set_combine_update<Combine::kIntersection>, 1, kAny},
    {"builtins", "set.difference_update", set_combine_update<Combine::kDifference>, 1, kAny},
    {"builtins", "set.symmetric_difference_update", set_combine_update<Combine::kSymmetric>, 2, 2},
    {"builtins", "set.issubset frozenset.issubset", set_relation<Relation::kSubset>, 2, 2},
    {"builtins", "set.issuperset frozenset.issuperset", set_relation<Relation::kSuperset>, 2, 2},
    {"builtins", "set.isdisjoint frozenset.isdisjoint", set_relation<Relation::kDisjoint>, 2, 2},
};

}  // namespace

constinit const KnownCalls kSetCalls = kSetRows;

}  // namespace pijit
