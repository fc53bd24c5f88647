// Where foreign code has run: what it may have changed is read anew.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Foreign code looked at the variables of a followed frame; true: stopped.
bool locals_were_seen(Recorder&);
void begin_epoch(Recorder&);
// A generator's frame that nobody runs is found through what it has.
void note_suspended(Heap&, uint32_t generator);

}  // namespace pijit
