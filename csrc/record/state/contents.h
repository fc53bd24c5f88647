// Questions about models and containers that need no more than what they hold.
#pragma once
#include "record/recorder.h"
#include "record/state/known_objects.h"

namespace pijit {

bool holds_dict(const Model& content);  // it is a dict, or an instance of a class derived from dict

// Iterators from the end: over a list, the index of the next item is counted from the end that it had at first.
bool is_reversed(const Model& iterator);
Py_ssize_t next_reversed(const Model& iterator);

// The list came in where the recording began in the middle of a function, and nothing but the frame holds it.
bool is_own_list(Recorder& recorder, Val value);

}  // namespace pijit
