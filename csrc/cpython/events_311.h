// Events of CPython 3.11: the thread's trace function, switched on and off without sys.settrace's audit event, and
// without a trace object.
//
// A C frame of the evaluator (_PyCFrame) has its own copy of "tracing is on", inherited inwards on entry and outwards
// on return; so ending the events means clearing the copies of all live ones.
#pragma once
#include "common/ref.h"
#include "cpython/internals.h"

namespace pijit::cpython {

using EventFunction = Py_tracefunc;
// Every exception that arises in a frame is told at once.
inline constexpr bool kExceptionsAreSilent = false;
// References to an exception that nothing but its event holds.
inline constexpr Py_ssize_t kExceptionHeldByEvent = 2;

// The event switches of a frame object.
struct EventFlags {
  char lines, opcodes;
};
inline EventFlags event_flags(PyFrameObject* frame) noexcept {
  return {frame->f_trace_lines, frame->f_trace_opcodes};
}
inline void set_event_flags(PyFrameObject* frame, EventFlags flags) noexcept {
  frame->f_trace_lines = flags.lines;
  frame->f_trace_opcodes = flags.opcodes;
}
// What a frame object is born with, and what a recorder wants.
inline constexpr EventFlags kDefaultEvents{1, 0};
inline constexpr EventFlags kOpcodeEvents{0, 1};
inline void want_opcode_events(PyFrameObject* frame) noexcept {
  set_event_flags(frame, kOpcodeEvents);
}
// Gives a frame its birth flags back, if a frame object was made for it.
inline void restore_trace_flags(_PyInterpreterFrame* frame) noexcept {
  if (frame->frame_obj != nullptr) set_event_flags(frame->frame_obj, kDefaultEvents);
}

// The frame of the event may have been asked for there (hand_back.h).
void move_if_asked(_PyInterpreterFrame* frame) noexcept;

template <class Listener>
int event_function(PyObject*, PyFrameObject* object, int what, PyObject* argument) {
  if (!Listener::listens()) return 0;
  if (what == PyTrace_OPCODE) {
    Listener::instruction(object->f_frame);
    move_if_asked(object->f_frame);
  } else if (what == PyTrace_CALL) {
    set_event_flags(object, kOpcodeEvents);
  } else if (what == PyTrace_EXCEPTION) {
    Listener::exception(object->f_frame, PyTuple_GET_ITEM(argument, 1));
  }
  return 0;
}

// There are no tools that hear of all threads.
inline Ref monitoring_tool(PyThreadState*) noexcept {
  return Ref();
}
// Nobody traces or profiles this thread.
inline bool untraced(PyThreadState* ts) noexcept {
  return ts->c_tracefunc == nullptr && ts->c_profilefunc == nullptr && ts->tracing == 0;
}
inline bool events_are(PyThreadState* ts, EventFunction function) noexcept {
  return ts->c_tracefunc == function;
}
// `function` traces this thread (null: nobody does), and nobody profiles it.
inline bool only_events_are(PyThreadState* ts, EventFunction function) noexcept {
  return events_are(ts, function) && ts->c_profilefunc == nullptr;
}

// Frames entered from now on, and those of the evaluator on top, report to `function`. False: somebody else traces.
inline bool start_events(PyThreadState* ts, EventFunction function) noexcept {
  if (!untraced(ts)) return false;
  ts->c_tracefunc = function;
  ts->c_traceobj = nullptr;
  ts->cframe->use_tracing = 255;
  return true;
}

// Call only while our function traces, or is detached and nobody traces; may be called inside the trace function.
inline void stop_events(PyThreadState* ts) noexcept {
  ts->c_tracefunc = nullptr;
  ts->c_traceobj = nullptr;
  const uint8_t state = ts->c_profilefunc != nullptr ? 255 : 0;
  for (_PyCFrame* frame = ts->cframe; frame != nullptr; frame = frame->previous) frame->use_tracing = state;
}

// The frames that are entered from now on, and what the evaluator on top does next, are as if nobody had traced them:
// a tracer or profiler that the program switches on there is the thread's. Counting `tracing` up instead would keep it
// from every event. The C frames further out still say that tracing is on; each hears from the one inside when that
// returns.
inline void detach_events(PyThreadState* ts) noexcept {
  ts->c_tracefunc = nullptr;
  ts->c_traceobj = nullptr;
  ts->cframe->use_tracing = ts->c_profilefunc != nullptr ? 255 : 0;
}
// The evaluator on top goes on reporting to `function`. Call only while nobody traces.
inline void attach_events(PyThreadState* ts, EventFunction function) noexcept {
  ts->c_tracefunc = function;
  ts->cframe->use_tracing = 255;
}
// What this thread has of events is another recording's while this lives; begins and ends while they are detached.
class EventsAside {
 public:
  EventsAside() noexcept {}
};
// What an audit hook runs has no events.
inline constexpr bool kHooksHaveEvents = false;
class EventsInHook {
 public:
  explicit EventsInHook(PyThreadState*) noexcept {}
};

// The code of a frame that is followed still has them.
inline bool has_events(PyCodeObject*) noexcept {
  return true;
}
// The frame, which has not begun, will have events: PyTrace_CALL switches them on. False: it cannot.
inline bool follow_events(_PyInterpreterFrame*) noexcept {
  return true;
}
// The same for a frame that stands in its middle: it is told of no call.
bool follow_events_from_here(_PyInterpreterFrame* frame) noexcept;  // frame.cpp
// The frame, which runs, has none any more.
inline void unfollow_events(_PyInterpreterFrame* frame) noexcept {
  restore_trace_flags(frame);
}
// An exception has just been handled in the frame without having been told.
inline bool stands_in_handler(_PyInterpreterFrame*) noexcept {
  return false;
}

}  // namespace pijit::cpython
