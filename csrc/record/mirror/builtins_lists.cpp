// Known methods of lists and deques; those that write work on fresh and on real lists alike (writes.cpp).
#include <algorithm>

#include "cpython/keys.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/mirror/filling.h"
#include "record/mirror/restart.h"
#include "record/state/contents.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// The list that a method writes; Null: it is none.
Val written_list(Recorder& recorder, const Arguments& args) {
  Val list = writable(recorder, args.values[0]);
  const bool fits = !list.is_null() && recorder.heap.model(list).kind != VirtualKind::kSet;
  return fits ? list : Val();
}

// The list that such a method writes, where the handler must know its items.
Val known_list(Recorder& recorder, const Arguments& args) {
  Val list = written_list(recorder, args);
  return list.is_null() || args.values[0].is_virtual() ? list : content_of(recorder, args.values[0]);
}

bool read_index(Recorder& recorder, Val value, Py_ssize_t* index) {
  value = force(recorder, value);
  PyObject* object = value.object();
  if (object == nullptr || !PyIndex_Check(object) || !(PyLong_Check(object))) return false;
  *index = PyLong_AsSsize_t(object);
  if (PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

Task<Val> list_append(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (is_own_list(recorder.heap, args.values[0])) {
    if (!call_known(recorder, method_of_list("append"), args.values)) co_await drive.unknown();
    co_return none_value();
  }
  Val list = written_list(recorder, args);
  if (list.is_null()) co_await drive.unknown();
  const Vals more(1, args.values[1]);
  if (!add_items(recorder, list, more, "append", more)) co_await drive.unknown();
  co_return none_value();
}

// Adds what an iterable gives: a known container at once, of any other each item before the next one is drawn.
Task<bool> extend(Drive& drive, Val container, Val model, Val source) {
  Recorder& recorder = drive.recorder();
  if (is_drawn(recorder.heap, source)) {
    Filling filling(drive, container, model, "extend");
    Restart restart(drive, source);
    const Val iterator = co_await get_iter(drive, source);
    co_await ask_length(drive, source);
    restart.draws_from(iterator);
    for (;;) {
      if (filling.waits()) restart.give_up();
      const Val item = co_await iter_next(drive, restart.ask());
      restart.answered();
      if (item.is_null()) break;
      if (!filling.append(item)) co_await drive.unknown();
    }
    if (!filling.flush()) co_await drive.unknown();
    co_return true;
  }
  const Vals more = co_await collect_all(drive, source);
  Vals made;
  if (is_real(recorder.heap, model)) made.push_back(recorder.new_tuple(&PyTuple_Type, more.data(), more.size()));
  if (!add_items(recorder, model, more, "extend", made)) co_await drive.unknown();
  co_return true;
}

Task<Val> list_extend(Drive& drive, Arguments args) {
  const Val list = written_list(drive.recorder(), args);
  if (list.is_null()) co_await drive.unknown();
  co_await extend(drive, args.values[0], list, args.values[1]);
  co_return none_value();
}

Task<Val> list_insert(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args);
  Py_ssize_t at = 0;
  if (list.is_null() || !read_index(recorder, args.values[1], &at)) co_await drive.unknown();
  const auto size = static_cast<Py_ssize_t>(recorder.heap.model(list).items.size());
  at = at < 0 ? std::max<Py_ssize_t>(at + size, 0) : std::min(at, size);
  const Vals more(1, args.values[2]);
  Vals real;
  real.push_back(number_value(recorder.reads, at));
  real.push_back(args.values[2]);
  if (!splice(recorder, list, static_cast<size_t>(at), 0, more, "insert", real)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> list_pop(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args);
  Py_ssize_t at = -1;
  if (list.is_null()) co_await drive.unknown();
  if (args.values.size() == 2 && !read_index(recorder, args.values[1], &at)) co_await drive.unknown();
  const auto size = static_cast<Py_ssize_t>(recorder.heap.model(list).items.size());
  if (at < 0) at += size;
  if (at < 0 || at >= size) co_await drive.raise();
  Val item = recorder.heap.model(list).items[static_cast<size_t>(at)];
  const Vals nothing;
  Vals real;
  if (recorder.heap.is_virtual(list, VirtualKind::kList)) real.push_back(number_value(recorder.reads, at));
  if (!splice(recorder, list, static_cast<size_t>(at), 1, nothing, "pop", real)) co_await drive.unknown();
  co_return item;
}

// Where an item equal to `value` is; the size of the list: nowhere.
Task<size_t> find(Drive& drive, Vals items, Val value, size_t from) {
  for (size_t i = from; i < items.size(); ++i) {
    const bool equal = co_await equals(drive, items[i], value);
    if (equal) co_return i;
  }
  co_return items.size();
}

Task<Val> list_remove(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args);
  if (list.is_null()) co_await drive.unknown();
  const Vals items = recorder.heap.model(list).items;
  const size_t at = co_await find(drive, items, args.values[1], 0);
  if (recorder.heap.model(list).items != items) co_await drive.unknown();  // a comparison changed it
  if (at == items.size()) co_await drive.raise();
  const Vals nothing;
  Vals real;
  real.push_back(number_value(recorder.reads, static_cast<Py_ssize_t>(at)));
  if (!splice(recorder, list, at, 1, nothing, "__delitem__", real)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> list_clear(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Vals nothing;
  Val list = written_list(recorder, args);
  if (!list.is_null()) list = content_to_drop(recorder, args.values[0]);
  if (list.is_null() || !set_items(recorder, list, nothing, "clear", nothing)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> list_reverse(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args);
  if (list.is_null()) co_await drive.unknown();
  Vals items = recorder.heap.model(list).items;
  std::reverse(items.begin(), items.end());
  const Vals nothing;
  if (!set_items(recorder, list, items, "reverse", nothing)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> list_sort(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val key, reverse;
  bool backwards = false;
  for (size_t i = 0; i < args.names.size(); ++i) {
    Val value = args.values[args.positional() + i];
    (has_name(args.names[i], "key") ? key : reverse) = value;
  }
  Val list = known_list(recorder, args);
  if (list.is_null()) co_await drive.unknown();
  if (!reverse.is_null()) backwards = co_await is_true(drive, reverse);
  if (key.object() == Py_None) key = Val();
  const Vals before = recorder.heap.model(list).items;
  Filling filling(drive, args.values[0], list, "__setitem__");
  if (!key.is_null() && !(key.is_const() && only_computes(key.object())) && !filling.hide()) co_await drive.unknown();
  const Vals sorted = co_await sort_items(drive, before, key, backwards, true);
  if (!filling.show()) co_await drive.unknown();
  // A real list is given its items in the new order: sorting it again would call the key once more.
  Vals real;
  if (is_real(recorder.heap, list)) {
    Val slice = new_virtual(recorder, VirtualKind::kSlice, &PySlice_Type);
    for (uint32_t i = 0; i < 3; ++i) set_field(recorder, slice, i, none_value());
    real.push_back(slice);
    real.push_back(recorder.new_tuple(&PyTuple_Type, sorted.data(), sorted.size()));
  }
  if (!set_items(recorder, list, sorted, "__setitem__", real)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> list_copy(Drive& drive, Arguments args) {
  Vals items;
  PyTypeObject* type = drive.recorder().heap.type_of(args.values[0]);
  if (type == nullptr || !cpython::is_plain_list(type) || !try_items(drive.recorder(), args.values[0], &items))
    co_await drive.unknown();
  co_return drive.recorder().new_list(items.data(), items.size());
}

Task<Val> sequence_count(Drive& drive, Arguments args) {
  Vals items;
  if (!try_items(drive.recorder(), args.values[0], &items)) co_await drive.unknown();
  Py_ssize_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool equal = co_await equals(drive, items[i], args.values[1]);
    count += equal;
  }
  co_return number_value(drive.recorder().reads, count);
}

Task<Val> sequence_index(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Vals items;
  if (!try_items(recorder, args.values[0], &items)) co_await drive.unknown();
  const auto size = static_cast<Py_ssize_t>(items.size());
  Py_ssize_t bounds[2] = {0, size};
  for (size_t i = 2; i < args.values.size(); ++i) {
    Py_ssize_t& bound = bounds[i - 2];
    if (!read_index(recorder, args.values[i], &bound)) co_await drive.unknown();
    bound = bound < 0 ? std::max<Py_ssize_t>(bound + size, 0) : std::min(bound, size);
  }
  items.resize(static_cast<size_t>(std::max(bounds[0], bounds[1])));
  const size_t at = co_await find(drive, items, args.values[1], static_cast<size_t>(bounds[0]));
  if (at == items.size() || static_cast<Py_ssize_t>(at) >= bounds[1]) co_await drive.raise();
  co_return number_value(recorder.reads, static_cast<Py_ssize_t>(at));
}

// A slice of adjacent items, as bounds and positions, of a list that has another size now.
Val clip_slice(Recorder& recorder, Py_ssize_t size, Py_ssize_t bounds[3], std::vector<size_t>* positions) {
  bounds[0] = std::min(bounds[0], size);
  bounds[1] = std::max(bounds[0], std::min(bounds[1], size));
  positions->clear();
  for (Py_ssize_t i = bounds[0]; i < bounds[1]; ++i) positions->push_back(static_cast<size_t>(i));
  const Val slice = new_virtual(recorder, VirtualKind::kSlice, &PySlice_Type);
  for (uint32_t i = 0; i < 2; ++i) set_field(recorder, slice, i, number_value(recorder.reads, bounds[i]));
  set_field(recorder, slice, field::kSlice::kStep, none_value());
  return slice;
}

// The positions that a subscript names in a list of so many items: one, or those of a slice. False: not known.
bool read_positions(Recorder& recorder, Val key, size_t size, std::vector<size_t>* positions, bool* slice,
                    Py_ssize_t bounds[3]) {
  Operand fields[3];
  *slice = recorder.slice_fields({key, recorder.heap.real(key)}, fields);
  if (!*slice) {
    Py_ssize_t at = 0;
    if (!read_index(recorder, key, &at)) return false;
    if (at < 0) at += static_cast<Py_ssize_t>(size);
    if (at >= 0 && at < static_cast<Py_ssize_t>(size)) positions->push_back(static_cast<size_t>(at));
    return true;
  }
  if (!slice_bounds(recorder, fields, bounds)) return false;
  const Py_ssize_t count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(size), &bounds[0], &bounds[1], bounds[2]);
  for (Py_ssize_t i = 0; i < count; ++i) positions->push_back(static_cast<size_t>(bounds[0] + i * bounds[2]));
  return true;
}

}  // namespace

// list[key] = value
Task<Val> list_setitem(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args), key = args.values[1], value = args.values[2];
  std::vector<size_t> positions;
  bool slice = false;
  Py_ssize_t bounds[3];
  if (list.is_null()) co_await drive.unknown();
  const size_t size = recorder.heap.model(list).items.size();
  if (!read_positions(recorder, key, size, &positions, &slice, bounds)) co_await drive.unknown();
  Vals real(1, key), given(1, value);
  bool written = false;
  if (!slice) {
    if (positions.empty()) co_await drive.raise();
    real[0] = number_value(recorder.reads, static_cast<Py_ssize_t>(positions[0]));
    real.push_back(value);
    written = splice(recorder, list, positions[0], 1, given, "__setitem__", real);
  } else {
    const size_t epoch = recorder.trace().epochs.size();
    const Vals before = recorder.heap.model(list).items;
    given = co_await collect(drive, value);
    if (is_real(recorder.heap, list) && recorder.trace().epochs.size() != epoch) co_await drive.unknown();
    if (recorder.heap.model(list).items !=
        before) {  // by what gave the values: it is as it is now, the bounds are as before
      const auto now = static_cast<Py_ssize_t>(recorder.heap.model(list).items.size());
      if (cpython::kSlicesTakeItemsFirst) {
        positions.clear();
        if (!read_positions(recorder, key, static_cast<size_t>(now), &positions, &slice, bounds))
          co_await drive.unknown();
      } else if (bounds[2] != 1 && static_cast<size_t>(now) != size) {
        co_await drive.unknown();
      } else if (bounds[2] == 1) {
        real[0] = clip_slice(recorder, now, bounds, &positions);
      }
    }
    if (bounds[2] != 1 && given.size() != positions.size()) co_await drive.raise();
    if (is_real(recorder.heap, list)) real.push_back(recorder.new_tuple(&PyTuple_Type, given.data(), given.size()));
    if (bounds[2] == 1) {
      written = splice(recorder, list, static_cast<size_t>(bounds[0]), positions.size(), given, "__setitem__", real);
    } else {
      Vals items = recorder.heap.model(list).items;
      for (size_t i = 0; i < positions.size(); ++i) items[positions[i]] = given[i];
      written = set_items(recorder, list, items, "__setitem__", real);
    }
  }
  if (!written) co_await drive.unknown();
  co_return none_value();
}

// del list[key]
Task<Val> list_delitem(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args), key = args.values[1];
  std::vector<size_t> positions;
  bool slice = false;
  Py_ssize_t bounds[3];
  if (list.is_null()) co_await drive.unknown();
  const size_t size = recorder.heap.model(list).items.size();
  if (!read_positions(recorder, key, size, &positions, &slice, bounds)) co_await drive.unknown();
  if (!slice && positions.empty()) co_await drive.raise();
  const Vals nothing, real(1, slice ? key : number_value(recorder.reads, static_cast<Py_ssize_t>(positions[0])));
  const bool together = !slice || bounds[2] == 1;
  const size_t first = !positions.empty() ? positions[0] : 0;
  bool written = false;
  if (together) {
    written = splice(recorder, list, first, positions.size(), nothing, "__delitem__", real);
  } else {
    Vals items = recorder.heap.model(list).items, rest;
    for (size_t at : positions) items[at] = Val();
    for (Val item : items)
      if (!item.is_null()) rest.push_back(item);
    written = set_items(recorder, list, rest, "__delitem__", real);
  }
  if (!written) co_await drive.unknown();
  co_return none_value();
}

// list += iterable, list *= count: the list itself.
Task<Val> list_iadd(Drive& drive, Arguments args) {
  Val done = co_await list_extend(drive, args);
  co_return done.is_null() ? done : args.values[0];
}

Task<Val> list_imul(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val list = known_list(recorder, args);
  Py_ssize_t times = 0;
  if (list.is_null() || !read_index(recorder, args.values[1], &times)) co_await drive.unknown();
  const Vals items = recorder.heap.model(list).items;
  if (grows_too_long(items.size(), times)) co_await drive.unknown();
  Vals made, real(1, number_value(recorder.reads, times));
  for (Py_ssize_t i = 0; i < times; ++i) made.insert(made.end(), items.begin(), items.end());
  if (!set_items(recorder, list, made, "__imul__", real)) co_await drive.unknown();
  co_return args.values[0];
}

namespace {

// It has a maximal length: the first entry of its log says which.
bool is_bounded(Recorder& recorder, Val deque) {
  const uint32_t first = recorder.trace().virtuals[deque.index()].head;
  return first != kNone && recorder.trace().log[first].op == LogOp::kField;
}

// deque(iterable, maxlen) has the last items; of one that may have none the iterator runs to its end.
Task<Val> make_deque(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  Val given[2];
  for (size_t i = 0; i < args.values.size(); ++i) {
    size_t place = i;
    if (i >= args.positional()) {
      PyObject* name = args.names[i - args.positional()];
      place = PyUnicode_CompareWithASCIIString(name, "maxlen") == 0 ? 1 : 0;
      if (place == 0 && PyUnicode_CompareWithASCIIString(name, "iterable") != 0) co_await drive.unknown();
    }
    if (place > 1 || !given[place].is_null()) co_await drive.unknown();
    given[place] = args.values[i];
  }
  const bool bounded = !given[1].is_null() && given[1].object() != Py_None;
  Py_ssize_t most = 0;
  if (bounded && (!read_index(recorder, given[1], &most) || most < 0)) co_await drive.unknown();
  Vals items;
  if (!given[0].is_null()) items = co_await collect(drive, given[0]);
  const auto kept = static_cast<size_t>(most);
  if (bounded && items.size() > kept) items.erase(items.begin(), items.end() - most);
  if (!bounded) co_return new_sequence(recorder, VirtualKind::kDeque, deque_type(), items.data(), items.size());
  const Val made = new_sequence(recorder, VirtualKind::kDeque, deque_type(), nullptr, 0);
  log(recorder, made, LogOp::kField, Val(), number_value(recorder.reads, most));
  for (size_t i = 0; i < items.size(); ++i)
    log(recorder, made, LogOp::kItem, Val(), items[i], static_cast<uint32_t>(i));
  recorder.heap.model(made).items = items;
  co_return made;
}

// A virtual one that may have any length.
bool is_open_deque(Recorder& recorder, Val deque) {
  return recorder.heap.is_virtual(deque, VirtualKind::kDeque) && !is_bounded(recorder, deque);
}

// A list's method that does the same to a deque. What iterates over that finds out.
template <Driven kMethod>
Task<Val> of_deque(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!is_open_deque(recorder, args.values[0])) co_await drive.unknown();
  const size_t before = recorder.heap.model(args.values[0]).items.size();
  const Val result = co_await kMethod(drive, args);
  if (recorder.heap.model(args.values[0]).items.size() != before) recorder.heap.reshape(args.values[0]);
  co_return result;
}

Task<Val> deque_extend(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!is_open_deque(recorder, args.values[0])) co_await drive.unknown();
  const Val deque = args.values[0];
  const bool drawn = is_drawn(recorder.heap, args.values[1]);
  const size_t before = recorder.heap.model(deque).items.size();
  co_await extend(drive, deque, deque, args.values[1]);
  if (!drawn && recorder.heap.model(deque).items.size() != before) recorder.heap.reshape(deque);
  co_return none_value();
}

Task<Val> deque_appendleft(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!is_open_deque(recorder, args.values[0])) co_await drive.unknown();
  const Vals real(1, args.values[1]);
  if (!splice(recorder, args.values[0], 0, 0, real, "appendleft", real)) co_await drive.unknown();
  co_return none_value();
}

Task<Val> deque_popleft(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (recorder.heap.model(args.values[0]).items.empty()) co_await drive.raise();
  const Val item = recorder.heap.model(args.values[0]).items.front();
  const Vals nothing;
  if (!splice(recorder, args.values[0], 0, 1, nothing, "popleft", nothing)) co_await drive.unknown();
  co_return item;
}

constexpr KnownCallable kListRows[] = {
    {"builtins", "list.append", list_append, 2, 2},
    {"builtins", "list.extend", list_extend, 2, 2},
    {"builtins", "list.insert", list_insert, 3, 3},
    {"builtins", "list.pop", list_pop, 1, 2},
    {"builtins", "list.remove", list_remove, 2, 2},
    {"builtins", "list.clear", list_clear, 1, 1},
    {"builtins", "list.reverse", list_reverse, 1, 1},
    {"builtins", "list.sort", list_sort, 1, 1, kOptions},
    {"builtins", "list.copy", list_copy, 1, 1},
    {"builtins", "list.__setitem__", list_setitem, 3, 3},
    {"builtins", "list.__delitem__", list_delitem, 2, 2},
    {"builtins", "list.__iadd__", list_iadd, 2, 2},
    {"builtins", "list.__imul__", list_imul, 2, 2},
    {"builtins", "list.count tuple.count", sequence_count, 2, 2},
    {"builtins", "list.index tuple.index", sequence_index, 2, 4},
    {"collections", "deque", make_deque, 0, 2, kNamed},
    {"collections", "deque.append", of_deque<list_append>, 2, 2},
    {"collections", "deque.appendleft", of_deque<deque_appendleft>, 2, 2},
    {"collections", "deque.extend", deque_extend, 2, 2},
    {"collections", "deque.pop", of_deque<list_pop>, 1, 1},
    {"collections", "deque.popleft", of_deque<deque_popleft>, 1, 1},
    {"collections", "deque.clear", of_deque<list_clear>, 1, 1},
    {"collections", "deque.reverse", of_deque<list_reverse>, 1, 1},
};

}  // namespace

constinit const KnownCalls kListCalls = kListRows;

}  // namespace pijit
