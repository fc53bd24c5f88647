// A container that C code fills from an iterator, one item after the other.
//
// Python may run between two items, and it sees what was written before; so may the caller, if the iterator raises. The
// model of the container therefore has each item at once. What a replay writes to a container that is real waits here
// until it is needed (flush), so that usually one node writes all of it: a node for each item would leave no way back
// to the start of the instruction, and an exit in the Python between two items needs that way (level_to_leave).
// 1. A node that may read or write the container comes after a flush (flush_fillings).
// 2. Foreign code between two items may have changed a real container: then the fill is not followed.
#pragma once
#include "record/mirror/drive.h"

namespace pijit {

class Filling {
 public:
  // `model`: of the container's content, for lists, deques and sets (writes.cpp); `method` adds or removes several.
  Filling(Drive& drive, Val container, Val model, const char* method);
  ~Filling();
  Filling(const Filling&) = delete;
  Filling& operator=(const Filling&) = delete;

  // Each is false where the fill cannot be followed.
  bool append(Val item);               // to a list or deque
  bool add(PyObject* key);             // to a set
  bool discard(PyObject* key);         // from a set
  bool put(PyObject* key, Val value);  // into a dict
  bool flush(bool raises = false);     // the node that writes what waits; the C code raises
  bool hide();                         // a list that is sorted is empty for what the key function runs
  bool show();                         // it must have been left so

  const Drive& drive() const noexcept { return drive_; }
  // What a replay writes waits here: it cannot be left between two items (restart.h).
  bool waits() const;
  bool is_of(Val value) const;  // it is the container that is filled

 private:
  bool follows() const;
  void note_last(Val item, bool real);

  Drive& drive_;
  Recorder& recorder_;
  Val container_, model_;
  const char* method_;
  size_t epoch_;
  Objects keys_;  // of a dict, with their values
  Vals waiting_;
  Vals hidden_;  // items of a list that is being sorted
  bool hides_ = false, hides_real_ = false;
};

bool end_fillings(Recorder&, const Drive& of);  // fillings of C code that raises
bool is_untouched(const Heap&, const TraceMark& mark);

}  // namespace pijit
