// Iterators over containers that may be reshaped meanwhile.
#pragma once
#include "cpython/internals.h"

namespace pijit::cpython {

// A new iterator over a dict, an OrderedDict, a set or a deque stands for one that was made when its source had this
// size. True: it has another now, and the next step raises what CPython says then.
bool set_first_size(PyObject* iterator, Py_ssize_t size) noexcept;

}  // namespace pijit::cpython
