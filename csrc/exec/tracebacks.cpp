// Makes the frames that have ended, from the outermost inwards, and the entries of tracebacks.
#include "exec/tracebacks.h"

namespace pijit {

void chain_exception(PyObject* exception, PyObject* handled) noexcept {
  if (handled == nullptr || handled == Py_None || handled == exception) return;
  PyObject* at = handled;
  while (const Ref context = Ref::steal(PyException_GetContext(at))) {
    if (context.get() == exception) {
      PyException_SetContext(at, nullptr);
      break;
    }
    at = context.get();  // its owner keeps it
  }
  PyException_SetContext(exception, new_reference(handled));
}

PyObject* Tracebacks::enter(PyThreadState* ts, cpython::Frame* frame, void* call) {
  const auto [tracebacks, ended] = *static_cast<Call*>(call);
  cpython::swap_slots(frame, ended->variables.data(), static_cast<int>(ended->variables.size()));
  cpython::stand_at(frame, ended->instruction);
  cpython::LinkedFrame link(ts, frame);
  tracebacks->objects_[ended->self] = cpython::current_frame_object(ts);
  return tracebacks->make_frames_under(ts, ended->self) ? new_reference(Py_None) : nullptr;
}

// The frames that have ended and were called by that frame, which is the thread's current one.
bool Tracebacks::make_frames_under(PyThreadState* ts, uint32_t caller) noexcept {
  for (EndedFrame& frame : ended_) {
    if (frame.caller != caller) continue;
    Call call{this, &frame};
    if (!Ref::steal(cpython::call_into_new_frame(ts, frame.function.get(), enter, &call))) return false;
  }
  return true;
}

bool Tracebacks::add(const Entry& entry) noexcept {
  const auto frame = objects_.find(entry.frame);
  if (frame == objects_.end() || !frame->second) return true;
  const Ref next = Ref::steal(PyException_GetTraceback(entry.exception.get()));
  const Ref code =
      Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame->second.get()))));
  const int line = cpython::line_of(reinterpret_cast<PyCodeObject*>(code.get()), entry.instruction);
  const Ref made =
      Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                       next ? next.get() : Py_None, frame->second.get(), entry.instruction * 2, line));
  return made && PyException_SetTraceback(entry.exception.get(), made.get()) == 0;
}

bool Tracebacks::attach(PyThreadState* ts, const std::vector<StandingFrame>& standing) noexcept {
  if (entries_.empty()) return true;
  cpython::GcPause pause;
  for (const StandingFrame& frame : standing) {
    const cpython::CurrentFrame current(ts, frame.frame);
    objects_[frame.self] = cpython::current_frame_object(ts);
    if (!make_frames_under(ts, frame.self)) return false;
  }
  for (const Entry& entry : entries_)
    if (!add(entry)) return false;
  entries_.clear();
  return true;
}

}  // namespace pijit
