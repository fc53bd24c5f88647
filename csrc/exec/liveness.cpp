// Works out what the replay needs to know about a finished recording: last uses of registers, what must be held, scalar
// guard items.
//
// A register lives until the last node that reads it or whose snapshot (frames, and virtual objects as of its time) may
// read it. Nodes are visited from the last to the first. Frame states and virtual objects are expanded once: an earlier
// snapshot sees a prefix of what a later one saw, except that it may see the log of an object which the later one takes
// from a register; the kBuild node between the two has then expanded that log.
#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "cpython/frame_view.h"
#include "cpython/objects.h"
#include "exec/cuts.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "ir/log.h"
#include "numpy/operation.h"
#include "pandas/operation.h"
#include "plan/pieces.h"
#include "plan/regions.h"
#include "plan/segment.h"
#include "plan/tapes.h"

namespace pijit {

namespace {

// The guard says that an input is the same object in each replay. Where a replay takes it, nothing else need hold it.
bool is_constant_input(const Trace& trace, const Guard& guard) noexcept {
  return guard.op == GuardOp::kIs && guard.subject.is_reg() && is_taken(trace, guard.subject.index());
}

class Liveness {
 public:
  // Without `snapshots`, only those of opaque calls and of the trace's end count: what others read is needed where a
  // replay is left before its end only. `quiet`: nodes whose own operands do not count.
  explicit Liveness(const Trace& trace, bool snapshots = true, Vec<bool> quiet = {})
      : trace_(trace),
        snapshots_(snapshots),
        quiet_(std::move(quiet)),
        last_(trace.regs.size(), kNone),
        place_(trace.regs.size()),
        late_(trace.regs.size()),
        states_(trace.frame_states.size()),
        logs_(trace.virtuals.size(), kNone),
        walks_(trace.virtuals.size()),
        builds_(trace.virtuals.size()) {
    if (trace.takes_inputs) find_constant_inputs();
  }

  void run();
  // The last node that may read each register; kNone: nobody.
  const Vec<uint32_t>& last() const { return last_; }
  // Which operand of that node, or which place in its frames, reads the register: the last one lets it go.
  const Vec<uint32_t>& place() const { return place_; }
  // Where CPython runs frames: that node reads the register for more than for these frames.
  const Vec<bool>& late() const { return late_; }

 private:
  void use(Val value, uint32_t time);
  void find_constant_inputs();
  void use_register(uint32_t index) {
    if (last_[index] != kNone && last_[index] > node_) return;
    last_[index] = node_;
    place_[index] = uses_++;
    if (is_late_) late_[index] = true;
  }
  void use_log(uint32_t index, uint32_t time);
  void use_entries(uint32_t index, uint32_t time);
  void use_entry(const LogEntry& entry, uint32_t time);
  void use_slots(const FrameState& state, uint32_t time);
  void use_undone(uint32_t time);
  void use_build(const Node& node);
  void use_operands(const Node& node);
  void use_snapshot(const Snapshot& snapshot) { use_frames(snapshot.frame, snapshot.time); }
  void use_frames(uint32_t state, uint32_t time);
  void use_around(const Node& node);
  void use_guard(const Guard& guard);
  void use_epoch(const Epoch& epoch);

  bool reads_snapshot(const Node& node) const noexcept {
    const bool always = is_opaque(node.op) || node.op == Op::kBuild || node.op == Op::kExit;
    return node.snapshot != kNone && (snapshots_ || always);
  }

  const Trace& trace_;
  const bool snapshots_;
  const Vec<bool> quiet_;  // empty: none is
  Vec<uint32_t> last_, place_;
  uint32_t uses_ = 0;
  Vec<bool> late_;
  bool is_late_ = false;
  Vec<bool> states_;                // expanded
  Vec<uint32_t> logs_;              // expanded: at which node; else kNone
  Vec<uint8_t> walks_;              // how often each log was walked at that node, for the places
  Vec<uint32_t> builds_;            // by which kBuild each was walked last
  Vec<uint32_t> undone_;            // entries whose end is still to come, the last one last
  uint32_t built_ = 0, build_ = 0;  // how many; the one under way, or 0
  uint32_t node_ = 0;
  Map<PyObject*, uint32_t> constant_inputs_;  // the registers that hold them
};

void Liveness::find_constant_inputs() {
  for (size_t i = 0; i < trace_.entry_guards(); ++i) {
    const Guard& guard = trace_.guards[i];
    if (is_constant_input(trace_, guard)) constant_inputs_.emplace(guard.expected, guard.subject.index());
  }
}

void Liveness::use(Val value, uint32_t time) {
  if (value.is_const() && !constant_inputs_.empty()) {
    const auto found = constant_inputs_.find(value.object());
    if (found != constant_inputs_.end()) use_register(found->second);
  }
  if (value.is_reg()) return use_register(value.index());
  if (!value.is_virtual()) return;
  const Virtual& object = trace_.virtuals[value.index()];
  if (object.is_real(time)) return use_register(object.reg);
  use_log(value.index(), time);
}

void Liveness::use_log(uint32_t index, uint32_t time) {
  constexpr int kMostWalks = 3;  // an object that is in many places dies with the last of them
  if (build_ != 0) {
    if (std::exchange(builds_[index], build_) == build_) return;
  } else if (logs_[index] != kNone && (logs_[index] != node_ || ++walks_[index] >= kMostWalks)) {
    return;
  }
  logs_[index] = node_;
  use_entries(index, time);
}

void Liveness::use_entries(uint32_t index, uint32_t time) {
  const Virtual& object = trace_.virtuals[index];
  const auto one = [&](uint32_t at) {
    if (!is_removed(trace_, object, at, time)) use(trace_.log[at].key, time);
    if (trace_.stands(at, time)) use_entry(trace_.log[at], time);
  };
  // What a tuple or a list holds dies from its end.
  const bool backwards = object.kind == VirtualKind::kTuple || object.kind == VirtualKind::kList;
  Vec<uint32_t> entries;
  for (uint32_t at = object.head; at != kNone && trace_.log[at].time <= time; at = trace_.log[at].next) {
    if (!backwards) one(at);
    if (backwards) entries.push_back(at);
  }
  for (size_t i = entries.size(); i-- > 0;) one(entries[i]);
}

void Liveness::use_entry(const LogEntry& entry, uint32_t time) {
  use(entry.value, time);
  if (entry.op != LogOp::kFrame || entry.index == kNone) return;
  const FrameState& state = trace_.frame_states[entry.index];
  use(state.handled, time);
  use_slots(state, time);
}

void Liveness::use_slots(const FrameState& state, uint32_t time) {
  const uint32_t count = state.locals + state.stack;
  for (uint32_t i = 0; i < count; ++i)
    use(trace_.slots[state.first + (cpython::kFramesClearFromTheirEnd ? count - 1 - i : i)], time);
}

// An object has what an entry says until it is undone, and it is alive then. A trace may end before: what was recorded
// after its end names registers that nothing writes.
void Liveness::use_undone(uint32_t time) {
  const uint32_t end = trace_.nodes.back().time;
  for (; !undone_.empty() && trace_.undone[undone_.back()] > time; undone_.pop_back()) {
    const LogEntry& entry = trace_.log[undone_.back()];
    if (entry.time > end) continue;
    const uint32_t until = std::min(trace_.undone[undone_.back()] - 1, end);
    use(entry.key, until);
    use_entry(entry, until);
  }
}

// The snapshot of an instruction is as of its start, before the kBuild nodes of that instruction: so what one of these
// reads is not what the snapshots after it have marked, and the other nodes of the instruction may leave to before it.
void Liveness::use_build(const Node& node) {
  const uint32_t at = node_;
  for (uint32_t i = at + 1; i < trace_.nodes.size(); ++i) {
    const uint32_t snapshot = trace_.nodes[i].snapshot;
    if (snapshot == kNone) continue;
    if (trace_.snapshots[snapshot].time >= node.time) break;
    node_ = i;
  }
  build_ = ++built_;
  use_entries(node.a.index(), node.time);
  build_ = 0;
  node_ = at;
}

void Liveness::use_frames(uint32_t innermost, uint32_t time) {
  for (uint32_t at = innermost; at != kNone; at = trace_.frame_states[at].parent) {
    if (states_[at]) return;  // and so is every parent
    states_[at] = true;
    const FrameState& state = trace_.frame_states[at];
    use(state.function, time);
    use(state.extra, time);
    use(state.generator, time);
    use(state.handled, time);
    use_slots(state, time);
  }
}

// What a node that has CPython run frames reads for the frames around these, and for where the replay goes on after an
// exception.
void Liveness::use_around(const Node& node) {
  const Snapshot& snapshot = trace_.snapshots[node.snapshot];
  uint32_t levels = 0, around = snapshot.frame;
  for (uint32_t at = around; at != kNone; at = trace_.frame_states[at].parent) ++levels;
  for (; levels > node.aux; --levels) around = trace_.frame_states[around].parent;
  is_late_ = true;
  use_frames(around, snapshot.time);
  use_snapshot(trace_.snapshots[node.imm]);
  is_late_ = false;
}

void Liveness::use_guard(const Guard& guard) {
  use(guard.subject, 0);
  if (row_of(guard.op).number == column::Number::register_) use_register(static_cast<uint32_t>(guard.number));
}

void Liveness::use_epoch(const Epoch& epoch) {
  for (uint32_t i = epoch.first; i < epoch.first + epoch.count; ++i) use_guard(trace_.guards[i]);
  // What it has loaded itself nothing lets die meanwhile.
  const auto number = static_cast<uint32_t>(&epoch - trace_.epochs.data()) + 1;
  for (size_t i = 0; epoch.tensors != nullptr && i < epoch.tensors->size(); ++i)
    if (const Val source = epoch.tensors->source(i); source.is_reg() && trace_.regs[source.index()].epoch < number)
      use_register(source.index());
}

void Liveness::use_operands(const Node& node) {
  if (!quiet_.empty() && quiet_[node_]) return;
  if (node.op == Op::kBuild) return;  // use_build() has all that it holds, its group among it
  use(node.a, node.time);
  use(node.b, node.time);
  use(node.c, node.time);
  for (uint32_t k = 0; k < node.count; ++k) use(trace_.operands[node.first + k], node.time);
}

void Liveness::run() {
  for (uint32_t at = 0; at < trace_.undone.size(); ++at)
    if (trace_.undone[at] != kNone) undone_.push_back(at);
  std::sort(undone_.begin(), undone_.end(),
            [&](uint32_t a, uint32_t b) { return trace_.undone[a] < trace_.undone[b]; });
  for (size_t i = trace_.nodes.size(); i-- > 0;) {
    const Node& node = trace_.nodes[i];
    node_ = static_cast<uint32_t>(i);
    use_undone(node.snapshot != kNone ? trace_.snapshots[node.snapshot].time : node.time);
    if (runs_frames(node.op)) use_around(node);
    if (reads_snapshot(node)) use_snapshot(trace_.snapshots[node.snapshot]);
    if (has_second_snapshot(node.op)) use_snapshot(trace_.snapshots[node.imm]);
    if (node.op == Op::kEpoch) use_epoch(trace_.epochs[node.aux]);
    if (node.op == Op::kBuild) use_build(node);
    use_operands(node);
    // A result that nobody reads dies at once.
    if (node.out != kNone) use_register(node.out);
    for (uint32_t k = 0; k < node.outs_count; ++k) use_register(trace_.outs[node.outs_first + k]);
  }
}

// Finds what would die under the replay: a node may drop the last reference to what guards found before it.
class Holding {
 public:
  Holding(Trace& trace, const Vec<uint32_t>& last) : trace_(trace), last_(last) {
    for (size_t i = 0; i < trace.nodes.size(); ++i)
      if (may_let_die(trace.nodes[i].op)) dangers_.push_back(static_cast<uint32_t>(i));
  }
  void run() {
    if (trace_.takes_inputs || !dangers_.empty()) {
      find_retained();
      find_pins();
    }
    for (auto [object, epoch] : trace_.dropped) hold(object, epoch);
  }

 private:
  void find_retained();
  void find_pins();
  void see(Val value);
  void see_frames(uint32_t snapshot);
  void see_state(const FrameState& state);
  void see_log(uint32_t time);
  void find_mirrored();
  void pin(PyObject* object);
  void hold(PyObject* object, uint32_t epoch);

  Trace& trace_;
  const Vec<uint32_t>& last_;
  Vec<uint32_t> dangers_;
  ObjectSet seen_;
  Vec<bool> states_;
  Vec<bool> mirrored_;  // by entry of the log
  size_t log_ = 0;
  uint32_t epoch_ = 0;  // 0: entry
};

// Registers that guards load, borrowed, and that are read after a node that might let them die. Inputs that a replay
// takes die on the way, and what was loaded from them with them.
void Holding::find_retained() {
  const uint32_t danger = trace_.takes_inputs ? 0 : dangers_.front();
  const auto retain = [&](uint32_t first, uint32_t end, const InputGuards* tensors, Vec<uint32_t>* retained) {
    const auto add = [&](uint32_t r) {
      if (r != kNone && last_[r] != kNone && last_[r] >= danger) retained->push_back(r);
    };
    for (uint32_t i = first; i < end; ++i) add(trace_.guards[i].out);
    for (size_t i = 0; tensors != nullptr && i < tensors->size(); ++i) add(tensors->register_of(i));
    std::sort(retained->begin(), retained->end());
  };
  retain(0, static_cast<uint32_t>(trace_.entry_guards()), trace_.tensors.get(), &trace_.retained);
  for (Epoch& epoch : trace_.epochs)
    retain(epoch.first, epoch.first + epoch.count, epoch.tensors.get(), &epoch.retained);
}

void Holding::pin(PyObject* object) {
  if (object == Py_None || object == Py_True || object == Py_False || !seen_.insert(object).second) return;
  hold(object, epoch_);
}

void Holding::hold(PyObject* object, uint32_t epoch) {
  if (epoch == 0) {
    trace_.pins.push_back(object);
    return;
  }
  RegInfo info;
  info.epoch = epoch;
  trace_.regs.push_back(info);
  trace_.epochs[epoch - 1].pins.emplace_back(object, static_cast<uint32_t>(trace_.regs.size() - 1));
}

void Holding::see(Val value) {
  if (value.is_const()) pin(value.object());
}

void Holding::see_frames(uint32_t snapshot) {
  for (uint32_t at = trace_.snapshots[snapshot].frame; at != kNone; at = trace_.frame_states[at].parent) {
    if (states_[at]) return;
    states_[at] = true;
    see_state(trace_.frame_states[at]);
  }
}

void Holding::see_state(const FrameState& state) {
  see(state.function);
  see(state.extra);
  see(state.generator);
  for (uint32_t i = 0; i < state.locals + state.stack; ++i) see(trace_.slots[state.first + i]);
}

// What is said of a container that was real from the start, such as an argument: it is not built from that, and what it
// holds dies when it is taken out.
void Holding::find_mirrored() {
  mirrored_.resize(trace_.log.size());
  for (const Virtual& object : trace_.virtuals)
    if (object.reg != kNone && object.reg_time == 0)
      for (uint32_t at = object.head; at != kNone; at = trace_.log[at].next) mirrored_[at] = true;
}

// Entries are in the order of their times.
void Holding::see_log(uint32_t time) {
  for (; log_ < trace_.log.size() && trace_.log[log_].time <= time; ++log_) {
    if (mirrored_[log_]) continue;
    see(trace_.log[log_].key);
    see(trace_.log[log_].value);
    if (trace_.log[log_].op == LogOp::kFrame && trace_.log[log_].index != kNone)
      see_state(trace_.frame_states[trace_.log[log_].index]);
  }
}

// A constant is alive when it is first mentioned, and is held from the last point before that at which guards were
// checked.
void Holding::find_pins() {
  for (const Ref& object : trace_.owned) seen_.insert(object.get());
  if (trace_.takes_inputs)
    for (size_t i = 0; i < trace_.entry_guards(); ++i) {
      const Guard& guard = trace_.guards[i];
      if (is_constant_input(trace_, guard)) seen_.insert(guard.expected);
    }
  states_.resize(trace_.frame_states.size());
  find_mirrored();
  for (const Node& node : trace_.nodes) {
    if (node.snapshot != kNone) see_frames(node.snapshot);
    if (has_second_snapshot(node.op)) see_frames(static_cast<uint32_t>(node.imm));
    if (node.op == Op::kEpoch) epoch_ = node.aux + 1;
    see_log(node.time);
    for (Val value : {node.a, node.b, node.c}) see(value);
    for (uint32_t k = 0; k < node.count; ++k) see(trace_.operands[node.first + k]);
  }
}

// What dies at one node does so in the order in which CPython clears frames: the innermost first, each from its first
// variable on, or from its last back.
void fill_releases(Trace* trace, const Liveness& liveness) {
  const Vec<uint32_t>&last = liveness.last(), &place = liveness.place();
  const Vec<bool>& late = liveness.late();
  trace->unread.clear();
  Vec<uint32_t> order;
  for (uint32_t r = trace->takes_inputs ? 0 : trace->inputs; r < last.size(); ++r) {
    if (last[r] != kNone) order.push_back(r);
    if (last[r] == kNone && r < trace->inputs) trace->unread.push_back(r);
  }
  const auto key = [&](uint32_t r) { return std::tuple(last[r], bool{late[r]}, place[r]); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  trace->releases = order;
  for (Node& node : trace->nodes) node.release_first = node.release_count = node.release_early = 0;
  for (uint32_t i = 0; i < order.size(); ++i) {
    Node& node = trace->nodes[last[order[i]]];
    if (node.release_count++ == 0) node.release_first = i;
    node.release_early += runs_frames(node.op) && !late[order[i]] && order[i] != node.out;
  }
}

void sort_addresses(Objects* objects) {
  std::sort(objects->begin(), objects->end());
  objects->erase(std::unique(objects->begin(), objects->end()), objects->end());
}

// Guards that another scalar of the same value satisfies: of those that the trace owns. It owns each number that it has
// met, and has few guards: so what guards name is sorted, and not what it owns.
void mark_scalars(Trace* trace) {
  Objects named = trace->guard_items, exact = trace->exact, owned, scalars;
  for (const Guard& guard : trace->guards) named.push_back(guard.expected);
  sort_addresses(&named);
  for (const Ref& object : trace->owned)
    if (std::binary_search(named.begin(), named.end(), object.get()) && cpython::is_scalar(object.get()))
      owned.push_back(object.get());
  sort_addresses(&owned);
  std::sort(exact.begin(), exact.end());
  std::set_difference(owned.begin(), owned.end(), exact.begin(), exact.end(), std::back_inserter(scalars));
  const auto is_owned_scalar = [&](PyObject* object) {
    return object != nullptr && std::binary_search(scalars.begin(), scalars.end(), object);
  };
  for (Guard& guard : trace->guards) guard.scalar = is_owned_scalar(guard.expected);
  trace->item_kinds.resize(trace->guard_items.size());
  for (size_t i = 0; i < trace->guard_items.size(); ++i)
    trace->item_kinds[i] = is_owned_scalar(trace->guard_items[i]) ? ItemKind::kScalar : ItemKind::kOther;
  // A dict compares its keys by their values, also where the trace compares the object itself; not one that is walked.
  sort_addresses(&trace->address_keys);
  for (const Guard& guard : trace->guards) {
    if (guard.op != GuardOp::kDict) continue;
    for (uint32_t i = guard.first; i < guard.first + guard.count; i += 2) {
      PyObject* key = trace->guard_items[i];
      if (guard.aux == 0 && std::binary_search(owned.begin(), owned.end(), key))
        trace->item_kinds[i] = ItemKind::kScalar;
      if (std::binary_search(trace->address_keys.begin(), trace->address_keys.end(), key))
        trace->item_kinds[i] = ItemKind::kAddress;
    }
  }
}

}  // namespace

void finish_trace(Trace& trace) {
  pandas::attach_operations(trace);  // what NumPy computes of frames, too
  numpy::attach_operations(trace);
  find_undone(trace);
  mark_scalars(&trace);
  compile_guards(trace);
}

void prepare_replays(Trace& trace) {
  trace.emptied.clear();
  for (const Guard& guard : trace.guards)
    if (guard.op == GuardOp::kSuspended) trace.emptied.push_back(guard.subject.index());
  Liveness liveness(trace);
  liveness.run();
  fill_releases(&trace, liveness);
  Holding(trace, liveness.last()).run();
  drop_unseen(trace);
  Trace::each_vector(trace, [](auto& items) { items.shrink_to_fit(); });
  trace.room = trace.regs.size();
  trace.prepared = true;
}

void find_segments(Trace& trace, bool has_market) {
  trace.segments.reset();
  trace.tapes.reset();
  const bool may_plan = has_market || has_regions(trace), may_tape = records_tapes() && computes_gradients(trace);
  if (!may_plan && !may_tape) return;
  Liveness seen(trace);
  seen.run();
  if (may_tape) trace.tapes = find_tapes(trace, seen.last());
  if (!may_plan) return;
  Liveness read(trace, false);
  read.run();
  trace.segments = find_segments(trace, read.last(), seen.last(), has_market);
}

void leave_sides(const Trace& trace, const Segment& segment, Segments* segments) {
  Vec<bool> left = segments->varying;
  left.resize(trace.nodes.size());
  for (uint32_t at : segment.sides->calls) left[at] = true;
  Liveness seen(trace), read(trace, false);
  seen.run();
  read.run();
  std::shared_ptr<Segments> found =
      find_segments(trace, read.last(), seen.last(), segments->has_market, std::move(left));
  auto all = std::make_shared<Segments::List>();
  for (const std::shared_ptr<Segment>& each : *found->all) {
    const auto same = std::find_if(segments->all->begin(), segments->all->end(), [&](const auto& other) {
      return other->first == each->first && other->last == each->last && !other->sides == !each->sides;
    });
    all->push_back(same == segments->all->end() ? each : *same);
  }
  found->all = std::move(all);
  found->arguments = std::move(segments->arguments);
  *segments = std::move(*found);
}

bool cut_segments(const Trace& trace, const Segment& segment, const Vec<uint32_t>& varying, Segments* segments) {
  Vec<bool> left = segments->varying;
  left.resize(trace.nodes.size());
  for (uint32_t at : varying) left[at] = true;
  Liveness seen(trace), read(trace, false), others(trace, false, nodes_of_operators(trace));
  for (Liveness* each : {&seen, &read, &others}) each->run();
  std::shared_ptr<Segments> found =
      find_segments(trace, read.last(), seen.last(), segments->has_market, std::move(left));
  if (!keep_pieces(trace, *segments, segment, others.last(), found.get())) return false;
  *segments = std::move(*found);
  return true;
}

}  // namespace pijit
