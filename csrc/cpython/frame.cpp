// Writing and entering frames.
#include "cpython/frame.h"

#include <cxxabi.h>
#include <opcode.h>
#include <unistd.h>

#include <vector>

#include "common/ref.h"
#include "cpython/entrance.h"

namespace pijit::cpython {

void park_thread() noexcept {
  for (;;) pause();
}

// Microseconds in which a thread that waits for the GIL wakes up and takes it.
constexpr useconds_t kWakeUp = 50;

void give_gil() noexcept {
  try {
    PyThreadState* ts = PyEval_SaveThread();
    usleep(kWakeUp);
    PyEval_RestoreThread(ts);
  } catch (abi::__forced_unwind&) {
    park_thread();
  }
}

void swap_slots(Frame* frame, PyObject** objects, int count) noexcept {
  Slot* slots = frame->localsplus;
  for (int i = 0; i < count; ++i) {
    PyObject* old = i < used_slots(frame) ? take(slots[i]) : nullptr;
    slots[i] = new_slot(objects[i]);
    objects[i] = old;
  }
  set_used_slots(frame, count);
}

#if PY_VERSION_HEX < 0x030c0000
bool follow_events_from_here(Frame* frame) noexcept {
  PyThreadState* ts = PyThreadState_Get();
  const LinkedFrame link(ts, frame);
  const Ref object = current_frame_object(ts);
  if (!object) return PyErr_Clear(), false;
  want_opcode_events(reinterpret_cast<PyFrameObject*>(object.get()));
  return true;
}
#endif

std::vector<Ref> take_stack(Frame* frame) {
  std::vector<Ref> taken;
  while (used_slots(frame) > local_count(frame)) taken.push_back(Ref::steal(pop(frame)));
  return taken;
}

#if PY_VERSION_HEX >= 0x030c0000
thread_local Evaluation* Evaluation::innermost_ = nullptr;

namespace {

// Gives a frame's object, if anything else holds it, the instruction back that the frame stands at now: the evaluator
// leaves there where it went through, which is no place in the code.
class KeptInstruction {
 public:
  explicit KeptInstruction(Frame* frame) noexcept : before_(stands_at(frame)) {
    if (is_held(frame)) object_ = Ref::borrow(reinterpret_cast<PyObject*>(frame->frame_obj));
  }
  ~KeptInstruction() {
    Frame* ended = object_ ? reinterpret_cast<PyFrameObject*>(object_.get())->f_frame : nullptr;
    if (ended != nullptr && ended->owner == FRAME_OWNED_BY_FRAME_OBJECT) stands_at(ended) = before_;
  }
  KeptInstruction(const KeptInstruction&) = delete;
  KeptInstruction& operator=(const KeptInstruction&) = delete;

 private:
  Ref object_;
  _Py_CODEUNIT* before_;
};

}  // namespace

// The frame returns through a RETURN_VALUE that is not its own, or (null) the error leaves it where it has not begun.
PyObject* Evaluation::take_off(PyThreadState* ts, PyObject* result) {
  // Before 3.13 a frame stands before the instruction that is next: there is one.
  static const _Py_CODEUNIT stub[] = {{.op = {NOP, 0}}, {.op = {RETURN_VALUE, 0}}};
  const KeptInstruction kept(frame_);
  if (result == nullptr) {
    stand_at(frame_, -1);
    return eval_default(ts, frame_, 1);
  }
  for (int i = local_count(frame_); i < used_slots(frame_); ++i)
    drop_reference(take(std::exchange(frame_->localsplus[i], new_slot(nullptr))));
  set_used_slots(frame_, local_count(frame_));
  push(frame_, result);
  stands_at(frame_) = const_cast<_Py_CODEUNIT*>(stub) + (PY_VERSION_HEX < 0x030d0000 ? 0 : 1);
  return eval_default(ts, frame_, 0);
}
#endif

#if PY_VERSION_HEX >= 0x030d0000
namespace {

// Drops what a handler takes off the stack, and leaves it the error.
void unwind_to(Frame* frame, int index, const Handler& handler) noexcept {
  Ref error = Ref::steal(PyErr_GetRaisedException());
  while (stack_depth(frame) > handler.depth) drop_reference(pop(frame));
  if (handler.push_lasti) push(frame, number_on_stack(index));
  push(frame, error.release());
  resume_at(frame, handler.target);
}

}  // namespace

// The evaluator looks for the handler of the unit before the one where a frame stands, since that is in the same
// expression as a call that raised. Where it would find another, what it does is done here, or, if there is none, the
// frame ends one unit further on, and the entry of the traceback is put back.
PyObject* eval_raising(PyThreadState* ts, Frame* frame) {
  const int index = instruction_index(frame);
  Handler handler{}, before{};
  const bool handled = find_handler(code(frame), index, &handler);
  if (handled == find_handler(code(frame), index - 1, &before) && handler == before) return eval_default(ts, frame, 1);
  if (handled) {
    {
      const LinkedFrame link(ts, frame);
      PyTraceBack_Here(reinterpret_cast<PyFrameObject*>(current_frame_object(ts).get()));
    }
    unwind_to(frame, index, handler);
    return eval_default(ts, frame, 0);
  }
  stand_at(frame, index + 1);
  PyObject* result = eval_default(ts, frame, 1);
  auto* error = reinterpret_cast<PyBaseExceptionObject*>(error_object(ts));
  auto* entry = error == nullptr ? nullptr : reinterpret_cast<PyTracebackObject*>(error->traceback);
  if (entry == nullptr) return result;
  entry->tb_lasti = index * static_cast<int>(sizeof(_Py_CODEUNIT));
  stand_at(frame_of(entry->tb_frame), index);
  return result;
}
#endif

void forget_caller(PyFrameObject* object) noexcept {
  drop_reference(reinterpret_cast<PyObject*>(std::exchange(object->f_back, nullptr)));
}

bool take_over(PyFrameObject* object, Frame* frame, std::vector<Ref>* held) {
  Frame* const ended = object->f_frame;
  if (frame->frame_obj != nullptr || ended->owner != FRAME_OWNED_BY_FRAME_OBJECT || code(ended) != code(frame))
    return false;
  if (frame->f_locals == nullptr) std::swap(frame->f_locals, ended->f_locals);
  const auto hold = [&](void* part) { held->push_back(Ref::steal(static_cast<PyObject*>(part))); };
  for (int i = 0; i < used_slots(ended); ++i) hold(take(ended->localsplus[i]));
  hold(ended->f_locals);
  hold(std::exchange(object->f_back, nullptr));
#if PY_VERSION_HEX >= 0x030e0000
  hold(take(ended->f_funcobj));
  hold(take(ended->f_executable));
#else
  hold(function(ended));
  hold(code(ended));
#endif
  PyObject_GC_UnTrack(object);  // as long as the thread owns the frame
  object->f_frame = frame;
  frame->frame_obj = reinterpret_cast<PyFrameObject*>(new_reference(reinterpret_cast<PyObject*>(object)));
  return true;
}

namespace {

// One frame that is about to be handed over. The hook is per interpreter, but from its installation to the entry of the
// frame no Python runs and the GIL is not given up (garbage collection is paused), so there is never more than one.
struct Handover {
  PyObject* function;  // the function of the frame; or
  Frame* frame;        // the frame of a generator
  EnterFrame enter;
  void* context;
  FrameEval hook;
  GcPause* pause;
  bool entered;
};
Handover* handover = nullptr;

PyObject* hand_over(PyThreadState* ts, Frame* frame, int throwflag) {
  Handover* now = handover;
  const bool wanted =
      now != nullptr && (now->frame != nullptr ? frame == now->frame : cpython::function(frame) == now->function);
  if (!wanted) return eval_default(ts, frame, throwflag);
  handover = nullptr;
  set_eval_frame(ts, now->hook);
  now->entered = true;
  now->pause->end();
  Evaluation evaluation(frame);
  return evaluation.finish(ts, now->enter(ts, frame, now->context));
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

PyObject* call_into_frame(PyThreadState* ts, PyObject* function, PyObject* const* arguments, size_t count,
                          PyObject* names, EnterFrame enter, void* context) {
  GcPause pause;
  Handover now{function, nullptr, enter, context, get_eval_frame(ts), &pause, false};
  handover = &now;
  set_eval_frame(ts, hand_over);
  PyObject* result = call_past_entrance(function, arguments, count, names);
  if (!now.entered) {
    handover = nullptr;
    set_eval_frame(ts, now.hook);
  }
  return result;
}

PyObject* call_into_new_frame(PyThreadState* ts, PyObject* function, EnterFrame enter, void* context) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  Placeholders arguments;
  if (!make_placeholders(code, &arguments)) return nullptr;
  return call_into_frame(ts, function, arguments.values.data(), static_cast<size_t>(code->co_argcount),
                         arguments.names.get(), enter, context);
}

namespace {

// `resume` has the generator resumed.
template <class Resume>
PyObject* enter_generator(PyThreadState* ts, PyObject* generator, EnterFrame enter, void* context, Resume resume) {
  GcPause pause;
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = FRAME_SUSPENDED;  // anything may be sent to it
  Handover now{nullptr, generator_frame(generator), enter, context, get_eval_frame(ts), &pause, false};
  handover = &now;
  set_eval_frame(ts, hand_over);
  PyObject* result = resume();
  if (!now.entered) {
    handover = nullptr;
    set_eval_frame(ts, now.hook);
  }
  return result;
}

}  // namespace

PyObject* eval_into_generator(PyThreadState* ts, Frame* frame, PyObject* generator, EnterFrame enter, void* context) {
  return enter_generator(ts, generator, enter, context, [&] { return eval_default(ts, frame, 0); });
}

PyObject* next_into_generator(PyThreadState* ts, PyObject* iterator, PyObject* generator, EnterFrame enter,
                              void* context, bool* ended) {
  PyObject* item =
      enter_generator(ts, generator, enter, context, [&] { return Py_TYPE(iterator)->tp_iternext(iterator); });
  *ended = item == nullptr && (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_StopIteration) != 0);
  if (*ended) PyErr_Clear();
  return item;
}

void drop_sent(Frame* frame) noexcept {
  PyErr_Clear();
  drop_reference(pop(frame));
}

int start_of_generator(PyCodeObject* code) noexcept {
  int at = first_traceable(code);
  while (operation_at(code, at) != Operation::kReturnGenerator) --at;
  return at;
}

PyObject* new_generator(PyThreadState* ts, PyObject* function) {
  return call_into_new_frame(
      ts, function,
      [](PyThreadState* state, Frame* frame, void*) {
        resume_at(frame, start_of_generator(code(frame)));
        return eval_default(state, frame, 0);
      },
      nullptr);
}

void suspend_generator(PyObject* generator, PyObject** objects, int count, int resume, PyObject* handled) noexcept {
  Frame* frame = generator_frame(generator);
  swap_slots(frame, objects, count);
  resume_at(frame, resume);
  const bool begun = resume > start_of_generator(code(frame)) + 1;
  int state = begun ? FRAME_SUSPENDED : FRAME_CREATED;
#if PY_VERSION_HEX >= 0x030d0000
  if (begun && oparg(code(frame), resume - 1) != 0) state = FRAME_SUSPENDED_YIELD_FROM;
#endif
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = static_cast<int8_t>(state);
  if (handled != nullptr) reinterpret_cast<PyGenObject*>(generator)->gi_exc_state.exc_value = new_reference(handled);
}

void end_generator(PyObject* generator) noexcept {
  SavedError error;
  Ref closed = Ref::steal(PyObject_CallMethod(generator, "close", nullptr));
  if (!closed) PyErr_Clear();
}

bool is_at_rest(PyObject* generator, Py_ssize_t holders) noexcept {
  const auto& object = *reinterpret_cast<PyGenObject*>(generator);
  const bool yielded = object.gi_frame_state < FRAME_EXECUTING && object.gi_frame_state != FRAME_CREATED;
  return yielded && Py_REFCNT(generator) == holders && object.gi_weakreflist == nullptr &&
         object.gi_exc_state.exc_value == nullptr && !is_held(generator_frame(generator));
}

void empty_generator(PyObject* generator) noexcept {
  Frame* frame = generator_frame(generator);
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = FRAME_COMPLETED;
  const int count = used_slots(frame);
  for (int i = 0; i < count; ++i) drop_reference(take_slot(frame, i));
  set_used_slots(frame, local_count(frame));
  resume_at(frame, start_of_generator(code(frame)) + 1);  // where nothing is looked for on the stack
}

void end_emptied_generator(PyObject* generator) noexcept {
  reinterpret_cast<PyGenObject*>(generator)->gi_frame_state = FRAME_CREATED;
  end_generator(generator);
}

}  // namespace pijit::cpython
