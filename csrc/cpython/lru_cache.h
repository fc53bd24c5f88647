// What a functools.lru_cache keeps, as CPython 3.11 lays it out.
#pragma once
#include "common/python.h"

namespace pijit::cpython {

// The class of cached functions; null: it is laid out in another way. Imports once, so not while recording.
PyTypeObject* lru_cache_type() noexcept;

// The parts of one that decide a call, borrowed.
struct LruCache {
  PyObject* results;          // the dict
  Py_ssize_t results_offset;  // where the cached function has it
  bool typed;                 // the classes of arguments are part of the key
  bool bounded;               // what the dict has is a link, which has the result
  bool empty;                 // it keeps nothing
  PyObject* mark;             // stands in a key before what has names
};
LruCache lru_cache_of(PyObject* function) noexcept;
// What such a function computes with, borrowed.
PyObject* cached_function(PyObject* function) noexcept;
// The class is that of cached functions, or of the links that they keep results in.
bool is_cache(PyTypeObject* type) noexcept;
// Where one of these has the dict of results, or a result.
bool is_cache_slot(PyTypeObject* type, Py_ssize_t offset) noexcept;
bool is_cache_of_types(PyObject* callable) noexcept;  // the module typing remembers its own types in it
inline constexpr Py_ssize_t kLinkResult = sizeof(PyObject) + 2 * sizeof(void*) + sizeof(Py_hash_t) + sizeof(PyObject*);

}  // namespace pijit::cpython
