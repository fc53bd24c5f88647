// The garbage collector, while pijit works beside the program.
//
// A full collection looks at every object there is, which takes a third of a second beside torch, and holds the GIL.
// CPython starts one when the objects that lasted since the last one are a quarter of those that are old. What a
// compiler and its package make would count among them, and the program's call would wait. So nothing starts a full
// collection while that is made, and it counts as old afterwards. `gc.collect()`, and what the program sets by `gc`,
// are as ever.
#pragma once

namespace pijit::cpython {

// No allocation starts a full collection until as many calls of allow_full_collections(). Guarded by the GIL.
void hold_full_collections() noexcept;
void allow_full_collections() noexcept;

}  // namespace pijit::cpython
