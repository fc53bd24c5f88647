// A trace as data: entry guards, nodes, snapshots, virtual objects. Written once by the recorder, read-only once it is
// prepared for replays.
//
// Registers are in single-assignment form: a register is written by one entry guard or one node, so a register index is
// valid for the whole trace. Virtual objects carry a log of what was done to them, each entry with the time
// (Trace::clock) at which it was done; a snapshot names a time and sees the entries before it. So taking a snapshot
// copies one frame and no heap.
//
// 1. A Const that is an immutable scalar, str, bytes, tuple of such, code or range is kept by `owned`; every other
//    Const is borrowed: a guard proves that a container which is itself proven holds it.
// 2. Once a node may drop foreign references (effect `write` on Python objects), Consts that are used later are in
//    `pins` and are held by the replay itself.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ref.h"
#include "ir/executable.h"
#include "ir/rows.h"
#include "ir/value.h"

namespace pijit {

// One entry guard; see guards.def for the meaning of the fields of each op.
struct Guard {
  GuardOp op;
  uint32_t out = kNone;          // register that a load writes (borrowed object)
  Val subject;                   // Const or Reg
  PyObject* expected = nullptr;  // borrowed; kept by `owned` or proven by an earlier guard
  mutable uint64_t number = 0;   // tag, version, address, size or index (a refreshed dict tag is published here)
  uint32_t aux = 0;
  uint32_t first = 0, count = 0;  // range in Trace::guard_items
  bool scalar = false;            // `expected` is a scalar kept by `owned`: equal bits will do (filled by finish_trace)
};

// A guard of the common kinds in 24 bytes, for the loop that checks them; everything else refers to its row.
struct FastGuard {
  uintptr_t subject;        // the object, with the kind in the low bits
  mutable uint64_t number;  // dict tag, version; the type of an instance
  uint64_t more;  // the address of an instance's dict, of an instance; else the index of the row in Trace::guards
};

// One node; see ops.def. Operands beyond a, b, c are in Trace::operands [first, first + count).
struct Node {
  Op op;
  uint32_t out = kNone;       // register written
  uint32_t snapshot = kNone;  // where a failing node leaves to: the start of its instruction
  uint32_t time = 0;          // Trace clock when it was recorded
  uint32_t site = 0;          // index in Trace::sites: code and instruction, for printing
  Val a, b, c;
  uint64_t imm = 0;
  uint32_t aux = 0;
  uint32_t first = 0, count = 0;                // operands
  Rep rep = Rep::kEmpty;                        // kScalar: of the constant operand
  ForeignCall foreign = ForeignCall::kUnknown;  // kOpaque: of what is called, which may be dead later on
  uint32_t outs_first = 0, outs_count = 0;      // registers written, in Trace::outs (kAdapter: `out` is kNone then)
  AdapterOp* adapter_op = nullptr;              // owned by Trace::adapter_ops
  uint32_t release_first = 0,
           release_count = 0;  // registers to drop after the node, in Trace::releases (filled by prepare_replays)
  uint32_t release_early =
      0;  // as many of these, from the first on, are dropped once the frames that CPython runs stand
};

// A register's static facts.
struct RegInfo {
  Rep rep = Rep::kObject;
  uint32_t epoch = 0;            // in which it is written (0: before the first opaque call)
  PyTypeObject* type = nullptr;  // exact type if known (borrowed, kept like a Const)
};

// kFrame and kClear are the states of a generator: suspended as frame_states[index] says (kNone: it runs), ended.
enum class LogOp : uint8_t {
  kItem,
  kSetItem,
  kDelItem,
  kInsert,
  kClear,
  kSetAttr,
  kDelAttr,
  kField,
  kIndex,
  kFrame,
  kTraced
};

// The kIndex of an iterator that has ended: it stays so, whatever becomes of its source.
inline constexpr uint32_t kExhausted = UINT32_MAX;

// One thing done to a virtual object. `next` links the entries of one object in time order.
struct LogEntry {
  LogOp op;
  uint32_t time;
  uint32_t next = kNone;
  uint32_t index =
      0;  // kField: field number; kIndex: position; list ops: index; kFrame: frame state; kTraced: instruction
  Val key, value;
};

struct Virtual {
  VirtualKind kind;
  bool buildable = true;
  bool rewritten = false;  // some entry of the log undoes an earlier one
  uint32_t birth = 0;      // clock at allocation
  PyTypeObject* type = nullptr;
  uint32_t head = kNone, tail = kNone;  // its log
  uint32_t reg = kNone;                 // once built (or an input container): the register that holds the real object
  uint32_t reg_time = UINT32_MAX;       // the time from which on `reg` holds it
  bool is_real(uint32_t time) const noexcept { return reg != kNone && reg_time <= time; }
};

namespace exception_field = field::kException;
namespace function_field = field::kFunction;

// One frame of a snapshot; the outer ones are shared by all snapshots of the inner calls.
struct FrameState {
  uint32_t parent = kNone;       // the caller's FrameState (kNone: this is the root frame)
  uint32_t self = kNone;         // the kFrame that stands for it, if a traceback names it
  PyCodeObject* code = nullptr;  // borrowed from the function
  Val function;                  // Const function or Virtual function; Null for the root
  int32_t resume = 0;            // index (code units) of the instruction to go on with
  int32_t call = 0;              // index of the instruction that is under way (outer frames: the call), for tracebacks
  uint32_t first = 0;            // slots: localsplus then stack, in Trace::slots
  uint32_t locals = 0, stack = 0;  // how many of each
  Continuation continuation = Continuation::kNone;
  Val extra;      // see Continuation
  Val generator;  // the generator whose frame this is; Null for a function
  Val handled;    // the exception that it handles; Null: none of its own
};

struct Snapshot {
  uint32_t frame = kNone;  // innermost FrameState
  uint32_t time = 0;       // virtual objects are built as of this time
};

// Where a node came from.
struct Site {
  PyCodeObject* code;
  int32_t instruction;     // code units
  uint32_t frame = kNone;  // in Trace::followed
};

// A frame that the recording followed: the root's, or one of a call that is inlined. A generator has one for each time
// that it is resumed.
struct Followed {
  PyCodeObject* code;       // kept by owned
  uint32_t caller;          // in Trace::followed; kNone: this is the root's
  int32_t instruction = 0;  // of the caller, under way (code units)
  Val first;                // its first argument when it was called; Null: it has none
};

// Why and where recording stopped (code kept by owned).
struct StopInfo {
  const char* code = nullptr;  // "PJ203", null: recorded to its return
  std::string reason;
  std::string file, function;  // the user's own place
  int line = 0;
  std::string inside;  // the line in a library that `line` leads to: "torch/nn/modules/linear.py:134"
};

// Where a turn of a loop begins, in a trace that keeps the decisions of a call (record/step/heads.h).
struct LoopHead {
  uint32_t state;     // in Trace::frame_states: what the slots hold
  int32_t loop;       // the last instruction that jumps back to the head: the loop's name in its code
  int32_t head;       // the instruction where this turn begins
  bool back;          // it is a further turn, not the first
  bool in_registers;  // numbers that the loop assigns are in registers
};

// What is checked anew after an opaque call, when its guards, like those at entry, find all that the trace relies on
// from there on.
struct Epoch {
  uint32_t first = 0, count = 0;             // range in Trace::guards
  std::unique_ptr<StateGuard> state;         // modes of the adapter; may be null
  std::unique_ptr<InputGuards> tensors;      // tensors found by the guards; may be null
  Vec<std::pair<PyObject*, uint32_t>> pins;  // objects that are held from here on, each in a register of its own
  Vec<uint32_t> retained;                    // as Trace::retained, for what this epoch loads
};

// An object that the trace takes out of where guards found it, those at entry (0) or those of an epoch.
struct Dropped {
  PyObject* object;
  uint32_t epoch;
};

// How a guard compares an object that it names beside its subject.
enum class ItemKind : uint8_t {
  kOther,    // the object itself, which may be dead
  kScalar,   // kept by `owned`: equal bits will do
  kAddress,  // the key of a dict that equals nothing but itself, and may be dead
};

struct Trace;
struct Segments;
struct Tapes;

// Where a replay that leaves a trace at the node goes on; see exec/links.h.
struct Link {
  uint32_t node = 0;
  std::shared_ptr<Trace> to;
  uint32_t shared = 0;   // registers below this mean the same in both
  Vec<uint32_t> guards;  // of `to`, which the other trace does not have
  Vec<uint32_t> drops;   // registers that `to` has released before the node
};

// How often replays were left at a node.
struct Leaving {
  uint32_t node;
  uint64_t times = 0;  // since a recording was last made because of it
  int tries = 0;       // such recordings
  uint64_t all = 0;    // times in all
};

struct Trace {
  // What a replay reads stands together: of many traces, most are not in the processor's caches.
  bool prepared = false;      // for replays
  bool coroutines = false;    // some are made
  uint32_t depth = 1;         // deepest inlined level
  uint32_t inputs = 0;        // argument slots of the root frame; all of its slots, if it begins in the middle
  bool takes_inputs = false;  // it begins in the middle, as snapshots[0] says: a replay empties the frame's slots
  mutable size_t room = 0;    // registers that a replay needs, side traces included
  mutable uint64_t replays = 0, exits = 0;
  mutable uint64_t interruptions = 0;    // replays left for signals and other threads
  std::unique_ptr<StateGuard> state;     // thread and global modes of the adapter; may be null
  std::unique_ptr<InputGuards> tensors;  // tensor inputs: checked and loaded after all `guards`; may be null
  Vec<FastGuard> fast_guards;            // as `guards`, in the same order (filled by compile_guards)
  Vec<Guard> guards;                     // those at entry, then those of each epoch
  Vec<Epoch> epochs;                     // after each opaque call, in order
  Vec<Node> nodes;
  Vec<std::unique_ptr<AdapterOp>> adapter_ops;
  Vals operands;
  Vec<uint32_t> releases;  // (filled by prepare_replays)
  Vec<RegInfo> regs;       // regs[0..inputs): the slots of the root frame; borrowed objects, unless it takes them
  Objects pins;            // held from entry to return when not empty
  Vec<uint32_t> retained;  // registers loaded borrowed that a node might let die (filled by prepare_replays)
  Vec<uint32_t> unread;    // inputs that a replay takes and nothing reads (filled by prepare_replays)
  Vec<uint32_t> emptied;   // the generators whose frames a replay empties, too (filled by prepare_replays)

  Objects guard_items;       // borrowed; kept by owned or proven
  Vec<ItemKind> item_kinds;  // of guard_items (filled by finish_trace)
  Objects address_keys;      // keys of dicts among them that compare by their address; may be dead
  Vec<uint32_t> outs;
  Vec<Virtual> virtuals;
  Vec<LogEntry> log;
  Vec<uint32_t> undone;  // by entry of the log, from when on a later one has its place; empty: none is
                         // (filled by finish_trace)
  Vec<FrameState> frame_states;
  Vals slots;
  Vec<Snapshot> snapshots;
  Vec<Site> sites;
  Vec<Followed> followed;
  Vec<LoopHead> heads;
  Vec<Ref> owned;
  Vec<std::pair<uint32_t, Ref>> kept;  // tensors by the registers that they came in, where keeps_inputs() asks for them
  Objects exact;                       // of these: another object of the same value does not satisfy a guard
  Vec<Dropped> dropped;                // (held as `pins`, or as those of its epoch: filled in by prepare_replays)
  Ref code;                            // root code object
  uint32_t clock = 0;
  uint64_t operations = 0;  // bytecodes observed
  double record_seconds = 0;
  uint32_t turns = 0;  // that it takes of the loop at whose head it begins
  StopInfo stop;
  bool gives_way = false;              // to the next trace: the recording changed what its own guards are about
  Objects addresses;                   // objects whose addresses stand in constants, as addresses and nothing else
  bool of_this_process = false;        // a constant is an address, a hash or the order of a set: others have others
  Vec<StopInfo> detours;               // why something was left to an opaque call, or to CPython, in between
  uint32_t exit_points = 0;            // under stress: instructions at which a replay was to leave
  Vec<const char*> no_exits;           // why a replay cannot leave at some instructions
  mutable std::deque<Link> links;      // side traces; a replay may be in one while another is added
  mutable Vec<Leaving> leavings;       // where replays were left
  mutable Spent left;                  // in CPython, from where replays were left or the recording had stopped
  std::shared_ptr<Segments> segments;  // what compiled code may take over; null: nobody asked for it
  std::shared_ptr<Tapes> tapes;        // forward and backward passes as operators; null: it has none
  mutable bool forgotten = false;      // no replay comes to its end
  uint32_t registries = kNone;         // which of the entry's guards is about abstract classes (compile_guards)

  // To be called some time before a replay, first the one, then the other.
  void prefetch() const noexcept {
    for (size_t at = 0; at < offsetof(Trace, guard_items); at += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(this) + at);
  }
  void prefetch_content() const noexcept {
    for (const void* part : {static_cast<const void*>(fast_guards.data()), static_cast<const void*>(tensors.get()),
                             static_cast<const void*>(state.get()), static_cast<const void*>(nodes.data()),
                             static_cast<const void*>(adapter_ops.data()), static_cast<const void*>(regs.data())})
      __builtin_prefetch(part);
  }
  bool is_scalar_item(uint32_t index) const noexcept { return item_kinds[index] == ItemKind::kScalar; }
  // Every vector of rows that grows with what was recorded.
  static void each_vector(auto& trace, auto visit) {
    const auto all = [&](auto&... items) { (visit(items), ...); };
    all(trace.fast_guards, trace.guards, trace.guard_items, trace.item_kinds, trace.address_keys, trace.epochs,
        trace.nodes, trace.adapter_ops, trace.operands, trace.outs, trace.releases, trace.regs, trace.pins,
        trace.retained, trace.unread, trace.emptied, trace.virtuals, trace.log, trace.undone, trace.frame_states,
        trace.slots, trace.snapshots, trace.sites, trace.followed, trace.heads, trace.owned, trace.kept, trace.exact,
        trace.dropped, trace.detours, trace.no_exits);
  }
  // What the entry put into its object is still there.
  bool stands(uint32_t entry, uint32_t time) const noexcept { return undone.empty() || time < undone[entry]; }
  // The state of a virtual generator at a time: its last kFrame or kClear entry.
  const LogEntry& generator_state(uint32_t index, uint32_t time) const noexcept {
    uint32_t last = virtuals[index].tail;
    if (log[last].time <= time && log[last].op != LogOp::kField) return log[last];
    for (uint32_t at = virtuals[index].head; at != kNone && log[at].time <= time; at = log[at].next)
      if (log[at].op != LogOp::kField) last = at;
    return log[last];
  }
  // How many entries this one adds to the traceback of its exception.
  uint32_t entries_of(const LogEntry& entry) const noexcept {
    const bool base = entry.op == LogOp::kField && entry.index == exception_field::kBase;
    return base ? log[virtuals[entry.value.index()].tail].index : entry.op == LogOp::kTraced;
  }
  // Guards that are checked before the trace is entered.
  size_t entry_guards() const noexcept { return epochs.empty() ? guards.size() : epochs.front().first; }
};

// What the register holds is taken by a replay: out of a slot of the frame, or of a generator that the frame holds.
bool is_taken(const Trace& trace, uint32_t reg) noexcept;

// Running it once more changes nothing but the registers that it writes.
inline bool is_repeatable(const Node& node) noexcept {
  const bool asks = node.op == Op::kAdapter || (node.op == Op::kPure && node.adapter_op != nullptr);
  return asks ? node.adapter_op->is_repeatable() : !writes(node.op);
}

const char* op_name(Op op) noexcept;
const char* op_effect(Op op) noexcept;
const char* rep_name(Rep rep) noexcept;
// As in Python's module operator: "add", "truediv".
const char* scalar_name(ScalarOp op) noexcept;
const char* guard_name(GuardOp op) noexcept;
const char* step_name(GuardOp op) noexcept;
const char* virtual_name(VirtualKind kind) noexcept;
const char* continuation_name(Continuation continuation) noexcept;
const char* log_name(LogOp op) noexcept;

}  // namespace pijit
