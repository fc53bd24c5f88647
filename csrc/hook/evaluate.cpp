// The evaluator that was there before ours.
#include "hook/evaluate.h"

#include <cxxabi.h>

namespace pijit {
namespace {

cpython::FrameEval g_before = nullptr;

}  // namespace

void set_evaluator_before(cpython::FrameEval evaluator) noexcept {
  g_before = evaluator;
}

cpython::FrameEval evaluator_before() noexcept {
  return g_before;
}

cpython::Frame* may_come_back(cpython::Frame* frame) noexcept {
  return g_before == nullptr ? frame : nullptr;
}

PyObject* plain(PyThreadState* ts, cpython::Frame* frame, int throwflag) {
  if (g_before == nullptr) return cpython::eval_default(ts, frame, throwflag);
  try {
    PyObject* result = g_before(ts, frame, throwflag);
    cpython::Evaluation::note(frame);
    return result;
  } catch (abi::__forced_unwind&) {
    cpython::park_thread();
  }
}

}  // namespace pijit
