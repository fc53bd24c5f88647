// What fresh dicts and sets hold no more: found from the logs, where it is asked.
#include "ir/removed.h"

namespace pijit {

bool is_removed(const Trace& trace, const Virtual& object, uint32_t entry, uint32_t time) noexcept {
  const Val key = key_of(trace.log[entry]);
  if (trace.undone.empty() || key.is_const() || key.is_null()) return false;
  const bool keyed = object.kind == VirtualKind::kDict || object.kind == VirtualKind::kInstance;
  if (!keyed && object.kind != VirtualKind::kSet) return false;
  const LogOp op = trace.log[entry].op;
  const bool removes = op == LogOp::kDelItem;
  if (!removes && op != LogOp::kItem && op != LogOp::kSetItem) return false;
  bool held = !removes;
  for (uint32_t at = removes ? object.head : trace.log[entry].next; at != kNone && at != entry;
       at = trace.log[at].next) {
    const LogEntry& other = trace.log[at];
    if (!removes && other.time > time) break;
    if (other.op == LogOp::kClear) held = false;
    if (key_of(other) == key) held = other.op != LogOp::kDelItem;
    if (!removes && !held) return true;
  }
  return removes && held;
}

}  // namespace pijit
