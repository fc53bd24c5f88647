// The rows of aborts.def: why a recording stops, and why a root is left to CPython.
#pragma once
#include <cstddef>

namespace pijit {

struct Reason {
  const char* code;  // "PJ203"
  const char* text;
};

inline constexpr Reason kAborts[] = {
#define PIJIT_ABORT(name, code, text, advice) {code, text},
#include "record/aborts.def"
};

#define PIJIT_LEFT(name, code, text, advice) inline constexpr Reason name{code, text};
#include "record/aborts.def"

}  // namespace pijit
