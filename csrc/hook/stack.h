// The distance to the end of the C stack, and evaluation without the hook when it is short.
#pragma once
#include "cpython/frame.h"

namespace pijit {

// Less than the reserve is left on this thread's C stack.
bool near_stack_end() noexcept;

// Evaluates with the hook taken off, so that CPython's own calls take no C stack; puts it back afterwards.
PyObject* without_hook(PyThreadState* ts, cpython::Frame* frame, int throwflag, cpython::FrameEval hook);

}  // namespace pijit
