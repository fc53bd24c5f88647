// Tells the eye of a thread which operators run, whether an observed call is under way or not.
//
// It is a callback of torch's profiler for one thread. A dispatch key would tell of them, too, but torch's own Python
// code decides by the keys that its thread includes (HigherOrderOperator takes the highest one), so a key can be there
// only while a call is observed.
#pragma once

namespace pijit::torch_adapter {

// Each outermost operator that this thread runs is told to its eye, or none any more. Without memory nothing changes.
void watch_operators(bool on) noexcept;

// They are told now: nothing has replaced the callbacks of this thread, or switched them off.
bool watches_operators() noexcept;

// Somebody else has callbacks: a profiler is on.
bool is_profiled() noexcept;

}  // namespace pijit::torch_adapter
