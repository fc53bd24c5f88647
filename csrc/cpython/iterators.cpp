// What iterators remember of their source, for CPython 3.11.
#include "cpython/iterators.h"

#include <cstddef>
#include <utility>

namespace pijit::cpython {
namespace {

// The beginnings of dictiterobject and setiterobject, odictiterobject, listiterobject and listreviterobject, and
// dequeiterobject; and enumobject's.
struct TableIterator {
  PyObject_HEAD PyObject* source;
  Py_ssize_t size;
};

struct OrderedIterator {
  PyObject_HEAD int kind;
  PyObject* source;
  Py_ssize_t size;
  size_t state;
};

struct ListIterator {
  PyObject_HEAD Py_ssize_t index;
};

struct RangeIterator {
  PyObject_HEAD
#if PY_VERSION_HEX < 0x030c0000
      long index;
#endif
  long start, step, left;
};

struct DequeIterator {
  PyObject_HEAD void* block;
  Py_ssize_t index;
  PyObject* source;
  size_t state;
  Py_ssize_t left;
};

struct EnumerateObject {
  PyObject_HEAD Py_ssize_t index;
  PyObject* iterator;
  PyObject* result;
  PyObject* long_index;  // instead of `index`
};

bool is_table_iterator(PyTypeObject* type) noexcept {
  return type == &PyDictIterKey_Type || type == &PyDictIterValue_Type || type == &PyDictIterItem_Type ||
         type == &PyDictRevIterKey_Type || type == &PySetIter_Type;
}

}  // namespace

bool set_first_size(PyObject* iterator, Py_ssize_t size) noexcept {
  if (is_table_iterator(Py_TYPE(iterator))) {
    auto* table = reinterpret_cast<TableIterator*>(iterator);
    return std::exchange(table->size, size) != size;
  }
  if (Py_TYPE(iterator) == &PyODictIter_Type) {
    auto* ordered = reinterpret_cast<OrderedIterator*>(iterator);
    if (ordered->size == size) return false;
    ordered->state -= 1;
    return true;
  }
  auto* deque = reinterpret_cast<DequeIterator*>(iterator);
  if (deque->left == size) return false;
  deque->state -= 1;
  return true;
}

void set_next_index(PyObject* iterator, Py_ssize_t index) noexcept {
  reinterpret_cast<ListIterator*>(iterator)->index = index;
}

RangeProgress range_progress(PyObject* iterator) noexcept {
  const auto& range = *reinterpret_cast<RangeIterator*>(iterator);
#if PY_VERSION_HEX < 0x030c0000
  return {range.start + range.index * range.step, range.step, range.left - range.index};
#else
  return {range.start, range.step, range.left};
#endif
}

const Py_ssize_t kEnumerated = offsetof(EnumerateObject, iterator);

Enumeration enumeration(PyObject* enumerate) noexcept {
  const auto& object = *reinterpret_cast<EnumerateObject*>(enumerate);
  const bool lets_die = Py_REFCNT(object.result) == 1 && Py_REFCNT(PyTuple_GET_ITEM(object.result, 1)) == 1;
  return {object.iterator, object.index, !lets_die && object.long_index == nullptr && object.index < PY_SSIZE_T_MAX};
}

}  // namespace pijit::cpython
