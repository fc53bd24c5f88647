// The second half of an instruction: its result is on the real stack, the shadow follows.
#include "cpython/keys.h"
#include "record/recorder.h"

namespace pijit {
void Recorder::note_real(Val value, PyObject* object) {
  if (object == nullptr) return;
  if (value.is_reg()) {
    if (heap_.reg_objects[value.index()] == nullptr) heap_.reg_objects[value.index()] = object;
  } else if (value.is_virtual()) {
    Model& content = model(value);
    bool tuple = PyTuple_Check(object);
    if (!tuple && !PyList_CheckExact(object)) return;
    for (size_t i = 0; i < content.items.size(); ++i)
      note_real(content.items[i], tuple ? PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i))
                                        : PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
  }
}

void Recorder::note_item(Val item, PyObject* object) {
  if (item.is_reg()) note_real(item, object);
  if (item.is_virtual() && model(item).real == nullptr) model(item).real = object;
}

// The loop, or `yield from`, that the frame has just executed is not at its end.
bool goes_on_after(const ShadowFrame& frame) noexcept {
  return cpython::instruction_index(frame.frame) == cpython::next_index(frame.code, frame.operation);
}

// A generator or __next__ in FOR_ITER or SEND: fell through with a value, or jumped to the end.
void Recorder::complete_next(ShadowFrame& frame) {
  Pending& pending = frame.pending;
  if (pending.opaque || pending.advances) finish_next(frame);
  if (!live_) return;
  const bool sends = pending.then == Then::kSend;
  if (pending.has_result != goes_on_after(frame))
    return fail("a loop goes on that has ended in the shadow, or the other way round");
  const Val item = pending.has_result ? pending.result : pending.y;
  pending.active = false;
  const bool keeps = pending.has_result || (sends ? cpython::kEndedReceiverStays : cpython::kEndedIteratorStays);
  frame.sp -= (sends ? 1 : 0) + (keeps ? 0 : 1);
  if (!pending.has_result && !sends) return;
  note_item(item, stack_real(1));
  frame.push(item);
}

void Recorder::complete(ShadowFrame& frame) {
  Pending& pending = frame.pending;
  refresh_written();
  if (pending.expects_frame && !pending.entered) return stop(Abort::kUnknownCall, "the frame was not entered");
  PyObject* result = pending.pushes == 2 ? cpython::loaded(frame.frame) : pending.pushes > 0 ? stack_real(1) : nullptr;
  const bool has_self = pending.pushes == 2 && cpython::has_self(frame.frame);
  if (pending.then == Then::kNext || pending.then == Then::kSend) return complete_next(frame);
  if (pending.adapter) {
    Val value;
    if (!adapter_->finish_call(question_.site, result, &value)) {
      if (live_) stop(Abort::kAdapter, "");
      return;
    }
    if (question_.site.kind == SiteKind::kIter) value = new_iterator(value);
    if (question_.site.kind == SiteKind::kContains &&
        question_.site.oparg != 0) {  // `not in`: the adapter says whether it is in
      note_real(value, result == Py_True ? Py_False : Py_True);
      value = scalar_node(ScalarOp::kNot, value, Val());
      if (value.is_null()) return stop(Abort::kUnknownOperand, "not in a tensor");
    }
    note_real(value, result);
    pending.result = value;
    if (pending.branch) {
      finish_branch(frame, value);
      if (!live_) return;
    }
  } else if (pending.finish != nullptr) {
    pending.finish(*this, frame, result);
    if (!live_) return;
    if (pending.result.is_reg() && !pending.opaque) note_real(pending.result, result);
  } else if (!pending.has_result && pending.pushes > 0) {
    return stop(Abort::kUnknownCall, "no result was seen");
  }
  if (pending.opaque) foreign_.epoch_due = true;
  Val value = pending.result;
  frame.sp -= pending.pops;
  while (!frame.loose.empty() && frame.loose.back() >= frame.locals + frame.sp) frame.loose.pop_back();
  if (frame.does(Operation::kMatchGroup)) {
    frame.push(pending.y);
    frame.push(value);
  } else if (has_self && pending.opaque) {
    frame.loose.push_back(frame.locals + frame.sp);
    frame.push_callee(value, Val());
  } else if (pending.pushes == 4) {
    const Vals items = value.is_virtual() ? model(value).items : Vals();  // or it is the empty tuple
    for (size_t i = items.size(); i-- > 0;) {
      frame.push(items[i]);
      note_item(items[i], stack_real(static_cast<int>(i) + 1));
    }
  } else if (has_self) {
    // CPython has left method and self instead of a bound method.
    Val method = virtual_field(value, 0), self = virtual_field(value, 1);
    frame.push(method);
    frame.push(self);
  } else if (pending.pushes > 0) {
    if (pending.pushes == 3) frame.push(pending.y);
    if (value.is_virtual() && model(value).real == nullptr) model(value).real = result;
    if (pending.pushes == 2)
      frame.push_callee(value, Val());
    else
      frame.push(value);
  }
  pending.active = false;
  frame.collected.clear();
}

bool Recorder::ask_adapter(ShadowFrame& frame, const CallSite& site, int pops, int pushes) {
  if (adapter_ == nullptr) return false;
  question_.site = site;
  Val result;
  switch (adapter_->begin_call(question_.site, &result)) {
    case CallFate::kUnknown:
      return false;
    case CallFate::kStop:
      if (live_) stop(Abort::kAdapter, "");
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
      await(frame, pops, pushes).adapter = true;
      return true;
  }
  return false;
}

// Asks the adapter about an instruction whose operands are the top `count` stack entries (or given values).
bool Recorder::ask_about(ShadowFrame& frame, SiteKind kind, std::initializer_list<Val> operands, int pops, int pushes,
                         int oparg, PyObject* name, PyObject* callable) {
  question_.operands.clear();
  bool tensor = false;
  for (Val value : operands) {
    question_.operands.push_back({value, real(value)});
    tensor = tensor || touches_tensor(value);
  }
  if (!tensor && (callable == nullptr || adapter_ == nullptr || !adapter_->claims(callable))) return false;
  CallSite site{};
  site.kind = kind;
  site.callable = callable;
  site.name = name;
  site.oparg = oparg;
  site.operands = question_.operands.data();
  site.count = question_.operands.size();
  return ask_adapter(frame, site, pops, pushes);
}

}  // namespace pijit
