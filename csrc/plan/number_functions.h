// Functions of Python that make a number of numbers, and of which a graph has a row: arithmetic, and what math has.
#pragma once
#include "common/python.h"

namespace pijit {

// Given numbers, it gives what depends on these alone. Imports once.
bool is_number_function(PyObject* callable) noexcept;

// All of them in a tuple, borrowed; null: they could not be imported.
PyObject* number_functions() noexcept;

}  // namespace pijit
