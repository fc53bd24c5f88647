// Generators that die, and frames of foreign code.
#pragma once
#include "record/recorder.h"

namespace pijit {

void note_foreign(Recorder&, cpython::Frame* frame);
void drop_generator(Recorder&, cpython::Frame* frame);

void note_return(Recorder&);  // of a frame: see end_at_return

}  // namespace pijit
