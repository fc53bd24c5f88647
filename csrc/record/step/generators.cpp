// Generators as objects: send(), throw(), close(), and their attributes.
//
// 1. A coroutine is a generator of another class, which no loop iterates over. What is resumed is the next frame,
// whoever asks for it: a loop, SEND, C code, or one of its methods.
// 2. A snapshot inside lets CPython execute that instruction again from its start (Continuation::kAgain); so what it
// does before it enters the generator must be without effect the second time. C code that has drawn from the generator
// before gets another operand then (restart.h).
#include "record/state/generators.h"
#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/scalars.h"

namespace pijit {

Val new_stop(Recorder& recorder, Val returned) {
  const Vals args(returned.object() == Py_None ? 0 : 1, returned);
  const Val stop = make_exception(recorder, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration), args);
  init_exception(recorder, stop, args);
  return stop;
}

// As C raises it.
static Val new_error(Recorder& recorder, PyObject* type, const char* text) {
  const Val message = recorder.reads.owned(Ref::steal(PyUnicode_FromString(text)).get());
  return make_exception(recorder, reinterpret_cast<PyTypeObject*>(type), {message});
}

static Val already_executing(Recorder& recorder, Val generator) {
  const bool coroutine = recorder.heap.type_of(generator) == &PyCoro_Type;
  return new_error(recorder, PyExc_ValueError,
                   coroutine ? "coroutine already executing" : "generator already executing");
}

Task<Inner> resume_generator(Drive& drive, Val generator, Val sent) {
  Recorder& recorder = drive.recorder();
  if (is_running(recorder.heap, generator)) co_await drive.raise(already_executing(recorder, generator));
  if (!may_resume(recorder.heap, generator)) {
    if (!has_ended(recorder.heap, generator)) co_await drive.unknown();
    if (recorder.heap.type_of(generator) == &PyCoro_Type)
      co_await drive.raise(new_error(recorder, PyExc_RuntimeError, "cannot reuse already awaited coroutine"));
    Inner over;
    over.ended = true;
    over.returned = Val::constant(Py_None);
    co_return over;
  }
  expect_generator(drive.frame(), generator, Then::kPush, 0, sent);
  const Inner inner = co_await drive.wait(Invoke::kStarted);
  if (inner.raised) co_await drive.pass_on();
  co_return inner;
}

namespace {

bool is_virtual_generator(Heap& heap, const Arguments& args) {
  return heap.is_virtual(args.values[0], VirtualKind::kGenerator);
}

// An exception (Null: GeneratorExit, or one that C makes) is thrown into it. `again`: see Pending.
Task<Inner> throw_into(Drive& drive, Val generator, Val exception, bool again) {
  Pending& pending = expect_generator(drive.frame(), generator, Then::kPush, 0, exception);
  auto& resuming = std::get<Resuming>(pending.awaited);
  resuming.throws = true;
  resuming.again = again;
  const Inner inner = co_await drive.wait(Invoke::kStarted);
  co_return inner;
}

Task<Val> generator_send(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!is_virtual_generator(recorder.heap, args)) co_await drive.unknown();
  const Val generator = args.values[0], sent = args.values[1];
  if (!has_begun(recorder.heap, generator)) {
    if (sent.is_reg() && !is_scalar_reg(recorder, sent)) co_await drive.unknown();
    if (sent.object() != Py_None) co_await drive.raise();
  }
  const Inner inner = co_await resume_generator(drive, generator, sent);
  if (inner.ended) co_await drive.raise(new_stop(recorder, inner.returned));
  co_return inner.value;
}

Task<Val> generator_next(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!is_virtual_generator(recorder.heap, args)) co_await drive.unknown();
  const Inner inner = co_await resume_generator(drive, args.values[0], Val());
  if (inner.ended) co_await drive.raise(new_stop(recorder, inner.returned));
  co_return inner.value;
}

// One that delegates hands it on to who knows what, and one that has not begun has no place in its code yet.
Task<Val> generator_throw(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (!is_virtual_generator(recorder.heap, args)) co_await drive.unknown();
  const Val generator = args.values[0], thrown = args.values[1];
  if (!may_resume(recorder.heap, generator) || !has_begun(recorder.heap, generator) ||
      !delegate_of(recorder.heap, generator).is_null())
    co_await drive.unknown();
  PyObject* type = thrown.object();
  const bool plain_class = type != nullptr && PyExceptionClass_Check(type) &&
                           (reinterpret_cast<PyTypeObject*>(type)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
  const bool known = recorder.heap.is_virtual(thrown, VirtualKind::kException) && !recorder.heap.is_built(thrown);
  if (!plain_class && !known) co_await drive.unknown();
  const Inner inner = co_await throw_into(drive, generator, known ? thrown : Val(), false);
  if (inner.raised) co_await drive.pass_on();
  if (inner.ended) co_await drive.raise(new_stop(recorder, inner.returned));
  co_return inner.value;
}

// What close() gives. An iterator of C has no close(). The one that it delegates to is closed first, and a second time
// that is nothing.
Task<Val> close(Drive& drive, Val generator, bool outermost, bool again) {
  Recorder& recorder = drive.recorder();
  const Val none = Val::constant(Py_None);
  if (!recorder.heap.is_virtual(generator, VirtualKind::kGenerator)) {
    if (!is_iterator(recorder.heap, generator)) co_await drive.unknown();
    co_return none;
  }
  if (has_ended(recorder.heap, generator)) co_return none;
  if (is_running(recorder.heap, generator) && outermost) co_await drive.raise(already_executing(recorder, generator));
  if (!may_resume(recorder.heap, generator)) co_await drive.unknown();
  const Val delegate = delegate_of(recorder.heap, generator);
  if (!delegate.is_null()) co_await close(drive, delegate, false, again);
  if (closes_unrun(recorder.heap, generator)) {
    end_generator(recorder, generator.index());
    co_return none;
  }
  const Inner inner = co_await throw_into(drive, generator, Val(), again);
  if (inner.raised) {
    if (!drive.is_raised(PyExc_GeneratorExit)) {
      if (!outermost) co_await drive.unknown();
      co_await drive.pass_on();
    }
    drive.caught();
  } else if (inner.ended) {
    co_return cpython::kCloseGivesResult ? inner.returned : none;
  } else {
    if (!outermost) co_await drive.unknown();
    co_await drive.raise(new_error(recorder, PyExc_RuntimeError,
                                   recorder.heap.type_of(generator) == &PyCoro_Type
                                       ? "coroutine ignored GeneratorExit"
                                       : "generator ignored GeneratorExit"));
  }
  co_return none;
}

Task<Val> generator_close(Drive& drive, Arguments args) {
  if (!is_virtual_generator(drive.recorder().heap, args)) co_await drive.unknown();
  const TraceMark& begin = drive.frame().mark;
  const Trace& trace = drive.recorder().trace();
  const bool first = trace.clock == begin.time && trace.nodes.size() == begin.nodes;
  co_return co_await close(drive, args.values[0], true, first);
}

}  // namespace

Val generator_attribute(Heap& heap, Val generator, PyObject* name) {
  const auto is = [&](const char* text) { return has_name(name, text); };
  const auto boolean = [](bool yes) { return Val::constant(yes ? Py_True : Py_False); };
  const Val none = Val::constant(Py_None);
  const bool suspended = may_resume(heap, generator), ended = has_ended(heap, generator);
  if (!suspended && !ended && !is_running(heap, generator)) return Val();
  if (heap.type_of(generator) == &PyCoro_Type) {
    if (is("cr_running")) return boolean(!suspended && !ended);
    return is("cr_frame") && ended ? none : Val();
  }
  if (is("gi_running")) return boolean(!suspended && !ended);
  if (is("gi_suspended")) return boolean(suspended && has_begun(heap, generator));
  if (is("gi_frame") && ended) return none;
  if (!is("gi_yieldfrom") || (!suspended && !ended)) return Val();
  const Val delegate = delegate_of(heap, generator);
  return delegate.is_null() ? none : delegate;
}

namespace {

constexpr KnownCallable kGeneratorRows[] = {
    {"types", "GeneratorType.send CoroutineType.send", generator_send, 2, 2},
    {"types", "GeneratorType.throw CoroutineType.throw", generator_throw, 2, 2},
    {"types", "GeneratorType.close CoroutineType.close", generator_close, 1, 1},
    {"types", "GeneratorType.__next__", generator_next, 1, 1},
};

}  // namespace

constinit const KnownCalls kGeneratorCalls = kGeneratorRows;

}  // namespace pijit
