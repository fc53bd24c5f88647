// Finds the entry of a frame, and goes on in the frame until it returns.
#include "hook/entries.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cache/entry_points.h"
#include "cache/limits.h"
#include "cpython/bytecode.h"
#include "cpython/places.h"
#include "hook/in_loop.h"
#include "hook/running.h"
#include "hook/serve.h"
#include "hook/stress.h"
#include "record/limits.h"

namespace pijit {
namespace {

// Times that a frame comes to an instruction before the instruction gets an entry, if it is no loop's head; entries of
// one code object, and places that are counted.
constexpr uint32_t kOften = 4;
constexpr size_t kMostEntries = 32, kMostPlaces = 64;

thread_local Resumed* t_innermost = nullptr;
thread_local Root* t_root = nullptr;  // whose call it is

// A replay returns this if its frame is handed back. No program has the object.
PyObject g_handed_back{};

// Which slots are in use.
uint64_t shape_of(cpython::Frame* frame) noexcept {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15ull;
  const int used = cpython::used_slots(frame);
  auto shape = static_cast<uint64_t>(used);
  for (int i = 0; i < used; ++i) shape = (shape ^ (cpython::slot(frame, i) != nullptr)) * kPrime + (shape >> 61);
  return shape;
}

// A generator saves and restores what it handles itself, and what it raises has what is handled around it as context.
bool handles_exception(PyThreadState* ts) noexcept {
  PyObject* exception = cpython::topmost_exception(ts);
  return exception != nullptr && exception != Py_None;
}

bool is_alive(const EntryPoint& point, PyObject* function) noexcept {
  return point.weak && PyWeakref_GET_OBJECT(point.weak.get()) == function;
}

// A root that asked for native replay gets that, though others come to the place.
bool asks_as(const EntryPoint& point, const Root& root) noexcept {
  return point.root == nullptr || (point.root->asked.market.get() == root.asked.market.get() &&
                                   point.root->asked.fixed_sizes == root.asked.fixed_sizes);
}

// Places of functions that have died. A function that is made anew in each call, such as that of a comprehension before
// CPython 3.12, would be recorded in each call.
void forget_dead(CodeState& state) {
  std::erase_if(state.entries, [&](const EntryPoint& each) {
    if (PyWeakref_GET_OBJECT(each.weak.get()) != Py_None) return false;
    if (each.root != nullptr) state.wasted_entries = each.root->counts.is_worth() ? 0 : state.wasted_entries + 1;
    return true;
  });
}

// The place is counted from now on.
EntryPoint* add_place(CodeState& state, cpython::Frame* frame, int index, uint64_t shape) {
  PyObject* function = cpython::function(frame);
  forget_dead(state);
  if (state.entries.size() >= kMostPlaces) return nullptr;
  if (state.wasted_entries >= limits().wasted_unasked && stress_words() == 0) return nullptr;
  Ref weak = Ref::steal(PyWeakref_NewRef(function, nullptr));
  if (!weak) return PyErr_Clear(), nullptr;
  return &add_point(state, {std::move(weak), function, index, shape, t_root->id, 0, nullptr});
}

// From its head to the last instruction that jumps back there; last is -1: there is none.
struct Loop {
  int head = -1, last = -1;
};

// The outermost loop around the instruction that has traces of its own, or that begins there.
Loop loop_around(const CodeState& state, PyCodeObject* code, PyObject* function, int index) noexcept {
  Loop found{index, cpython::loop_end(code, index)};
  for (const EntryPoint& each : state.entries) {
    if (each.root == nullptr || !each.root->entry.is_loop || each.function != function || each.index >= found.head)
      continue;
    const int last = cpython::loop_end(code, each.index);
    if (last >= index) found = {each.index, last};
  }
  return found;
}

// What the trace that was left has made, or a loop assigns, differs from one time to the other: the first trace of the
// entry leaves it open.
std::shared_ptr<Root> make_entry(const EntryPoint& point, cpython::Frame* frame, Loop loop,
                                 const std::vector<bool>& same) {
  const int index = point.index;
  PyCodeObject* code = cpython::code(frame);
  auto root = std::make_shared<Root>();
  root->id = next_root();
  root->owner.weak = Ref::borrow(point.weak.get());
  root->verification.every = t_root->verification.every;
  root->asked.market = Ref::borrow(t_root->asked.market.get());
  root->asked.fixed_sizes = t_root->asked.fixed_sizes;
  root->asked.automatic = t_root->asked.automatic;
  root->entry.is_loop = cpython::loop_end(code, index) >= 0;
  root->owner.set_code(code);
  root->owner.function = cpython::function(frame);
  root->entry.at = index;
  const cpython::Place place = cpython::place_of(code, index);
  root->written.file = place.file;
  root->written.line = place.line;
  root->written.name = place.function + ":" + std::to_string(place.line);
  note_entry(root);
  root->varying.learn_from(t_root->varying);
  root->varying.in_the_middle = true;
  root->varying.compiled = static_cast<bool>(root->asked.market);
  for (int slot = 0; slot < cpython::used_slots(frame); ++slot)
    if (static_cast<size_t>(slot) >= same.size() || !same[static_cast<size_t>(slot)])
      root->varying.open_input(static_cast<uint32_t>(slot));
  for (int slot : cpython::assigned_locals(code, loop.head, loop.last))
    root->varying.open_input(static_cast<uint32_t>(slot));
  for (PyObject* name : cpython::assigned_names(code, loop.head, loop.last))
    root->varying.add(cpython::globals(frame), name);
  return root;
}

// A replay of an entry's trace that is left at the node has come no further than to where it began.
bool comes_back(const Trace& trace, uint32_t node) noexcept {
  const uint32_t snapshot = trace.nodes[node].snapshot;
  if (!trace.takes_inputs || snapshot == kNone) return false;
  const auto state_of = [&](uint32_t taken) -> const FrameState& {
    return trace.frame_states[trace.snapshots[taken].frame];
  };
  const FrameState &begin = state_of(0), &end = state_of(snapshot);
  const auto slots = trace.slots.begin();
  const auto same = [&](Val before, Val now) {
    if (before != now || !now.is_virtual() || trace.virtuals[now.index()].kind != VirtualKind::kGenerator)
      return before == now;
    const auto state_at = [&](uint32_t taken) {
      return &trace.generator_state(now.index(), trace.snapshots[taken].time);
    };
    return state_at(0) == state_at(snapshot);
  };
  return end.parent == kNone && end.resume == begin.resume && end.stack == begin.stack &&
         std::equal(slots + begin.first, slots + begin.first + begin.locals + begin.stack, slots + end.first, same);
}

// The entry where the frame stands; null: CPython goes on.
std::shared_ptr<Root> entry_of(PyThreadState* ts, cpython::Frame* frame, const std::vector<bool>& same) {
  const bool may_be_seen = cpython::is_held(frame) || cpython::is_found_within(frame);
  if (t_root == nullptr || may_be_seen || !cpython::untraced(ts)) return nullptr;
  if (cpython::is_generator_frame(frame) && handles_exception(ts)) return nullptr;
  CodeState* state = code_state(cpython::code(frame), true);
  if (state == nullptr) return nullptr;
  PyObject* function = cpython::function(frame);
  const int index = cpython::resume_index(frame);
  // The function on the stack has not all its parts, and is no constant of a trace.
  const cpython::Instruction now = cpython::instruction_at(cpython::code(frame), index);
  if (now.is(cpython::Operation::kSetFunctionPart)) return nullptr;
  // A trace would do nothing; where an exit goes back to loads that borrow, it would end where it began.
  if (cpython::gives_back_at_once(cpython::code(frame), index)) return nullptr;
  const uint64_t shape = shape_of(frame);
  EntryPoint* point = nullptr;
  for (EntryPoint& each : state->entries)
    if (each.index == index && each.function == function && each.shape == shape && is_alive(each, function) &&
        asks_as(each, *t_root))
      point = &each;
  if (point != nullptr && point->root != nullptr) return point->root;
  if (point == nullptr && (point = add_place(*state, frame, index, shape)) == nullptr) return nullptr;
  point->counted_for = t_root->id;
  point->arrivals += 1;
  const auto made = std::count_if(state->entries.begin(), state->entries.end(),
                                  [](const EntryPoint& each) { return each.root != nullptr; });
  if (static_cast<size_t>(made) >= kMostEntries) return nullptr;
  // A loop may be all that is left of the call: there is no waiting for other calls.
  const Loop loop = loop_around(*state, cpython::code(frame), function, index);
  if (point->arrivals < kOften && stress_words() == 0 && loop.last < 0) return nullptr;
  return point->root = make_entry(*point, frame, loop, same);
}

// The loop of a call that runs was entered, and its turns are compared with those that CPython runs: its turn has come.
bool is_compared(cpython::Frame* frame, Root& entry, uint32_t turns) {
  Running* const running = Running::of(frame);
  return running != nullptr && running->loops() != nullptr && running->loops()->note_arrival(entry, turns);
}

}  // namespace

Serves::Serves(Root& root) noexcept : outer_(t_root) {
  if (!root.is_entry()) t_root = &root;
}

Serves::~Serves() {
  t_root = outer_;
}

Resumed::Resumed(cpython::Frame* frame) noexcept : frame_(frame), outer_(std::exchange(t_innermost, this)) {}

Resumed::~Resumed() {
  t_innermost = outer_;
}

bool Resumed::finish(PyThreadState* ts, PyObject** result) {
  if (*result != &g_handed_back) return false;
  while (*result == &g_handed_back) {
    const int index = cpython::resume_index(frame_);
    std::shared_ptr<Root> entry;
    try {
      entry = entry_of(ts, frame_, same_);
    } catch (const std::exception&) {  // memory is short
    }
    // A replay that ends where it began, without a fault of the trace, would do so for ever.
    const bool again = stuck_ && index == from_;
    const uint32_t turns = std::exchange(turns_, 0);
    if (entry == nullptr || again || entry->standing.is_disabled() || is_compared(frame_, *entry, turns)) {
      native_ = false;
      *result = run_to_loop(ts, frame_, 0, true);
      if (*result == &g_handed_back) continue;
      return true;
    }
    from_ = index;
    note_entered(*t_root, entry);
    const uint64_t replays = entry->counts.replays;
    *result = enter_in_the_middle(entry, ts, frame_);
    native_ = native_ && entry->counts.replays != replays;
  }
  return true;
}

bool is_resumed(cpython::Frame* frame) noexcept {
  return t_innermost != nullptr && t_innermost->frame_ == frame;
}

void note_left(cpython::Frame* frame, const Trace& trace, const Left& left) {
  if (!is_resumed(frame)) return;
  t_innermost->stuck_ = left.trace == nullptr && !left.turned;
  t_innermost->turns_ += left.turned ? std::max(trace.turns, 1u) : 0;
  if (left.trace == &trace && comes_back(trace, left.node)) {
    t_innermost->tried_.push_back(&trace);
  } else {
    t_innermost->tried_.clear();
  }
}

bool was_tried(cpython::Frame* frame, const Trace& trace) noexcept {
  return is_resumed(frame) && std::count(t_innermost->tried_.begin(), t_innermost->tried_.end(), &trace) != 0;
}

PyObject* resume(const Trace& trace, const FrameState& state, PyThreadState* ts, cpython::Frame* frame) {
  if (loops() == Loops::kUnrolled) return cpython::eval_default(ts, frame, 0);
  std::optional<Resumed> own;
  if (!is_resumed(frame)) own.emplace(frame);
  std::vector<bool>& same = t_innermost->same_;
  same.clear();
  for (uint32_t i = 0; i < state.locals + state.stack; ++i) same.push_back(trace.slots[state.first + i].is_const());
  PyObject* result = &g_handed_back;
  if (own) own->finish(ts, &result);
  return result;
}

PyObject* go_on_from_here(PyThreadState* ts, cpython::Frame* frame) {
  if (loops() == Loops::kUnrolled) return cpython::eval_default(ts, frame, 0);
  Resumed own(frame);
  PyObject* result = &g_handed_back;
  own.finish(ts, &result);
  return result;
}

bool has_entry(cpython::Frame* frame, int index) {
  const CodeState* state = code_state(cpython::code(frame), false);
  PyObject* function = cpython::function(frame);
  return state != nullptr && std::any_of(state->entries.begin(), state->entries.end(), [&](const EntryPoint& each) {
           return each.index == index && each.function == function && is_alive(each, function) &&
                  each.root != nullptr && !each.root->standing.is_disabled() &&
                  (each.root->entry.is_loop || !each.root->traces.empty());
         });
}

PyObject* go_on_in_loop(PyThreadState* ts, cpython::HandBack* back) {
  return back->go_on(
      ts,
      [](PyThreadState* state, cpython::Frame* frame, void* came) {
        auto* const back = static_cast<cpython::HandBack*>(came);
        if (Running* running = Running::of(back->frame())) running->move_to(frame);
        std::optional<Resumed> own;
        if (!cpython::kSameFrameGoesOn || !is_resumed(frame)) own.emplace(frame);
        t_innermost->from_ = -1;
        t_innermost->turns_ = 0;
        t_innermost->stuck_ = false;
        t_innermost->tried_.clear();
        t_innermost->same_ = std::move(back->same);
        t_innermost->native_ = false;
        PyObject* result = &g_handed_back;
        if (own) own->finish(state, &result);
        return result;
      },
      back);
}

}  // namespace pijit
