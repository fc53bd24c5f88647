// Items at a place that differs from call to call.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Each is false where the place is to be fixed: there is one trace for each then.
bool load_open_item(Recorder&, ShadowFrame& frame, Val container, Val key, int pops);
bool look_for_open_key(Recorder&, ShadowFrame& frame, Val container, Val key, int pops, bool invert);
// An item under a weak reference that the trace has made: of a WeakKeyDictionary, as functools.singledispatch has one.
bool find_by_reference(Recorder&, Val container, Val reference, Val* item);
bool stores_open_item(Recorder&, Val container, Val key);  // the write is to be an opaque call

}  // namespace pijit
