// A float as a Python expression, for the core's printer and for the adapter's.
#pragma once
#include <string>

namespace pijit {

std::string float_text(double number);

}  // namespace pijit
