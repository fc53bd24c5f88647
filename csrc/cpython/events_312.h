// Events of CPython 3.12 and later: INSTRUCTION events of sys.monitoring, local to the code that is followed, from a C
// callable.
//
// 1. Up to 3.13 the evaluator keeps its stack pointer to itself at these events. The depth of the stack is a fact of
// the code (static_depth), and the frame has it as long as the listener looks.
// 2. EXTENDED_ARG and the unit after it have an event each; the listener hears of the first.
// 3. Exceptions have no local event: the first instruction of a handler tells of them.
// 4. Code that other threads or other frames run too has events there; the listener looks at the frame.
// 5. When two tools have the same event for the first time in code, be it LINE or another one, and be it that of a
// thread that is traced, CPython begins to note the tools of each instruction. It does not note those that have
// INSTRUCTION events by then: these are lost.
#pragma once
#include <utility>
#include <vector>

#include "common/ref.h"
#include "cpython/bytecode.h"
#include "cpython/frame_view.h"
#include "cpython/internals.h"

namespace pijit::cpython {

using EventFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
inline constexpr bool kExceptionsAreSilent = true;
// References to an exception that nothing but the stack, or the error that is set, holds.
inline constexpr Py_ssize_t kExceptionHeldByEvent = 1;

#if PY_VERSION_HEX < 0x030e0000
// Depth of the stack before an instruction; -1: it is never reached.
int static_depth(PyCodeObject* code, int index) noexcept;
#endif
// The instruction begins an exception handler.
bool begins_handler(PyCodeObject* code, int index) noexcept;

// What this thread has of events.
struct Events {
  EventFunction function = nullptr;
  _PyInterpreterFrame* frame = nullptr;  // of the last event
  int index = -1;
};
Events& thread_events() noexcept;

// The frame has its stack depth. Must nest like C scopes.
class StackSeen {
 public:
#if PY_VERSION_HEX >= 0x030e0000
  explicit StackSeen(_PyInterpreterFrame*) noexcept {}
#else
  explicit StackSeen(_PyInterpreterFrame* frame) noexcept : frame_(frame), before_(frame->stacktop) {
    const int depth = static_depth(code(frame), instruction_index(frame));
    frame->stacktop = depth < 0 ? before_ : local_count(frame) + depth;
  }
  ~StackSeen() { frame_->stacktop = before_; }
  StackSeen(const StackSeen&) = delete;
  StackSeen& operator=(const StackSeen&) = delete;

 private:
  _PyInterpreterFrame* frame_;
  int before_;
#endif
};

template <class Listener>
PyObject* event_function(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  _PyInterpreterFrame* frame = current_frame(PyThreadState_Get());
  if (Listener::listens() && reinterpret_cast<PyObject*>(code(frame)) == arguments[0]) {
    Events& events = thread_events();
    const int index = instruction_index(frame);
    const bool extended = events.frame == frame && events.index == index - 1 &&
                          operation_at(code(frame), index - 1) == Operation::kExtend;
    events.frame = frame;
    events.index = index;
    if (!extended) {
      const StackSeen seen(frame);
      Listener::instruction(frame);
    }
  }
  Py_RETURN_NONE;
}

// A tool of sys.monitoring hears of all code: cProfile, coverage. sys.settrace and sys.setprofile are told apart by
// thread.
inline int monitoring_tools(PyThreadState* ts) noexcept {
  constexpr int kOfThreads = (1 << PY_MONITORING_SYS_PROFILE_ID) | (1 << PY_MONITORING_SYS_TRACE_ID);
  int tools = 0;
  for (uint8_t of_event : ts->interp->monitors.tools) tools |= of_event;
  return tools & ~kOfThreads;
}
inline bool monitored(PyThreadState* ts) noexcept {
  return monitoring_tools(ts) != 0;
}
// Its name, or what else it gave for one; null: there is none.
Ref monitoring_tool(PyThreadState* ts) noexcept;
// Nobody traces or profiles this thread.
inline bool untraced(PyThreadState* ts) noexcept {
  return ts->c_tracefunc == nullptr && ts->c_profilefunc == nullptr && ts->tracing == 0 && !monitored(ts);
}
inline bool events_are(PyThreadState*, EventFunction function) noexcept {
  return thread_events().function == function;
}
// `function` hears of this thread's events (null: nobody does), and nobody traces or profiles it.
inline bool only_events_are(PyThreadState* ts, EventFunction function) noexcept {
  return events_are(ts, function) && ts->c_tracefunc == nullptr && ts->c_profilefunc == nullptr && !monitored(ts);
}
// Frames that are followed from now on report to `function`. False: somebody traces, or no tool of sys.monitoring is
// free.
bool start_events(PyThreadState* ts, EventFunction function) noexcept;
// No code that this thread follows has events any more.
void stop_events(PyThreadState* ts) noexcept;
inline void detach_events(PyThreadState*) noexcept {
  thread_events().function = nullptr;
}
inline void attach_events(PyThreadState*, EventFunction function) noexcept {
  thread_events().function = function;
}
// What this thread has of events is another recording's while this lives; begins and ends while they are detached.
class EventsAside {
 public:
  EventsAside() noexcept;
  ~EventsAside();
  EventsAside(const EventsAside&) = delete;
  EventsAside& operator=(const EventsAside&) = delete;

 private:
  Events events_;
  std::vector<PyCodeObject*> followed_;
};
// CPython keeps all events from what an audit hook runs; a hook that is followed has ours. Must nest like C scopes.
inline constexpr bool kHooksHaveEvents = true;
class EventsInHook {
 public:
  explicit EventsInHook(PyThreadState* ts) noexcept : ts_(ts), before_(std::exchange(ts->tracing, 0)) {}
  ~EventsInHook() { ts_->tracing = before_; }
  EventsInHook(const EventsInHook&) = delete;
  EventsInHook& operator=(const EventsInHook&) = delete;

 private:
  PyThreadState* ts_;
  int before_;
};
// The code has LINE events, too, which HandBack::note_event hears of; each call of the one is ended by one of the
// other. False: there are none, and nothing is to be ended.
bool want_line_events(PyCodeObject* code) noexcept;
void end_line_events(PyCodeObject* code) noexcept;
// The code that is followed still has events. Once it has lost them it has none until nobody follows it.
bool has_events(PyCodeObject* code) noexcept;
// The frame, which has not begun, will have events. False: it cannot.
bool follow_events(_PyInterpreterFrame* frame) noexcept;
// The same for a frame that stands in its middle.
inline bool follow_events_from_here(_PyInterpreterFrame* frame) noexcept {
  return follow_events(frame);
}
// The frame, which runs, is not listened to any more; its code may be that of another one.
inline void unfollow_events(_PyInterpreterFrame*) noexcept {}
// The instruction of the frame's event begins a handler: an exception arose before it.
inline bool stands_in_handler(_PyInterpreterFrame* frame) noexcept {
  return begins_handler(code(frame), instruction_index(frame));
}

}  // namespace pijit::cpython
