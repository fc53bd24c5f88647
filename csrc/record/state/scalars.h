// Numbers in registers.
#pragma once
#include "record/recorder.h"

namespace pijit {

Val scalar_node(Recorder&, ScalarOp op, Val left, Val right);  // Null: CPython's own functions do it
Val compute_number(Recorder&, SiteKind kind, int oparg, Val left, Val right = Val());
bool fix_numbers(Recorder&, Vals* values, int depth = 0);  // constants from now on, guarded; false: there are none
bool number_truth(Recorder&, Val value, bool* out);
bool is_scalar_reg(const Kernel&, Val value);  // a register with an immutable scalar of known type
bool are_scalars(const Kernel&, const Vals& values);
bool fix_number(Recorder&, Val* value, int depth);

}  // namespace pijit
