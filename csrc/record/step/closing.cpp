// Generators that are closed while recording, and frames that nobody called.
#include "record/step/closing.h"

#include "cpython/keys.h"
#include "record/recorder.h"
#include "record/state/generators.h"
#include "record/state/snapshot.h"
#include "record/step/opaque.h"

namespace pijit {
namespace {

// The class that an except clause names as a global variable, if a GeneratorExit surely does not match it.
bool cannot_match(Heap& heap, const ShadowFrame& frame, int name) {
  PyObject* key = PyTuple_GET_ITEM(frame.code->co_names, name);
  PyObject *globals = nullptr, *found = nullptr;
  if (frame.function.is_const()) globals = PyFunction_GET_GLOBALS(frame.function.object());
  if (frame.function.is_virtual()) globals = heap.virtual_field(frame.function, function_field::kGlobals).object();
  if (globals == nullptr) return false;
  if (cpython::dict_lookup(globals, key, &found) == 0) cpython::dict_lookup(PyEval_GetBuiltins(), key, &found);
  if (found == nullptr || Py_TYPE(found) != &PyType_Type || !PyExceptionClass_Check(found)) return false;
  return !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit),
                           reinterpret_cast<PyTypeObject*>(found));
}

// The instruction at *at, which becomes the index of the next one.
Instruction take(PyCodeObject* code, int* at) {
  const Instruction now = cpython::decode(code, at);
  *at = cpython::next_index(code, *at);
  return now;
}

// Closing the generator where it stands only passes by except clauses of other exceptions: no code of the user's runs.
// Its frame may be gone.
bool closes_silently(Heap& heap, const ShadowFrame& frame) {
  PyCodeObject* code = frame.code;
  cpython::Handler handler;
  if (!cpython::find_own_handler(code, frame.operation, &handler)) return true;
  int at = handler.target;
  if (!take(code, &at).is(Operation::kPushException)) return false;
  int last = at;
  Instruction now = take(code, &at);
  while (now.is(Operation::kLoadGlobal)) {
    if (!cannot_match(heap, frame, now.argument)) return false;
    if (!take(code, &at).is(Operation::kMatchException)) return false;
    const int jump = at;
    now = take(code, &at);
    if (!now.is(Operation::kJumpIf) || now.flag != 0) return false;
    last = at = cpython::jump_target(code, jump);
    now = take(code, &at);
  }
  if (!now.is(Operation::kReraise)) return false;
  if (!cpython::find_own_handler(code, last, &handler)) return true;
  at = handler.target;  // the clean-up of a handler
  if (!take(code, &at).is(Operation::kCopy) || !take(code, &at).is(Operation::kPopException)) return false;
  last = at;
  return take(code, &at).is(Operation::kReraise) && !cpython::find_own_handler(code, last, &handler);
}

// Nothing that the user sees is closed with the generator: what it delegates to is a generator looked at itself,
// or has no close().
bool closes_alone(Heap& heap, Val generator) {
  static PyObject* const close = PyUnicode_InternFromString("close");
  if (!closes_silently(heap, *heap.model(generator).get<family::Generator>().suspended)) return false;
  const Val delegate = delegate_of(heap, generator);
  if (delegate.is_null()) return true;
  if (heap.is_virtual(delegate, VirtualKind::kGenerator))
    return may_resume(heap, delegate) || has_ended(heap, delegate);
  PyTypeObject* type = heap.type_of(delegate);
  return type != nullptr && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && cpython::lookup_type(type, close) == nullptr;
}

// The end of a loop that was left lets a generator die whose code runs then: an opaque call on the real one.
bool finalize_popped(Recorder& recorder, cpython::Frame* frame) {
  ShadowFrame& top = recorder.frames.top();
  const Val dying = std::exchange(recorder.frames.popped, Val());
  if (top.pending.active || !top.does(Operation::kPop)) return false;
  bool found = false, silent = true;
  for (Val at = dying; recorder.heap.is_virtual(at, VirtualKind::kGenerator) && may_resume(recorder.heap, at);
       at = delegate_of(recorder.heap, at)) {
    found = found || is_suspended(recorder.heap, at.index(), frame);
    silent = silent && closes_alone(recorder.heap, at);
  }
  if (dying.is_reg()) {
    PyObject* object = recorder.heap.reg_objects[dying.index()];
    found = object != nullptr && PyGen_CheckExact(object) && cpython::generator_frame(object) == frame;
    silent = false;
  }
  if (!found || silent) return false;
  if (dying.is_virtual()) recorder.heap.model(dying).real = nullptr;
  top.sp += 1;  // as it was before
  top.snapshot = kNone;
  Val unused;
  const bool built =
      opaque_node(recorder, top, Op::kOpaque, Val::constant(finalize_function()), {dying}, nullptr, false, &unused);
  top.sp -= 1;
  if (!built) return true;
  await_opaque(recorder, top, 0, 0, unused).finish = [](Recorder& recorder, ShadowFrame& of, PyObject* object) {
    take_opaque(recorder, of, object);
  };
  return true;
}

// A generator that nobody else has seen was begun and is not at its end: closing it may run code of the user's.
bool leaves_generator(Recorder& recorder) {
  for (size_t i = 0; i < recorder.heap.models.size(); ++i) {
    const auto* known = recorder.heap.models[i]->find<family::Generator>();
    if (known == nullptr || known->suspended == nullptr) continue;
    const Val generator = Val::virtual_object(static_cast<uint32_t>(i));
    if (!may_resume(recorder.heap, generator) || !has_begun(recorder.heap, generator)) continue;
    if (!closes_alone(recorder.heap, generator)) return true;
  }
  return false;
}

}  // namespace

// A generator that is closed or thrown into. One of ours may just end; for any other, who knows.
void drop_generator(Recorder& recorder, cpython::Frame* frame) {
  SavedError thrown;
  if (finalize_popped(recorder, frame)) return;
  if (!is_ours(recorder, frame)) return note_foreign(recorder, frame);
  const uint32_t index = recorder.frames.generators.find(frame)->second;
  const bool silent = closes_alone(recorder.heap, Val::virtual_object(index));
  end_generator(recorder, index);
  if (silent) return;
  // What it does on the way out is not in the trace, and no snapshot can rebuild it: the trace ends before it began.
  recorder.stop(Abort::kGenerator, "closed before its end");
  recorder.stop_final = recorder.stop_changed = true;
}

// Code that nobody called: what a finalizer or a signal handler may have changed is checked anew. In the middle of an
// instruction that was taken to run no Python, the instruction is left alone.
void note_foreign(Recorder& recorder, cpython::Frame* frame) {
  const Pending& pending = recorder.frames.top().pending;
  if (!pending.active || (pending.entered && pending.has_result)) {
    recorder.foreign.epoch_due = true;
    // Somebody was told that what a write took out of a container died: it is not held beyond that.
    if (recorder.frames.popped.is_const() && recorder.frames.top().does(Operation::kPop))
      std::erase_if(recorder.trace().dropped,
                    [&](const Dropped& item) { return item.object == recorder.frames.popped.object(); });
    return;
  }
  const char* name = PyUnicode_AsUTF8(cpython::code(frame)->co_qualname);
  if (name == nullptr) PyErr_Clear();
  recorder.stop(Abort::kForeignCode, name == nullptr ? "?" : name);
}

void note_return(Recorder& recorder) {
  if (recorder.frames.size() != 1) return;
  recorder.frames.leaves_generator = leaves_generator(recorder);
  if (recorder.raise.any_traced || recorder.frames.leaves_generator)
    recorder.frames.return_snapshot = snapshot(recorder);
}

}  // namespace pijit
