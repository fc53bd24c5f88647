// Which of a root's traces a call is likely to take.
//
// A guess only: the guards of the trace decide, and the other traces are tried after it. Calls with arguments that look
// alike (the same strings, objects and small structure; tensors of the same kind) are taken to go the same way as the
// last such call; any other call goes the way of the last one.
#pragma once
#include <unordered_map>

#include "adapter.h"
#include "cache/comparison.h"
#include "cpython/frame.h"

namespace pijit {

// What the arguments of a fresh frame look like, as a hash. Runs no Python.
uint64_t call_signature(cpython::Frame* frame, PyCodeObject* code, const Adapter* adapter) noexcept;
// How much the arguments of a fresh frame hold. Runs no Python.
CallForm call_form(cpython::Frame* frame, PyCodeObject* code, const Adapter* adapter) noexcept;

class Dispatch {
 public:
  // The place in Traces at which to begin; it may be one that is gone.
  size_t guess(uint64_t signature) const noexcept {
    const auto found = places_.find(signature);
    return found == places_.end() ? last_ : found->second;
  }
  void taken(uint64_t signature, size_t place);
  void clear() noexcept { places_.clear(); }

 private:
  std::unordered_map<uint64_t, size_t> places_;
  size_t last_ = 0;
};

}  // namespace pijit
