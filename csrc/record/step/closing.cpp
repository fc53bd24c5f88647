// Generators that are closed while recording, and frames that nobody called.
#include "cpython/keys.h"
#include "record/recorder.h"

namespace pijit {
namespace {

// The class that an except clause names as a global variable, if a GeneratorExit surely does not match it.
bool cannot_match(Recorder& recorder, const ShadowFrame& frame, int name) {
  PyObject* key = PyTuple_GET_ITEM(frame.code->co_names, name);
  PyObject *globals = nullptr, *found = nullptr;
  if (frame.function.is_const()) globals = PyFunction_GET_GLOBALS(frame.function.object());
  if (frame.function.is_virtual()) globals = recorder.virtual_field(frame.function, function_field::kGlobals).object();
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
bool closes_silently(Recorder& recorder, const ShadowFrame& frame) {
  PyCodeObject* code = frame.code;
  cpython::Handler handler;
  if (!cpython::find_own_handler(code, frame.operation, &handler)) return true;
  int at = handler.target;
  if (!take(code, &at).is(Operation::kPushException)) return false;
  int last = at;
  Instruction now = take(code, &at);
  while (now.is(Operation::kLoadGlobal)) {
    if (!cannot_match(recorder, frame, now.argument)) return false;
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

}  // namespace

// Nothing that the user sees is closed with the generator: what it delegates to is a generator looked at itself,
// or has no close().
bool Recorder::closes_alone(Val generator) {
  static PyObject* const close = PyUnicode_InternFromString("close");
  if (!closes_silently(*this, *model(generator).suspended)) return false;
  const Val delegate = delegate_of(generator);
  if (delegate.is_null()) return true;
  if (is_virtual(delegate, VirtualKind::kGenerator)) return may_resume(delegate) || has_ended(delegate);
  PyTypeObject* type = type_of(delegate);
  return type != nullptr && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && cpython::lookup_type(type, close) == nullptr;
}

// The end of a loop that was left lets a generator die whose code runs then: an opaque call on the real one.
bool Recorder::finalize_popped(cpython::Frame* frame) {
  ShadowFrame& top = top_frame();
  const Val dying = std::exchange(frames_.popped, Val());
  if (top.pending.active || !top.does(Operation::kPop)) return false;
  bool found = false, silent = true;
  for (Val at = dying; is_virtual(at, VirtualKind::kGenerator) && may_resume(at); at = delegate_of(at)) {
    found = found || is_suspended(at.index(), frame);
    silent = silent && closes_alone(at);
  }
  if (dying.is_reg()) {
    PyObject* object = heap_.reg_objects[dying.index()];
    found = object != nullptr && PyGen_CheckExact(object) && cpython::generator_frame(object) == frame;
    silent = false;
  }
  if (!found || silent) return false;
  if (dying.is_virtual()) model(dying).real = nullptr;
  top.sp += 1;  // as it was before
  top.snapshot = kNone;
  Val unused;
  const bool built =
      opaque_node(top, Op::kOpaque, Val::constant(finalize_function()), {dying}, nullptr, false, &unused);
  top.sp -= 1;
  if (!built) return true;
  await_opaque(top, 0, 0, unused).finish = [](Recorder& recorder, ShadowFrame& of, PyObject* object) {
    recorder.take_opaque(of, object);
  };
  return true;
}

// A generator that nobody else has seen was begun and is not at its end: closing it may run code of the user's.
bool Recorder::leaves_generator() {
  for (size_t i = 0; i < heap_.models.size(); ++i) {
    const auto& content = heap_.models[i];
    if (content->kind != VirtualKind::kGenerator || content->suspended == nullptr) continue;
    const Val generator = Val::virtual_object(static_cast<uint32_t>(i));
    if (!may_resume(generator) || !has_begun(generator)) continue;
    if (!closes_alone(generator)) return true;
  }
  return false;
}

// A generator that is closed or thrown into. One of ours may just end; for any other, who knows.
void Recorder::drop_generator(cpython::Frame* frame) {
  SavedError thrown;
  if (finalize_popped(frame)) return;
  if (!is_ours(frame)) return note_foreign(frame);
  const uint32_t index = frames_.generators.find(frame)->second;
  const bool silent = closes_alone(Val::virtual_object(index));
  end_generator(index);
  if (silent) return;
  // What it does on the way out is not in the trace, and no snapshot can rebuild it: the trace ends before it began.
  stop(Abort::kGenerator, "closed before its end");
  stop_final = stop_changed = true;
}

// Code that nobody called: what a finalizer or a signal handler may have changed is checked anew. In the middle of an
// instruction that was taken to run no Python, the instruction is left alone.
void Recorder::note_foreign(cpython::Frame* frame) {
  const Pending& pending = top_frame().pending;
  if (!pending.active || (pending.entered && pending.has_result)) {
    foreign_.epoch_due = true;
    // Somebody was told that what a write took out of a container died: it is not held beyond that.
    if (frames_.popped.is_const() && top_frame().does(Operation::kPop))
      std::erase_if(trace_->dropped, [&](const Dropped& item) { return item.object == frames_.popped.object(); });
    return;
  }
  const char* name = PyUnicode_AsUTF8(cpython::code(frame)->co_qualname);
  if (name == nullptr) PyErr_Clear();
  stop(Abort::kForeignCode, name == nullptr ? "?" : name);
}

}  // namespace pijit
