// The eval-frame hook: which frames are recorded, which replayed, which left to CPython.
#pragma once
#include "cpython/frame.h"

namespace pijit {

void install_hook() noexcept;
void remove_hook() noexcept;
// It does not rest any longer.
void wake_hook() noexcept;
// It stands in the evaluator's place. While it rests (hook/rest.h) it does not.
bool hook_installed() noexcept;

// CPython runs the frame; while no root is live without the hook, so that its own calls are as fast as ever.
PyObject* evaluate_alone(PyThreadState* ts, cpython::Frame* frame);

}  // namespace pijit
