// The interpreter's frames: looking into them, writing them, entering them; includes the other headers of this room.
//
// 1. `stack_depth` is valid at trace events and in frames that do not run; a running frame keeps its stack pointer in a
// register.
// 2. At a trace event instruction_index() is the instruction about to execute. In an outer frame it is the call under
// way, or the
//    last of its cache entries when the evaluator inlined the call (it does so only while no eval-frame hook is set).
// 3. To resume at instruction i, prev_instr is the unit before it; to raise at instruction i it is i itself and the
// frame is
//    entered with throwflag 1.
#pragma once
#include <cxxabi.h>

#include <vector>

#include "common/ref.h"
#include "cpython/bytecode.h"
#include "cpython/events.h"
#include "cpython/internals.h"
#include "cpython/objects.h"

namespace pijit::cpython {

using Frame = ::_PyInterpreterFrame;
using FrameEval = ::_PyFrameEvalFunction;

// --- reading (everything borrowed) ------------------------------------------------------------
inline PyCodeObject* code(Frame* frame) noexcept {
  return frame->f_code;
}
inline PyObject* function(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
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
inline PyObject** slots(Frame* frame) noexcept {
  return frame->localsplus;
}
inline int local_count(Frame* frame) noexcept {
  return frame->f_code->co_nlocalsplus;
}
inline int stack_depth(Frame* frame) noexcept {
  return frame->stacktop - frame->f_code->co_nlocalsplus;
}
// The n-th stack entry from the top, 1 being the top; may be NULL.
inline PyObject* peek(Frame* frame, int n) noexcept {
  return frame->localsplus[frame->stacktop - n];
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
// From 3.12 on the evaluator's own entries stand in the chain; they are passed over.
inline Frame* of_python(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
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
// Somebody asked for the frame's f_locals.
inline bool locals_were_seen(Frame* frame) noexcept {
  return frame->frame_obj != nullptr && frame->frame_obj->f_fast_as_locals != 0;
}
// Something else will still look at the frame when it has ended.
inline bool is_held(Frame* frame) noexcept {
  return frame->frame_obj != nullptr && Py_REFCNT(frame->frame_obj) > 1;
}
inline Frame* frame_of(PyFrameObject* object) noexcept {
  return object->f_frame;
}
inline bool is_generator_frame(Frame* frame) noexcept {
  return frame->owner == FRAME_OWNED_BY_GENERATOR;
}
// The frame inside a generator, coroutine or async generator object.
inline Frame* generator_frame(PyObject* generator) noexcept {
  return reinterpret_cast<Frame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
}
// The generator that owns a generator frame (borrowed).
inline PyObject* generator_of(Frame* frame) noexcept {
  return reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(frame));
}
// The index of RETURN_GENERATOR in the prologue of a generator's code.
int start_of_generator(PyCodeObject* code) noexcept;
// No instruction of the frame has run yet.
inline bool is_fresh(Frame* frame) noexcept {
  return instruction_index(frame) == -1;
}

// --- the thread -------------------------------------------------------------------------------
// The innermost frame that runs; may be null.
inline Frame* current_frame(PyThreadState* ts) noexcept {
  return of_python(ts->cframe->current_frame);
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
// Something wants the evaluator's attention: a signal, a pending call, another thread that wants the GIL.
inline bool eval_breaker_set(PyThreadState* ts) noexcept {
  return __atomic_load_n(&ts->interp->ceval.eval_breaker._value, __ATOMIC_RELAXED) != 0;
}
// New coroutines remember where they were made.
inline bool tracks_coroutine_origins(PyThreadState* ts) noexcept {
  return ts->coroutine_origin_tracking_depth > 0;
}
inline bool has_recursion_headroom(PyThreadState* ts, uint32_t levels) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  return ts->py_recursion_remaining > static_cast<int>(levels) && ts->c_recursion_remaining > static_cast<int>(levels);
#else
  return ts->recursion_remaining > static_cast<int>(levels);
#endif
}
inline bool single_threaded(PyThreadState* ts) noexcept {
  return ts->interp->threads.head->next == nullptr;
}

// --- the evaluator ----------------------------------------------------------------------------
// At its end the interpreter makes a daemon thread that asks for the GIL leave by unwinding the C stack. What stands on
// it must not be destroyed without the GIL, so such a thread is parked; the process ends anyway.
[[noreturn]] void park_thread() noexcept;
// From 3.12 on the evaluator takes the frames off the stack that it evaluates, so one that was handed to us and that it
// has not seen is to be taken off by us. Must nest like C scopes. Made where a frame is handed to us; finish() gives
// what is to be returned.
class Evaluation {
 public:
#if PY_VERSION_HEX >= 0x030c0000
  explicit Evaluation(Frame* frame) noexcept : frame_(frame), outer_(std::exchange(innermost_, this)) {}
  ~Evaluation() { innermost_ = outer_; }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;
  PyObject* finish(PyThreadState* ts, PyObject* result) { return done_ ? result : take_off(ts, result); }
  // The evaluator has evaluated the frame.
  static void note(Frame* frame) noexcept {
    Evaluation* at = innermost_;
    while (at != nullptr && at->frame_ != frame) at = at->outer_;
    if (at != nullptr) at->done_ = true;
  }

 private:
  PyObject* take_off(PyThreadState* ts, PyObject* result);

  static thread_local Evaluation* innermost_;
  Frame* frame_;
  Evaluation* outer_;
  bool done_ = false;
#else
  explicit Evaluation(Frame*) noexcept {}
  PyObject* finish(PyThreadState*, PyObject* result) noexcept { return result; }
  static void note(Frame*) noexcept {}
#endif
};
inline PyObject* eval_default(PyThreadState* ts, Frame* frame, int throwflag) {
  try {
    PyObject* result = _PyEval_EvalFrameDefault(ts, frame, throwflag);
    Evaluation::note(frame);
    return result;
  } catch (abi::__forced_unwind&) {
    park_thread();
  }
}
// _PyEval_EvalFrameDefault when no hook is set.
inline FrameEval get_eval_frame(PyThreadState* ts) noexcept {
  return _PyInterpreterState_GetEvalFrameFunc(ts->interp);
}
inline void set_eval_frame(PyThreadState* ts, FrameEval function) noexcept {
  _PyInterpreterState_SetEvalFrameFunc(ts->interp, function);
}
inline FrameEval default_eval_frame() noexcept {
  return &_PyEval_EvalFrameDefault;
}

// --- writing ----------------------------------------------------------------------------------
// Puts `count` objects (NULL allowed) into localsplus and stack and hands back what was there in their place. The frame
// must not hold more than `count` before.
void swap_slots(Frame* frame, PyObject** objects, int count) noexcept;
inline void resume_at(Frame* frame, int index) noexcept {
  frame->prev_instr = _PyCode_CODE(frame->f_code) + index - 1;
}
inline void stand_at(Frame* frame, int index) noexcept {
  frame->prev_instr = _PyCode_CODE(frame->f_code) + index;
}
// Steals; NULL allowed.
inline void push(Frame* frame, PyObject* object) noexcept {
  frame->localsplus[frame->stacktop++] = object;
}

// Gives the reference away; may be null.
inline PyObject* pop(Frame* frame) noexcept {
  return frame->localsplus[--frame->stacktop];
}

// Makes a frame that is not being evaluated the thread's current frame, so that inner frames see the true chain, and
// counts it for recursion. Must nest like C scopes.
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

// A frame of the chain as the thread's current one, without moving it. Must nest like C scopes.
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

// `object`, whose frame has ended, becomes that of `frame`, which has none yet and runs the same code: true. What it
// held is moved to `held`: the last references may be among it. False: that cannot be, and nothing has changed.
bool take_over(PyFrameObject* object, Frame* frame, std::vector<Ref>* held);

// Calls `function` with placeholder arguments of its own code shape; instead of evaluating the new frame, CPython hands
// it to `enter`, whose result is returned. Null with an error set if the frame could not be made (`enter` was not
// called then).
using EnterFrame = PyObject* (*)(PyThreadState* ts, Frame* frame, void* context);
PyObject* call_into_new_frame(PyThreadState* ts, PyObject* function, EnterFrame enter, void* context);

// A generator of `function` that has not begun. Its locals are placeholders. Null with an error set.
PyObject* new_generator(PyThreadState* ts, PyObject* function);
// Puts `count` objects into a generator that does not run, which goes on at `resume`; steals them. `handled` (null:
// nothing) is the exception that it handles.
void suspend_generator(PyObject* generator, PyObject** objects, int count, int resume, PyObject* handled) noexcept;
// Evaluates `frame`, whose instruction resumes this new generator; its frame is then handed to `enter`, which fills it.
PyObject* eval_into_generator(PyThreadState* ts, Frame* frame, PyObject* generator, EnterFrame enter, void* context);
// Takes back what a generator is resumed with: a value or an exception.
void drop_sent(Frame* frame) noexcept;
// Ends a generator that has not begun.
void end_generator(PyObject* generator) noexcept;

}  // namespace pijit::cpython
