// Who has the GIL, and who asks for it.
#pragma once
#include "cpython/frame_view.h"
#include "cpython/internals.h"

namespace pijit::cpython {

// Some thread holds it; may be asked without it.
inline bool gil_is_held([[maybe_unused]] PyThreadState* ts) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return __atomic_load_n(&ts->interp->ceval.gil->locked, __ATOMIC_RELAXED) > 0;
#elif PY_VERSION_HEX >= 0x030c0000
  return __atomic_load_n(&ts->interp->ceval.gil->locked._value, __ATOMIC_RELAXED) > 0;
#else
  return __atomic_load_n(&_PyRuntime.ceval.gil.locked._value, __ATOMIC_RELAXED) > 0;
#endif
}

// A thread that has asked for the GIL asks again in 5 ms, and nobody waits for it before. False: nobody has asked, or
// something else wants the evaluator's attention, too.
inline bool put_off_asking(PyThreadState* ts) noexcept {
  if (!attention_can_wait(ts)) return false;
#if PY_VERSION_HEX >= 0x030d0000
  if ((__atomic_load_n(&ts->eval_breaker, __ATOMIC_RELAXED) & _PY_GIL_DROP_REQUEST_BIT) == 0) return false;
  __atomic_and_fetch(&ts->eval_breaker, ~uintptr_t{_PY_GIL_DROP_REQUEST_BIT}, __ATOMIC_SEQ_CST);
#else
  auto& state = ts->interp->ceval;
  const auto set = [](const _Py_atomic_int& flag) { return __atomic_load_n(&flag._value, __ATOMIC_SEQ_CST) != 0; };
  if (!set(state.gil_drop_request)) return false;
  __atomic_store_n(&state.gil_drop_request._value, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&state.eval_breaker._value, 0, __ATOMIC_SEQ_CST);
  bool more = set(state.gil_drop_request) || set(state.pending.calls_to_do) || state.pending.async_exc != 0 ||
              set(_PyRuntime.ceval.signals_pending);
#if PY_VERSION_HEX >= 0x030c0000
  more = more || set(state.gc_scheduled) || set(_PyRuntime.ceval.pending_mainthread.calls_to_do);
#endif
  if (more) __atomic_store_n(&state.eval_breaker._value, 1, __ATOMIC_SEQ_CST);  // it came between look and store
#endif
  return true;
}

}  // namespace pijit::cpython
