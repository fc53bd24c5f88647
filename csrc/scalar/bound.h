// Which local variables are bound at the beginnings of blocks, whatever way leads there.
#pragma once
#include <cstdint>
#include <map>
#include <set>

#include "cpython/bytecode.h"

namespace pijit::scalar {

// Where control may come to after an instruction: -1: nowhere else.
struct Ways {
  int next = -1, jump = -1;
};
Ways ways_of(PyCodeObject* code, int start) noexcept;

// All instructions that some jump goes to.
std::set<int> jump_targets(PyCodeObject* code);

inline constexpr int kMostLocals = 64;

// By instruction that is jumped to, or where the walk starts: the variables, one bit each, that are bound there.
std::map<int, uint64_t> bound_variables(PyCodeObject* code, int start, uint64_t at_start);

}  // namespace pijit::scalar
