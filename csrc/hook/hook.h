// The eval-frame hook: which frames are recorded, which replayed, which left to CPython.
#pragma once
#include "cpython/frame.h"

namespace pijit {

void install_hook() noexcept;
void remove_hook() noexcept;
// It does not rest any longer (hook/rest.h).
void wake_hook() noexcept;
// What was jitted is replayed: the hook is in place, or entrances do. It does not rest.
bool hook_installed() noexcept;
// Puts it in place or takes it out, as is needed now.
void settle_hook() noexcept;
// Calls of this function, a root's, are heard of without the hook, where that can be.
void give_entrance(PyObject* function) noexcept;
void take_entrance(PyObject* function) noexcept;

// While it lives the hook is in place: a recorder hears of every frame.
struct HookForFrames {
  HookForFrames() noexcept;
  ~HookForFrames();
  HookForFrames(const HookForFrames&) = delete;
  HookForFrames& operator=(const HookForFrames&) = delete;
};

// CPython runs the frame; while no root is live without the hook, so that its own calls are as fast as ever.
PyObject* evaluate_alone(PyThreadState* ts, cpython::Frame* frame);
// CPython runs the frame and all that it calls. Only where no foreign evaluator is in place.
PyObject* evaluate_without_pijit(PyThreadState* ts, cpython::Frame* frame);

}  // namespace pijit
