// What a user said about a function, by the function object.
//
// Functions are held weakly: a mark goes when its function dies. Guarded by the GIL.
#pragma once
#include <string>

#include "common/python.h"

namespace pijit {

enum class Mark : uint8_t {
  kNone,
  kSkip,      // left to CPython: never a root, never followed
  kOpaque,    // as kSkip, and no root is found among what it calls
  kConstant,  // its result does not change
};

// Marks a Python function; kNone takes the mark away. False with an error set.
bool set_mark(PyObject* function, Mark mark, std::string reason);
// A lookup in an empty table where nothing is marked. Null: kNone.
Mark mark_of(PyObject* function) noexcept;
// "" if there is none.
std::string mark_reason(PyObject* function);
// The recorder does not follow it.
inline bool is_left_alone(PyObject* function) noexcept {
  const Mark mark = mark_of(function);
  return mark == Mark::kSkip || mark == Mark::kOpaque;
}

}  // namespace pijit
