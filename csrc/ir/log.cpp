// What virtual objects hold, and hold no more, and what a replay takes: found from the trace, where it is asked.
#include "ir/log.h"

#include "cpython/objects.h"

namespace pijit {
namespace {

using Pairs = std::vector<std::pair<Val, Val>>;

bool same_key(Val a, Val b) noexcept {
  if (a == b) return true;
  return a.is_const() && b.is_const() && cpython::is_scalar(a.object()) && cpython::same_scalar(a.object(), b.object());
}

// A key that is there keeps its place.
void set_key(Pairs* pairs, Val key, Val value) {
  for (auto& [known, held] : *pairs)
    if (same_key(known, key)) {
      held = value;
      return;
    }
  pairs->emplace_back(key, value);
}

void delete_key(Pairs* pairs, Val key) {
  std::erase_if(*pairs, [&](const auto& pair) { return same_key(pair.first, key); });
}

}  // namespace

bool is_taken(const Trace& trace, uint32_t reg) noexcept {
  if (!trace.takes_inputs || reg < trace.inputs) return trace.takes_inputs;
  const auto end = trace.guards.begin() + static_cast<ptrdiff_t>(trace.entry_guards());
  return std::any_of(trace.guards.begin(), end,
                     [&](const Guard& guard) { return guard.op == GuardOp::kLoadSuspended && guard.out == reg; });
}

Content content_of(const Trace& trace, const Virtual& object, uint32_t time) {
  Content content;
  const bool set = object.kind == VirtualKind::kSet;
  const bool keyed = set || object.kind == VirtualKind::kDict || object.kind == VirtualKind::kInstance;
  for (uint32_t at = object.head; at != kNone && trace.log[at].time <= time; at = trace.log[at].next) {
    const LogEntry& entry = trace.log[at];
    switch (entry.op) {
      case LogOp::kField:
        if (content.fields.size() <= entry.index) content.fields.resize(entry.index + 1);
        content.fields[entry.index] = entry.value;
        break;
      case LogOp::kSetAttr:
        set_key(&content.attributes, entry.key, entry.value);
        break;
      case LogOp::kDelAttr:
        delete_key(&content.attributes, entry.key);
        break;
      case LogOp::kClear:
        content.items.clear();
        content.pairs.clear();
        break;
      default:
        if (!keyed)
          apply_item(content.items, entry, entry.value);
        else if (entry.op == LogOp::kDelItem)
          delete_key(&content.pairs, key_of(entry));
        else if (entry.op == LogOp::kItem || entry.op == LogOp::kSetItem)
          set_key(&content.pairs, key_of(entry), set ? Val() : entry.value);
    }
  }
  return content;
}

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
