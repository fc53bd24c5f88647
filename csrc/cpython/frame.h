// The interpreter's frames: evaluating, writing and entering them; includes the other headers of this room.
//
// Up to 3.12 a frame goes on behind the unit that it stands at, from 3.13 on at it: resume_at() and stand_at(). An
// error that is raised at the instruction where a frame stands is eval_raising()'s.
#pragma once
#include <cxxabi.h>

#include <vector>

#include "common/ref.h"
#include "cpython/bytecode.h"
#include "cpython/events.h"
#include "cpython/frame_chain.h"
#include "cpython/frame_view.h"
#include "cpython/internals.h"
#include "cpython/objects.h"

namespace pijit::cpython {

// --- the evaluator ----------------------------------------------------------------------------
// At its end the interpreter makes a daemon thread that asks for the GIL leave by unwinding the C stack. What stands on
// it must not be destroyed without the GIL, so such a thread is parked; the process ends anyway.
[[noreturn]] void park_thread() noexcept;
// Another thread that wants the GIL has it for a while.
void give_gil() noexcept;
// How often a thread has taken the GIL that another one had last. With the GIL.
inline unsigned long thread_switches([[maybe_unused]] PyThreadState* ts) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  return ts->interp->ceval.gil->switch_number;
#else
  return _PyRuntime.ceval.gil.switch_number;
#endif
}
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
// On 3.12 and 3.13 each evaluator counts against a limit of C calls of its own, lower than that of Python's. Without us
// the evaluator of the caller would have gone on in the frame; the C stack that this takes is looked after by the hook.
class UncountedEvaluator {
 public:
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030e0000
  explicit UncountedEvaluator(PyThreadState* ts) noexcept : ts_(ts) { ts->c_recursion_remaining += kUnits; }
  ~UncountedEvaluator() { ts_->c_recursion_remaining -= kUnits; }
  UncountedEvaluator(const UncountedEvaluator&) = delete;
  UncountedEvaluator& operator=(const UncountedEvaluator&) = delete;

 private:
  static constexpr int kUnits = 2;  // PY_EVAL_C_STACK_UNITS
  PyThreadState* ts_;
#else
  explicit UncountedEvaluator(PyThreadState*) noexcept {}
#endif
};
inline PyObject* eval_default(PyThreadState* ts, Frame* frame, int throwflag) {
  const UncountedEvaluator uncounted(ts);
  try {
    PyObject* result = _PyEval_EvalFrameDefault(ts, frame, throwflag);
    Evaluation::note(frame);
    return result;
  } catch (abi::__forced_unwind&) {
    park_thread();
  }
}
// The error that is set is raised at the instruction where the frame stands.
#if PY_VERSION_HEX >= 0x030d0000
PyObject* eval_raising(PyThreadState* ts, Frame* frame);
#else
inline PyObject* eval_raising(PyThreadState* ts, Frame* frame) {
  return eval_default(ts, frame, 1);
}
#endif
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
// Empties a slot and gives its reference away; may be null.
inline PyObject* take_slot(Frame* frame, int index) noexcept {
  return take(std::exchange(frame->localsplus[index], new_slot(nullptr)));
}
// Empties the frame's stack; what was on it.
std::vector<Ref> take_stack(Frame* frame);
inline _Py_CODEUNIT*& stands_at(Frame* frame) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return frame->instr_ptr;
#else
  return frame->prev_instr;
#endif
}
inline void stand_at(Frame* frame, int index) noexcept {
  stands_at(frame) = _PyCode_CODE(code(frame)) + index;
}
inline void resume_at(Frame* frame, int index) noexcept {
  stand_at(frame, PY_VERSION_HEX < 0x030d0000 ? index - 1 : index);
}
inline void set_used_slots(Frame* frame, int count) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  frame->stackpointer = frame->localsplus + count;
#else
  frame->stacktop = count;
#endif
}
// Steals; NULL allowed.
inline void push(Frame* frame, PyObject* object) noexcept {
  const int at = used_slots(frame);
  frame->localsplus[at] = new_slot(object);
  set_used_slots(frame, at + 1);
}

// Gives the reference away; may be null.
inline PyObject* pop(Frame* frame) noexcept {
  const int at = used_slots(frame) - 1;
  set_used_slots(frame, at);
  return take(frame->localsplus[at]);
}

// The frame of `object` has ended, and nobody has called it.
void forget_caller(PyFrameObject* object) noexcept;
// `object`, whose frame has ended, becomes that of `frame`, which has none yet and runs the same code: true. What it
// held is moved to `held`: the last references may be among it. False: that cannot be, and nothing has changed.
bool take_over(PyFrameObject* object, Frame* frame, std::vector<Ref>* held);

// Calls `function`, by the arguments of a vectorcall; instead of evaluating the new frame, CPython hands it to `enter`,
// whose result is returned. Null with an error set if the frame could not be made (`enter` was not called then).
using EnterFrame = PyObject* (*)(PyThreadState* ts, Frame* frame, void* context);
PyObject* call_into_frame(PyThreadState* ts, PyObject* function, PyObject* const* arguments, size_t count,
                          PyObject* names, EnterFrame enter, void* context);
// The same with placeholder arguments of the shape of its code.
PyObject* call_into_new_frame(PyThreadState* ts, PyObject* function, EnterFrame enter, void* context);

// A generator of `function` that has not begun. Its locals are placeholders. Null with an error set.
PyObject* new_generator(PyThreadState* ts, PyObject* function);
// Puts `count` objects into a generator that does not run, which goes on at `resume`; steals them. `handled` (null:
// nothing) is the exception that it handles.
void suspend_generator(PyObject* generator, PyObject** objects, int count, int resume, PyObject* handled) noexcept;
// Evaluates `frame`, whose instruction resumes this new generator; its frame is then handed to `enter`, which fills it.
PyObject* eval_into_generator(PyThreadState* ts, Frame* frame, PyObject* generator, EnterFrame enter, void* context);
// The same for what an iterator of C, which resumes the generator or is it, gives next. Null: it raised, or (*ended)
// there is nothing more.
PyObject* next_into_generator(PyThreadState* ts, PyObject* iterator, PyObject* generator, EnterFrame enter,
                              void* context, bool* ended);
// Takes back what a generator is resumed with: a value or an exception.
void drop_sent(Frame* frame) noexcept;
// Ends a generator that has not begun.
void end_generator(PyObject* generator) noexcept;
// It has yielded, nothing but `holders` references holds it, nothing its frame, nobody is told of its end, and it
// handles no exception.
bool is_at_rest(PyObject* generator, Py_ssize_t holders) noexcept;
// Lets go of what the frame of such a generator holds, which may run Python. It is filled again by suspend_generator()
// or eval_into_generator(), or ended; until then nobody may look at it, and if it dies its code does not run.
void empty_generator(PyObject* generator) noexcept;
void end_emptied_generator(PyObject* generator) noexcept;

}  // namespace pijit::cpython
