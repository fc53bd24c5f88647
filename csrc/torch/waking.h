// Tells of the next operator, whatever thread runs it.
#pragma once

namespace pijit::torch_adapter {

// `wake` is called at operators from now on, with the GIL or without; null: no more. `some`: at few of them. With the
// GIL.
void wake_on_operator(void (*wake)() noexcept, bool some) noexcept;

}  // namespace pijit::torch_adapter
