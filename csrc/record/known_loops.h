// Which loops have decided on data in earlier calls of one capture.
//
// In the first turn of a loop it is not known yet whether its numbers are to be in registers. Where a capture makes
// further calls of the same function, it is.
#pragma once
#include "common/python.h"

namespace pijit {

bool is_known_loop(PyCodeObject* code, int last) noexcept;  // by its last jump back
void note_loop(PyCodeObject* code, int last);
void forget_loops() noexcept;

}  // namespace pijit
