// What functions of torch make at their first calls.
#pragma once

namespace pijit::torch_adapter {

// Runs Python code. No error is set before or after.
void make_what_first_calls_make() noexcept;

}  // namespace pijit::torch_adapter
