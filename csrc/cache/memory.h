// One budget of bytes for all traces, those that begin in the middle of functions among them.
//
// Where a new trace takes more than is left, roots lose their traces: those first whose traces were replayed
// least, for each of their bytes, since the budget was last too small. Their later calls are recorded again. A root
// that loses its traces time and again has more and more calls run by CPython in between: what does not fit would else
// be recorded at each call.
#pragma once
#include "cache/root.h"

namespace pijit {

// Bytes that all traces may have, an option; 0: any number.
uint64_t& memory_limit() noexcept;

// Bytes that the trace has allocated, without the operators of the adapter and the plans of compilers.
size_t bytes_of(const Trace& trace) noexcept;
size_t bytes_of(const Root& root) noexcept;

// The trace alone is larger than the budget.
bool exceeds_memory(const Trace& trace) noexcept;
// The root has a new trace: others make room for it. Returns how many roots lost their traces.
size_t make_room(Root& root, const Trace& added);
// The root waits after it lost its traces.
inline bool waits_for_memory(const Root& root) noexcept {
  return root.counts.calls < root.evictions.waits_until;
}

}  // namespace pijit
