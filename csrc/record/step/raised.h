// Exceptions that foreign code raised.
#pragma once
#include "record/recorder.h"

namespace pijit {

Val as_exception(Recorder&, Val value, PyObject* object);
bool is_handled(const FrameStack&);
bool take_raised(Recorder&, PyObject* object);
void take_split_group(Recorder&, ShadowFrame& frame);

}  // namespace pijit
