// Exceptions that nothing foresaw and that a followed frame handles: a replay takes them up where the recording did.
//
// The instruction that raised becomes an opaque call that is expected to raise (Op::kOpaqueRaise), or frames that
// CPython runs are expected to (Op::kRunRaise). The exception is then an object in a register, of which only the class
// is guarded, and the recording goes on in the handler.
//
// 1. Its traceback has no entries for the frames that are followed: they are made when it escapes, as for exceptions
// that the trace raises itself. So nothing else may hold it before.
// 2. Foreign code has run when it comes to the handler: an epoch begins there. So C code that waits for the frame may
// not do more than hand it on.
#include "record/step/raised.h"

#include "record/recorder.h"
#include "record/state/epoch.h"
#include "record/state/exceptions.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/opaque.h"

namespace pijit {

// A followed frame handles what the innermost one raises now, and C code in between only hands it on.
bool is_handled(const FrameStack& frames) {
  for (size_t i = frames.size(); i-- > 0;) {
    const ShadowFrame& frame = *frames[i];
    const Pending& pending = frame.pending;
    const bool hands_on = pending.then == Then::kPush || pending.then == Then::kInit || pending.then == Then::kDrop ||
                          pending.then == Then::kReplace || pending.then == Then::kLength ||
                          (pending.then == Then::kNext && pending.is<Resuming>());
    if (i + 1 < frames.size() && (frame.drive || !hands_on)) return false;
    cpython::Handler handler;
    if (cpython::find_own_handler(frame.code, frame.operation, &handler)) return true;
  }
  return false;
}

namespace {

// What the opaque call under way was to push, had it returned, is a second snapshot.
bool take_opaque_raise(Recorder& recorder, PyObject* object) {
  ShadowFrame& frame = recorder.frames.top();
  const Pending& pending = frame.pending;
  const Val out = Val::reg(std::get<Opaque>(pending.awaited).out);
  const bool ran = recorder.trace().nodes.back().op == Op::kRun;
  const auto before = ran ? static_cast<uint32_t>(recorder.trace().nodes.back().imm) : frame.snapshot;
  FrameState returned = recorder.trace().frame_states[recorder.trace().snapshots[before].frame];
  returned.resume = cpython::next_index(frame.code, frame.operation);
  returned.stack = static_cast<uint32_t>(frame.sp - pending.pops);
  const Vals slots = frame.slots;
  Val* top = &frame.slots[returned.locals + returned.stack];
  if (pending.pushes == 3) *top++ = pending.y;
  if (pending.pushes == 2 && cpython::kNullBelowCallable) *top++ = Val();
  if (pending.pushes > 0) *top++ = out;
  if (pending.pushes == 2 && !cpython::kNullBelowCallable) *top++ = Val();
  returned.stack = static_cast<uint32_t>(top - &frame.slots[returned.locals]);
  const uint32_t state = add_state(recorder, frame, returned, nullptr);
  frame.slots = slots;
  recorder.trace().snapshots.push_back({state, recorder.trace().clock});
  Node& node = recorder.trace().nodes.back();
  node.op = ran ? Op::kRunRaise : Op::kOpaqueRaise;
  node.imm = recorder.trace().snapshots.size() - 1;
  recorder.heap.reg_objects[out.index()] = object;
  recorder.pause_gc();
  if (locals_were_seen(recorder)) return false;
  begin_taken(recorder, object, out);
  recorder.foreign.taken.push_back(out);
  recorder.foreign.epoch_due = true;
  return true;
}

}  // namespace

// `object` leaves the instruction of the innermost frame, at CPython's event about it. True: it was foreseen after all.
bool take_raised(Recorder& recorder, PyObject* object) {
  ShadowFrame& frame = recorder.frames.top();
  if (Py_REFCNT(object) > cpython::kExceptionHeldByEvent || !cpython::is_importable(Py_TYPE(object)) ||
      !is_handled(recorder.frames))
    return false;
  for (const auto& followed : recorder.frames)  // it would leave a generator as another one
    if (followed->generator != kNone && PyErr_GivenExceptionMatches(object, PyExc_StopIteration) != 0) return false;
  if (!frame.pending.is<Opaque>()) {
    if (frame.changed || !frame.pending.active || frame.pending.is<Entering>() || frame.pending.is<Resuming>())
      return false;
    recorder.rollback(frame);
    frame.pending = Pending();
    if (!go_opaque(recorder, frame) || !recorder.live()) {
      recorder.resume();
      return false;
    }
  }
  const bool simple = frame.pending.then == Then::kPush || frame.pending.then == Then::kDrop;
  if (!simple || frame.does(Operation::kMatchGroup)) return false;
  return take_opaque_raise(recorder, object);
}

// What is in a register, as an exception that is the program's, if it is one.
Val as_exception(Recorder& recorder, Val value, PyObject* object) {
  if (object == nullptr || !PyExceptionInstance_Check(object)) return value;
  const Val exception = new_virtual(recorder, VirtualKind::kException, Py_TYPE(object));
  recorder.heap.model(exception).real = object;
  recorder.heap.becomes_real(exception, value.index(), ++recorder.trace().clock);
  return exception;
}

// CHECK_EG_MATCH has left what it did not match and what it did, which is handled from now on.
void take_split_group(Recorder& recorder, ShadowFrame& frame) {
  recorder.pause_gc();
  if (locals_were_seen(recorder)) return;
  Pending& pending = frame.pending;
  const Val split = Val::reg(std::get<Opaque>(pending.awaited).out);
  PyObject* const rest = recorder.frames.operand(2);
  PyObject* const match = recorder.frames.operand(1);
  PyObject* objects[] = {rest, match, match == Py_None ? recorder.heap.real(frame.handled.back()) : match};
  Val parts[3];
  for (int i = 0; i < 3; ++i) {
    parts[i] = add_reg(recorder, Rep::kObject, nullptr, objects[i]);
    Node& item = emit_node(recorder, Op::kCall);
    item.a = Val::constant(operator_function(SiteKind::kSubscr, 0));
    item.out = parts[i].index();
    item.first = static_cast<uint32_t>(recorder.trace().operands.size());
    item.count = 2;
    recorder.trace().operands.push_back(split);
    recorder.trace().operands.push_back(recorder.reads.owned(Ref::steal(PyLong_FromLong(i)).get()));
    recorder.foreign.taken.push_back(parts[i]);
  }
  for (int i = 0; i < 3; ++i) parts[i] = as_exception(recorder, parts[i], objects[i]);
  frame.handled.back() = parts[2];
  pending.y = parts[0];
  pending.result = parts[1];
}

}  // namespace pijit
