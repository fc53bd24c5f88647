// Places whose scalar differs from call to call: a counter that is an attribute, a global or a variable of a closure; a
// learning rate; an argument.
//
// A trace reads such a place into a register instead of guarding its content. A place is learned from the first
// recording that leaves another scalar of the same type there, or from the first call that misses a trace because
// another number is there; that trace gives way to the next one. Where a recording needs the number after all (the
// rounds of a loop), the guard of its type becomes one of its value again.
#pragma once
#include <unordered_map>
#include <unordered_set>
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
  // The way by which the guards reach an argument, or an item of one; see argument_way.
  bool has_argument(uint64_t way) const noexcept { return arguments_.count(way) != 0; }
  bool add_argument(uint64_t way);
  void clear() noexcept {
    keys_.clear();
    arguments_.clear();
  }

 private:
  std::unordered_map<const void*, std::vector<Ref>> keys_;
  std::unordered_set<uint64_t> arguments_;
};

// Names what a register of an argument, or one that guards loaded from an argument, holds. 0: it is neither.
uint64_t argument_way(const Trace& trace, Val source) noexcept;

// The guards of the trace do not let a call in, or those of an epoch do not let a replay go on. What differs by a
// number varies from now on. True: something was learned, and nothing else differs.
bool learn_from_guards(const Trace& trace, size_t first, size_t count, Reg* regs, Varying* varying);

}  // namespace pijit
