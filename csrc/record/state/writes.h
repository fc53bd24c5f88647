// Writes to containers that existed before, or that are real: nodes, and the models of what they hold.
#pragma once
#include "record/recorder.h"

namespace pijit {

// Fillings that are open (mirror/filling.cpp).
bool flush_fillings(Heap&);              // false: stopped
bool is_filled(const Heap&, Val value);  // one of them fills it

// Other threads wrote it (other_threads.cpp). True: stopped.
bool has_changed(Recorder&, Val container);

// Items of a list, set or deque change (write_items.cpp). A replay calls `method` with `args`.
bool set_items(Recorder&, Val list, Vals items, const char* method, const Vals& args);
bool splice(Recorder&, Val list, size_t at, size_t removed, const Vals& added, const char* method, const Vals& args);
bool add_items(Recorder&, Val list, const Vals& more, const char* method, const Vals& args);
bool replace_keys(Recorder&, Val set, const KeyList& keys, const char* method, const Vals& args);
bool add_keys(Recorder&, Val set, const Objects& keys, const char* method, const Vals& args);
bool remove_key(Recorder&, Val set, size_t at, const char* method, const Vals& args);

// What containers that existed before hold now, and who they are (writes.cpp).
Val writable(Recorder&, Val container);  // the model of a list, set or deque that is about to be written; Null: not one
Val content_of(Recorder&, Val container);  // the model of a container that existed before and was written, else itself
bool is_unread(Recorder&, Val container);
// As content_of; it is cleared at once, and items are looked at only if they must be.
Val content_to_drop(Recorder&, Val container);
void note_argument(ReadSet&, PyObject* object, Val container);
Val argument(Recorder&, PyObject* object);  // the argument that it is, or Null
bool is_same_object(ReadSet&, uint32_t reg, PyObject* real, PyObject* object);
bool is_argument(Recorder&, Val container, PyObject* object);  // it is that object, guarded either way
bool is_real(Heap&, Val container);                            // it is written by nodes

// Nodes.
bool may_write_here(Recorder&);                                             // false: stopped
bool call_known(Recorder&, PyObject* callable, Vals args);                  // the node of a call for its effect
bool call_method(Recorder&, Val container, const char* method, Vals args);  // the node of a write
bool write_dict(Recorder&, PyObject* dict, PyObject* key, Val value);       // Null deletes
bool put_in_dict(Recorder&, PyObject* dict, PyObject* key, Val value);      // all but the node
void pin(Kernel&, Val value);
void pin_item(Recorder&, PyObject* dict, PyObject* key);
// What it makes, of this class; Null: stopped.
Val call_for(Recorder&, PyTypeObject* type, PyObject* callable, Vals args);
Val new_by_call(Recorder&, VirtualKind kind, PyTypeObject* type, PyObject* callable, Vals args);  // real from the start
// CPython has run what writes dicts: their tags moved on.
void refresh_written(Recorder&);

}  // namespace pijit
