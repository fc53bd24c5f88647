// What is known of virtual generators: whether they have begun, have ended, and where they stand.
#include "record/state/generators.h"

#include "record/recorder.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

namespace pijit {
namespace {

const ShadowFrame* suspended_frame(const Heap& heap, uint32_t generator) {
  return heap.models[generator]->get<family::Generator>().suspended.get();
}

}  // namespace

bool may_resume(const Heap& heap, Val generator) {
  return suspended_frame(heap, generator.index()) != nullptr && !heap.is_built(generator);
}

bool has_begun(const Heap& heap, Val generator) {
  const ShadowFrame* suspended = suspended_frame(heap, generator.index());
  return suspended == nullptr || suspended->yielded;
}

bool has_ended(const Heap& heap, Val generator) {
  return heap.trace().log[heap.trace().virtuals[generator.index()].tail].op == LogOp::kClear;
}

bool is_running(const Heap& heap, Val generator) {
  if (!heap.is_virtual(generator, VirtualKind::kGenerator)) return false;
  const LogEntry& state = heap.trace().log[heap.trace().virtuals[generator.index()].tail];
  return state.op == LogOp::kFrame && state.index == kNone;
}

bool closes_unrun(const Heap& heap, Val generator) {
  const ShadowFrame* at = suspended_frame(heap, generator.index());
  return at != nullptr && at->yielded && cpython::closes_unrun(at->code, at->operation + 1);
}

Val delegate_of(const Heap& heap, Val generator) {
  const ShadowFrame* at = suspended_frame(heap, generator.index());
  if (at == nullptr || !at->yielded) return Val();
  const int next = at->operation + 1;
  constexpr int kDelegates = 2;  // resumed in `yield from` or `await`
  const Instruction resumed = cpython::instruction_at(at->code, next);
  if (!resumed.is(Operation::kResume) || resumed.flag < kDelegates) return Val();
  return at->slots[static_cast<size_t>(at->locals + at->sp - 1)];
}

// CPython warns of a coroutine that is never awaited, and a replay that does not make it would not.
bool forgets_coroutine(Recorder& recorder) {
  if (!recorder.trace().coroutines) return false;
  const Node& last = recorder.trace().nodes.back();
  ++recorder.snapshots.visit;
  recorder.snapshots.visited.resize(recorder.trace().virtuals.size(), 0);
  recorder.snapshots.usable.restart();  // all objects are to be visited
  if (last.op == Op::kExit) snapshot_usable(recorder, last.snapshot);
  if (last.op == Op::kReturn && last.a.is_virtual()) virtual_usable(recorder, last.a.index(), last.time);
  for (uint32_t i = 0; i < recorder.heap.models.size(); ++i) {
    if (recorder.heap.models[i]->type != &PyCoro_Type || recorder.heap.models[i]->kind != VirtualKind::kGenerator)
      continue;
    const bool built =
        recorder.trace().virtuals[i].reg != kNone || recorder.snapshots.visited[i] == recorder.snapshots.visit;
    if (!built && !has_begun(recorder.heap, Val::virtual_object(i))) return true;
  }
  return false;
}

// The frame is that of a virtual generator at a yield. Another generator may lie where one died unseen: the address alone
// does not tell them apart.
bool is_suspended(const Heap& heap, uint32_t generator, cpython::Frame* frame) {
  const ShadowFrame* shadow = suspended_frame(heap, generator);
  return shadow != nullptr && shadow->frame == frame && shadow->code == cpython::code(frame);
}

// The frame is that of some virtual generator.
bool is_ours(const Recorder& recorder, cpython::Frame* frame) {
  const auto found = recorder.frames.generators.find(frame);
  return found != recorder.frames.generators.end() && is_suspended(recorder.heap, found->second, frame);
}

void end_generator(Recorder& recorder, uint32_t generator) {
  recorder.heap.model(generator).get<family::Generator>().suspended = nullptr;
  log(recorder, Val::virtual_object(generator), LogOp::kClear, Val(), Val());
}

}  // namespace pijit
