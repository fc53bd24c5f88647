// Operators of dicts and sets with known content.
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

bool is_set(PyTypeObject* type) {
  return type == &PySet_Type || type == &PyFrozenSet_Type;
}

Val merge_dicts(Recorder& recorder, Val left, Val right) {
  Objects keys, more;
  Vals values, others;
  if (!dict_content(recorder, left, &keys, &values) || !dict_content(recorder, right, &more, &others)) return Val();
  Val dict = new_virtual(recorder, VirtualKind::kDict, recorder.heap.type_of(left));
  for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder, dict, keys[i], values[i]);
  for (size_t i = 0; i < more.size(); ++i) dict_set(recorder, dict, more[i], others[i]);
  return dict;
}

}  // namespace

bool set_keys(Recorder& recorder, Val set, KeyList* keys) {
  set = content_of(recorder, set);
  if (recorder.heap.is_virtual(set, VirtualKind::kSet)) {
    *keys = recorder.heap.model(set).keys();
    return true;
  }
  PyObject* object = set.object();
  if (object == nullptr || !PyAnySet_CheckExact(object) || !recorder.reads.guard_set(object)) return false;
  Py_ssize_t position = 0;
  PyObject* item;
  while (cpython::next_set_item(object, &position, &item)) {
    if (!cpython::is_native_key(item)) return false;
    meet_key(recorder, item);
    keys->push_back(item);
  }
  return true;
}

Val new_set(Recorder& recorder, PyTypeObject* type, const KeyList& keys) {
  Val set = new_virtual(recorder, VirtualKind::kSet, type);
  for (PyObject* key : keys) dict_set(recorder, set, key, keep_key(recorder, key));
  return set;
}

Val new_set(Recorder& recorder, PyTypeObject* type, const KeyList& keys, PyObject* callable, const Vals& args) {
  if (keys.size() < 2) return new_set(recorder, type, keys);
  Val set = new_by_call(recorder, VirtualKind::kSet, type, callable, args);
  if (set.is_null()) return set;
  recorder.heap.model(set).keys() = keys;
  Vals& items = recorder.heap.model(set).items;
  for (PyObject* key : keys) {
    items.push_back(keep_key(recorder, key));
    recorder.heap.mention(set, items.back(), items.size() - 1);
  }
  return set;
}

bool has_table(Heap& heap, Val iterable) {
  PyTypeObject* type = heap.type_of(iterable);
  return is_set(type) || type == &PyDict_Type;
}

Val combine_containers(Recorder& recorder, int op, Val left, Val right) {
  PyTypeObject *a = recorder.heap.type_of(left), *b = recorder.heap.type_of(right);
  if (op == nb::kOr && a == &PyDict_Type && b == &PyDict_Type) return merge_dicts(recorder, left, right);
  KeyList x, y, made;
  if (!is_set(a) || !is_set(b) || !set_keys(recorder, left, &x) || !set_keys(recorder, right, &y)) return Val();
  switch (op) {
    case nb::kOr:
      made = x;
      for (PyObject* key : y)
        if (!x.holds(key)) made.push_back(key);
      break;
    case nb::kAnd:
      // The smaller one is walked, the larger one asked: its items are those of the result.
      for (PyObject* key : y.size() > x.size() ? x : y)
        if ((y.size() > x.size() ? y : x).holds(key)) made.push_back(key);
      break;
    case nb::kSubtract:
    case nb::kXor:
      for (PyObject* key : x)
        if (!y.holds(key)) made.push_back(key);
      if (op == nb::kXor)
        for (PyObject* key : y)
          if (!x.holds(key)) made.push_back(key);
      break;
    default:
      return Val();
  }
  const char* name = op == nb::kOr         ? "__or__"
                     : op == nb::kAnd      ? "__and__"
                     : op == nb::kSubtract ? "__sub__"
                                           : "__xor__";
  PyObject* method = cpython::lookup_type(a, Ref::steal(PyUnicode_InternFromString(name)).get());
  Vals args;
  args.push_back(left);
  args.push_back(right);
  return new_set(recorder, a, made, method, args);
}

Val compare_sets(Recorder& recorder, int op, Val left, Val right) {
  if (!is_set(recorder.heap.type_of(right))) return Val::constant(Py_NotImplemented);
  KeyList x, y;
  if (!set_keys(recorder, left, &x) || !set_keys(recorder, right, &y)) return Val();
  auto within = [](const KeyList& some, const KeyList& all) {
    for (PyObject* key : some)
      if (!all.holds(key)) return false;
    return true;
  };
  const bool sub = within(x, y), super = within(y, x);
  const bool results[] = {sub && !super, sub, sub && super, !(sub && super), super && !sub, super};
  return Val::constant(results[op] ? Py_True : Py_False);
}

}  // namespace pijit
