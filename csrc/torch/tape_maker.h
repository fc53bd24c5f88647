// Makes a tape of what torch does in one native replay.
#pragma once
#include <memory>

#include "ir/executable.h"

namespace pijit::torch_adapter {

// Null: what torch does beneath autograd cannot be seen.
std::unique_ptr<TapeMaker> make_tape(const TapeStretch& stretch);

}  // namespace pijit::torch_adapter
