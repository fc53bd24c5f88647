// What is known of virtual generators: whether they have begun, have ended, and where they stand.
#include "record/recorder.h"

namespace pijit {

bool Recorder::may_resume(Val generator) const {
  return heap_.models[generator.index()]->suspended != nullptr && trace_->virtuals[generator.index()].reg == kNone;
}

bool Recorder::has_begun(Val generator) const {
  const auto& suspended = heap_.models[generator.index()]->suspended;
  return suspended == nullptr || suspended->yielded;
}

bool Recorder::has_ended(Val generator) const {
  return trace_->log[trace_->virtuals[generator.index()].tail].op == LogOp::kClear;
}

bool Recorder::is_running(Val generator) const {
  if (!is_virtual(generator, VirtualKind::kGenerator)) return false;
  const LogEntry& state = trace_->log[trace_->virtuals[generator.index()].tail];
  return state.op == LogOp::kFrame && state.index == kNone;
}

bool Recorder::closes_unrun(Val generator) const {
  const ShadowFrame* at = heap_.models[generator.index()]->suspended.get();
  return at != nullptr && at->yielded && cpython::closes_unrun(at->code, at->operation + 1);
}

Val Recorder::delegate_of(Val generator) const {
  const ShadowFrame* at = heap_.models[generator.index()]->suspended.get();
  if (at == nullptr || !at->yielded) return Val();
  const int next = at->operation + 1;
  constexpr int kDelegates = 2;  // resumed in `yield from` or `await`
  const Instruction resumed = cpython::instruction_at(at->code, next);
  if (!resumed.is(Operation::kResume) || resumed.flag < kDelegates) return Val();
  return at->slots[static_cast<size_t>(at->locals + at->sp - 1)];
}

// CPython warns of a coroutine that is never awaited, and a replay that does not make it would not.
bool Recorder::forgets_coroutine() {
  if (!trace_->coroutines) return false;
  const Node& last = trace_->nodes.back();
  ++snapshots_.visit;
  snapshots_.visited.resize(trace_->virtuals.size(), 0);
  snapshots_.usable.restart();  // all objects are to be visited
  if (last.op == Op::kExit) snapshot_usable(last.snapshot);
  if (last.op == Op::kReturn && last.a.is_virtual()) virtual_usable(last.a.index(), last.time);
  for (uint32_t i = 0; i < heap_.models.size(); ++i) {
    if (heap_.models[i]->type != &PyCoro_Type || heap_.models[i]->kind != VirtualKind::kGenerator) continue;
    const bool built = trace_->virtuals[i].reg != kNone || snapshots_.visited[i] == snapshots_.visit;
    if (!built && !has_begun(Val::virtual_object(i))) return true;
  }
  return false;
}

// The frame is that of a virtual generator at a yield. Another generator may lie where one died unseen: the address alone
// does not tell them apart.
bool Recorder::is_suspended(uint32_t generator, cpython::Frame* frame) const {
  const ShadowFrame* shadow = heap_.models[generator]->suspended.get();
  return shadow != nullptr && shadow->frame == frame && shadow->code == cpython::code(frame);
}

// The frame is that of some virtual generator.
bool Recorder::is_ours(cpython::Frame* frame) const {
  const auto found = frames_.generators.find(frame);
  return found != frames_.generators.end() && is_suspended(found->second, frame);
}

void Recorder::end_generator(uint32_t generator) {
  model(generator).suspended = nullptr;
  log(Val::virtual_object(generator), LogOp::kClear, Val(), Val());
}

}  // namespace pijit
