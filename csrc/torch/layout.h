// Whether the torch of this process is laid out as the one that this module was compiled with.
#pragma once
#include <string>

namespace pijit::torch_adapter {

// What is laid out differently, in words; "": everything that is looked at fits. A Python error may be set.
std::string layout_trouble();

}  // namespace pijit::torch_adapter
