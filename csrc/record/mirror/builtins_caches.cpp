// Calls of functions that functools.lru_cache remembers the results of.
//
// A call that finds its result runs no Python: the result is a guarded constant, and the call itself is a node, which
// counts the hit and moves the entry to the end of the order in which entries are forgotten. A call that finds none is
// an opaque call, under a guard that the result is not there: later calls, which find it, are another trace's.
#include <algorithm>
#include <utility>

#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "record/mirror/builtins.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// What the result is kept under: the only argument, if it is a str or an int; else all of them in a tuple. Null: some
// have names, or are not known.
Ref key_of_call(const Arguments& args) {
  if (!args.names.empty()) return Ref();
  Ref key = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.values.size())));
  for (size_t i = 0; key && i < args.values.size(); ++i) {
    PyObject* object = args.values[i].object();
    if (object == nullptr) return Ref();
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Ref::borrow(object).release());
  }
  if (!key) PyErr_Clear();
  PyObject* first = key && args.values.size() == 1 ? args.values[0].object() : nullptr;
  return first != nullptr && (PyUnicode_CheckExact(first) || PyLong_CheckExact(first)) ? Ref::borrow(first)
                                                                                       : std::move(key);
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
  const Ref key = key_of_call(args);
  // A number that differs from call to call, and was not there before: the next one will not be there either.
  if (!cache.empty && !key && args.values.size() == 1 && args.names.empty() &&
      is_scalar_reg(recorder, args.values[0]) && is_new_key(cache, recorder.heap.real(args.values[0])))
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
  if (!recorder.live() || !call_known(recorder, object, args.values)) return Invoke::kStopped;
  return give(recorder, frame, pops, found);
}

}  // namespace pijit
