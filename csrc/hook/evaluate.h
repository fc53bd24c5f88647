// The evaluator that was there before ours: frames are handed on to it.
#pragma once
#include "cpython/frame.h"

namespace pijit {

// Null: CPython's own.
void set_evaluator_before(cpython::FrameEval evaluator) noexcept;
cpython::FrameEval evaluator_before() noexcept;

// The frame if CPython's own evaluator runs it in plain(), else null: another one would take what a frame that is moved
// returns (cpython/hand_back.h) for the function's result.
cpython::Frame* may_come_back(cpython::Frame* frame) noexcept;

PyObject* plain(PyThreadState* ts, cpython::Frame* frame, int throwflag);

}  // namespace pijit
