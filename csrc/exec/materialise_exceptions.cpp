// Builds exceptions, and collects the frames that their tracebacks name.
#include "exec/materialise.h"

namespace pijit {

using namespace exception_field;

namespace {

enum FrameField : uint32_t { kFunction, kCaller, kGenerator };

}  // namespace

// Its first field has the arguments of tp_new, or the exception itself.
PyObject* Materialiser::make_exception(const Virtual& object) noexcept {
  PyObject* args = object.head == kNone ? nullptr : borrow(trace_.log[object.head].value);
  if (args != nullptr && trace_.log[object.head].index == kTaken) return new_reference(args);
  return args == nullptr ? nullptr : object.type->tp_new(object.type, args, nullptr);
}

bool Materialiser::apply_exception(const Virtual& object, PyObject* made, const LogEntry& entry,
                                   uint32_t* position) noexcept {
  if ((*position)++ == 0) return true;
  PyObject* value = borrow(entry.value);
  if (value == nullptr) return false;
  if (entry.op == LogOp::kTraced)
    return tracebacks_.add_entry(made, entry.value.index(), static_cast<int>(entry.index));
  switch (entry.index) {
    case kArgs:
      return PyObject_SetAttrString(made, "args", value) == 0;
    case kInitArgs:
      return cpython::builtin_init(object.type)(made, value, nullptr) == 0;
    case kCause:
      PyException_SetCause(made, value == Py_None ? nullptr : new_reference(value));
      return true;
    case kBase:
      return PyException_SetTraceback(made, value) == 0;
    default: {
      const bool handled =
          entry.value.is_virtual() && trace_.virtuals[entry.value.index()].kind == VirtualKind::kHandled;
      chain_exception(made, handled ? cpython::topmost_exception(PyThreadState_Get()) : value);
      return true;
    }
  }
}

// The exception's traceback as it was after so many entries.
PyObject* Materialiser::make_traceback(const Virtual& object) noexcept {
  const LogEntry& of = trace_.log[object.head];
  PyObject* exception = borrow(of.value);
  if (exception == nullptr) return nullptr;
  const Virtual& raised = trace_.virtuals[of.value.index()];
  const uint32_t until = raised.is_real(time_) ? raised.reg_time : time_;
  uint32_t entries = 0;
  for (uint32_t at = raised.head; at != kNone && trace_.log[at].time <= until; at = trace_.log[at].next)
    entries += trace_.entries_of(trace_.log[at]);
  Ref found = Ref::steal(PyException_GetTraceback(exception));
  for (uint32_t k = trace_.log[object.tail].index; k < entries && found; ++k)
    found = Ref::borrow(reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(found.get())->tb_next));
  if (!found) PyErr_SetString(PyExc_SystemError, "pijit: a traceback is gone");
  return found.release();
}

bool Materialiser::collect_frames() noexcept {
  for (size_t i = 0; i < frames_.size(); ++i)
    if (!collect_frame(*frames_[i])) return false;
  frames_.clear();
  return true;
}

bool Materialiser::collect_frame(const Virtual& object) noexcept {
  EndedFrame frame;
  frame.self = static_cast<uint32_t>(&object - trace_.virtuals.data());
  frame.caller = kNone;
  Ref generator;
  bool ended = false;
  const bool ok = each(object, [&](const LogEntry& entry) {
    bool made = true;
    PyObject* value = borrow_optional(entry.value, &made);
    if (entry.op == LogOp::kItem) frame.variables.push_back(new_reference(value));
    if (entry.op == LogOp::kIndex) {
      ended = true;
      frame.instruction = static_cast<int>(entry.index);
    }
    if (entry.op != LogOp::kField) return made;
    if (entry.index == kFunction) frame.function = Ref::borrow(value);
    if (entry.index == kGenerator) generator = Ref::borrow(value);
    if (entry.index == kCaller && !entry.value.is_null()) frame.caller = entry.value.index();
    return made;
  });
  if (ok && !ended && generator) tracebacks_.add_generator(frame.self, std::move(generator));
  if (ok && ended) tracebacks_.add_frame(std::move(frame));
  return ok;
}

}  // namespace pijit
