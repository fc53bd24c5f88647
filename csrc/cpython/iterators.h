// Iterators over containers that may be reshaped meanwhile.
//
// They are made anew over the container as it is now, so that what they remember of it is set apart.
#pragma once
#include "cpython/internals.h"

namespace pijit::cpython {

// A new iterator over a dict, an OrderedDict, a set or a deque stands for one that was made when its source had this
// size. True: it has another now, and the next step raises what CPython says then.
bool set_first_size(PyObject* iterator, Py_ssize_t size) noexcept;

// A new iterator over a list, in either direction, or over a tuple gives the item at `index` next, if there is one by
// then.
void set_next_index(PyObject* iterator, Py_ssize_t index) noexcept;

// What the iterator of a range gives next, and how many more it has.
struct RangeProgress {
  long next, step, left;
};
RangeProgress range_progress(PyObject* iterator) noexcept;

// What an enumerate object draws from, and the number that it gives with the next item.
struct Enumeration {
  PyObject* iterator;  // borrowed
  Py_ssize_t count;
  bool plain;  // that is all: the number fits, and the last item, which it keeps, does not die with it
};
Enumeration enumeration(PyObject* enumerate) noexcept;
// Where it keeps what it draws from, in bytes.
extern const Py_ssize_t kEnumerated;

}  // namespace pijit::cpython
