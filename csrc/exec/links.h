// Side traces: where replays keep leaving a trace, they go on in another trace of the same function.
//
// The other trace was recorded from the start of the function, like any. Up to the node at which the first is left both
// have the same nodes on the same registers, so the replay changes over there, with its register file as it is.
//
// 1. What the second trace relies on beyond the first is checked when it is entered, after what the first one did: a
// place that was written since the start is known to the recording from its write, so it has no guard, unless it was
// read before.
// 2. There is no foreign code before the node: after such code what guards found at entry means nothing.
#pragma once
#include "ir/trace.h"

namespace pijit {

enum class Joined : uint8_t {
  kLinked,
  kSame,    // the second trace takes the same way at the node
  kOthers,  // they differ before it, or one cannot take over the registers of the other
};

// Makes replays of `from` that leave at the node go on in `to`.
Joined link_traces(const Trace& from, uint32_t node, const std::shared_ptr<Trace>& to);

// At a replay of `from` that is left at the node: the trace to go on in, with the registers ready; null: none.
const Trace* enter_link(const Trace& from, uint32_t node, Reg* regs, size_t capacity, PyThreadState* ts) noexcept;

}  // namespace pijit
