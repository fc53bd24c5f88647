// Whether calls of a root run as a program over numbers (hook/numbers.h).
#pragma once
#include <cstdint>
#include <memory>

namespace pijit {

namespace scalar {
struct Program;
}

struct NumberLoops {
  enum class State : uint8_t {
    kUnknown,  // nobody has looked
    kNone,     // its code has no such loop
    kKnown,    // it has one, and recordings may do as well
    kOn,       // its calls run as that program first
    kOff,      // they have come to nothing
  };
  State state = State::kUnknown;
  std::shared_ptr<scalar::Program> program;
  uint32_t in_vain = 0;  // runs that came to nothing, one after the other
};

}  // namespace pijit
