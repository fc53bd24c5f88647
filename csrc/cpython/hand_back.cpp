// Moves a frame to where it returns, and takes out of it what it holds.
#include "cpython/hand_back.h"

#include <new>

namespace pijit::cpython {
namespace {

// An instruction that returns; -1: the code has none, such as where a loop never ends.
int return_index(PyCodeObject* code) noexcept {
  for (int start = 0, at = 0; start < unit_count(code); start = at = next_index(code, at)) {
    const Operation now = decode(code, &at).operation;
    if (now == Operation::kReturn || now == Operation::kReturnConst) return start;
  }
  return -1;
}

}  // namespace

thread_local HandBack* HandBack::innermost_ = nullptr;
thread_local int HandBack::nested_ = 0;

#if PY_VERSION_HEX < 0x030c0000
void move_if_asked(_PyInterpreterFrame* frame) noexcept {
  HandBack::note_event(frame);
}

namespace {

// The frame of this thread that was asked for from within a call; null: none was.
thread_local Frame* t_asked = nullptr;

// The trace function of such a frame.
int on_turn(PyObject*, PyFrameObject* object, int what, PyObject*) {
  if (what == PyTrace_OPCODE && object->f_frame == t_asked) HandBack::note_event(object->f_frame);
  return 0;
}

void await_turn(Frame* frame) noexcept {
  t_asked = frame;
  TurnEventsAside::asked_frames += 1;
}

// The frame has no events any more, wherever in it that is; a trace function that the program has set stays.
void end_turn(PyThreadState* ts) noexcept {
  restore_trace_flags(std::exchange(t_asked, nullptr));
  TurnEventsAside::asked_frames -= 1;
  if (events_are(ts, on_turn)) stop_events(ts);
}

}  // namespace

void TurnEventsAside::detach() noexcept {
  if (t_asked != nullptr && events_are(ts_, on_turn)) detach_events(ts_);
}

void TurnEventsAside::attach() noexcept {
  if (t_asked == nullptr || t_asked != current_frame(ts_)) return;
  if (!untraced(ts_)) return end_turn(ts_);  // a debugger that the call has set sees the frame's lines
  const SavedError error;
  const Ref object = current_frame_object(ts_);
  if (!object) return PyErr_Clear();
  want_opcode_events(reinterpret_cast<PyFrameObject*>(object.get()));
  attach_events(ts_, on_turn);
}
#endif

HandBack::~HandBack() {
  innermost_ = outer_;
#if PY_VERSION_HEX >= 0x030c0000
  if (asked_ >= 0 && !done_) end_line_events(reinterpret_cast<PyCodeObject*>(code_.get()));
#else
  if (only_ >= 0 && t_asked == frame_) end_turn(PyThreadState_Get());
#endif
  for (PyObject* object : slots_) drop_reference(object);
}

HandBack* HandBack::ask(Frame* frame) noexcept {
  HandBack* const at = innermost_;
  if (at == nullptr || at->frame_ != frame || at->asked_ >= 0 || nested_ >= kMostNested || is_generator_frame(frame))
    return nullptr;
#if PY_VERSION_HEX >= 0x030c0000
  at->code_ = Ref::borrow(reinterpret_cast<PyObject*>(code(frame)));
  if (!want_line_events(code(frame))) return nullptr;
#endif
  at->asked_ = instruction_index(frame);
  return at;
}

bool HandBack::ask_at(PyThreadState* ts, int head) noexcept {
  if (innermost_ != this || asked_ >= 0 || nested_ >= kMostNested || is_generator_frame(frame_) || !untraced(ts))
    return false;
#if PY_VERSION_HEX >= 0x030c0000
  code_ = Ref::borrow(reinterpret_cast<PyObject*>(code(frame_)));
  if (!want_line_events(code(frame_))) return false;
#else
  if (t_asked != nullptr) return false;
  await_turn(frame_);
#endif
  asked_ = only_ = head;
  return true;
}

void HandBack::note_event(Frame* frame) noexcept {
  HandBack* const at = innermost_;
  if (at == nullptr || at->asked_ < 0 || at->done_ || at->frame_ != frame) return;
  if (!at->moves(instruction_index(frame))) return;
  at->done_ = true;
#if PY_VERSION_HEX < 0x030c0000
  if (at->only_ >= 0) end_turn(PyThreadState_Get());
#endif
}

bool HandBack::moves(int index) noexcept {
  PyCodeObject* const of = code(frame_);
  if (only_ >= 0 && index != only_) return false;
  const bool around = index <= asked_ && loop_end(of, index) >= asked_;
  if (!around || is_held(frame_) || PyFunction_GET_CODE(function(frame_)) != reinterpret_cast<PyObject*>(of))
    return false;
  const int end = return_index(of);
  if (end < 0) return false;
  head_ = index;
#if PY_VERSION_HEX >= 0x030c0000
  PyThreadState* const ts = PyThreadState_Get();  // which is at an event
  if (ts->c_tracefunc != nullptr || ts->c_profilefunc != nullptr || monitored(ts)) return false;
  function_ = Ref::borrow(function(frame_));
  const int used = used_slots(frame_);
  try {
    slots_.reserve(static_cast<size_t>(used));
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (int i = 0; i < used; ++i) slots_.push_back(take_slot(frame_, i));
  set_used_slots(frame_, local_count(frame_));
  end_line_events(of);
#endif
  if (operation_at(of, end) == Operation::kReturn) push(frame_, new_reference(Py_None));
  stand_at(frame_, end);
  return true;
}

PyObject* HandBack::go_on(PyThreadState* ts, EnterFrame enter, void* context) {
#if PY_VERSION_HEX >= 0x030c0000
  struct Parts {
    HandBack* back;
    EnterFrame enter;
    void* context;
  } parts{this, enter, context};
  nested_ += 1;
  PyObject* result = call_into_new_frame(
      ts, function_.get(),
      [](PyThreadState* state, Frame* frame, void* given) {
        const Parts& what = *static_cast<Parts*>(given);
        std::vector<PyObject*> slots = std::exchange(what.back->slots_, {});
        const std::vector<Ref> stack = take_stack(frame);
        swap_slots(frame, slots.data(), static_cast<int>(slots.size()));
        for (PyObject* object : slots) drop_reference(object);
        resume_at(frame, what.back->head_);
        return what.enter(state, frame, what.context);
      },
      &parts);
  nested_ -= 1;
  return result;
#else
  resume_at(frame_, head_);
  return enter(ts, frame_, context);
#endif
}

}  // namespace pijit::cpython
