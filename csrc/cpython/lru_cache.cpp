// The layout of functools.lru_cache in CPython 3.11.
#include "cpython/lru_cache.h"

#include <cstddef>
#include <cstring>

#include "common/imports.h"

namespace pijit::cpython {
namespace {

struct Link {
  PyObject_HEAD Link *previous, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};
static_assert(offsetof(Link, result) == kLinkResult);

struct Layout {
  Link root;
  void* wrapper;
  int typed;
  PyObject* results;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;
  Py_ssize_t misses;
  PyObject* mark;
  PyTypeObject* link_type;
  PyObject *info_type, *dict, *weak_references;
};

// No name leads to the class of links.
bool is_link(PyTypeObject* type) noexcept {
  return type->tp_basicsize == sizeof(Link) && std::strcmp(type->tp_name, "functools._lru_list_elem") == 0;
}

}  // namespace

PyTypeObject* lru_cache_type() noexcept {
  static PyTypeObject* const type = []() -> PyTypeObject* {
    const Ref module = import_module("_functools");
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "_lru_cache_wrapper") : nullptr;
    if (found == nullptr) return PyErr_Clear(), nullptr;
    auto* of = reinterpret_cast<PyTypeObject*>(found);  // lives as long as the process
    return of->tp_basicsize == sizeof(Layout) ? of : nullptr;
  }();
  return type;
}

LruCache lru_cache_of(PyObject* function) noexcept {
  const auto* layout = reinterpret_cast<Layout*>(function);
  return {layout->results,     offsetof(Layout, results), layout->typed != 0,
          layout->maxsize > 0, layout->maxsize == 0,      layout->mark};
}

PyObject* cached_function(PyObject* function) noexcept {
  return reinterpret_cast<Layout*>(function)->function;
}

bool is_cache(PyTypeObject* type) noexcept {
  return type == lru_cache_type() || (lru_cache_type() != nullptr && is_link(type));
}

bool is_cache_slot(PyTypeObject* type, Py_ssize_t offset) noexcept {
  if (!is_cache(type)) return false;
  return offset == (is_link(type) ? kLinkResult : static_cast<Py_ssize_t>(offsetof(Layout, results)));
}

bool is_cache_of_types(PyObject* callable) noexcept {
  if (Py_TYPE(callable) != lru_cache_type()) return false;
  const Ref module = Ref::steal(PyObject_GetAttrString(callable, "__module__"));
  if (!module) PyErr_Clear();
  return module && PyUnicode_Check(module.get()) && PyUnicode_CompareWithASCIIString(module.get(), "typing") == 0;
}

}  // namespace pijit::cpython
