// Warnings while a replay calls pandas.
//
// A warning names the line of the program that stands, and in the middle of a replay none does. So it is raised there,
// and nobody sees that: CPython does the instruction again. What the program, or pandas itself, ignores is ignored.
#pragma once
#include "common/python.h"

namespace pijit::pandas {

// For its life warnings of this thread are raised.
class StrictWarnings {
 public:
  StrictWarnings() noexcept;
  ~StrictWarnings();
  StrictWarnings(const StrictWarnings&) = delete;
  StrictWarnings& operator=(const StrictWarnings&) = delete;
  bool failed() const noexcept { return failed_; }

 private:
  bool failed_ = false;
};

}  // namespace pijit::pandas
