// The end of the C stack of each thread, asked once.
#include "hook/stack.h"

#include <pthread.h>

#include <cstdint>

namespace pijit {
namespace {

constexpr uintptr_t kReserve = 512 * 1024;

uintptr_t find_limit() noexcept {
  pthread_attr_t attributes;
  void* base = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 1;
  pthread_attr_getstack(&attributes, &base, &size);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uintptr_t>(base) + (size > 4 * kReserve ? kReserve : size / 4);
}

}  // namespace

bool near_stack_end() noexcept {
  thread_local uintptr_t limit = 0;
  if (limit == 0) limit = find_limit();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < limit;
}

PyObject* without_hook(PyThreadState* ts, cpython::Frame* frame, int throwflag, cpython::FrameEval hook) {
  if (cpython::get_eval_frame(ts) != hook) return cpython::eval_default(ts, frame, throwflag);
  cpython::set_eval_frame(ts, cpython::default_eval_frame());
  PyObject* result = cpython::eval_default(ts, frame, throwflag);
  if (cpython::get_eval_frame(ts) == cpython::default_eval_frame()) cpython::set_eval_frame(ts, hook);
  return result;
}

}  // namespace pijit
