// Writing and entering frames, for CPython 3.11.
#include "cpython/frame.h"

#include <unistd.h>

#include <vector>

#include "common/ref.h"

namespace pijit::cpython {

void park_thread() noexcept {
  for (;;) pause();
}

void swap_slots(Frame* frame, PyObject** objects, int count) noexcept {
  PyObject** slots = frame->localsplus;
  for (int i = 0; i < count; ++i) {
    PyObject* old = i < frame->stacktop ? slots[i] : nullptr;
    slots[i] = objects[i];
    objects[i] = old;
  }
  frame->stacktop = count;
}

namespace {

// One frame that is about to be handed over. The hook is per interpreter, but from its installation to the entry of the
// frame no Python runs and the GIL is not given up (garbage collection is paused), so there is never more than one.
struct Handover {
  PyObject* function;
  EnterFrame enter;
  void* context;
  FrameEval hook;
  GcPause* pause;
  bool entered;
};
Handover* handover = nullptr;

PyObject* hand_over(PyThreadState* ts, Frame* frame, int throwflag) {
  Handover* now = handover;
  if (now == nullptr || frame->f_func != reinterpret_cast<PyFunctionObject*>(now->function))
    return eval_default(ts, frame, throwflag);
  handover = nullptr;
  set_eval_frame(ts, now->hook);
  now->entered = true;
  now->pause->end();
  return now->enter(ts, frame, now->context);
}

// None for every parameter without which the call would be refused.
struct Placeholders {
  std::vector<PyObject*> values;
  Ref names;
};

bool make_placeholders(PyCodeObject* code, Placeholders* out) noexcept {
  const int positional = code->co_argcount, keywords = code->co_kwonlyargcount;
  out->values.assign(static_cast<size_t>(positional + keywords), Py_None);
  if (keywords == 0) return true;
  out->names = Ref::steal(PyTuple_New(keywords));
  if (!out->names) return false;
  for (int i = 0; i < keywords; ++i)
    PyTuple_SET_ITEM(out->names.get(), i, new_reference(PyTuple_GET_ITEM(code->co_localsplusnames, positional + i)));
  return true;
}

}  // namespace

PyObject* call_into_new_frame(PyThreadState* ts, PyObject* function, EnterFrame enter, void* context) {
  Placeholders arguments;
  if (!make_placeholders(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)), &arguments)) return nullptr;
  GcPause pause;
  Handover now{function, enter, context, get_eval_frame(ts), &pause, false};
  handover = &now;
  set_eval_frame(ts, hand_over);
  const auto positional =
      static_cast<size_t>(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_argcount);
  PyObject* result = _PyFunction_Vectorcall(function, arguments.values.data(), positional, arguments.names.get());
  if (!now.entered) {
    handover = nullptr;
    set_eval_frame(ts, now.hook);
  }
  return result;
}

}  // namespace pijit::cpython
