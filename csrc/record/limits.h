// Limits of one recording.
#pragma once
#include <cstdint>

namespace pijit {

struct RecordLimits {
  uint64_t operations = 4'000'000;  // bytecodes
  uint64_t nodes = 200'000;
  uint32_t depth = 180;  // inlined frames
};

RecordLimits& record_limits() noexcept;

}  // namespace pijit
