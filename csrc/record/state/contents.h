// What containers hold, virtual ones and those that existed before.
#pragma once
#include "record/recorder.h"
#include "record/state/known_objects.h"

namespace pijit {

bool holds_dict(const Model& content);  // it is a dict, or an instance of a class derived from dict
const family::Attributes* attributes_of(Heap&, const Model& dict);

// Iterators from the end: over a list, the index of the next item is counted from the end that it had at first.
bool is_reversed(const Model& iterator);
Py_ssize_t next_reversed(const Model& iterator);

// The list came in where the recording began in the middle of a function, and nothing but the frame holds it.
bool is_own_list(Heap& heap, Val value);

// Read under guards where they existed before. False, -1: not known.
bool dict_content(Recorder&, Val dict, Objects* keys, Vals* values);
bool merge_content(Recorder&, Val mapping, Objects* keys, Vals* values);
bool try_items(Recorder&, Val iterable, Vals* out);
Py_ssize_t count_items(Recorder&, Val sequence);
// Which an iterator over a dict, set or deque compares; -1: it does not.
Py_ssize_t iterated_size(Recorder&, Val source);
bool has_first_size(Recorder&, const Model& iterator);
int item_at(Recorder&, Val source, size_t position, bool reversed, Val* item);
int entry_at(Recorder&, Val dict, size_t position, bool reversed, PyObject** key, Val* value);
// Start, stop and step, as PySlice_Unpack gives.
bool slice_bounds(Recorder&, const Operand fields[3], Py_ssize_t bounds[3]);

}  // namespace pijit
