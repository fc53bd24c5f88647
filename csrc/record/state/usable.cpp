// Whether a snapshot can be rebuilt: its frames have a way to go on, and its virtual objects can be built.
#include <algorithm>

#include "record/captures.h"
#include "record/limits.h"
#include "record/reasons.h"
#include "record/recorder.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

namespace pijit {
namespace {

constexpr uint32_t kTransient = UINT32_MAX;  // of an object that may change by itself

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

// The height of an object that can be built as of that time; kTransient: it may change by itself; 0: it cannot be
// built. `known`: what is known of other objects is made use of.
uint32_t walk_object(Recorder& recorder, uint32_t index, uint32_t time, bool known) {
  const Virtual& object = recorder.trace().virtuals[index];
  do_work();
  if (object.is_real(time)) return 1;
  const Nesting nesting;
  const uint32_t height = known ? recorder.snapshots.usable.height(index) : 0;
  if (nesting.too_deep(static_cast<int>(height)) || !can_build(recorder.heap, index, time)) {
    recorder.snapshots.unusable_reason =
        can_build(recorder.heap, index, time) ? "objects nested too deeply" : virtual_name(object.kind);
    return 0;
  }
  if (height != 0) return height;
  if (recorder.snapshots.visited[index] == recorder.snapshots.visit) return kTransient;
  recorder.snapshots.visited[index] = recorder.snapshots.visit;
  Walk walk;
  const auto part = [&](Val value) {
    if (!value.is_virtual()) return true;
    const uint32_t found = walk_object(recorder, value.index(), time, known);
    walk.lasting = walk.lasting && found != kTransient;
    if (found != kTransient) walk.height = std::max(walk.height, found);
    return found != 0;
  };
  if (object.kind == VirtualKind::kGenerator) {
    const uint32_t at = recorder.trace().generator_state(index, time).index;
    const FrameState* state = at == kNone ? nullptr : &recorder.trace().frame_states[at];
    if (state != nullptr && !part(state->handled)) return 0;
    for (uint32_t i = 0; state != nullptr && i < state->locals + state->stack; ++i)
      if (!part(recorder.trace().slots[state->first + i])) return 0;
  }
  // An iterator that went a long way names others in its first entries only.
  const uint32_t last_part = recorder.heap.models[index]->last_part;
  for (uint32_t at = last_part == kNone ? kNone : object.head; at != kNone; at = recorder.trace().log[at].next) {
    const LogEntry& entry = recorder.trace().log[at];
    do_work();
    if (entry.time > time) break;
    if (!part(entry.value) || !part(entry.key)) return 0;
    if (at == last_part) break;
  }
  if (!walk.lasting || may_turn(object.kind)) return kTransient;
  if (known) recorder.snapshots.usable.add(index, walk.height + 1);
  return walk.height + 1;
}

}  // namespace

bool virtual_usable(Recorder& recorder, uint32_t index, uint32_t time) {
  return walk_object(recorder, index, time, false) != 0;
}

namespace {

// What was logged since the last snapshot does not make what is known of objects untrue; or it is forgotten.
void follow_log(Recorder& recorder, uint32_t time) {
  for (; recorder.snapshots.usable.entries < recorder.trace().log.size() &&
         recorder.trace().log[recorder.snapshots.usable.entries].time <= time;
       ++recorder.snapshots.usable.entries) {
    const uint32_t holder =
        recorder.snapshots.usable.height(recorder.heap.log_links[recorder.snapshots.usable.entries].object);
    if (holder == 0) continue;
    const LogEntry entry = recorder.trace().log[recorder.snapshots.usable.entries];
    for (Val part : {entry.value, entry.key}) {
      if (!part.is_virtual()) continue;
      const uint32_t height = walk_object(recorder, part.index(), time, true);
      if (height == 0 || height == kTransient || height >= holder) {
        recorder.snapshots.usable.forget();
        break;
      }
    }
  }
  recorder.snapshots.usable.time = time;
}

}  // namespace

bool snapshot_usable(Recorder& recorder, uint32_t index) {
  if (is_only_read()) return true;
  const Snapshot& taken = recorder.trace().snapshots[index];
  if (recorder.snapshots.unusable[taken.frame] != nullptr) {
    recorder.snapshots.unusable_reason = recorder.snapshots.unusable[taken.frame];
    return false;
  }
  ++recorder.snapshots.visit;
  recorder.snapshots.visited.resize(recorder.trace().virtuals.size(), 0);
  const bool known = taken.time >= recorder.snapshots.usable.time;
  if (known) {
    follow_log(recorder, taken.time);
    ++recorder.snapshots.visit;  // what is new is looked at in its place
  }
  const auto fits = [&](Val value) {
    return !value.is_virtual() || walk_object(recorder, value.index(), taken.time, known) != 0;
  };
  for (uint32_t at = taken.frame; at != kNone; at = recorder.trace().frame_states[at].parent) {
    const FrameState& state = recorder.trace().frame_states[at];
    if (!fits(state.function) || !fits(state.generator) || !fits(state.extra) || !fits(state.handled)) return false;
    for (uint32_t i = 0; i < state.locals + state.stack; ++i)
      if (!fits(recorder.trace().slots[state.first + i])) return false;
  }
  return true;
}

}  // namespace pijit
