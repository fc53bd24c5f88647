// Calls that choose by data among functions of the program that they are given: what a segment has to know to span one.
//
// 1. The functions only compute (ForeignCall::kSides). A plan has the operators of all of them, and makes no call.
// 2. What the call is given is built before it, for the call alone. A segment builds what a snapshot behind it reads.
// 3. Guards behind the call are about what it gave, which a plan gives, or about other objects. The latter are asked
//    before the plan runs: nothing that it stands for writes to them.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "plan/segment.h"

namespace pijit {

// One call.
struct SidesCall {
  uint32_t at = 0;        // the node; its epoch is the next one
  Vec<uint32_t> reads;    // tensors and numbers in what it is given, and objects that no node builds
  Vec<uint32_t> builds;   // nodes that make what it is given
  Vec<uint32_t> results;  // registers that hold what it gave, and what guards find in that
};

// In order. `written_at`: by register, the node that writes it.
std::vector<SidesCall> find_sides(const Trace& trace, const Vec<uint32_t>& written_at);

// Whether a register is something.
using RegisterTest = std::function<bool(uint32_t)>;

// The guards behind the call can be asked before a segment runs that makes the registers of `is_within`. Those that are
// about these are added to `within`, where they hold for any plan.
bool may_foresee(const Trace& trace, const SidesCall& call, const RegisterTest& is_within, Vec<uint32_t>* within);

// The registers of which the node builds or boxes something.
Vec<uint32_t> built_of(const Trace& trace, const Node& node);

}  // namespace pijit
