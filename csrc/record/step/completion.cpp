// The second half of an instruction: its result is on the real stack, the shadow follows.
#include "record/step/completion.h"

#include "cpython/keys.h"
#include "record/recorder.h"
#include "record/shared.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/values.h"
#include "record/state/writes.h"
#include "record/step/next.h"
#include "record/step/step.h"

namespace pijit {
namespace {

// Registers of a result learn their objects.
void note_real(Heap& heap, Val value, PyObject* object) {
  if (object == nullptr) return;
  if (value.is_reg()) {
    if (heap.reg_objects[value.index()] == nullptr) heap.reg_objects[value.index()] = object;
  } else if (value.is_virtual()) {
    Model& content = heap.model(value);
    bool tuple = PyTuple_Check(object);
    if (!tuple && !PyList_CheckExact(object)) return;
    for (size_t i = 0; i < content.items.size(); ++i)
      note_real(heap, content.items[i],
                tuple ? PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i))
                      : PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
  }
}

void note_item(Heap& heap, Val item, PyObject* object) {
  if (item.is_reg()) note_real(heap, item, object);
  if (!item.is_virtual()) return;
  Model& content = heap.model(item);
  if (content.real == nullptr) content.real = object;
  // What a loop over several iterators takes from each: not what that holds, which may hold itself.
  if (content.kind != VirtualKind::kTuple || !PyTuple_CheckExact(object) ||
      PyTuple_GET_SIZE(object) != static_cast<Py_ssize_t>(content.items.size()))
    return;
  for (size_t i = 0; i < content.items.size(); ++i)
    if (content.items[i].is_reg())
      note_real(heap, content.items[i], PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
}

}  // namespace

// The loop, or `yield from`, that the frame has just executed is not at its end.
bool goes_on_after(const ShadowFrame& frame) noexcept {
  return cpython::instruction_index(frame.frame) == cpython::next_index(frame.code, frame.operation);
}

namespace {

// A generator or __next__ in FOR_ITER or SEND: fell through with a value, or jumped to the end.
void complete_next(Recorder& recorder, ShadowFrame& frame) {
  Pending& pending = frame.pending;
  if (pending.is<Opaque>() || pending.is<Advancing>()) finish_next(recorder, frame);
  if (!recorder.live()) return;
  const bool sends = pending.then == Then::kSend;
  if (pending.has_result != goes_on_after(frame))
    return recorder.fail("a loop goes on that has ended in the shadow, or the other way round");
  const Val item = pending.has_result ? pending.result : pending.y;
  pending.active = false;
  const bool keeps = pending.has_result || (sends ? cpython::kEndedReceiverStays : cpython::kEndedIteratorStays);
  frame.sp -= (sends ? 1 : 0) + (keeps ? 0 : 1);
  if (!pending.has_result && !sends) return;
  note_item(recorder.heap, item, recorder.frames.operand(1));
  frame.push(item);
}

}  // namespace

void complete(Recorder& recorder, ShadowFrame& frame) {
  Pending& pending = frame.pending;
  refresh_written(recorder);
  if (pending.expects_frame()) return recorder.stop(Abort::kUnknownCall, "the frame was not entered");
  PyObject* result = pending.pushes == 2  ? cpython::loaded(frame.frame)
                     : pending.pushes > 0 ? recorder.frames.operand(1)
                                          : nullptr;
  const bool has_self = pending.pushes == 2 && cpython::has_self(frame.frame);
  if (pending.then == Then::kNext || pending.then == Then::kSend) return complete_next(recorder, frame);
  if (const auto* asking = std::get_if<Asking>(&pending.awaited)) {
    Val value;
    if (!recorder.adapter()->finish_call(recorder.question.site, result, &value)) {
      if (recorder.live()) recorder.stop(Abort::kAdapter, "");
      return;
    }
    if (recorder.question.site.kind == SiteKind::kIter) value = new_iterator(recorder, value);
    if (recorder.question.site.kind == SiteKind::kContains &&
        recorder.question.site.oparg != 0) {  // `not in`: the adapter says whether it is in
      note_real(recorder.heap, value, result == Py_True ? Py_False : Py_True);
      value = scalar_node(recorder, ScalarOp::kNot, value, Val());
      if (value.is_null()) return recorder.stop(Abort::kUnknownOperand, "not in a tensor");
    }
    const bool stores = recorder.question.site.kind == SiteKind::kStoreSubscr;
    if (stores && pending.pushes > 0) value = Val::constant(Py_None);  // operator.setitem()
    note_real(recorder.heap, value, result);
    pending.result = value;
    if (asking->branch) {
      finish_branch(recorder, frame, value);
      if (!recorder.live()) return;
    }
  } else if (pending.finish != nullptr) {
    pending.finish(recorder, frame, result);
    if (!recorder.live()) return;
    if (pending.result.is_reg() && !pending.is<Opaque>()) note_real(recorder.heap, pending.result, result);
  } else if (!pending.has_result && pending.pushes > 0) {
    return recorder.stop(Abort::kUnknownCall, "no result was seen");
  } else if (touches_tensor(recorder, pending.result) && result != nullptr) {
    note_real(recorder.heap, pending.result, result);  // C code that is mirrored has computed it
  }
  if (pending.is<Opaque>() && !recorder.foreign.only_tensors) recorder.foreign.epoch_due = true;
  Val value = pending.result;
  frame.sp -= pending.pops;
  while (!frame.loose.empty() && frame.loose.back() >= frame.locals + frame.sp) frame.loose.pop_back();
  if (frame.does(Operation::kMatchGroup)) {
    frame.push(pending.y);
    frame.push(value);
  } else if (has_self && pending.is<Opaque>()) {
    frame.loose.push_back(frame.locals + frame.sp);
    frame.push_callee(value, Val());
  } else if (pending.pushes == 4) {
    const Vals items = value.is_virtual() ? recorder.heap.model(value).items : Vals();  // or it is the empty tuple
    for (size_t i = items.size(); i-- > 0;) {
      frame.push(items[i]);
      note_item(recorder.heap, items[i], recorder.frames.operand(static_cast<int>(i) + 1));
    }
  } else if (has_self) {
    // CPython has left method and self instead of a bound method.
    Val method = recorder.heap.virtual_field(value, 0), self = recorder.heap.virtual_field(value, 1);
    frame.push(method);
    frame.push(self);
  } else if (pending.pushes > 0) {
    if (pending.pushes == 3) frame.push(pending.y);
    if (value.is_virtual() && recorder.heap.model(value).real == nullptr) recorder.heap.model(value).real = result;
    if (pending.pushes == 2)
      frame.push_callee(value, Val());
    else
      frame.push(value);
  }
  pending.active = false;
  frame.collected.clear();
}

bool ask_adapter(Recorder& recorder, ShadowFrame& frame, const CallSite& site, int pops, int pushes) {
  if (recorder.adapter() == nullptr) return false;
  recorder.question.site = site;
  Val result;
  switch (recorder.adapter()->begin_call(recorder.question.site, &result)) {
    case CallFate::kUnknown:
      return false;
    case CallFate::kStop:
      if (recorder.live()) recorder.stop(Abort::kAdapter, "");
      return true;
    case CallFate::kDone:
      if (pushes > 0) {
        known(frame, pops, result);
        frame.pending.pushes = static_cast<uint8_t>(pushes);
      } else {
        await(frame, pops, 0);
      }
      frame.pending.ignores_frames = true;  // the adapter knows all that the call does
      return true;
    case CallFate::kObserve:
      await(frame, pops, pushes).awaited = Asking();
      return true;
  }
  return false;
}

// Asks the adapter about an instruction whose operands are the top `count` stack entries (or given values).
bool ask_about(Recorder& recorder, ShadowFrame& frame, SiteKind kind, std::initializer_list<Val> operands, int pops,
               int pushes, int oparg, PyObject* name, PyObject* callable) {
  recorder.question.operands.clear();
  bool tensor = false;
  for (Val value : operands) {
    recorder.question.operands.push_back({value, recorder.heap.real(value)});
    tensor = tensor || touches_tensor(recorder, value);
  }
  if (!tensor && (callable == nullptr || recorder.adapter() == nullptr || !recorder.adapter()->claims(callable)))
    return false;
  CallSite site{};
  site.kind = kind;
  site.callable = callable;
  site.name = name;
  site.oparg = oparg;
  site.operands = recorder.question.operands.data();
  site.count = recorder.question.operands.size();
  return ask_adapter(recorder, frame, site, pops, pushes);
}

}  // namespace pijit
