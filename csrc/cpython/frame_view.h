// Looking into the interpreter's frames, and into what its threads run; everything is borrowed.
//
// 1. `stack_depth` is valid at events and in frames that do not run; a running frame keeps its stack pointer in a
// register.
// 2. At an event instruction_index() is the instruction about to execute. In an outer frame it is the call under way,
// or the last of its cache entries when the evaluator inlined the call (it does so only while no eval-frame hook is
// set).
#pragma once
#include <utility>

#include "common/ref.h"
#include "cpython/bytecode.h"
#include "cpython/internals.h"
#include "cpython/slot.h"

namespace pijit::cpython {

using Frame = ::_PyInterpreterFrame;
using FrameEval = ::_PyFrameEvalFunction;

// --- reading (everything borrowed) ------------------------------------------------------------
inline PyCodeObject* code(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return _PyFrame_GetCode(frame);
#else
  return frame->f_code;
#endif
}
inline PyObject* function(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  return object_in(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030c0000
  return frame->f_funcobj;
#else
  return reinterpret_cast<PyObject*>(frame->f_func);
#endif
}
inline PyObject* globals(Frame* frame) noexcept {
  return frame->f_globals;
}
inline PyObject* builtins(Frame* frame) noexcept {
  return frame->f_builtins;
}
inline PyObject* locals_mapping(Frame* frame) noexcept {
  return frame->f_locals;
}
// The body of a module: its variables are globals.
inline bool is_module_body(Frame* frame) noexcept {
  return (code(frame)->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR)) == 0 && frame->f_locals != nullptr &&
         frame->f_locals == frame->f_globals;
}
// What a slot holds, local variables first, then the stack; may be null.
inline PyObject* slot(Frame* frame, int index) noexcept {
  return object_in(frame->localsplus[index]);
}
// How many slots are in use: all local variables, and the stack.
inline int used_slots(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  return static_cast<int>(frame->stackpointer - frame->localsplus);
#else
  return frame->stacktop;
#endif
}
inline int local_count(Frame* frame) noexcept {
  return code(frame)->co_nlocalsplus;
}
inline int stack_depth(Frame* frame) noexcept {
  return used_slots(frame) - code(frame)->co_nlocalsplus;
}
// The n-th stack entry from the top, 1 being the top; may be NULL.
inline PyObject* peek(Frame* frame, int n) noexcept {
  return slot(frame, used_slots(frame) - n);
}
// What a call of so many arguments, which is to begin, calls.
inline PyObject* callee(Frame* frame, int count) noexcept {
  PyObject* lower = peek(frame, count + 2);
  return lower != nullptr ? lower : peek(frame, count + 1);
}
// A load for a call has left a method and its self, not NULL and what is to be called.
inline bool has_self(Frame* frame) noexcept {
  return peek(frame, 1) != nullptr && peek(frame, 2) != nullptr;
}
// What such a load has left on top, NULL passed over.
inline PyObject* loaded(Frame* frame) noexcept {
  PyObject* top = peek(frame, 1);
  return top != nullptr ? top : peek(frame, 2);
}
inline int instruction_index(Frame* frame) noexcept {
  return _PyInterpreterFrame_LASTI(frame);
}
// The index that a suspended generator's frame goes on at.
inline int resume_index(Frame* frame) noexcept {
  return instruction_index(frame) + (PY_VERSION_HEX < 0x030d0000 ? 1 : 0);
}
// From 3.12 on the evaluator's own entries stand in the chain; they are passed over.
inline Frame* of_python(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  while (frame != nullptr && frame->owner >= FRAME_OWNED_BY_INTERPRETER) frame = frame->previous;
#elif PY_VERSION_HEX >= 0x030c0000
  while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
#endif
  return frame;
}
inline Frame* previous(Frame* frame) noexcept {
  return of_python(frame->previous);
}
// Null if none was made.
inline PyFrameObject* frame_object(Frame* frame) noexcept {
  return frame->frame_obj;
}
// Something else will still look at the frame when it has ended.
inline bool is_held(Frame* frame) noexcept {
  return frame->frame_obj != nullptr && Py_REFCNT(frame->frame_obj) > 1;
}
// Somebody asked for the frame's f_locals.
#if PY_VERSION_HEX >= 0x030d0000
bool locals_were_seen(Frame* frame) noexcept;  // known of code that is followed (events_312.h)
#else
inline bool locals_were_seen(Frame* frame) noexcept {
  return frame->frame_obj != nullptr && frame->frame_obj->f_fast_as_locals != 0;
}
#endif
inline Frame* frame_of(PyFrameObject* object) noexcept {
  return object->f_frame;
}
inline bool is_generator_frame(Frame* frame) noexcept {
  return frame->owner == FRAME_OWNED_BY_GENERATOR;
}
// The frame inside a generator, coroutine or async generator object.
inline Frame* generator_frame(PyObject* generator) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  return &reinterpret_cast<PyGenObject*>(generator)->gi_iframe;
#else
  return reinterpret_cast<Frame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
#endif
}
// The generator that owns a generator frame (borrowed).
inline PyObject* generator_of(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  return reinterpret_cast<PyObject*>(_PyGen_GetGeneratorFromFrame(frame));
#else
  return reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(frame));
#endif
}
// The object of a generator's frame that has ended names, as its f_back, who resumed it last.
inline constexpr bool kEndedGeneratorsHaveCallers = PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030e0000;
// A frame that ends lets its last variable go first.
inline constexpr bool kFramesClearFromTheirEnd = PY_VERSION_HEX >= 0x030e0000;
// What runs in the frame of a generator may find the generator, and so the frame: more than whoever resumes it has it.
inline bool is_found_within(Frame* frame) noexcept {
  if (!is_generator_frame(frame)) return false;
  PyObject* generator = generator_of(frame);
  return !PyGen_CheckExact(generator) || Py_REFCNT(generator) > 1 ||
         reinterpret_cast<PyGenObject*>(generator)->gi_weakreflist != nullptr;
}
// The index of RETURN_GENERATOR in the prologue of a generator's code.
int start_of_generator(PyCodeObject* code) noexcept;
// No instruction of the frame has run yet.
inline bool is_fresh(Frame* frame) noexcept {
  return resume_index(frame) == 0;
}

// --- the thread -------------------------------------------------------------------------------
// The innermost frame that runs; may be null.
inline Frame* current_frame(PyThreadState* ts) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return of_python(ts->current_frame);
#else
  return of_python(ts->cframe->current_frame);
#endif
}
// The exception that the innermost function or generator handles (borrowed); null or None if none.
inline PyObject* handled_exception(PyThreadState* ts) noexcept {
  return ts->exc_info->exc_value;
}
// The exception that the innermost frame handles, or the next one below that handles any.
inline PyObject* topmost_exception(PyThreadState* ts) noexcept {
  _PyErr_StackItem* item = ts->exc_info;
  while ((item->exc_value == nullptr || item->exc_value == Py_None) && item->previous_item != nullptr)
    item = item->previous_item;
  return item->exc_value;
}
// The exception that is set (borrowed); null: there is none, or it is not made yet.
inline PyObject* error_object(PyThreadState* ts) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  return ts->current_exception;
#else
  return ts->curexc_value;
#endif
}
// Instead of what is handled now below so many generators that run; the frame that goes on puts back what was there.
inline void handle_exception(PyThreadState* ts, int generators, Ref exception) noexcept {
  _PyErr_StackItem* item = ts->exc_info;
  while (generators-- > 0) item = item->previous_item;
  drop_reference(std::exchange(item->exc_value, exception.release()));
}
#if PY_VERSION_HEX >= 0x030d0000
inline constexpr uintptr_t kEvents = 0xff;  // of an eval_breaker; what is above is a version
#endif
// Something wants the evaluator's attention: a signal, a pending call, another thread that wants the GIL.
inline bool eval_breaker_set(PyThreadState* ts) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return (__atomic_load_n(&ts->eval_breaker, __ATOMIC_RELAXED) & kEvents) != 0;
#else
  return __atomic_load_n(&ts->interp->ceval.eval_breaker._value, __ATOMIC_RELAXED) != 0;
#endif
}
// Of all that may want it there is only what can wait a while: another thread that wants the GIL, or a collection.
inline bool attention_can_wait(PyThreadState* ts) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  const uintptr_t wanted = __atomic_load_n(&ts->eval_breaker, __ATOMIC_RELAXED) & kEvents;
  return wanted != 0 && (wanted & ~uintptr_t{_PY_GIL_DROP_REQUEST_BIT | _PY_GC_SCHEDULED_BIT}) == 0;
#else
  const auto& state = ts->interp->ceval;
  const auto set = [](const _Py_atomic_int& flag) { return __atomic_load_n(&flag._value, __ATOMIC_RELAXED) != 0; };
#if PY_VERSION_HEX >= 0x030c0000
  const bool waits = set(state.gil_drop_request) || set(state.gc_scheduled);
  if (set(_PyRuntime.ceval.pending_mainthread.calls_to_do)) return false;
#else
  const bool waits = set(state.gil_drop_request);
#endif
  return waits && !set(state.pending.calls_to_do) && state.pending.async_exc == 0 &&
         !set(_PyRuntime.ceval.signals_pending);
#endif
}
// New coroutines remember where they were made.
inline bool tracks_coroutine_origins(PyThreadState* ts) noexcept {
  return ts->coroutine_origin_tracking_depth > 0;
}
inline bool has_recursion_headroom(PyThreadState* ts, uint32_t levels) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  return ts->py_recursion_remaining > static_cast<int>(levels);
#elif PY_VERSION_HEX >= 0x030c0000
  return ts->py_recursion_remaining > static_cast<int>(levels) && ts->c_recursion_remaining > static_cast<int>(levels);
#else
  return ts->recursion_remaining > static_cast<int>(levels);
#endif
}
inline bool single_threaded(PyThreadState* ts) noexcept {
  return ts->interp->threads.head->next == nullptr;
}

}  // namespace pijit::cpython
