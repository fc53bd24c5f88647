// Where in the source an instruction comes from.
#pragma once
#include <array>

#include "common/python.h"

namespace pijit::cpython {

// First line, last line, first column, last column of the instruction at a code index. False: the columns are not
// known.
bool source_place(PyCodeObject* code, int index, std::array<int, 4>* place);

}  // namespace pijit::cpython
