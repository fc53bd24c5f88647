// Limits of one recording, and what it leaves out.
#pragma once
#include <cstdint>

namespace pijit {

struct RecordLimits {
  uint64_t operations = 4'000'000;  // bytecodes
  uint64_t nodes = 200'000;
  uint32_t depth = 180;  // inlined frames
  bool constant_propagation = true;
};

RecordLimits& record_limits() noexcept;

}  // namespace pijit
