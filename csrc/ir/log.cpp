// What fresh dicts and sets hold no more: found from the logs, where it is asked.
#include "ir/log.h"

namespace pijit {

bool is_removed(const Trace& trace, const Virtual& object, uint32_t entry, uint32_t time) noexcept {
  if (trace.stands(entry, time)) return false;
  const Val key = key_of(trace.log[entry]);
  if (key.is_const() || key.is_null()) return false;
  const bool keyed = object.kind == VirtualKind::kDict || object.kind == VirtualKind::kInstance;
  if (!keyed && object.kind != VirtualKind::kSet) return false;
  const LogOp op = trace.log[entry].op;
  if (op == LogOp::kDelItem) return true;
  if (op != LogOp::kItem && op != LogOp::kSetItem) return false;
  for (uint32_t at = trace.log[entry].next; at != kNone && trace.log[at].time <= time; at = trace.log[at].next) {
    const LogEntry& later = trace.log[at];
    if (later.op == LogOp::kClear || (later.op == LogOp::kDelItem && key_of(later) == key)) return true;
  }
  return false;
}

}  // namespace pijit
