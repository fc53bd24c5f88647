// Limits of one recording, and what it leaves out.
#pragma once
#include <cstdint>
#include <vector>

namespace pijit {

struct RecordLimits {
  uint64_t operations = 4'000'000;  // bytecodes
  uint64_t nodes = 200'000;
  uint32_t depth = 180;  // inlined frames
  bool constant_propagation = true;
};

RecordLimits& record_limits() noexcept;

// Sizes of tensors that the user has said to vary (pijit.dynamic), the newest last.
std::vector<int64_t>& varying_sizes() noexcept;

// What becomes of loops (record/step/loops.cpp), and whether traces are entered in the middle of functions (hook/entries.h).
// Value i is word i of LOOPS in pijit/_config.py.
enum class Loops : uint8_t {
  kUnrolled,  // all are recorded whole, and no trace is entered in the middle
  kAuto,      // short ones are recorded whole, long ones get traces of their own
  kBody,      // all get traces of their own, as soon as two turns were alike
};
uint64_t& loops_option() noexcept;  // an option
inline Loops loops() noexcept {
  return static_cast<Loops>(loops_option());
}

// Objects that hold one another are built by recursion: one level of it. `too_deep`: no deeper.
class Nesting {
 public:
  Nesting() noexcept { ++depth_; }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  // `more`: what is below is known to be so deep.
  bool too_deep(int more = 0) const noexcept { return depth_ + more > kMaxDepth; }

 private:
  static constexpr int kMaxDepth = 2000;
  static inline thread_local int depth_ = 0;
};

}  // namespace pijit
