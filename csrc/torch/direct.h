// Operators called by their C++ signature: no stack, no boxed values, operands borrowed from the registers.
//
// Most operators of a model have one of a few signatures (direct_signatures.def). For those, an operation is one small
// object that holds its constants as the kernel takes them. What it does is what the boxed operation does: the same
// operator, through the dispatcher, with the same arguments.
#pragma once
#include "torch/lowered.h"

namespace pijit::torch_adapter {

// The operation as it was recorded, or one that does the same faster.
std::unique_ptr<AdapterOp> make_direct(std::unique_ptr<LoweredOp> op);
// Builds the table of signatures, which make_direct else does when it is first called.
void list_signatures();

}  // namespace pijit::torch_adapter
