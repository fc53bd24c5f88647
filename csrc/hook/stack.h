// The distance to the end of the C stack, and evaluation without the hook when it is short.
#pragma once
#include <cstdint>

#include "cpython/frame.h"

namespace pijit {

// Where the reserve of this thread's C stack begins; 0: nobody has asked.
extern constinit thread_local uintptr_t stack_reserve;
uintptr_t find_stack_reserve() noexcept;

// Less than the reserve is left on this thread's C stack.
inline bool near_stack_end() noexcept {
  if (stack_reserve == 0) stack_reserve = find_stack_reserve();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < stack_reserve;
}

// Evaluates with the hook taken off, so that CPython's own calls take no C stack; puts it back afterwards.
PyObject* without_hook(PyThreadState* ts, cpython::Frame* frame, int throwflag, cpython::FrameEval hook);

}  // namespace pijit
