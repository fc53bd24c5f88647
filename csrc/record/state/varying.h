// Places that vary: what they hold differs from call to call.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Objects that are known by kind (kinds.cpp).
Val list_by_kind(Recorder&, PyObject* list);  // one whose items differ from call to call; Null: it is none
// A dict whose keys and order, and maybe items, are read. If it holds what differs from call to call, its items are read
// one by one (by_item), each as find_item reads it.
bool read_keys(Recorder&, PyObject* dict, bool* by_item);
bool is_read(Recorder&, PyObject* container, PyObject* key);
bool has_other_items(const Recorder&, const Model& list);
bool changes_kind(const Recorder&, PyObject* old, Val value);
bool may_load(Recorder&, PyObject* object, int depth, Py_ssize_t* room);
Val take_by_kind(Recorder&, PyObject* object, const Guard& load);

// Places (varying.cpp).
int find_item(Recorder&, PyObject* dict, PyObject* key, Val* value);  // 1: *value, 0: absent, -1: not known
bool varies(Recorder&, PyObject* container, PyObject* key, PyObject* value);
Val load_varying(Recorder&, PyObject* container, PyObject* key, PyObject* value, Guard guard);
Val vary(Recorder&, Val reg, PyObject* value);
bool changes_size(Recorder&, Val list);     // it existed before, and has another number of items in each call
bool is_varying(const Recorder&, Val reg);  // a register that was loaded so
bool fix(Recorder&, Val reg, PyObject* value);
void open_again(Recorder&, size_t count);  // what was fixed after that many
bool has_moved(const Recorder&, PyObject* container, PyObject* key, Val loaded);
void note_write(Recorder&, PyObject* container, PyObject* key, PyObject* old, Val value);
bool learn_places(Recorder&);

}  // namespace pijit
