// Values what was replayed by what CPython takes for the same.
#include "cache/savings.h"

#include <cmath>

namespace pijit {

Saved Savings::saved(const Comparison::Shift& known) const noexcept {
  if (known.count == 0) return {-recording, 0};
  const double in_cpython = replayed.seconds * std::exp(-known.value);
  return {in_cpython - replayed.seconds - recording, in_cpython * known.error};
}

}  // namespace pijit
