// Calls of functions that functools.lru_cache remembers the results of.
//
// A call that finds its result runs no Python: the result is a guarded constant, and the call itself is a node, which
// counts the hit and moves the entry to the end of the order in which entries are forgotten. A call that finds none is
// an opaque call, under a guard that the result is not there: later calls, which find it, are another trace's.
#include <algorithm>

#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "record/mirror/builtins.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// What the result is kept under, if that is the only argument; else a tuple, which no guard on a dict finds again.
PyObject* key_of_call(const Arguments& args) {
  PyObject* only = args.values.size() == 1 && args.names.empty() ? args.values[0].object() : nullptr;
  return only != nullptr && (PyUnicode_CheckExact(only) || PyLong_CheckExact(only)) ? only : nullptr;
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
  const cpython::LruCache cache = cpython::lru_cache_of(object);
  PyObject* key = key_of_call(args);
  // A number that differs from call to call, and was not there before: the next one will not be there either.
  if (!cache.empty && key == nullptr && args.values.size() == 1 && args.names.empty() &&
      is_scalar_reg(recorder, args.values[0]) && is_new_key(cache, recorder.heap.real(args.values[0])))
    recorder.numbers.stay_open = true;
  if (cache.empty || cache.typed || key == nullptr || was_opaque(recorder, function)) return Invoke::kUnknown;
  if (!recorder.reads.guard_slot(object, cache.results_offset, &results) || !PyDict_CheckExact(results) ||
      !recorder.reads.read_dict(results, key, &entry))
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
