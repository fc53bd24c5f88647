// Makes the frames that have ended, from the outermost inwards, and the entries of tracebacks.
#include "exec/tracebacks.h"

namespace pijit {

void chain_exception(PyObject* exception, PyObject* handled) noexcept {
  if (handled == nullptr || handled == Py_None || handled == exception) return;
  PyObject *at = handled, *slow = handled;  // a chain may come back to somewhere else
  for (bool step = false;; step = !step) {
    const Ref context = Ref::steal(PyException_GetContext(at));
    if (context.get() == exception) PyException_SetContext(at, nullptr);
    if (!context || context.get() == exception || context.get() == slow) break;
    at = context.get();  // its owner keeps it
    if (step) slow = Ref::steal(PyException_GetContext(slow)).get();
  }
  PyException_SetContext(exception, new_reference(handled));
}

PyObject* Tracebacks::enter(PyThreadState* ts, cpython::Frame* frame, void* call) {
  const auto [tracebacks, ended] = *static_cast<Call*>(call);
  cpython::swap_slots(frame, ended->variables.data(), static_cast<int>(ended->variables.size()));
  cpython::stand_at(frame, ended->instruction);
  bool made;
  {
    cpython::LinkedFrame link(ts, frame);
    tracebacks->objects_[ended->self] = cpython::current_frame_object(ts);
    made = tracebacks->make_frames_under(ts, ended->self);
  }
  if (ended->caller == kNone) frame->previous = nullptr;
  return made ? new_reference(Py_None) : nullptr;
}

// The frames that have ended and were called by that frame, which is the thread's current one.
bool Tracebacks::make_frames_under(PyThreadState* ts, uint32_t caller) noexcept {
  for (EndedFrame& frame : ended_) {
    if (frame.caller != caller) continue;
    Call call{this, &frame};
    if (!Ref::steal(cpython::call_into_new_frame(ts, frame.function.get(), enter, &call))) return false;
    if (caller == kNone) cpython::forget_caller(reinterpret_cast<PyFrameObject*>(objects_[frame.self].get()));
  }
  return true;
}

bool Tracebacks::add_entry(PyObject* exception, uint32_t frame, int instruction) noexcept {
  auto* made = PyObject_GC_New(PyTracebackObject, &PyTraceBack_Type);
  if (made == nullptr) return false;
  Ref before = Ref::steal(PyException_GetTraceback(exception));  // None where it was taken away
  if (before.get() == Py_None) before = Ref();
  made->tb_next = reinterpret_cast<PyTracebackObject*>(before.release());
  made->tb_frame = nullptr;
  made->tb_lasti = instruction * 2;
  made->tb_lineno = 0;
  auto* object = reinterpret_cast<PyObject*>(made);
  entries_.push_back({Ref::borrow(exception), Ref::steal(object), frame});
  return PyException_SetTraceback(exception, object) == 0;
}

Tracebacks::~Tracebacks() {
  for (const Entry& entry : entries_) PyException_SetTraceback(entry.exception.get(), Py_None);
}

bool Tracebacks::complete(const Entry& entry) noexcept {
  const auto frame = objects_.find(entry.frame);
  if (frame == objects_.end() || !frame->second) {
    PyErr_SetString(PyExc_SystemError, "pijit: the frame of a traceback is gone");
    return false;
  }
  auto* of = reinterpret_cast<PyFrameObject*>(frame->second.get());
  auto* made = reinterpret_cast<PyTracebackObject*>(entry.traceback.get());
  made->tb_frame = reinterpret_cast<PyFrameObject*>(new_reference(frame->second.get()));
  made->tb_lineno = cpython::line_of(cpython::code(cpython::frame_of(of)), made->tb_lasti / 2);
  PyObject_GC_Track(made);
  return true;
}

bool Tracebacks::find_frames_under(PyThreadState* ts, StandingFrame frame) noexcept {
  const cpython::CurrentFrame current(ts, frame.frame);
  objects_[frame.self] = cpython::current_frame_object(ts);
  return make_frames_under(ts, frame.self);
}

bool Tracebacks::attach(PyThreadState* ts, const std::vector<StandingFrame>& standing) noexcept {
  if (entries_.empty()) return true;
  cpython::GcPause pause;
  for (const StandingFrame& frame : standing)
    if (!find_frames_under(ts, frame)) return false;
  for (const auto& [self, generator] : generators_)
    if (objects_.count(self) == 0 && !find_frames_under(ts, {self, cpython::generator_frame(generator.get())}))
      return false;
  if (!make_frames_under(ts, kNone)) return false;
  for (const Entry& entry : entries_)
    if (!complete(entry)) return false;
  // The tracebacks have the frames now: what they hold dies with them.
  entries_.clear();
  objects_.clear();
  ended_.clear();
  generators_.clear();  // one that is dropped now dies now
  return true;
}

}  // namespace pijit
