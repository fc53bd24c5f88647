// Writes to lists, deques and sets whose content is known, or that are only added to: what changes is logged, or is a
// node of a real one. The work is that of the change, whatever the size of the container.
#include <algorithm>

#include "cpython/keys.h"
#include "record/recorder.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {

// A list or deque gets other items: by `method` with `args` if it is real.
bool set_items(Recorder& recorder, Val list, Vals items, const char* method, const Vals& args) {
  const size_t size = recorder.heap.model(list).items.size();
  return splice(recorder, list, 0, size, items, method, args);
}

// Items of a list or deque, from one on, are others. What stays at both ends of these is not written.
bool splice(Recorder& recorder, Val list, size_t at, size_t removed, const Vals& added, const char* method,
            const Vals& args) {
  const bool real = is_real(recorder.heap, list);
  if (real && !call_method(recorder, list, method, args)) return false;
  if (real) recorder.heap.note_lasting();
  Vals& items = recorder.heap.model(list).items;
  const auto first = [&] { return items.begin() + static_cast<ptrdiff_t>(at); };
  const auto end = [&](size_t count) { return first() + static_cast<ptrdiff_t>(count); };
  if (real) {
    for (auto value = first(); value != end(removed); ++value) pin(recorder, *value);
    items.insert(items.erase(first(), end(removed)), added.begin(), added.end());
    for (size_t i = 0; i < added.size(); ++i) recorder.heap.mention(list, added[i], at + i);
    return true;
  }
  const size_t shorter = std::min(removed, added.size());
  size_t head = 0, tail = 0;
  while (head < shorter && items[at + head] == added[head]) ++head;
  while (tail < shorter - head && items[at + removed - 1 - tail] == added[added.size() - 1 - tail]) ++tail;
  const bool last = at + removed == items.size() && tail == 0;
  size_t fewer = removed - head - tail, more = added.size() - head - tail, next = head;
  const auto place = [&](size_t i) { return recorder.reads.owned(Ref::steal(PyLong_FromSize_t(i)).get()); };
  items.insert(items.erase(first(), end(removed)), added.begin(), added.end());
  for (; fewer > 0 && more > 0; --fewer, --more, ++next)
    log(recorder, list, LogOp::kSetItem, place(at + next), added[next], static_cast<uint32_t>(at + next));
  for (; fewer > 0; --fewer)
    log(recorder, list, LogOp::kDelItem, place(at + next), Val(), static_cast<uint32_t>(at + next));
  for (; more > 0; --more, ++next)
    log(recorder, list, last ? LogOp::kItem : LogOp::kInsert, last ? Val() : place(at + next), added[next],
        static_cast<uint32_t>(at + next));
  return true;
}

// Adds at the end: needs no knowledge of what is there.
bool add_items(Recorder& recorder, Val list, const Vals& more, const char* method, const Vals& args) {
  if (is_real(recorder.heap, list)) {
    if (!call_method(recorder, list, method, args)) return false;
    recorder.heap.note_lasting();
    Vals& items = recorder.heap.model(list).items;
    for (Val item : more) {
      items.push_back(item);
      recorder.heap.mention(list, item, items.size() - 1);
    }
    return true;
  }
  for (Val item : more) {
    recorder.heap.model(list).items.push_back(item);
    log(recorder, list, LogOp::kItem, Val(), item);
  }
  return true;
}

// A set gets other keys.
bool replace_keys(Recorder& recorder, Val set, const KeyList& keys, const char* method, const Vals& args) {
  const KeyList old = recorder.heap.model(set).keys();
  const bool real = is_real(recorder.heap, set);
  if (real && !call_method(recorder, set, method, args)) return false;
  if (real) recorder.heap.note_lasting();
  if (real)
    for (PyObject* key : old) pin(recorder, keep_key(recorder, key));
  if (!real && keys.empty()) log(recorder, set, LogOp::kClear, Val(), Val());
  for (PyObject* key : old)
    if (!real && !keys.empty() && !keys.holds(key)) log(recorder, set, LogOp::kDelItem, keep_key(recorder, key), Val());
  for (PyObject* key : keys)
    if (!real && !old.holds(key)) log(recorder, set, LogOp::kItem, Val(), keep_key(recorder, key));
  recorder.heap.reshape(set);
  Model& content = recorder.heap.model(set);
  content.keys() = keys;
  content.items.clear();
  for (PyObject* key : keys) {
    content.items.push_back(keep_key(recorder, key));
    recorder.heap.mention(set, content.items.back(), content.items.size() - 1);
  }
  return true;
}

// A set gets more keys; it may have some of them.
bool add_keys(Recorder& recorder, Val set, const Objects& keys, const char* method, const Vals& args) {
  const bool real = is_real(recorder.heap, set);
  if (real && !call_method(recorder, set, method, args)) return false;
  if (real) recorder.heap.note_lasting();
  Model& content = recorder.heap.model(set);
  for (PyObject* key : keys) {
    if (content.keys().holds(key)) continue;
    const Val item = keep_key(recorder, key);
    content.keys().push_back(key);
    content.items.push_back(item);
    if (!real) log(recorder, set, LogOp::kItem, Val(), item);
    if (real) recorder.heap.mention(set, item, content.items.size() - 1);
  }
  recorder.heap.reshape(set);
  return true;
}

// A set loses the key that is number `at` of its model.
bool remove_key(Recorder& recorder, Val set, size_t at, const char* method, const Vals& args) {
  PyObject* const key = recorder.heap.model(set).keys()[at];
  const bool real = is_real(recorder.heap, set), last = recorder.heap.model(set).keys().size() == 1;
  if (real && !call_method(recorder, set, method, args)) return false;
  if (real) recorder.heap.note_lasting();
  if (real) pin(recorder, keep_key(recorder, key));
  if (!real && last) log(recorder, set, LogOp::kClear, Val(), Val());
  if (!real && !last) log(recorder, set, LogOp::kDelItem, keep_key(recorder, key), Val());
  recorder.heap.reshape(set);
  Model& content = recorder.heap.model(set);
  content.keys().erase(static_cast<ptrdiff_t>(at));
  content.items.erase(content.items.begin() + static_cast<ptrdiff_t>(at));
  return true;
}

}  // namespace pijit
