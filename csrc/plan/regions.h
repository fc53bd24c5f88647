// Regions of a trace: blocks of the program that name their compilers (`with pijit.region(...):`).
//
// 1. A block begins and ends at a node of its own (Op::kRegion). A node is in the innermost block that is open and
//    whose frame it runs in, or is called from: what runs elsewhere while the block is open, such as what a suspended
//    generator gives its value to, is not in it.
// 2. A block whose frame was left to CPython has no end: what follows does not run in its frame.
#pragma once
#include "common/ref.h"
#include "ir/trace.h"

namespace pijit {

// Some block begins in the trace.
bool has_regions(const Trace& trace) noexcept;
// Who is asked for plans in a region; null: nobody.
Ref market_of_region(PyObject* region) noexcept;

class Regions {
 public:
  Regions(const Trace& trace, bool has_market);
  // The region of a node, kept by the trace; null: it is in none.
  PyObject* at(uint32_t node) const noexcept { return of_.empty() ? nullptr : of_[node]; }
  bool are_one(uint32_t a, uint32_t b) const noexcept { return at(a) == at(b); }
  // Somebody makes plans for the node.
  bool asks(uint32_t node) const noexcept;

 private:
  Vec<PyObject*> of_;  // by node; empty: there are no regions
  bool has_market_;    // outside of all regions
};

}  // namespace pijit
