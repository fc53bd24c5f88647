// What instructions share with the C functions that do the same.
#pragma once
#include "record/recorder.h"

namespace pijit {

// The class of an exception is what it is, and its bases. False: stopped.
bool guard_class(Recorder&, Val exception);

// The method that a class has in Python; null: it has none there.
PyObject* python_method(ReadSet&, PyTypeObject* type, PyObject* name);

// The result is a constant that cannot change.
inline void take_owned(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  frame.pending.result = recorder.reads.owned(result);
}

// An operation on scalars of which at least one is a register: computed at replay. False: it is none.
bool compute_scalars(Recorder&, ShadowFrame&, SiteKind kind, int oparg, const Vals& operands, int pops);

// Shared by instructions and built-in functions. Each sets up the pending result, or returns false: not known (or
// stopped).
bool contains(Recorder&, ShadowFrame&, Val container, Val key, int pops, bool invert);
bool make_iterator(Recorder&, ShadowFrame&, Val iterable, int pops);
// The next item of a known iterator: 1 and *item, 0 at the end, -1 not known.
int next_item(Recorder&, Val iterator, Val* item);
// A dict, list or object that existed before is written: emits the node and the overlay.
bool store_attribute(Recorder&, ShadowFrame&, Val object, PyObject* name, Val value, Then then, int pops);
Invoke write_by_class(Recorder&, ShadowFrame&, Val object, PyObject* name, Val value, Then then, int pops,
                      bool* generic);
// CPython has written to pending.x.
void after_store(Recorder&, ShadowFrame&, PyObject*);

// open_items.cpp: what dict.get gives at a key that differs from call to call. False: the key is to be fixed.
bool get_open_item(Recorder&, ShadowFrame& frame, Val container, Val key, Val otherwise, int pops);

// The adapter is asked (completion.cpp).
// True: the adapter handles it (or recording stopped).
bool ask_about(Recorder&, ShadowFrame& frame, SiteKind kind, std::initializer_list<Val> operands, int pops, int pushes,
               int oparg = 0, PyObject* name = nullptr, PyObject* callable = nullptr);
// True: handled (or stopped).
bool ask_adapter(Recorder&, ShadowFrame& frame, const CallSite& site, int pops, int pushes);

// step_scalars.cpp.
// Decides a branch, guarding if needed; false: a frame or the adapter must.
bool truth(Recorder&, Val value, bool* out);

}  // namespace pijit
