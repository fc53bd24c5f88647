// What a virtual list, deque, dict, set, instance, cell or generator held once and holds no more: a value that is
// deleted or overwritten dies there, so a replay is not to keep it for the object's sake.
//
// An entry stays in its log, because later ones count on it (the order of keys, the indices of items); whoever builds
// the object puts None in its place, or passes over it if its key is dead, too: then what deletes the key is undone by
// itself.
#include <unordered_map>
#include <utility>

#include "cpython/keys.h"
#include "exec/replay.h"
#include "ir/log.h"

namespace pijit {

namespace {

// A key that the trace keeps is told by its value, as in a dict; any other may be dead, and is told by its address.
struct KeyHash {
  const ObjectSet* kept;
  size_t operator()(Val key) const noexcept {
    if (!key.is_const()) return key.index();
    if (kept->count(key.object()) == 0) return std::hash<PyObject*>()(key.object());
    const Py_hash_t hash = PyObject_Hash(key.object());
    if (hash == -1) PyErr_Clear();
    return static_cast<size_t>(hash);
  }
};

struct KeyEqual {
  const ObjectSet* kept;
  bool operator()(Val a, Val b) const noexcept {
    if (a == b || !a.is_const() || !b.is_const()) return a == b;
    return kept->count(a.object()) != 0 && kept->count(b.object()) != 0 && cpython::keys_equal(a.object(), b.object());
  }
};

class Undone {
 public:
  Undone(Trace& trace, const Virtual& object, const ObjectSet& kept)
      : trace_(trace), object_(object), keys_(0, KeyHash{&kept}, KeyEqual{&kept}), names_(keys_) {}

  void run() {
    for (uint32_t at = object_.head; at != kNone; at = trace_.log[at].next) {
      switch (object_.kind) {
        case VirtualKind::kList:
        case VirtualKind::kDeque:
          if (!item(at)) return;
          break;
        case VirtualKind::kDict:
        case VirtualKind::kInstance:
          key(at);
          break;
        case VirtualKind::kSet:
          member(at);
          break;
        case VirtualKind::kCell:
          last(at);
          break;
        case VirtualKind::kGenerator:
          if (trace_.log[at].op != LogOp::kField) last(at);
          break;
        default:
          return;
      }
    }
  }

 private:
  using Keys = std::unordered_map<Val, uint32_t, KeyHash, KeyEqual, Pooled<std::pair<const Val, uint32_t>>>;

  void end(uint32_t entry, uint32_t by) {
    if (entry != kNone) trace_.undone[entry] = trace_.log[by].time;
  }
  void last(uint32_t at) {
    end(last_, at);
    last_ = at;
  }
  void clear(uint32_t by) {
    for (uint32_t entry : items_) end(entry, by);
    for (const auto& row : keys_) end(row.second, by);
    items_.clear();
    keys_.clear();
  }
  bool item(uint32_t at);
  void key(uint32_t at);
  void member(uint32_t at);

  Trace& trace_;
  const Virtual& object_;
  uint32_t last_ = kNone;
  Vec<uint32_t> items_;  // by position: the entry that put it there
  Keys keys_, names_;
};

// False: where the items are is not followed any further.
bool Undone::item(uint32_t at) {
  const LogEntry& entry = trace_.log[at];
  if (entry.op == LogOp::kClear) {
    clear(at);
    return true;
  }
  // With a longest length, what is appended takes others out.
  if (entry.op == LogOp::kField) return entry.value.object() == Py_None;
  uint32_t taken = kNone;
  const bool known = apply_item(items_, entry, at, &taken);
  end(taken, at);
  return known;
}

// A dict of a class of the program's has items and attributes.
void Undone::key(uint32_t at) {
  const LogEntry& entry = trace_.log[at];
  Keys& keys = entry.op == LogOp::kSetAttr || entry.op == LogOp::kDelAttr ? names_ : keys_;
  switch (entry.op) {
    case LogOp::kSetItem:
    case LogOp::kSetAttr: {
      const auto [row, fresh] = keys.try_emplace(entry.key, at);
      if (!fresh) end(std::exchange(row->second, at), at);
      return;
    }
    case LogOp::kDelItem:
    case LogOp::kDelAttr:
      if (const auto row = keys.find(entry.key); row != keys.end()) {
        end(row->second, at);
        if (!entry.key.is_const()) end(at, at);
        keys.erase(row);
      }
      return;
    case LogOp::kClear:
      return clear(at);
    default:
      return;
  }
}

void Undone::member(uint32_t at) {
  const LogEntry& entry = trace_.log[at];
  if (entry.op == LogOp::kClear) return clear(at);
  if (key_of(entry).is_const()) return;
  if (entry.op == LogOp::kItem) {
    keys_.try_emplace(entry.value, at);
  } else if (const auto row = keys_.find(entry.key); row != keys_.end()) {
    end(row->second, at);
    end(at, at);
    keys_.erase(row);
  }
}

}  // namespace

void find_undone(Trace& trace) {
  ObjectSet kept;
  for (const Virtual& object : trace.virtuals) {
    if (!object.rewritten) continue;
    if (trace.undone.empty()) {
      trace.undone.resize(trace.log.size(), kNone);
      for (const Ref& owned : trace.owned) kept.insert(owned.get());
    }
    Undone(trace, object, kept).run();
  }
}

}  // namespace pijit
