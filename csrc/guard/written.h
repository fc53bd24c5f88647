// What users write where a framework's own `__call__(self, *args, **kwargs)` is called.
#pragma once
#include "ir/trace.h"

namespace pijit {

// The code of the method, such as `forward`, to which the root of the trace hands its arguments. Null: the root names
// its arguments itself, or `self` has no such method in Python. Borrowed from `self`.
PyCodeObject* written_code(const Trace& trace, PyObject* self) noexcept;

}  // namespace pijit
