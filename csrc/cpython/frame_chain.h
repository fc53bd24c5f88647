// What stands in the chain of the thread's frames, or is handled there, as long as a C scope lasts.
#pragma once
#include <utility>

#include "common/ref.h"
#include "cpython/frame_view.h"

namespace pijit::cpython {

#if PY_VERSION_HEX >= 0x030d0000
// Makes a frame that is not being evaluated the thread's current frame, so that inner frames see the true chain, and
// counts it for recursion. Must nest like C scopes.
class LinkedFrame {
 public:
  LinkedFrame(PyThreadState* ts, Frame* frame) noexcept : ts_(ts), before_(ts->current_frame) {
    frame->previous = before_;
    ts->current_frame = frame;
    ts->py_recursion_remaining--;
  }
  ~LinkedFrame() {
    ts_->current_frame = before_;
    ts_->py_recursion_remaining++;
  }
  LinkedFrame(const LinkedFrame&) = delete;
  LinkedFrame& operator=(const LinkedFrame&) = delete;

 private:
  PyThreadState* ts_;
  Frame* before_;
};

// A frame of the chain as the thread's current one, without moving it. Must nest like C scopes.
class CurrentFrame {
 public:
  CurrentFrame(PyThreadState* ts, Frame* frame) noexcept : ts_(ts), before_(std::exchange(ts->current_frame, frame)) {}
  ~CurrentFrame() { ts_->current_frame = before_; }
  CurrentFrame(const CurrentFrame&) = delete;
  CurrentFrame& operator=(const CurrentFrame&) = delete;

 private:
  PyThreadState* ts_;
  Frame* before_;
};
#else
// The same where a C frame of the evaluator names the current frame.
class LinkedFrame {
 public:
  LinkedFrame(PyThreadState* ts, Frame* frame) noexcept : ts_(ts) {
    cframe_.current_frame = frame;
    cframe_.previous = ts->cframe;
    frame->previous = ts->cframe->current_frame;
#if PY_VERSION_HEX >= 0x030c0000
    ts->py_recursion_remaining--;
#else
    cframe_.use_tracing = ts->cframe->use_tracing;
    frame->is_entry = true;
    ts->recursion_remaining--;
#endif
    ts->cframe = &cframe_;
  }
  ~LinkedFrame() {
    ts_->cframe = cframe_.previous;
#if PY_VERSION_HEX >= 0x030c0000
    ts_->py_recursion_remaining++;
#else
    ts_->recursion_remaining++;
    ts_->cframe->use_tracing = cframe_.use_tracing;
#endif
  }
  LinkedFrame(const LinkedFrame&) = delete;
  LinkedFrame& operator=(const LinkedFrame&) = delete;

 private:
  PyThreadState* ts_;
  _PyCFrame cframe_;
};

class CurrentFrame {
 public:
  CurrentFrame(PyThreadState* ts, Frame* frame) noexcept : ts_(ts) {
#if PY_VERSION_HEX < 0x030c0000
    cframe_.use_tracing = ts->cframe->use_tracing;
#endif
    cframe_.current_frame = frame;
    cframe_.previous = ts->cframe;
    ts->cframe = &cframe_;
  }
  ~CurrentFrame() { ts_->cframe = cframe_.previous; }
  CurrentFrame(const CurrentFrame&) = delete;
  CurrentFrame& operator=(const CurrentFrame&) = delete;

 private:
  PyThreadState* ts_;
  _PyCFrame cframe_;
};
#endif

// The thread handles `exception` (null: what it handles already). Must nest like C scopes.
class Handling {
 public:
  Handling(PyThreadState* ts, PyObject* exception) noexcept : ts_(ts), active_(exception != nullptr) {
    if (active_) before_ = std::exchange(ts->exc_info->exc_value, new_reference(exception));
  }
  ~Handling() {
    if (active_) drop_reference(std::exchange(ts_->exc_info->exc_value, before_));
  }
  Handling(const Handling&) = delete;
  Handling& operator=(const Handling&) = delete;

 private:
  PyThreadState* ts_;
  PyObject* before_ = nullptr;
  bool active_;
};

// The object of the thread's current frame.
inline Ref current_frame_object(PyThreadState* ts) noexcept {
  return Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(ts)));
}

}  // namespace pijit::cpython
