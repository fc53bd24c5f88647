// The recorder's clock: an event before every instruction of the frames that it follows.
//
// A listener is a class with three static functions: whether it listens (on this thread), what it does before an
// instruction of a frame, and what it does when an exception arose in a frame. event_function<Listener> is what CPython
// calls. CPython 3.11 has it as the thread's trace function, 3.12 as a callback of sys.monitoring.
#pragma once
#include "cpython/internals.h"

#if PY_VERSION_HEX >= 0x030c0000
#include "cpython/events_312.h"
#else
#include "cpython/events_311.h"
#endif
