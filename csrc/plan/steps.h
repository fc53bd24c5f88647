// Nodes of a trace in the terms of segments: what a node reads, writes and changes, and whether it may be compiled.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/trace.h"

namespace pijit {

// Operators of a segment: fewer cost less than the call of a plan.
inline constexpr uint32_t kFewestOperators = 3;

// What a segment may do with a node.
enum class Kind : uint8_t {
  kOther,     // it ends there
  kOperator,  // computes tensors of tensors
  kForm,      // depends on the form of tensors and on numbers only
  kStore,     // writes to an object of Python, which nobody sees before a plan has run: the finder of segments says so
};

// One node.
struct Step {
  Kind kind = Kind::kOther;
  bool arrays = false;          // computes arrays of NumPy: the finder of segments makes an operator of it
  int level = 0;                // 1: it opens a level of a transformation, -1: it closes one
  Vec<uint32_t> reads, writes;  // registers
  Vec<uint32_t> written;        // registers whose tensors it changes
  // Results that may share memory with an argument.
  Vec<std::pair<uint32_t, uint32_t>> shares;
};

Step step_of(const Trace& trace, const Node& node);

// By step: whether a level of a transformation is open there, or the step opens or closes one.
Vec<bool> in_levels(const std::vector<Step>& steps);

// A hit of a cache (functools.lru_cache) on constant arguments, of which the result is known: it counts, and does no more.
// It may be made behind a plan.
bool is_cache_hit(const Trace& trace, const Node& node) noexcept;

// ContextVar.set, or reset. The two may be made behind a plan, where both belong to what it stands for.
bool is_of_context(const Node& node) noexcept;

// It builds an object, of nothing that these registers hold.
bool is_made_of_others(const Trace& trace, const Node& node, const std::function<bool(uint32_t)>& holds);

// It changes what a tensor is to Python or to autograd, or its sizes in place.
bool is_about_tensors(const std::string& name);

}  // namespace pijit
