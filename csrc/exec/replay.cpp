// The replay loop, one case per row of ops.def.
#include "exec/replay.h"

#include <utility>
#include <vector>

#include "adapter.h"
#include "common/call_clock.h"
#include "cpython/objects.h"
#include "exec/links.h"
#include "exec/materialise.h"
#include "exec/pause.h"
#include "exec/plans.h"
#include "exec/profiled.h"
#include "exec/side_exit.h"
#include "exec/taped.h"
#include "guard/check.h"
#include "guard/varying.h"
#include "ir/adapter_slot.h"
#include "ir/scalars.h"

namespace pijit {

namespace {

uint64_t g_chosen_exit = kAnywhere, g_left_there = 0;
// Seconds that another thread may wait for the GIL. CPython's own threads change every 5 ms; what is left of the call
// takes longer in CPython, where the threads would take turns at each operator.
// A trace in the middle cannot pause, and another thread has its turn when the trace ends, mostly after one of a loop.
constexpr double kPatience = 0.010, kPatienceInTheMiddle = 0.050;

// An operand as an object: borrowed where the register or the trace has one, else made and kept here.
class Operand {
 public:
  Operand(const Trace& trace, const Reg* regs, const Node& node, Val value) noexcept {
    if (value.is_null()) return;
    if (value.is_const()) {
      object_ = value.object();
    } else if (value.is_reg() && regs[value.index()].rep == Rep::kObject) {
      object_ = regs[value.index()].object;
    } else {
      Materialiser make(trace, regs, node.time);
      made_ = Ref::steal(make.value(value));
      object_ = made_.get();
      failed_ = object_ == nullptr;
    }
  }
  PyObject* get() const noexcept { return object_; }
  bool failed() const noexcept { return failed_; }
  Ref take() noexcept { return std::move(made_); }

 private:
  PyObject* object_ = nullptr;
  Ref made_;
  bool failed_ = false;
};

// -1: raised. Lists, dicts and plain instances are written without their classes, so no method of the program's runs.
int store(const Trace& trace, const Reg* regs, const Node& node) noexcept {
  Operand a(trace, regs, node, node.a), b(trace, regs, node, node.b), c(trace, regs, node, node.c);
  if (a.failed() || b.failed() || c.failed()) return -1;
  switch (node.op) {
    case Op::kStoreAttr:
      return cpython::store_attribute(a.get(), b.get(), c.get());
    case Op::kDelAttr:
      return cpython::store_attribute(a.get(), b.get(), nullptr);
    case Op::kStoreItem:
      return cpython::store_item(a.get(), b.get(), c.get());
    case Op::kDelItem:
      return cpython::store_item(a.get(), b.get(), nullptr);
    default:
      return PyCell_Set(a.get(), b.get());
  }
}

// What a call is made with: borrowed, except for what had to be made for it.
class Arguments {
 public:
  explicit Arguments(size_t count)
      : objects_(count + 1 <= kSmall ? small_ : (large_.resize(count + 1), large_.data())) {}
  bool add(const Trace& trace, const Reg* regs, const Node& node, Val value) {
    Operand operand(trace, regs, node, value);
    if (operand.failed()) return false;
    objects_[++count_] = operand.get();
    Ref made = operand.take();
    if (made) made_.push_back(std::move(made));
    return true;
  }
  // The slot before the first is free, as vectorcall wants it.
  PyObject** data() noexcept { return objects_ + 1; }

 private:
  static constexpr size_t kSmall = 12;
  PyObject* small_[kSmall];
  Objects large_;
  std::vector<Ref> made_;
  PyObject** objects_;
  size_t count_ = 0;
};

PyObject* call(const Trace& trace, const Reg* regs, const Node& node) {
  Operand callable(trace, regs, node, node.a);
  Arguments args(node.count);
  bool made = !callable.failed();
  for (uint32_t i = 0; i < node.count && made; ++i) made = args.add(trace, regs, node, trace.operands[node.first + i]);
  if (!made) return nullptr;
  const size_t positional = node.count - node.aux;
  return PyObject_Vectorcall(callable.get(), args.data(), positional | PY_VECTORCALL_ARGUMENTS_OFFSET, node.b.object());
}

// An opaque call sees the frames that CPython would have on its stack.
struct OpaqueCall {
  const Trace& trace;
  const Reg* regs;
  const Node& node;
  PyThreadState* ts;
  bool ended = false;  // kNext
};

PyObject* perform(void* context) {
  const auto& [trace, regs, node, ts, ended] = *static_cast<OpaqueCall*>(context);
  const Operand handled(trace, regs, node, handled_in(trace, node.snapshot));
  if (handled.failed()) return nullptr;
  const cpython::Handling handling(ts, handled.get());
  if (node.aux != kNone) return call(trace, regs, node);
  Operand callable(trace, regs, node, node.a), args(trace, regs, node, trace.operands[node.first]);
  Operand keywords(trace, regs, node, node.count > 1 ? trace.operands[node.first + 1] : Val());
  if (callable.failed() || args.failed() || keywords.failed()) return nullptr;
  return PyObject_Call(callable.get(), args.get(), keywords.get());
}

// The item, or null with the error set. At the end it is what SEND finds there, or None.
PyObject* perform_next(void* context) {
  auto& [trace, regs, node, ts, ended] = *static_cast<OpaqueCall*>(context);
  const Operand handled(trace, regs, node, handled_in(trace, node.snapshot));
  if (handled.failed()) return nullptr;
  const cpython::Handling handling(ts, handled.get());
  Operand iterator(trace, regs, node, node.a);
  Operand sent(trace, regs, node, node.count > 0 ? trace.operands[node.first] : Val());
  if (iterator.failed() || sent.failed()) return nullptr;
  PyObject* item = nullptr;
  if (node.count > 0) {
    ended = PyIter_Send(iterator.get(), sent.get(), &item) == PYGEN_RETURN;
    return item;
  }
  item = Py_TYPE(iterator.get())->tp_iternext(iterator.get());
  ended = item == nullptr && (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_StopIteration) != 0);
  if (ended) PyErr_Clear();
  return ended ? new_reference(Py_None) : item;
}

// The object is exactly a float, bool or int.
bool unbox(PyObject* object, Reg* out) noexcept {
  out->owned = 0;
  return number_of(object, out);
}

enum class Outcome : uint8_t { kNext, kWarned, kLeave, kOtherWay, kRaise, kReturn, kFail };

Outcome take(const Node& node, Reg* regs, PyObject* result) noexcept {
  if (result == nullptr) return Outcome::kRaise;
  if (node.out == kNone) {
    drop_reference(result);
  } else {
    set_object(&regs[node.out], result);
  }
  return Outcome::kNext;
}

// The exception that is set, as a handler finds it. Null, and it is set still: something else holds it, too, and would
// see that its traceback is not complete.
PyObject* take_exception() noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  if (Py_REFCNT(value) > 1) {
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  drop_reference(type);
  drop_reference(traceback);
  return value;
}

// What was to raise did so, or returned `result`.
Outcome take_raised(const Node& node, Reg* regs, PyObject* result) noexcept {
  if (result != nullptr) return take(node, regs, result), Outcome::kOtherWay;
  PyObject* exception = take_exception();
  set_object(&regs[node.out], exception != nullptr ? exception : new_reference(Py_None));
  return exception != nullptr ? Outcome::kNext : Outcome::kRaise;
}

// A known callable raised: what the recorded frames handle is not yet the thread's.
void add_context(const Trace& trace, const Reg* regs, const Node& node) noexcept {
  const Val handled = handled_in(trace, node.snapshot);
  if (handled.is_null()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Operand exception(trace, regs, node, handled);
  if (!exception.failed()) chain_exception(value, exception.get());
  PyErr_Restore(type, value, traceback);
}

// CPython does the instruction again, or, where that would write twice, it raises.
Outcome failed_operation(const Trace& trace, const Node& node, const Reg* regs) noexcept {
  if (!std::exchange(current_adapter()->raised, false)) return Outcome::kLeave;
  add_context(trace, regs, node);
  return Outcome::kRaise;
}

// A call that only computes. False: it raised, or gave what has another type.
bool compute_pure(const Trace& trace, const Node& node, Reg* regs) noexcept {
  if (node.adapter_op != nullptr) return node.adapter_op->run(regs);
  PyObject* result = call(trace, regs, node);
  if (result != nullptr && reinterpret_cast<uintptr_t>(Py_TYPE(result)) == node.imm)
    return take(node, regs, result) == Outcome::kNext;
  drop_reference(result);
  PyErr_Clear();
  return false;
}

// What calls something: kRaise where it raised, kLeave where CPython is to do it again.
Outcome step_call(const Trace& trace, const Node& node, Reg* regs, cpython::Frame* root, PyThreadState* ts) noexcept {
  switch (node.op) {
    case Op::kPure:
      return compute_pure(trace, node, regs) ? Outcome::kNext : Outcome::kLeave;
    case Op::kOpaque: {
      OpaqueCall context{trace, regs, node, ts};
      return take(node, regs, call_in_frames(trace, node.snapshot, regs, root, ts, perform, &context));
    }
    case Op::kOpaqueRaise: {
      OpaqueCall context{trace, regs, node, ts};
      return take_raised(node, regs, call_in_frames(trace, node.snapshot, regs, root, ts, perform, &context));
    }
    case Op::kRunRaise:
      return take_raised(node, regs, run_frames(trace, node, regs, root, ts));
    case Op::kNext: {
      OpaqueCall context{trace, regs, node, ts};
      PyObject* item = call_in_frames(trace, node.snapshot, regs, root, ts, perform_next, &context);
      if (take(node, regs, item) == Outcome::kRaise) return Outcome::kRaise;
      return context.ended == (node.aux == 0) ? Outcome::kNext : Outcome::kOtherWay;
    }
    case Op::kRun:
      return take(node, regs, run_frames(trace, node, regs, root, ts));
    default: {
      PyObject* result = call(trace, regs, node);
      if (result == nullptr) add_context(trace, regs, node);
      return take(node, regs, result);
    }
  }
}

// Of an object, or of the object that a tensor is for Python.
bool has_type(const Reg& reg, PyObject* type) noexcept {
  if (reg.rep == Rep::kObject) return reinterpret_cast<PyObject*>(Py_TYPE(reg.object)) == type;
  PyObject* made = box_register(reg);
  if (made == nullptr) PyErr_Clear();
  const bool same = made != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(made)) == type;
  drop_reference(made);
  return same;
}

bool leaves_at(const Trace& trace, const Node& point) noexcept {
  uint64_t chosen = g_chosen_exit;
  if (chosen == kAnywhere) {
    constexpr uint32_t kGoldenRatio = 2654435769;  // of 2^32
    chosen = static_cast<uint32_t>(trace.replays * kGoldenRatio) * uint64_t{trace.exit_points} >> 32;
  }
  g_left_there += point.imm == chosen;
  return point.imm == chosen;
}

PyObject* perform_warnings(void* context) {
  const auto& [trace, regs, node, ts, ended] = *static_cast<OpaqueCall*>(context);
  const Operand handled(trace, regs, node, handled_in(trace, node.snapshot));
  if (handled.failed()) return nullptr;
  const cpython::Handling handling(ts, handled.get());
  return current_adapter()->issue_warnings() ? new_reference(Py_None) : nullptr;
}

// The operation has run: its warnings are those of the instruction, in whatever frame it is.
Outcome issue_warnings(const Trace& trace, const Node& node, Reg* regs, cpython::Frame* root,
                       PyThreadState* ts) noexcept {
  current_adapter()->warned = false;
  OpaqueCall context{trace, regs, node, ts};
  PyObject* done = call_in_frames(trace, node.snapshot, regs, root, ts, perform_warnings, &context);
  if (done == nullptr) return Outcome::kRaise;
  drop_reference(done);
  return Outcome::kNext;
}

// Virtual objects that hold each other.
bool build_group(const Trace& trace, const Node& node, Reg* regs) noexcept {
  Materialiser make(trace, regs, node.time);
  Objects made(1 + node.count);
  bool done = (made[0] = make.build(node.a.index())) != nullptr;
  for (uint32_t i = 0; i < node.count && done; ++i)
    done = (made[1 + i] = make.build(trace.operands[node.first + i].index())) != nullptr;
  if (!done)
    for (PyObject* object : made) drop_reference(object);
  if (done) set_object(&regs[node.out], made[0]);
  for (uint32_t i = 0; i < node.count && done; ++i) set_object(&regs[trace.outs[node.outs_first + i]], made[1 + i]);
  return done;
}

// A virtual object is built, or a number boxed.
Outcome make_object(const Trace& trace, const Node& node, Reg* regs, cpython::Frame* root, PyThreadState* ts) noexcept {
  PyObject* made = nullptr;
  if (node.count != 0) return build_group(trace, node, regs) ? Outcome::kNext : Outcome::kFail;
  if (node.op == Op::kBox) {
    made = box_register(regs[node.b.index()]);
  } else if (node.snapshot == kNone) {
    made = Materialiser(trace, regs, node.time).build(node.a.index());
  } else {
    made = build_in_frames(trace, node, regs, root, ts);
  }
  if (made == nullptr) return Outcome::kFail;
  set_object(&regs[node.out], made);
  return Outcome::kNext;
}

// A loop over a range takes its next number, or ends.
Outcome advance_range(const Node& node, Reg* regs) noexcept {
  const Ref item = Ref::steal(PyRangeIter_Type.tp_iternext(regs[node.a.index()].object));
  if (item) unbox(item.get(), &regs[node.out]);
  if (!item && PyErr_Occurred() != nullptr) return Outcome::kRaise;
  return static_cast<bool>(item) == (node.aux != 0) ? Outcome::kNext : Outcome::kOtherWay;
}

// kLeave: to the snapshot of the node; kOtherWay: to its second one; kRaise: there, raising; kFail: an error without
// a snapshot.
Outcome step(const Trace& trace, const Node& node, Reg* regs, cpython::Frame* root, PyThreadState* ts) noexcept {
  switch (node.op) {
    case Op::kAdapter:
    case Op::kCheck:
      if (!node.adapter_op->run(regs)) return failed_operation(trace, node, regs);
      return current_adapter()->warned ? Outcome::kWarned : Outcome::kNext;
    case Op::kGuardBool:
      return regs[node.a.index()].boolean == (node.imm != 0) ? Outcome::kNext : Outcome::kLeave;
    case Op::kGuardInt:
    case Op::kGuardFloat:
      return number_bits(regs[node.a.index()]) == node.imm ? Outcome::kNext : Outcome::kLeave;
    case Op::kGuardIs:
      return regs[node.a.index()].object == node.b.object() ? Outcome::kNext : Outcome::kLeave;
    case Op::kGuardType:
      return has_type(regs[node.a.index()], node.b.object()) ? Outcome::kNext : Outcome::kLeave;
    case Op::kBuild:
    case Op::kBox:
      return make_object(trace, node, regs, root, ts);
    case Op::kScalar:
      return run_scalar(node, regs) ? Outcome::kNext : Outcome::kLeave;
    case Op::kUnbox:
      return unbox(regs[node.a.index()].object, &regs[node.out]) ? Outcome::kNext : Outcome::kLeave;
    case Op::kStoreAttr:
    case Op::kDelAttr:
    case Op::kStoreItem:
    case Op::kDelItem:
    case Op::kStoreCell:
      if (store(trace, regs, node) == 0) return Outcome::kNext;
      PyErr_Clear();
      return Outcome::kLeave;
    case Op::kCall:
    case Op::kPure:
    case Op::kOpaque:
    case Op::kOpaqueRaise:
    case Op::kNext:
    case Op::kRun:
    case Op::kRunRaise:
      return step_call(trace, node, regs, root, ts);
    case Op::kEpoch: {
      const Epoch& epoch = trace.epochs[node.aux];
      if (!cpython::untraced(ts)) return Outcome::kLeave;  // since then
      if (misses_origins(trace.coroutines, ts) || !check_epoch(trace, epoch, regs)) return Outcome::kLeave;
      hold(epoch, regs);
      return Outcome::kNext;
    }
    case Op::kAdvance:
      return advance_range(node, regs);
    case Op::kLoadCell: {
      Operand cell(trace, regs, node, node.a);
      PyObject* content = cell.failed() ? nullptr : PyCell_GET(cell.get());
      if (content == nullptr) return PyErr_Clear(), Outcome::kLeave;
      set_object(&regs[node.out], new_reference(content));
      return Outcome::kNext;
    }
    case Op::kRegion:
    case Op::kLoopHead:
      return Outcome::kNext;
    case Op::kExitPoint:
      return leaves_at(trace, node) ? Outcome::kLeave : Outcome::kNext;
    case Op::kExit:
      return Outcome::kLeave;
    case Op::kReturn:
      return node.snapshot != kNone && cpython::is_held(root) ? Outcome::kLeave : Outcome::kReturn;
  }
  return Outcome::kLeave;
}

PyObject* finish(const Trace& trace, const Node& node, Reg* regs) noexcept {
  PyObject* result;
  {
    Materialiser make(trace, regs, node.time);
    result = make.value(node.a);
  }
  release_all(trace, regs);
  return result;
}

PyObject* fail(const Trace& trace, Reg* regs) noexcept {
  SavedError error;
  release_all(trace, regs);
  return nullptr;
}

PyObject* fail_short_of_memory(const Trace& trace, Reg* regs) noexcept {
  PyErr_NoMemory();
  return fail(trace, regs);
}

}  // namespace

bool compute_number(const Trace& trace, const Node& node, Reg* regs) noexcept {
  switch (node.op) {
    case Op::kScalar:
      return run_scalar(node, regs);
    case Op::kPure:
      return compute_pure(trace, node, regs);
    case Op::kUnbox:
      return unbox(regs[node.a.index()].object, &regs[node.out]);
    case Op::kBox: {
      PyObject* made = box_register(regs[node.b.index()]);
      if (made == nullptr) PyErr_Clear();
      if (made != nullptr) set_object(&regs[node.out], made);
      return made != nullptr;
    }
    default:
      return true;
  }
}

uint64_t choose_exit(uint64_t point) noexcept {
  g_chosen_exit = point;
  return std::exchange(g_left_there, 0);
}

namespace {

void release(const Trace& trace, const Node& node, Reg* regs) noexcept {
  const uint32_t* releases = trace.releases.data() + node.release_first;
  for (uint32_t i = 0; i < node.release_count; ++i) release_register(&regs[releases[i]]);
}

bool done(const Trace& trace, const Node& node, Reg* regs) noexcept {
  return step(trace, node, regs, nullptr, nullptr) == Outcome::kNext;
}

// One replay: the nodes of a trace, and of the side traces that it changes over to.
class Replay {
 public:
  Replay(const Trace& trace, const RegisterFile& file, cpython::Frame* root, PyThreadState* ts)
      : trace_(&trace),
        regs_(file.get()),
        room_(trace.room),
        root_(root),
        ts_(ts),
        plans_(file.get(), done),
        taped_(file.get()),
        first_(&trace) {}

  // The result of the root frame (new reference), or null with an error set. All registers are released.
  PyObject* run(Left* left) {
    count_replay(*trace_);
    if (left->range != nullptr) [[unlikely]]
      range_ = open_range(*left->range);
    hold(*trace_, regs_);
    if (trace_->takes_inputs) take_inputs(*trace_, root_, regs_);
    plans_.compare_every(left->compare_every);
    if (trace_->segments != nullptr || trace_->tapes != nullptr) begin_turn(0);
    for (size_t at = 0;;) {
      if (at == plans_.stop()) [[unlikely]]
        at = plans_.arrive(at);
      const Node& node = trace_->nodes[at];
      if (node.snapshot != kNone && cpython::eval_breaker_set(ts_) && !goes_on(at)) {
        trace_->interruptions += 1;
        left->interrupted = true;
        if (!restored()) return fail_short_of_memory(*trace_, regs_);
        range_.reset();
        return leave(*trace_, node.snapshot, regs_, root_, ts_);
      }
      Outcome outcome = at == taped_.stop() ? taped_step(at, left) : step(*trace_, node, regs_, root_, ts_);
      if (outcome == Outcome::kWarned && !restored()) return fail_short_of_memory(*trace_, regs_);
      if (outcome == Outcome::kWarned) outcome = issue_warnings(*trace_, node, regs_, root_, ts_);
      left->opaque_calls += is_opaque(node.op);
      if (outcome == Outcome::kNext) {
        release(*trace_, node, regs_);
        at += 1;
      } else {
        const bool restores = outcome != Outcome::kReturn && outcome != Outcome::kFail && node.op != Op::kExit;
        if (restores && !restored()) return fail_short_of_memory(*trace_, regs_);
        if (outcome != Outcome::kLeave || !change_over(at)) return end(node, outcome, left);
      }
    }
  }
  // After the call.
  void deliver() noexcept { plans_.deliver(); }

 private:
  // Where both tapes and plans may answer for the same nodes, what follows of the trace is done by one of them.
  void begin_turn(size_t from) noexcept {
    timed_ = trace_->tapes != nullptr && trace_->segments != nullptr;
    if (timed_) side_ = trace_->tapes->turns.next(*trace_->segments, *trace_->tapes);
    if (timed_) started_ = now();
    const bool by_tapes = timed_ && side_ == TapeTurns::Side::kTapes;
    taped_.begin(*trace_, timed_ && !by_tapes ? SIZE_MAX : from);
    plans_.begin(*trace_, from, by_tapes ? trace_->tapes : nullptr);
  }
  void note_turn() noexcept {
    if (timed_ && trace_->tapes != nullptr) trace_->tapes->turns.note(side_, now() - started_);
  }
  // Another thread that wants the GIL has it as soon as the replay has ended, or a while after it was seen to want it.
  bool goes_on(size_t at) noexcept {
    if (!cpython::attention_can_wait(ts_)) return false;
    const double time = now();
    if (wanted_since_ == 0) wanted_since_ = time;
    if (time - wanted_since_ < (first_->takes_inputs ? kPatienceInTheMiddle : kPatience)) return true;
    wanted_since_ = 0;
    try {
      return trace_ == first_ && pause_.take(*trace_, at, regs_, root_);
    } catch (const std::exception&) {  // memory is short
      return false;
    }
  }
  // What snapshots read is there.
  bool restored() noexcept {
    if (!plans_.any_ran() && !taped_.is_running()) return true;
    const SavedError error;
    return (!taped_.is_running() || taped_.restore()) && plans_.restore();
  }
  // A node that a tape may do, or watches.
  Outcome taped_step(size_t at, Left* left) noexcept {
    const Taped::Turn turn = taped_.arrive(at);
    if (turn == Taped::Turn::kDone) {
      left->replaced_calls += is_opaque(trace_->nodes[at].op);
      return Outcome::kNext;
    }
    if (turn == Taped::Turn::kFailed) return PyErr_NoMemory(), Outcome::kFail;
    const Outcome outcome = step(*trace_, trace_->nodes[at], regs_, root_, ts_);
    if (turn == Taped::Turn::kWatched && outcome == Outcome::kNext) taped_.observed(at);
    return outcome;
  }
  bool change_over(size_t at) noexcept {
    if (trace_->links.empty()) return false;
    const Trace* side = enter_link(*trace_, static_cast<uint32_t>(at), regs_, room_, ts_);
    if (side == nullptr) return false;
    trace_ = side;
    begin_turn(at + 1);
    return true;
  }
  PyObject* end(const Node& node, Outcome outcome, Left* left);

  const Trace* trace_;
  Reg* regs_;
  size_t room_;
  cpython::Frame* root_;
  PyThreadState* ts_;
  Plans plans_;
  Taped taped_;
  TapeTurns::Side side_ = TapeTurns::Side::kTapes;
  bool timed_ = false;  // from `started_` on, for this side
  double started_ = 0;
  double wanted_since_ = 0;  // the GIL, by another thread
  const Trace* first_;
  Pause pause_;
  ProfiledRange range_;  // until CPython goes on
};

PyObject* Replay::end(const Node& node, Outcome outcome, Left* left) {
  if (outcome != Outcome::kReturn) range_.reset();
  const bool other_way = outcome == Outcome::kOtherWay;
  switch (outcome) {
    case Outcome::kReturn:
      note_turn();
      return finish(*trace_, node, regs_);
    case Outcome::kFail:
      return fail(*trace_, regs_);
    case Outcome::kRaise:
      return leave_raising(*trace_, runs_frames(node.op) ? static_cast<uint32_t>(node.imm) : node.snapshot, regs_,
                           root_, ts_);
    default:
      break;
  }
  if (node.op != Op::kExit && node.op != Op::kExitPoint && node.op != Op::kReturn) {
    trace_->exits += 1;
    left->trace = trace_;
    left->node = static_cast<uint32_t>(&node - trace_->nodes.data());
    if (node.op == Op::kEpoch && left->explains) left->why = explain_miss(*trace_, trace_->epochs[node.aux], regs_);
    if (node.op == Op::kEpoch && left->varying != nullptr) {
      const Epoch& epoch = trace_->epochs[node.aux];
      left->varying->begin_call();
      left->learned = learn_from_guards(*trace_, epoch.first, epoch.count, regs_, left->varying);
    }
  }
  left->stopped = node.op == Op::kExit;
  if (left->stopped) note_turn();
  left->turned = left->stopped && trace_->stop.code == nullptr && &node != trace_->nodes.data();
  const Trace& trace = *trace_;
  const double start = call_clock();
  PyObject* result = leave(trace, other_way ? static_cast<uint32_t>(node.imm) : node.snapshot, regs_, root_, ts_);
  left->seconds = add_since(&trace.left, start);
  return result;
}

// Loads the arguments, and checks the guards.
bool takes(const Trace& trace, cpython::Frame* root, const RegisterFile& file) noexcept {
  if (file.get() == nullptr) return false;
  load_inputs(trace, root, file.get());
  return check_guards(trace, file.get());
}

}  // namespace

bool try_replay(const Trace& trace, cpython::Frame* root, PyThreadState* ts, PyObject** result, Left* left) {
  if (!may_replay(trace, ts)) return false;
  trace.prefetch_content();
  RegisterFile file(trace.room);
  if (!takes(trace, root, file)) return false;
  Replay replay(trace, file, root, ts);
  *result = replay.run(left);
  replay.deliver();
  return true;
}

const Node* first_effect(const Trace& trace) noexcept {
  if (!trace.emptied.empty()) return trace.nodes.data();
  for (const Node& node : trace.nodes) {
    const bool tells = (node.op == Op::kBuild || node.op == Op::kReturn) && node.snapshot != kNone;
    if (tells || node.op == Op::kEpoch || node.op == Op::kExit || !is_repeatable(node)) return &node;
  }
  return nullptr;
}

Ref rehearse(const Trace& trace, cpython::Frame* root, PyThreadState* ts) {
  RegisterFile file(trace.room);
  if (!takes(trace, root, file)) return Ref();
  hold(trace, file.get());
  for (const Node& node : trace.nodes) {
    const Outcome outcome = step(trace, node, file.get(), root, ts);
    if (outcome == Outcome::kReturn) return Ref::steal(finish(trace, node, file.get()));
    if (outcome == Outcome::kWarned) {
      current_adapter()->warned = false;
      current_adapter()->forget_warnings();
    }
    if (outcome != Outcome::kNext) break;
    release(trace, node, file.get());
  }
  SavedError error;
  release_all(trace, file.get());
  return Ref();
}

bool would_replay(const Trace& trace, cpython::Frame* root) {
  if (!trace.prepared) return false;
  const RegisterFile file(trace.room);
  return takes(trace, root, file);
}

}  // namespace pijit
