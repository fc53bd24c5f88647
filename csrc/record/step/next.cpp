// What a loop, or `yield from`, takes out of an iterator that was there before.
//
// What next() of it runs is not known: it is an opaque call. That of a range runs no Python and changes nothing but the
// iterator: the number is a register's, and nothing is checked anew.
#include "record/step/next.h"

#include "cpython/objects.h"
#include "record/recorder.h"
#include "record/state/epoch.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/opaque.h"

namespace pijit {

// A loop or `yield from` over who knows what.
bool go_opaque_next(Recorder& recorder, ShadowFrame& frame) {
  Val result;
  if (!snapshot_usable(recorder, snapshot(recorder))) return false;
  const bool sends = frame.does(Operation::kSend);
  Vals sent;
  if (sends) sent.push_back(frame.top());
  if (!opaque_node(recorder, frame, Op::kNext, frame.top(sends ? 2 : 1), sent, nullptr, false, &result)) return false;
  await_opaque(recorder, frame, 0, 1, result).then = sends ? Then::kSend : Then::kNext;
  return true;
}

bool go_advance(Recorder& recorder, ShadowFrame& frame) {
  const Val iterator = frame.top();
  if (!iterator.is_reg() || recorder.heap.type_of(iterator) != &PyRangeIter_Type ||
      !snapshot_usable(recorder, snapshot(recorder)))
    return false;
  const Val number = add_reg(recorder, Rep::kInt, &PyLong_Type, nullptr);
  Node& node = emit_node(recorder, Op::kAdvance);
  node.a = iterator;
  node.out = number.index();
  Pending& pending = await(frame, 0, 1);
  pending.then = Then::kNext;
  pending.awaited = Advancing{number.index()};
  return true;
}

// The loop goes on or is over; a replay that finds the other goes on there.
void finish_next(Recorder& recorder, ShadowFrame& frame) {
  Pending& pending = frame.pending;
  const auto* opaque = std::get_if<Opaque>(&pending.awaited);
  const uint32_t out = opaque != nullptr ? opaque->out : std::get<Advancing>(pending.awaited).out;
  if (opaque != nullptr) {
    recorder.pause_gc();
    recorder.foreign.epoch_due = true;
    if (locals_were_seen(recorder)) return;
  }
  const bool sends = pending.then == Then::kSend;
  pending.has_result = goes_on_after(frame);
  pending.result = pending.y = Val::reg(out);
  if (opaque != nullptr && (pending.has_result || sends)) {
    recorder.heap.reg_objects[out] = recorder.frames.operand(1);
    recorder.foreign.note_holders(out, recorder.frames.operand(1));
    recorder.foreign.epoch_result = pending.result;
  }
  const int next = cpython::next_index(frame.code, frame.operation);
  FrameState other = recorder.trace().frame_states[recorder.trace().snapshots[frame.snapshot].frame];
  other.resume = pending.has_result ? cpython::jump_target(frame.code, frame.instruction) : next;
  const bool keeps = sends ? cpython::kEndedReceiverStays : cpython::kEndedIteratorStays;
  const int others = pending.has_result ? (keeps ? 0 : -1) : (sends ? 0 : 1);
  other.stack = static_cast<uint32_t>(frame.sp + others);
  const Vals slots = frame.slots;
  if (sends || !pending.has_result) frame.slots[other.locals + other.stack - 1] = pending.result;
  const uint32_t state = add_state(recorder, frame, other, nullptr);
  frame.slots = slots;
  recorder.trace().snapshots.push_back({state, recorder.trace().clock});
  Node& node = recorder.trace().nodes.back();
  node.aux = pending.has_result;
  node.imm = recorder.trace().snapshots.size() - 1;
}

}  // namespace pijit
