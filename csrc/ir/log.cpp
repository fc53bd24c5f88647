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
  // What ends an entry is the one of that time: it overwrites the value, and may be ended itself, or takes the key out.
  const auto ends = [&](uint32_t at) {
    const auto by = std::lower_bound(trace.log.begin() + at, trace.log.end(), trace.undone[at],
                                     [](const LogEntry& known, uint32_t when) { return known.time < when; });
    return static_cast<uint32_t>(by - trace.log.begin());
  };
  for (uint32_t at = entry; !trace.stands(at, time);) {
    at = ends(at);
    if (trace.log[at].op == LogOp::kClear || trace.log[at].op == LogOp::kDelItem) return true;
  }
  return false;
}

}  // namespace pijit
