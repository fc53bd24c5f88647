// Rebuilds the frames of a snapshot from the root inwards and evaluates them from the innermost outwards.
#include "exec/side_exit.h"

#include <optional>
#include <vector>

#include "cpython/bytecode.h"
#include "cpython/objects.h"
#include "cpython/operators.h"
#include "exec/materialise.h"
#include "exec/registers.h"

namespace pijit {

namespace {

using cpython::Frame;

// One frame to be rebuilt; owns its objects until they are in the frame.
struct Level {
  const FrameState* state;
  PyObject** slots = nullptr;  // locals, then stack
  std::vector<Ref> stack{};    // what the frame had on its stack before
  Ref function{}, extra{}, generator{}, handled{};
  Frame* frame = nullptr;  // once it is in place
  int count() const noexcept { return static_cast<int>(state->locals + state->stack); }
};

Resume g_resume = nullptr;

// While it handles an exception, what becomes of a frame is CPython's alone.
bool goes_on_alone(const FrameState& state) noexcept {
  return g_resume == nullptr || !state.handled.is_null();
}

// The frame is as its state says: what becomes of it from there on.
PyObject* resume(const Trace& trace, const FrameState& state, PyThreadState* ts, Frame* frame) {
  cpython::resume_at(frame, state.resume);
  return goes_on_alone(state) ? cpython::eval_default(ts, frame, 0) : g_resume(trace, state, ts, frame);
}

// The states of a snapshot's frames, root first.
std::vector<const FrameState*> frames_of(const Trace& trace, uint32_t snapshot) {
  std::vector<const FrameState*> states;
  for (uint32_t at = trace.snapshots[snapshot].frame; at != kNone; at = trace.frame_states[at].parent)
    states.push_back(&trace.frame_states[at]);
  return {states.rbegin(), states.rend()};
}

class Exit {
 public:
  // The frames of the snapshot from level `first` inwards.
  Exit(const Trace& trace, uint32_t snapshot, uint32_t first, bool raising);
  ~Exit() { drop_objects(); }
  // False with an error set; nothing has changed then.
  bool materialise(const Reg* regs, uint32_t time) noexcept;
  PyObject* run(PyThreadState* ts, Frame* root) { return enter(ts, root); }
  // The outermost of the frames is made by CPython too.
  PyObject* call(PyThreadState* ts) {
    const Ref function = std::move(levels_.front().function);
    return cpython::call_into_new_frame(ts, function.get(), enter_next, this);
  }

 private:
  static PyObject* enter_next(PyThreadState* ts, Frame* frame, void* exit) {
    return static_cast<Exit*>(exit)->enter(ts, frame);
  }
  PyObject* enter(PyThreadState* ts, Frame* frame);
  bool take_up_exceptions(PyThreadState* ts) noexcept;
  void take_up_frames(const Virtual& exception, PyObject* made, std::vector<Ref>* held);
  PyObject* enter_innermost(PyThreadState* ts, Frame* frame, Level* level);
  PyObject* enter_generator(PyThreadState* ts, Frame* frame, Level* level);
  PyObject* iterate(PyThreadState* ts, Frame* frame, Level* level);
  PyObject* go_on(PyThreadState* ts, Frame* frame, Level* level, Ref result);
  bool materialise_level(Materialiser* make, Level* level, uint32_t time) noexcept;
  void note_exception(Val value, uint32_t time, PyObject* made);
  void drop_slots(Level* level) noexcept;
  void drop_objects() noexcept;

  const Trace& trace_;
  std::vector<Level> levels_;  // root first
  Objects slots_;
  size_t next_ = 0;  // the level that is entered next
  std::optional<SavedError> raised_;
  Tracebacks tracebacks_;
  std::vector<std::pair<const Virtual*, Ref>> exceptions_;  // those in the levels that were built before
};

Exit::Exit(const Trace& trace, uint32_t snapshot, uint32_t first, bool raising) : trace_(trace) {
  if (raising) raised_.emplace();
  const std::vector<const FrameState*> states = frames_of(trace, snapshot);
  size_t total = 0;
  for (size_t i = first; i < states.size(); ++i) {
    levels_.push_back({states[i]});
    total += states[i]->locals + states[i]->stack;
  }
  slots_.assign(total, nullptr);
  PyObject** slots = slots_.data();
  for (Level& level : levels_) {
    level.slots = slots;
    slots += level.count();
  }
}

void Exit::drop_slots(Level* level) noexcept {
  for (int i = 0; i < level->count(); ++i) drop_reference(std::exchange(level->slots[i], nullptr));
  level->stack.clear();
}

void Exit::drop_objects() noexcept {
  for (Level& level : levels_) drop_slots(&level);
}

void Exit::note_exception(Val value, uint32_t time, PyObject* made) {
  if (!value.is_virtual()) return;
  const Virtual& object = trace_.virtuals[value.index()];
  // What except* has split off may be None here: a guard of its class is left then.
  if (object.kind == VirtualKind::kException && object.is_real(time) && PyExceptionInstance_Check(made))
    exceptions_.emplace_back(&object, Ref::borrow(made));
}

bool Exit::materialise_level(Materialiser* make, Level* level, uint32_t time) noexcept {
  const FrameState& state = *level->state;
  for (int i = 0; i < level->count(); ++i) {
    const Val slot = trace_.slots[state.first + static_cast<uint32_t>(i)];
    if (slot.is_null()) continue;
    if ((level->slots[i] = make->value(slot)) == nullptr) return false;
    note_exception(slot, time, level->slots[i]);
  }
  if (!state.function.is_null()) {
    level->function = Ref::steal(make->value(state.function));
    if (!level->function) return false;
  }
  if (!state.extra.is_null() && !(level->extra = Ref::steal(make->value(state.extra)))) return false;
  if (!state.handled.is_null() && !(level->handled = Ref::steal(make->value(state.handled)))) return false;
  note_exception(state.handled, time, level->handled.get());
  if (state.generator.is_null()) return true;
  level->generator = Ref::steal(make->value(state.generator));
  return static_cast<bool>(level->generator);
}

bool Exit::materialise(const Reg* regs, uint32_t time) noexcept {
  Materialiser make(trace_, regs, time);
  for (Level& level : levels_)
    if (!materialise_level(&make, &level, time)) return false;
  if (!make.collect_frames()) return false;
  tracebacks_ = std::move(make.tracebacks());
  return true;
}

// Puts the level's objects into its frame and evaluates it, everything inside it first.
PyObject* Exit::enter(PyThreadState* ts, Frame* frame) {
  Level* level = &levels_[next_++];
  level->frame = frame;
  if (!level->state->generator.is_null()) cpython::drop_sent(frame);
  level->stack = cpython::take_stack(frame);
  cpython::swap_slots(frame, level->slots, level->count());
  if (next_ == levels_.size()) return enter_innermost(ts, frame, level);
  if (level->state->continuation == Continuation::kAgain) return enter_generator(ts, frame, level);
  cpython::stand_at(frame, level->state->call);
  Ref result;
  {
    cpython::LinkedFrame link(ts, frame);
    drop_slots(level);
    const Ref function = std::move(levels_[next_].function);
    result = Ref::steal(cpython::call_into_new_frame(ts, function.get(), enter_next, this));
  }
  return go_on(ts, frame, level, std::move(result));
}

// The frame's instruction resumes the generator whose frame is the next one. CPython would go on in this frame to its
// end; of a loop over the generator it need not.
PyObject* Exit::enter_generator(PyThreadState* ts, Frame* frame, Level* level) {
  drop_slots(level);
  const bool loop = cpython::instruction_at(level->state->code, level->state->call).is(cpython::Operation::kForIter);
  if (loop && !goes_on_alone(*level->state)) return iterate(ts, frame, level);
  cpython::resume_at(frame, level->state->resume);
  PyObject* generator = levels_[next_].generator.get();
  levels_[next_].generator = Ref();  // the frame holds it
  return cpython::eval_into_generator(ts, frame, generator, enter_next, this);
}

// What FOR_ITER does with the iterator on top of the stack: the generator, or what draws from it.
PyObject* Exit::iterate(PyThreadState* ts, Frame* frame, Level* level) {
  FrameState after = *level->state;
  cpython::stand_at(frame, after.call);
  bool ended = false;
  Ref item;
  {
    const cpython::LinkedFrame link(ts, frame);
    PyObject* generator = levels_[next_].generator.get();
    levels_[next_].generator = Ref();  // the iterator holds it
    item = Ref::steal(cpython::next_into_generator(ts, cpython::peek(frame, 1), generator, enter_next, this, &ended));
    if (ended && !cpython::kEndedIteratorStays) drop_reference(cpython::pop(frame));
  }
  if (!item && !ended) return cpython::eval_raising(ts, frame);
  if (item) cpython::push(frame, item.release());
  if (ended && !cpython::kEndedIteratorStays) after.stack -= 1;
  after.resume = ended ? cpython::jump_target(after.code, after.resume) : cpython::next_index(after.code, after.call);
  return resume(trace_, after, ts, frame);
}

// The frames that the traceback of an exception names were made with it (see build_in_frames); they stand here again.
void Exit::take_up_frames(const Virtual& exception, PyObject* made, std::vector<Ref>* held) {
  Vec<uint32_t> named;  // the entry that came last is the traceback's first
  for (uint32_t at = exception.head; at != kNone && trace_.log[at].time <= exception.reg_time; at = trace_.log[at].next)
    if (trace_.log[at].op == LogOp::kTraced) named.push_back(trace_.log[at].value.index());
  Ref traceback = Ref::steal(PyException_GetTraceback(made));
  for (size_t i = named.size(); i-- > 0 && traceback && PyTraceBack_Check(traceback.get());) {
    const auto& entry = *reinterpret_cast<PyTracebackObject*>(traceback.get());
    for (const Level& level : levels_)
      if (level.state->self == named[i]) cpython::take_over(entry.tb_frame, level.frame, held);
    traceback = Ref::borrow(reinterpret_cast<PyObject*>(entry.tb_next));
  }
}

// All frames are in place: what they handle is the thread's, with tracebacks.
bool Exit::take_up_exceptions(PyThreadState* ts) noexcept {
  std::vector<Ref> held;
  for (const auto& [exception, made] : exceptions_) take_up_frames(*exception, made.get(), &held);
  std::vector<StandingFrame> standing;
  for (Level& level : levels_)
    if (level.state->self != kNone) standing.push_back({level.state->self, level.frame});
  if (!exceptions_.empty() || !tracebacks_.empty()) {
    cpython::stand_at(levels_.back().frame, levels_.back().state->call);
    const cpython::LinkedFrame link(ts, levels_.back().frame);
    const bool attached = tracebacks_.attach(ts, standing);
    exceptions_.clear();
    held.clear();  // may run Python
    if (!attached) return false;
  }
  // A generator handles exceptions of its own; what is between two generators has one place for them.
  int generators = 0;
  Ref handled;
  for (size_t i = levels_.size(); i-- > 0;) {
    if (!handled) handled = std::move(levels_[i].handled);
    const bool bottom = i == 0 || !levels_[i].state->generator.is_null();
    if (bottom && handled) cpython::handle_exception(ts, generators, std::move(handled));
    generators += bottom;
  }
  for (Level& level : levels_) level.handled = Ref();  // the stack of a frame inside has what is handled further out
  return true;
}

PyObject* Exit::enter_innermost(PyThreadState* ts, Frame* frame, Level* level) {
  drop_slots(level);
  if (!take_up_exceptions(ts)) return cpython::eval_raising(ts, frame);
  if (raised_) {
    cpython::stand_at(frame, level->state->call);
    raised_.reset();  // sets the error again
    return cpython::eval_raising(ts, frame);
  }
  return resume(trace_, *level->state, ts, frame);
}

// The operands of the frame's binary operator go when there is a result.
Ref finish_binary(PyThreadState* ts, Frame* frame, const FrameState& state, Ref result) {
  const cpython::LinkedFrame link(ts, frame);
  if (result.get() == Py_NotImplemented)
    result = Ref::steal(cpython::finish_binary(cpython::instruction_at(state.code, state.call).argument,
                                               cpython::peek(frame, 2), cpython::peek(frame, 1)));
  if (!result) return result;
  const Ref right = Ref::steal(cpython::pop(frame)), left = Ref::steal(cpython::pop(frame));
  return result;
}

// As slot_sq_length of typeobject.c and len(). Null: it raises.
Ref finish_length(PyThreadState* ts, Frame* frame, const Ref& result) {
  const cpython::LinkedFrame link(ts, frame);
  const Ref number = PyLong_Check(result.get()) ? Ref::borrow(result.get()) : Ref::steal(PyNumber_Index(result.get()));
  if (!number) return Ref();
  if (cpython::int_sign(number.get()) < 0) {
    PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
    return Ref();
  }
  const Py_ssize_t length = PyNumber_AsSsize_t(number.get(), PyExc_OverflowError);
  return length < 0 ? Ref() : Ref::steal(PyLong_FromSsize_t(length));
}

// The frame's call has returned `result` (null: raised); the frame stands at the call.
PyObject* Exit::go_on(PyThreadState* ts, Frame* frame, Level* level, Ref result) {
  const FrameState& state = *level->state;
  if (result && state.continuation == Continuation::kInit) {
    if (result.get() == Py_None) {
      result = std::move(level->extra);
    } else {
      PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
      SavedError raised;
      result = Ref();
    }
  }
  if (result && state.continuation == Continuation::kLength) {
    Ref length = finish_length(ts, frame, result);
    SavedError raised;
    result = std::move(length);
  }
  if (result && state.continuation == Continuation::kBinary)
    result = finish_binary(ts, frame, state, std::move(result));
  if (result && state.continuation == Continuation::kAttribute) {
    const cpython::LinkedFrame link(ts, frame);
    level->extra = Ref();  // what has the attribute dies where nobody else holds it
  }
  if (!result) {
    if (state.continuation == Continuation::kAttribute)
      cpython::add_attribute_context(PyTuple_GET_ITEM(level->extra.get(), 0), PyTuple_GET_ITEM(level->extra.get(), 1));
    SavedError raised;
    level->extra = Ref();  // what was being made dies first
  }
  if (!result) return cpython::eval_raising(ts, frame);
  if (state.continuation == Continuation::kReplace) result = std::move(level->extra);
  if (state.continuation == Continuation::kDrop) {
    result = Ref();
  } else {
    if (state.continuation == Continuation::kEnter) cpython::push(frame, level->extra.release());
    cpython::push(frame, result.release());
  }
  return resume(trace_, state, ts, frame);
}

PyObject* leave_at(const Trace& trace, uint32_t snapshot, Reg* regs, Frame* root, PyThreadState* ts, bool raising) {
  Exit exit(trace, snapshot, 0, raising);
  cpython::GcPause pause;
  const bool made = exit.materialise(regs, trace.snapshots[snapshot].time);
  if (!made) {
    SavedError out_of_memory;
    release_all(trace, regs);
    return nullptr;
  }
  release_all(trace, regs);
  pause.end();
  return exit.run(ts, root);
}

// Frames that stand in the chain while something else runs: each is made by CPython, links itself, and makes the next.
class Chain {
 public:
  Chain(const Trace& trace, uint32_t snapshot, size_t count, const Reg* regs, PyObject* (*perform)(void*),
        void* context)
      : trace_(trace),
        time_(trace.snapshots[snapshot].time),
        regs_(regs),
        perform_(perform),
        context_(context),
        states_(frames_of(trace, snapshot)),
        count_(count == 0 ? states_.size() : count) {}

  PyObject* enter(PyThreadState* ts, Frame* frame) {
    if (states_[next_]->self != kNone) standing_.push_back({states_[next_]->self, frame});
    if (next_ > 0) made_.emplace_back(states_[next_], frame);
    cpython::stand_at(frame, states_[next_++]->call);
    cpython::LinkedFrame link(ts, frame);
    if (next_ == count_) return perform_(context_);
    Materialiser make(trace_, regs_, time_);
    const Ref function = Ref::steal(make.function_to_show(states_[next_]->function));
    if (!function) return nullptr;
    return cpython::call_into_new_frame(
        ts, function.get(),
        [](PyThreadState* state, Frame* inner, void* chain) { return static_cast<Chain*>(chain)->enter(state, inner); },
        this);
  }
  const std::vector<StandingFrame>& standing() const noexcept { return standing_; }
  const std::vector<std::pair<const FrameState*, Frame*>>& made() const noexcept { return made_; }

 private:
  const Trace& trace_;
  uint32_t time_;
  const Reg* regs_;
  PyObject* (*perform_)(void*);
  void* context_;
  std::vector<const FrameState*> states_;
  std::vector<StandingFrame> standing_;
  std::vector<std::pair<const FrameState*, Frame*>> made_;
  size_t count_, next_ = 0;
};

// Gives a frame of a chain those of its variables that are real once `node` has built `made`: what is not real is not
// made for the frame, because it would be made again where the trace needs it.
bool show_variables(const Trace& trace, const Node& node, PyObject* made, const FrameState& state, const Reg* regs,
                    Frame* frame) {
  Materialiser make(trace, regs, node.time);
  Objects variables(state.locals);
  bool good = true;
  for (uint32_t i = 0; i < state.locals && good; ++i) {
    const Val value = trace.slots[state.first + i];
    if (value == node.a) variables[i] = new_reference(made);
    if (value == node.a || value.is_null()) continue;
    if (value.is_virtual() && !trace.virtuals[value.index()].is_real(node.time)) continue;
    variables[i] = make.value(value);
    good = variables[i] != nullptr;
  }
  if (good) cpython::swap_slots(frame, variables.data(), static_cast<int>(variables.size()));
  for (PyObject* object : variables) drop_reference(object);
  return good;
}

}  // namespace

void set_resume(Resume resume) noexcept {
  g_resume = resume;
}

PyObject* call_in_frames(const Trace& trace, uint32_t snapshot, const Reg* regs, Frame* root, PyThreadState* ts,
                         PyObject* (*perform)(void*), void* context) {
  return Chain(trace, snapshot, 0, regs, perform, context).enter(ts, root);
}

Val handled_in(const Trace& trace, uint32_t snapshot, size_t levels) {
  const std::vector<const FrameState*> states = frames_of(trace, snapshot);
  Val handled;
  for (size_t i = 0; i < (levels == 0 ? states.size() : levels); ++i)
    if (!states[i]->handled.is_null()) handled = states[i]->handled;
  return handled;
}

PyObject* build_in_frames(const Trace& trace, const Node& node, const Reg* regs, Frame* root, PyThreadState* ts) {
  struct Build {
    const Trace& trace;
    const Node& node;
    const Reg* regs;
    PyThreadState* ts;
    Chain* chain;
  } build{trace, node, regs, ts, nullptr};
  const auto perform = [](void* context) -> PyObject* {
    const auto& [of, what, registers, thread, chain] = *static_cast<Build*>(context);
    Materialiser make(of, registers, what.time);
    Ref made = Ref::steal(make.build(what.a.index()));
    if (!made || !make.collect_frames() || !make.tracebacks().attach(thread, chain->standing())) return nullptr;
    for (const auto& [state, frame] : chain->made())
      if (!show_variables(of, what, made.get(), *state, registers, frame)) return nullptr;
    return made.release();
  };
  Chain chain(trace, node.snapshot, 0, regs, perform, &build);
  build.chain = &chain;
  return chain.enter(ts, root);
}

PyObject* run_frames(const Trace& trace, const Node& node, Reg* regs, Frame* root, PyThreadState* ts) {
  const uint32_t snapshot = node.snapshot, first = node.aux;
  Exit exit(trace, snapshot, first, false);
  if (!exit.materialise(regs, trace.snapshots[snapshot].time)) return nullptr;
  struct Run {
    Exit* exit;
    PyThreadState* ts;
  } run{&exit, ts};
  const Val outer = handled_in(trace, snapshot, first);
  Materialiser make(trace, regs, trace.snapshots[snapshot].time);
  const Ref exception = outer.is_null() ? Ref() : Ref::steal(make.value(outer));
  const cpython::Handling handling(ts, exception.get());
  for (uint32_t i = 0; i < node.release_early; ++i) release_register(&regs[trace.releases[node.release_first + i]]);
  return Chain(
             trace, snapshot, first, regs,
             [](void* context) {
               auto* now = static_cast<Run*>(context);
               return now->exit->call(now->ts);
             },
             &run)
      .enter(ts, root);
}

PyObject* leave(const Trace& trace, uint32_t snapshot, Reg* regs, Frame* root, PyThreadState* ts) {
  return leave_at(trace, snapshot, regs, root, ts, false);
}

PyObject* leave_raising(const Trace& trace, uint32_t snapshot, Reg* regs, Frame* root, PyThreadState* ts) {
  return leave_at(trace, snapshot, regs, root, ts, true);
}

}  // namespace pijit
