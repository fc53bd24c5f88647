// Drops from a trace what no replay comes to: snapshots that no node has, frame states, virtual objects and entries of
// their logs that no snapshot sees, and frames of calls in which no node was recorded.
//
// A recording makes a virtual object for each tuple of arguments, each bound method and each iterator. Most of them end
// between two snapshots, and what is done to others is done after the last snapshot that sees them: of a model of many
// layers that is half of the trace's bytes.
//
// 1. A snapshot sees an object as of its time, and what the object holds then; so of each object the log is kept up to
// the latest time at which one sees it.
// 2. Kept whole are objects that stand in a register, exceptions with their tracebacks, and those of which an entry is
// undone: the last are looked at where the entry ends (Liveness::use_undone).
// 3. Nodes are visited from the last to the first, so that nearly each object is first seen at its latest time. What is
// seen at ever later times by the entries of one log is looked at once, after that: it may have a long log itself, as an
// iterator that each turn of a generator mentions.
// 4. What is kept stays in its order, under lower numbers; so a second time drops nothing.
// 5. When registers die and what is held was found before, from all that was recorded: replays are what they would be
// if nothing had been dropped.
#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "common/work.h"
#include "exec/replay.h"

namespace pijit {

namespace {

// What is kept of a vector, and until when each of its items is seen; then the numbers of what is kept.
class Kept {
 public:
  explicit Kept(size_t size) : marks_(size) {}
  // False: it is seen until then anyway.
  bool mark(uint32_t at, uint32_t until = 0) {
    if (marks_[at] > until) return false;
    marks_[at] = uint64_t{until} + 1;
    return true;
  }
  bool has(size_t at) const { return marks_[at] != 0; }
  uint32_t until(size_t at) const { return static_cast<uint32_t>(marks_[at] - 1); }

  // No mark() after this.
  void number() noexcept {
    uint64_t count = 0;
    for (uint64_t& mark : marks_)
      if (mark != 0) mark = ++count;
  }
  uint32_t numbered(uint32_t at) const { return at == kNone ? kNone : static_cast<uint32_t>(marks_[at] - 1); }
  Val numbered(Val value) const { return value.is_virtual() ? Val::virtual_object(numbered(value.index())) : value; }
  // Only what is kept; nothing is allocated.
  template <class T>
  void drop_others(Vec<T>* items) const noexcept {
    size_t count = 0;
    for (size_t i = 0; i < items->size(); ++i)
      if (has(i)) (*items)[count++] = (*items)[i];
    items->erase(items->begin() + static_cast<ptrdiff_t>(count), items->end());
  }

 private:
  Vec<uint64_t> marks_;  // 0: it is dropped
};

class Unseen {
 public:
  explicit Unseen(Trace& trace)
      : trace_(trace),
        snapshots_(trace.snapshots.size()),
        states_(trace.frame_states.size()),
        objects_(trace.virtuals.size()),
        entries_(trace.log.size()),
        frames_(trace.followed.size()),
        waits_(trace.virtuals.size()) {}
  void drop();

 private:
  void mark();
  void see_node(const Node& node);
  void see_snapshot(uint32_t index);
  void see_state(uint32_t index, uint32_t time);
  void see(Val value, uint32_t time) {
    if (value.is_virtual()) see_object(value.index(), time);
  }
  void see_object(uint32_t index, uint32_t time) {
    if (!objects_.mark(index, time) || waits_[index]) return;
    waits_[index] = true;
    pending_.push_back(index);
  }
  uint32_t end_of_log(uint32_t index) const;
  void see_log(uint32_t index);
  void see_logs();
  void keep_entries() noexcept;
  void keep_frame(uint32_t index) {
    for (; index != kNone && frames_.mark(index); index = trace_.followed[index].caller) {
    }
  }
  void renumber() noexcept;
  void move_slots(Vals* to) noexcept;

  Trace& trace_;
  Kept snapshots_, states_, objects_, entries_, frames_;
  Vec<bool> waits_;        // by object: it is in `pending_`
  Vec<uint32_t> pending_;  // objects whose logs are still to be looked at
};

// The last time of which the log of an object is kept.
uint32_t Unseen::end_of_log(uint32_t index) const {
  const Virtual& object = trace_.virtuals[index];
  const bool whole = object.reg != kNone || object.rewritten || object.kind == VirtualKind::kException ||
                     object.kind == VirtualKind::kTraceback;
  return whole ? UINT32_MAX : objects_.until(index);
}

void Unseen::see_log(uint32_t index) {
  const uint32_t until = objects_.until(index), end = end_of_log(index);
  for (uint32_t at = trace_.virtuals[index].head; at != kNone && trace_.log[at].time <= end; at = trace_.log[at].next) {
    note_work();
    const LogEntry& entry = trace_.log[at];
    const bool undone = !trace_.undone.empty() && trace_.undone[at] != kNone;
    const uint32_t time = std::max(until, undone ? trace_.undone[at] : entry.time);
    see(entry.key, time);
    see(entry.value, time);
    if (entry.op == LogOp::kFrame) see_state(entry.index, time);
  }
}

void Unseen::see_logs() {
  while (!pending_.empty()) {
    const uint32_t index = pending_.back();
    pending_.pop_back();
    waits_[index] = false;
    see_log(index);
  }
}

void Unseen::see_state(uint32_t index, uint32_t time) {
  for (; index != kNone && states_.mark(index, time); index = trace_.frame_states[index].parent) {
    const FrameState& state = trace_.frame_states[index];
    for (Val value : {state.function, state.extra, state.generator, state.handled}) see(value, time);
    if (state.self != kNone) see_object(state.self, time);
    for (uint32_t i = 0; i < state.locals + state.stack; ++i) see(trace_.slots[state.first + i], time);
  }
}

void Unseen::see_snapshot(uint32_t index) {
  if (index == kNone) return;
  snapshots_.mark(index);
  see_state(trace_.snapshots[index].frame, trace_.snapshots[index].time);
}

void Unseen::see_node(const Node& node) {
  see_snapshot(node.snapshot);
  if (has_second_snapshot(node.op)) see_snapshot(static_cast<uint32_t>(node.imm));
  if (node.op == Op::kLoopHead) see_state(trace_.heads[node.imm].state, node.time);
  for (Val value : {node.a, node.b, node.c}) see(value, node.time);
  for (uint32_t i = 0; i < node.count; ++i) see(trace_.operands[node.first + i], node.time);
  if (node.site < trace_.sites.size()) keep_frame(trace_.sites[node.site].frame);
}

void Unseen::mark() {
  for (size_t i = trace_.nodes.size(); i-- > 0;) {
    see_node(trace_.nodes[i]);
    see_logs();
  }
  if (trace_.takes_inputs) see_snapshot(0);
  if (!trace_.followed.empty()) keep_frame(0);
  for (uint32_t i = 0; i < trace_.virtuals.size(); ++i)
    if (trace_.virtuals[i].reg != kNone || trace_.virtuals[i].rewritten) see_object(i, trace_.virtuals[i].birth);
  see_logs();
}

void Unseen::keep_entries() noexcept {
  for (uint32_t i = 0; i < trace_.virtuals.size(); ++i) {
    if (!objects_.has(i)) continue;
    Virtual& object = trace_.virtuals[i];
    const uint32_t end = end_of_log(i);
    uint32_t last = kNone;
    for (uint32_t at = object.head; at != kNone && trace_.log[at].time <= end; at = trace_.log[at].next) {
      entries_.mark(at);
      last = at;
    }
    (last == kNone ? object.head : trace_.log[last].next) = kNone;
    object.tail = last;
  }
}

void Unseen::renumber() noexcept {
  for (Node& node : trace_.nodes) {
    node.snapshot = snapshots_.numbered(node.snapshot);
    if (has_second_snapshot(node.op)) node.imm = snapshots_.numbered(static_cast<uint32_t>(node.imm));
    for (Val* value : {&node.a, &node.b, &node.c}) *value = objects_.numbered(*value);
  }
  for (Val& operand : trace_.operands) operand = objects_.numbered(operand);
  for (Snapshot& snapshot : trace_.snapshots) snapshot.frame = states_.numbered(snapshot.frame);
  for (LoopHead& head : trace_.heads) head.state = states_.numbered(head.state);
  for (FrameState& state : trace_.frame_states) {
    state.parent = states_.numbered(state.parent);
    state.self = objects_.numbered(state.self);
    for (Val* value : {&state.function, &state.extra, &state.generator, &state.handled})
      *value = objects_.numbered(*value);
  }
  for (Virtual& object : trace_.virtuals) {
    object.head = entries_.numbered(object.head);
    object.tail = entries_.numbered(object.tail);
  }
  for (LogEntry& entry : trace_.log) {
    entry.next = entries_.numbered(entry.next);
    entry.key = objects_.numbered(entry.key);
    entry.value = objects_.numbered(entry.value);
    if (entry.op == LogOp::kFrame) entry.index = states_.numbered(entry.index);
  }
  for (Followed& frame : trace_.followed) {
    frame.caller = frames_.numbered(frame.caller);
    // Only what is there before the call is looked at.
    if (frame.first.is_virtual()) frame.first = Val();
  }
  for (Site& site : trace_.sites) site.frame = frames_.numbered(site.frame);
}

void Unseen::move_slots(Vals* to) noexcept {
  for (FrameState& state : trace_.frame_states) {
    const auto first = trace_.slots.begin() + state.first, end = first + state.locals + state.stack;
    state.first = static_cast<uint32_t>(to->size());
    std::transform(first, end, std::back_inserter(*to), [&](Val slot) { return objects_.numbered(slot); });
  }
  trace_.slots.swap(*to);
}

// Where memory is short, nothing has changed.
void Unseen::drop() {
  mark();
  size_t count = 0;
  for (size_t i = 0; i < trace_.frame_states.size(); ++i)
    if (states_.has(i)) count += trace_.frame_states[i].locals + trace_.frame_states[i].stack;
  Vals slots;
  slots.reserve(count);
  keep_entries();
  for (Kept* kept : {&snapshots_, &states_, &objects_, &entries_, &frames_}) kept->number();
  snapshots_.drop_others(&trace_.snapshots);
  states_.drop_others(&trace_.frame_states);
  objects_.drop_others(&trace_.virtuals);
  entries_.drop_others(&trace_.log);
  if (!trace_.undone.empty()) entries_.drop_others(&trace_.undone);
  frames_.drop_others(&trace_.followed);
  renumber();
  move_slots(&slots);
}

}  // namespace

void drop_unseen(Trace& trace) {
  Unseen(trace).drop();
}

}  // namespace pijit
