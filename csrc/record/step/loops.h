// Loops that are long get traces of their own.
#pragma once
#include "record/recorder.h"

namespace pijit {

Py_ssize_t items_left(Heap&, Val iterator);
bool leaves_loop(Recorder&, ShadowFrame& frame);
void leave_loop(Recorder&);

}  // namespace pijit
