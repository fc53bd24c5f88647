// Values of torch as Python, for people.
#pragma once
#include <string>
#include <vector>

#include "torch/tensor.h"

namespace pijit::torch_adapter {

// "float32"
std::string type_words(c10::ScalarType dtype);
// "torch.channels_last"
std::string memory_format_words(int64_t format);
std::string python_text(const std::vector<int64_t>& numbers);
// A constant argument; its type tells numbers from what torch encodes as such (dtypes, layouts).
std::string python_text(const c10::IValue& value, const c10::Type* type = nullptr);

}  // namespace pijit::torch_adapter
