// Calls of functions that functools.lru_cache remembers the results of.
//
// A call that finds its result runs no Python: the result is a guarded constant, and the call itself is a node, which
// counts the hit and moves the entry to the end of the order in which entries are forgotten. A call that finds none is
// an opaque call, under a guard that the result is not there: later calls, which find it, are another trace's.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "record/mirror/builtins.h"
#include "record/mirror/drive.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// The items of a tuple that the call makes, if all of them are known; of a class that is derived from tuple, too.
Ref known_argument(Heap& heap, Val value, int depth = 0) {
  constexpr int kDeepest = 4;
  if (value.is_const()) return Ref::borrow(value.object());
  if (!heap.is_virtual(value, VirtualKind::kTuple) || depth == kDeepest) return Ref();
  const Vals items = heap.model(value).items;
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; made && i < items.size(); ++i) {
    Ref item = known_argument(heap, items[i], depth + 1);
    if (!item) return Ref();
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  PyTypeObject* const type = heap.type_of(value);
  if (made && type != &PyTuple_Type) {
    const Ref all = Ref::steal(PyTuple_Pack(1, made.get()));
    made = Ref::steal(all && type != nullptr ? PyTuple_Type.tp_new(type, all.get(), nullptr) : nullptr);
    if (made && !cpython::is_tuple_key(made.get())) return Ref();
  }
  if (!made) PyErr_Clear();
  return made;
}

// All arguments; empty: some are not known.
std::vector<Ref> known_arguments(Heap& heap, const Arguments& args) {
  std::vector<Ref> all;
  for (Val value : args.values) {
    all.push_back(known_argument(heap, value));
    if (!all.back()) return {};
  }
  return all;
}

// What the result is kept under: the only argument, if it is a str or an int; else all of them in a tuple, those that
// have names behind a mark and each behind its name.
Ref key_of_call(const cpython::LruCache& cache, const Arguments& args, const std::vector<Ref>& values) {
  if (values.size() != args.values.size()) return Ref();
  PyObject* const only = values.size() == 1 && args.names.empty() ? values[0].get() : nullptr;
  if (only != nullptr && (PyUnicode_CheckExact(only) || PyLong_CheckExact(only))) return Ref::borrow(only);
  std::vector<PyObject*> parts;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == args.positional()) parts.push_back(cache.mark);
    if (i >= args.positional()) parts.push_back(args.names[i - args.positional()]);
    parts.push_back(values[i].get());
  }
  Ref key = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (size_t i = 0; key && i < parts.size(); ++i)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Ref::borrow(parts[i]).release());
  if (!key) PyErr_Clear();
  return key;
}

// The node of a call that finds its result. The function keeps none of its arguments then: those that the call makes are
// constants here.
bool emit_hit(Recorder& recorder, PyObject* function, const Vals& given, PyObject* names) {
  if (!call_known(recorder, function, given)) return false;
  if (names == nullptr) return true;
  Node& node = recorder.trace().nodes.back();
  node.b = recorder.reads.owned(names);
  node.aux = static_cast<uint32_t>(PyTuple_GET_SIZE(names));
  return true;
}

// Now, or where C code has called this frame, and a replay could not be left here, when the instruction is complete:
// hits are seen by nobody as long as no other code runs, which could not run here either.
bool call_for_hit(Recorder& recorder, PyObject* function, const Arguments& args, const std::vector<Ref>& values) {
  Vals given;
  for (size_t i = 0; i < values.size(); ++i)
    given.push_back(args.values[i].is_const() ? args.values[i] : recorder.reads.owned(values[i].get()));
  Ref names = Ref::steal(args.names.empty() ? nullptr : PyTuple_New(static_cast<Py_ssize_t>(args.names.size())));
  if (!names && !args.names.empty()) {
    PyErr_Clear();
    throw std::bad_alloc();
  }
  for (size_t i = 0; i < args.names.size(); ++i)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Ref::borrow(args.names[i]).release());
  Drive* const outermost = outermost_drive(recorder);
  if (outermost == nullptr || (!outermost->has_put_off() && snapshot_usable(recorder, snapshot(recorder))))
    return emit_hit(recorder, function, given, names.get());
  const auto kept = std::make_shared<Ref>(std::move(names));
  outermost->put_off([&recorder, function, given, kept] { return emit_hit(recorder, function, given, kept->get()); });
  return true;
}

// The key that the dict has in the place of an equal one, borrowed; null: there is none, or there are many keys.
PyObject* kept_key(PyObject* results, PyObject* key) {
  constexpr Py_ssize_t kMany = 4096;
  if (PyDict_GET_SIZE(results) > kMany) return nullptr;
  Py_ssize_t position = 0;
  PyObject *each, *value;
  while (PyDict_Next(results, &position, &each, &value))
    if (cpython::same_key(each, key)) return each;
  return nullptr;
}

// A guard on what the dict has under the key, null: nothing. False: there can be none.
bool read_entry(Recorder& recorder, PyObject* results, PyObject* key, PyObject** entry) {
  if (!cpython::is_native_key(key)) return false;
  if (cpython::is_lasting_key(key)) return recorder.reads.read_dict(results, recorder.reads.owned(key).object(), entry);
  PyObject* kept = kept_key(results, key);
  return kept != nullptr && recorder.reads.read_same(results, kept, PyObject_Hash(kept), entry);
}

// It was called opaquely before: what it has found or made then may be another object at each replay.
bool was_opaque(const Kernel& recording, Val function) {
  const Trace& trace = recording.trace();
  return !trace.epochs.empty() && std::any_of(trace.nodes.begin(), trace.nodes.end(), [&](const Node& node) {
    return is_opaque(node.op) && node.a == function;
  });
}

bool is_new_key(const cpython::LruCache& cache, PyObject* key) {
  PyObject* entry = nullptr;
  return key != nullptr && cache.results != nullptr && PyDict_CheckExact(cache.results) &&
         cpython::dict_lookup(cache.results, key, &entry) == 0;
}

}  // namespace

Invoke invoke_cached(Recorder& recorder, ShadowFrame& frame, Val function, Arguments& args, int pops) {
  PyObject *object = function.object(), *results = nullptr, *entry = nullptr, *result = nullptr;
  // All types of the program are in a few dicts, of which only the version could be guarded: the next one changes it.
  if (cpython::is_cache_of_types(object)) return Invoke::kUnknown;
  const cpython::LruCache cache = cpython::lru_cache_of(object);
  const std::vector<Ref> values = known_arguments(recorder.heap, args);
  const Ref key = key_of_call(cache, args, values);
  // A number that differs from call to call, and was not there before: the next one will not be there either.
  if (!cache.empty && !key && args.values.size() == 1 && args.names.empty() &&
      is_scalar_reg(recorder, args.values[0]) && is_new_key(cache, recorder.heap.real(args.values[0])))
    recorder.numbers.stay_open = true;
  // Numbers in a tuple, such as sizes, that were others too often.
  if (!key && recorder.varying() != nullptr && recorder.varying()->has_left_at(frame.code, frame.operation))
    recorder.numbers.stay_open = true;
  if (cache.empty || cache.typed || !key || was_opaque(recorder, function)) return Invoke::kUnknown;
  if (!recorder.reads.guard_slot(object, cache.results_offset, &results) || !PyDict_CheckExact(results) ||
      !read_entry(recorder, results, key.get(), &entry))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  if (entry == nullptr) {
    frame.mark.guards = static_cast<uint32_t>(recorder.trace().guards.size());  // an opaque call keeps them
    return Invoke::kUnknown;
  }
  result = entry;
  if (cache.bounded && !recorder.reads.guard_slot(entry, cpython::kLinkResult, &result)) return Invoke::kStopped;
  const Val found = constant(recorder, result);
  if (!recorder.live() || !call_for_hit(recorder, object, args, values)) return Invoke::kStopped;
  return give(recorder, frame, pops, found);
}

}  // namespace pijit
