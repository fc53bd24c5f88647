// The evaluator that was there before ours: frames are handed on to it.
#pragma once
#include "cpython/frame.h"

namespace pijit {

// Null: CPython's own.
void set_evaluator_before(cpython::FrameEval evaluator) noexcept;
cpython::FrameEval evaluator_before() noexcept;

PyObject* plain(PyThreadState* ts, cpython::Frame* frame, int throwflag);

}  // namespace pijit
