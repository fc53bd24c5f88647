// Operators of dicts and sets with known content.
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"

namespace pijit {
namespace {

bool is_set(PyTypeObject* type) {
  return type == &PySet_Type || type == &PyFrozenSet_Type;
}

Val merge_dicts(Recorder& recorder, Val left, Val right) {
  Objects keys, more;
  Vals values, others;
  if (!recorder.dict_content(left, &keys, &values) || !recorder.dict_content(right, &more, &others)) return Val();
  Val dict = recorder.new_virtual(VirtualKind::kDict, recorder.type_of(left));
  for (size_t i = 0; i < keys.size(); ++i) recorder.dict_set(dict, keys[i], values[i]);
  for (size_t i = 0; i < more.size(); ++i) recorder.dict_set(dict, more[i], others[i]);
  return dict;
}

}  // namespace

bool set_keys(Recorder& recorder, Val set, KeyList* keys) {
  set = recorder.content_of(set);
  if (recorder.is_virtual(set, VirtualKind::kSet)) {
    *keys = recorder.model(set).keys;
    return true;
  }
  PyObject* object = set.object();
  if (object == nullptr || !PyAnySet_CheckExact(object) || !recorder.reads().guard_set(object)) return false;
  Py_ssize_t position = 0;
  PyObject* item;
  while (cpython::next_set_item(object, &position, &item)) {
    if (!cpython::is_native_key(item)) return false;
    recorder.meet_key(item);
    keys->push_back(item);
  }
  return true;
}

Val new_set(Recorder& recorder, PyTypeObject* type, const KeyList& keys) {
  Val set = recorder.new_virtual(VirtualKind::kSet, type);
  for (PyObject* key : keys) recorder.dict_set(set, key, recorder.keep_key(key));
  return set;
}

Val new_set(Recorder& recorder, PyTypeObject* type, const KeyList& keys, PyObject* callable, const Vals& args) {
  if (keys.size() < 2) return new_set(recorder, type, keys);
  Val set = recorder.new_by_call(VirtualKind::kSet, type, callable, args);
  if (set.is_null()) return set;
  recorder.model(set).keys = keys;
  Vals& items = recorder.model(set).items;
  for (PyObject* key : keys) {
    items.push_back(recorder.keep_key(key));
    recorder.mention(set, items.back(), items.size() - 1);
  }
  return set;
}

bool has_table(Recorder& recorder, Val iterable) {
  PyTypeObject* type = recorder.type_of(iterable);
  return is_set(type) || type == &PyDict_Type;
}

Val combine_containers(Recorder& recorder, int op, Val left, Val right) {
  PyTypeObject *a = recorder.type_of(left), *b = recorder.type_of(right);
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
  if (!is_set(recorder.type_of(right))) return Val::constant(Py_NotImplemented);
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
