// The end of the C stack of each thread, asked once.
#include "hook/stack.h"

#include <pthread.h>

namespace pijit {

constinit thread_local uintptr_t stack_reserve = 0;

uintptr_t find_stack_reserve() noexcept {
  constexpr uintptr_t kReserve = 512 * 1024;
  pthread_attr_t attributes;
  void* base = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 1;
  pthread_attr_getstack(&attributes, &base, &size);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uintptr_t>(base) + (size > 4 * kReserve ? kReserve : size / 4);
}

PyObject* without_hook(PyThreadState* ts, cpython::Frame* frame, int throwflag, cpython::FrameEval hook) {
  if (cpython::get_eval_frame(ts) != hook) return cpython::eval_default(ts, frame, throwflag);
  cpython::set_eval_frame(ts, cpython::default_eval_frame());
  PyObject* result = cpython::eval_default(ts, frame, throwflag);
  if (cpython::get_eval_frame(ts) == cpython::default_eval_frame()) cpython::set_eval_frame(ts, hook);
  return result;
}

}  // namespace pijit
