// Whether a snapshot can be rebuilt: its frames have a way to go on, and its virtual objects can be built.
#include <algorithm>

#include "record/limits.h"
#include "record/reasons.h"
#include "record/recorder.h"

namespace pijit {
namespace {

bool may_turn(VirtualKind kind) {
  return kind == VirtualKind::kIterator || kind == VirtualKind::kLazy || kind == VirtualKind::kEnumerate ||
         kind == VirtualKind::kZip || kind == VirtualKind::kGenerator || kind == VirtualKind::kException ||
         kind == VirtualKind::kAddress || kind == VirtualKind::kHandled;
}

// What a walk from an object has found.
struct Walk {
  bool usable = true, lasting = true;  // lasting: it stays so
  uint32_t height = 0;
};

}  // namespace

bool Recorder::virtual_usable(uint32_t index, uint32_t time) {
  return walk_object(index, time, false) != 0;
}

// The height of an object that can be built as of that time; kTransient: it may change by itself; 0: it cannot be
// built. `known`: what is known of other objects is made use of.
uint32_t Recorder::walk_object(uint32_t index, uint32_t time, bool known) {
  const Virtual& object = trace_->virtuals[index];
  do_work();
  if (object.is_real(time)) return 1;
  const Nesting nesting;
  const uint32_t height = known ? snapshots_.usable.height(index) : 0;
  if (nesting.too_deep(static_cast<int>(height)) || !can_build(index, time)) {
    snapshots_.unusable_reason = can_build(index, time) ? "objects nested too deeply" : virtual_name(object.kind);
    return 0;
  }
  if (height != 0) return height;
  if (snapshots_.visited[index] == snapshots_.visit) return kTransient;
  snapshots_.visited[index] = snapshots_.visit;
  Walk walk;
  const auto part = [&](Val value) {
    if (!value.is_virtual()) return true;
    const uint32_t found = walk_object(value.index(), time, known);
    walk.lasting = walk.lasting && found != kTransient;
    if (found != kTransient) walk.height = std::max(walk.height, found);
    return found != 0;
  };
  if (object.kind == VirtualKind::kGenerator) {
    const uint32_t at = trace_->generator_state(index, time).index;
    const FrameState* state = at == kNone ? nullptr : &trace_->frame_states[at];
    if (state != nullptr && !part(state->handled)) return 0;
    for (uint32_t i = 0; state != nullptr && i < state->locals + state->stack; ++i)
      if (!part(trace_->slots[state->first + i])) return 0;
  }
  // An iterator that went a long way names others in its first entries only.
  const uint32_t last_part = heap_.models[index]->last_part;
  for (uint32_t at = last_part == kNone ? kNone : object.head; at != kNone; at = trace_->log[at].next) {
    const LogEntry& entry = trace_->log[at];
    do_work();
    if (entry.time > time) break;
    if (!part(entry.value) || !part(entry.key)) return 0;
    if (at == last_part) break;
  }
  if (!walk.lasting || may_turn(object.kind)) return kTransient;
  if (known) snapshots_.usable.add(index, walk.height + 1);
  return walk.height + 1;
}

// What was logged since the last snapshot does not make what is known of objects untrue; or it is forgotten.
void Recorder::follow_log(uint32_t time) {
  for (; snapshots_.usable.entries < trace_->log.size() && trace_->log[snapshots_.usable.entries].time <= time;
       ++snapshots_.usable.entries) {
    const uint32_t holder = snapshots_.usable.height(heap_.log_links[snapshots_.usable.entries].object);
    if (holder == 0) continue;
    const LogEntry entry = trace_->log[snapshots_.usable.entries];
    for (Val part : {entry.value, entry.key}) {
      if (!part.is_virtual()) continue;
      const uint32_t height = walk_object(part.index(), time, true);
      if (height == 0 || height == kTransient || height >= holder) {
        snapshots_.usable.forget();
        break;
      }
    }
  }
  snapshots_.usable.time = time;
}

bool Recorder::snapshot_usable(uint32_t index) {
  const Snapshot& taken = trace_->snapshots[index];
  if (snapshots_.unusable[taken.frame] != nullptr) {
    snapshots_.unusable_reason = snapshots_.unusable[taken.frame];
    return false;
  }
  ++snapshots_.visit;
  snapshots_.visited.resize(trace_->virtuals.size(), 0);
  const bool known = taken.time >= snapshots_.usable.time;
  if (known) {
    follow_log(taken.time);
    ++snapshots_.visit;  // what is new is looked at in its place
  }
  const auto fits = [&](Val value) {
    return !value.is_virtual() || walk_object(value.index(), taken.time, known) != 0;
  };
  for (uint32_t at = taken.frame; at != kNone; at = trace_->frame_states[at].parent) {
    const FrameState& state = trace_->frame_states[at];
    if (!fits(state.function) || !fits(state.generator) || !fits(state.extra) || !fits(state.handled)) return false;
    for (uint32_t i = 0; i < state.locals + state.stack; ++i)
      if (!fits(trace_->slots[state.first + i])) return false;
  }
  return true;
}

}  // namespace pijit
