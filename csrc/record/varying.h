// Places whose scalar a root's own calls change: a counter that is an attribute, a global or a variable of a closure.
//
// A trace reads such a place into a register instead of guarding its content, which would differ at each call. A place
// is learned from the first recording that leaves another scalar of the same type there; the trace of that recording
// gives way to the next one.
#pragma once
#include <unordered_map>
#include <vector>

#include "common/ref.h"
#include "ir/trace.h"

namespace pijit {

class Varying {
 public:
  // container is an address only: what is found there later is looked at anew. key: None for the content of a cell.
  bool has(const void* container, PyObject* key) const noexcept;
  // False: it was there already, or there are too many.
  bool add(const void* container, PyObject* key);
  void clear() noexcept { keys_.clear(); }

 private:
  std::unordered_map<const void*, std::vector<Ref>> keys_;
};

// The guards of an epoch do not hold, in the middle of a replay. What differs by a number varies from now on. True:
// something was learned, and nothing else differs.
bool learn_from_epoch(const Trace& trace, const Epoch& epoch, Reg* regs, Varying* varying);

}  // namespace pijit
