// Rebuilds the frames of a snapshot from the root inwards and evaluates them from the innermost outwards.
#include "exec/side_exit.h"

#include <optional>
#include <vector>

#include "exec/materialise.h"
#include "exec/registers.h"

namespace pijit {

namespace {

using cpython::Frame;

// One frame to be rebuilt; owns its objects until they are in the frame.
struct Level {
  const FrameState* state;
  PyObject** slots;  // locals, then stack
  Ref function, extra;
  int count() const noexcept { return static_cast<int>(state->locals + state->stack); }
};

class Exit {
 public:
  Exit(const Trace& trace, uint32_t snapshot, bool raising) noexcept;
  ~Exit() { drop_objects(); }
  // False with an error set; nothing has changed then.
  bool materialise(const Reg* regs, uint32_t time) noexcept;
  PyObject* run(PyThreadState* ts, Frame* root) { return enter(ts, root); }

 private:
  PyObject* enter(PyThreadState* ts, Frame* frame);
  PyObject* enter_innermost(PyThreadState* ts, Frame* frame, Level* level);
  PyObject* go_on(PyThreadState* ts, Frame* frame, Level* level, Ref result);
  bool materialise_level(Materialiser* make, Level* level) noexcept;
  void drop_slots(Level* level) noexcept;
  void drop_objects() noexcept;

  const Trace& trace_;
  std::vector<Level> levels_;  // root first
  std::vector<PyObject*> slots_;
  size_t next_ = 0;  // the level that is entered next
  std::optional<SavedError> raised_;
};

Exit::Exit(const Trace& trace, uint32_t snapshot, bool raising) noexcept : trace_(trace) {
  if (raising) raised_.emplace();
  size_t depth = 0, total = 0;
  for (uint32_t at = trace.snapshots[snapshot].frame; at != kNone; at = trace.frame_states[at].parent) {
    ++depth;
    total += trace.frame_states[at].locals + trace.frame_states[at].stack;
  }
  slots_.assign(total, nullptr);
  levels_.resize(depth);
  for (uint32_t at = trace.snapshots[snapshot].frame; at != kNone; at = trace.frame_states[at].parent)
    levels_[--depth].state = &trace.frame_states[at];
  PyObject** slots = slots_.data();
  for (Level& level : levels_) {
    level.slots = slots;
    slots += level.count();
  }
}

void Exit::drop_slots(Level* level) noexcept {
  for (int i = 0; i < level->count(); ++i) drop_reference(std::exchange(level->slots[i], nullptr));
}

void Exit::drop_objects() noexcept {
  for (Level& level : levels_) drop_slots(&level);
}

bool Exit::materialise_level(Materialiser* make, Level* level) noexcept {
  const FrameState& state = *level->state;
  for (int i = 0; i < level->count(); ++i) {
    const Val slot = trace_.slots[state.first + static_cast<uint32_t>(i)];
    if (!slot.is_null() && (level->slots[i] = make->value(slot)) == nullptr) return false;
  }
  if (!state.function.is_null()) {
    level->function = Ref::steal(make->value(state.function));
    if (!level->function) return false;
  }
  if (state.extra.is_null()) return true;
  level->extra = Ref::steal(make->value(state.extra));
  return static_cast<bool>(level->extra);
}

bool Exit::materialise(const Reg* regs, uint32_t time) noexcept {
  Materialiser make(trace_, regs, time);
  for (Level& level : levels_)
    if (!materialise_level(&make, &level)) return false;
  return true;
}

// Puts the level's objects into its frame and evaluates it, everything inside it first.
PyObject* Exit::enter(PyThreadState* ts, Frame* frame) {
  Level* level = &levels_[next_++];
  cpython::swap_slots(frame, level->slots, level->count());
  if (next_ == levels_.size()) return enter_innermost(ts, frame, level);
  cpython::stand_at(frame, level->state->call);
  Ref result;
  {
    cpython::LinkedFrame link(ts, frame);
    drop_slots(level);
    const Ref function = std::move(levels_[next_].function);
    result = Ref::steal(cpython::call_into_new_frame(
        ts, function.get(),
        [](PyThreadState* state, Frame* inner, void* exit) { return static_cast<Exit*>(exit)->enter(state, inner); },
        this));
  }
  return go_on(ts, frame, level, std::move(result));
}

PyObject* Exit::enter_innermost(PyThreadState* ts, Frame* frame, Level* level) {
  drop_slots(level);
  if (raised_) {
    cpython::stand_at(frame, level->state->call);
    raised_.reset();  // sets the error again
    return cpython::eval_default(ts, frame, 1);
  }
  cpython::resume_at(frame, level->state->resume);
  return cpython::eval_default(ts, frame, 0);
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
  if (!result) return cpython::eval_default(ts, frame, 1);
  if (state.continuation == Continuation::kDrop) {
    result = Ref();
  } else {
    if (state.continuation == Continuation::kEnter) cpython::push(frame, level->extra.release());
    cpython::push(frame, result.release());
  }
  cpython::resume_at(frame, state.resume);
  return cpython::eval_default(ts, frame, 0);
}

PyObject* leave_at(const Trace& trace, uint32_t snapshot, Reg* regs, Frame* root, PyThreadState* ts, bool raising) {
  Exit exit(trace, snapshot, raising);
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

}  // namespace

PyObject* leave(const Trace& trace, uint32_t snapshot, Reg* regs, Frame* root, PyThreadState* ts) {
  return leave_at(trace, snapshot, regs, root, ts, false);
}

PyObject* leave_raising(const Trace& trace, uint32_t snapshot, Reg* regs, Frame* root, PyThreadState* ts) {
  return leave_at(trace, snapshot, regs, root, ts, true);
}

}  // namespace pijit
