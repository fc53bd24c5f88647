// The model of a virtual object: what it holds now.
#pragma once
#include "record/state/shadow.h"

namespace pijit {

// The content model of a virtual object while recording.
struct Model : FromPool {
  VirtualKind kind;
  PyTypeObject* type;
  PyObject* real = nullptr;                // the object, when it was seen (borrowed, may be gone)
  Vals items;                              // sequence items; dict values; fields
  KeyList keys;                            // dict keys or set items, in order (immutable scalars, kept by owned)
  KeyList names;                           // attribute names
  Vals attrs;                              // attribute values
  uint32_t last_part = kNone;              // last entry of its log that names a virtual object
  uint32_t owner = kNone;                  // the instance whose __dict__ this is
  uint32_t dict = kNone;                   // the __dict__ of this instance
  uint32_t address = kNone;                // what id() gives of it
  uint32_t position = 0;                   // iterators: kExhausted once they have ended
  uint32_t begun = UINT32_MAX;             // iterators: since when no call of their class makes them what they are
  Seldom<uint32_t> reshaped;               // when keys came or went
  Seldom<Val> ahead;                       // iterators over sets: all the items, in order
  size_t ahead_epoch = 0;                  // the epoch of `ahead`
  Val home;                                // a container that existed before and is written: the object (writes.cpp)
  Seldom<PyObject*> original;              // items of `home` before the first write (borrowed)
  bool unread = false;                     // items of `home` are not guarded: `items` has only what was added
  bool guarded = false;                    // items of `home` were guarded before
  bool strict = false;                     // zip(strict=True)
  bool any_order = false;                  // an argument whose attributes may come in another order
  unsigned long switches = 0;              // cpython::thread_switches() when it was last seen to be as it is here
  bool building = false;                   // being materialised
  bool own = false;                        // it is real, and nothing but the trace reaches it
  Seldom<TracedFrame> traced;              // exceptions: their traceback, innermost frame first
  Seldom<Val> tracebacks;                  // what stands for the traceback
  std::unique_ptr<ShadowFrame> suspended;  // generators
};

}  // namespace pijit
