// Iteration on shadows: iterators over known containers, generators, zip and enumerate, unpacking.
#include <algorithm>

#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/mirror/restart.h"
#include "record/shared.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/generators.h"
#include "record/state/pending.h"
#include "record/state/values.h"
#include "record/step/heads.h"
#include "record/step/next.h"
#include "record/step/step.h"

namespace pijit {
namespace {

Task<Val> iter_of(Drive& drive, Arguments args) {
  Val iterator = co_await get_iter(drive, args.values[0]);
  co_return iterator;
}

Task<Val> next_of(Drive& drive, Arguments args) {
  Val item = co_await iter_next(drive, args.values[0]);
  co_return item;
}

Arguments only(Val value) {
  Arguments args;
  args.values = {value};
  return args;
}

// What an unpacking pushes, in the order of its targets. Only a starred target takes an iterable to its end.
Task<Val> unpack(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  auto count = [&](size_t i) { return static_cast<size_t>(PyLong_AsLong(args.values[i].object())); };
  const size_t before = count(1), after = count(2);
  const bool starred = args.values.size() == 4;
  Vals items;
  Restart restart(drive, args.values[0]);
  Val iterator = co_await get_iter(drive, args.values[0]);
  restart.draws_from(iterator);
  for (;;) {
    Val item = co_await iter_next(drive, restart.ask());
    if (item.is_null()) break;
    items.push_back(item);
    restart.keep(item);
    if (!starred && items.size() > before) co_await drive.raise();
  }
  items = recorder.heap.now(items);
  if (items.size() < before + after) co_await drive.raise();
  if (starred) {
    const auto from = items.begin() + static_cast<ptrdiff_t>(before), to = items.end() - static_cast<ptrdiff_t>(after);
    const Vals middle(from, to);
    const auto place = items.erase(from, to);
    items.insert(place, recorder.new_list(middle.data(), middle.size()));
  }
  co_return recorder.new_tuple(&PyTuple_Type, items.data(), items.size());
}

void start_unpack(Recorder& recorder, ShadowFrame& frame, int before, int after, bool starred) {
  auto number = [&](int value) { return recorder.reads.owned(Ref::steal(PyLong_FromLong(value)).get()); };
  Arguments args;
  args.values = {frame.top(), number(before), number(after)};
  if (starred) args.values.push_back(Val::constant(Py_True));
  if (drive(recorder, frame, unpack, args, 1, Then::kUnpack) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "unpacking");
}

}  // namespace

// One that has ended may say with what.
static Task<Val> send_none(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Val receiver = args.values[0];
  Val item = co_await iter_next(drive, receiver);
  if (is_iterator(recorder.heap, receiver)) drive.set_returned(Val::constant(Py_None));
  if (item.is_null() && drive.returned().is_null()) co_await drive.unknown();
  co_return item;
}

bool make_iterator(Recorder& recorder, ShadowFrame& frame, Val iterable, int pops) {
  return drive(recorder, frame, iter_of, only(iterable), pops) == Invoke::kStarted;
}

// The order of a set is found once, unless foreign code has run: an iterator whose set was reshaped is stale.
static int set_item_at(Recorder& recorder, Val source, family::Iterator& iterator, Val* item) {
  const size_t epoch = recorder.trace().epochs.size();
  if (iterator.ahead.empty() || iterator.ahead_epoch != epoch) {
    Vals items;
    if (!try_items(recorder, source, &items)) return -1;
    if (!iterator.ahead.empty() && iterator.ahead.all() != items) return -1;
    iterator.ahead.all() = items;
    iterator.ahead_epoch = epoch;
  }
  if (iterator.position >= iterator.ahead.size()) return 0;
  *item = iterator.ahead[iterator.position];
  return 1;
}

int next_item(Recorder& recorder, Val iterator, Val* item) {
  if (!iterator.is_virtual()) return -1;
  Model& content = recorder.heap.model(iterator);
  if (auto* progress = content.find<family::Iterator>()) {
    const bool deque = content.type == deque_iterator_type();  // looks at it even where it has ended
    if (progress->position == kExhausted && !deque) return 0;
    if (recorder.heap.is_stale(iterator.index(), recorder.trace().clock)) return -1;
    const Val source = content.items[0];
    if (!has_first_size(recorder, content)) return -1;  // foreign code reshaped it
    const bool reversed = is_reversed(content);
    PyTypeObject* of = recorder.heap.type_of(source);
    const bool set = of == &PySet_Type || of == &PyFrozenSet_Type;
    // That of a list counts down from where the list ended then.
    const bool down = content.type == &PyListRevIter_Type;
    const Py_ssize_t index = down ? next_reversed(content) : static_cast<Py_ssize_t>(progress->position);
    const int more = content.type == &PySeqIter_Type ? row_at(recorder, source, static_cast<size_t>(index), item)
                     : set                           ? set_item_at(recorder, source, *progress, item)
                     : index < 0 ? 0
                                 : item_at(recorder, source, static_cast<size_t>(index), reversed && !down, item);
    if (more < 0) return -1;
    progress->position = more > 0 ? progress->position + 1 : kExhausted;
    log(recorder, iterator, LogOp::kIndex, Val(), Val(), progress->position);
    return more;
  }
  return -1;
}

// The loop over the tensor makes another number of turns in each call, for which replays were left: the rows are taken
// one by one, and the loop is left to traces of its own (loops.cpp).
static bool is_open_tensor(Recorder& recorder, const ShadowFrame& frame, Val iterable) {
  if (frame.drive || recorder.way_of_loops() == Loops::kUnrolled || recorder.varying() == nullptr) return false;
  return recorder.varying()->has_left_at(frame.code, frame.operation) && touches_tensor(recorder, iterable);
}

void step_get_iter(Recorder& recorder, ShadowFrame& frame) {
  Val iterable = frame.top();
  if (is_open_tensor(recorder, frame, iterable))
    return recorder.stop(Abort::kUnknownOperand, "iteration over a tensor whose length differs from call to call");
  if (ask_about(recorder, frame, SiteKind::kIter, {iterable}, 1, 1)) return;
  if (walk_open_range(recorder, frame, iterable)) return;
  if (!make_iterator(recorder, frame, iterable, 1) && recorder.live()) {
    PyTypeObject* type = recorder.heap.type_of(iterable);
    recorder.stop(Abort::kUnknownOperand, std::string("iteration over ") + (type == nullptr ? "?" : type->tp_name));
  }
}

// What an iterator over something known gives next. False: it is another.
static bool await_item(Recorder& recorder, ShadowFrame& frame, Val iterator, Then then) {
  Val item;
  const int more = next_item(recorder, iterator, &item);
  if (more < 0 || !recorder.live()) return false;
  if (more > 0 && frame.taken_at == frame.instruction) item = as_register(recorder, item);
  Pending& pending = await(frame, 0, 1);
  pending.result = item;
  pending.has_result = more > 0;
  pending.then = then;
  if (then == Then::kSend) pending.y = Val::constant(Py_None);
  return true;
}

void step_for_iter(Recorder& recorder, ShadowFrame& frame) {
  Val iterator = frame.top();
  if (recorder.heap.is_virtual(iterator, VirtualKind::kGenerator) && may_resume(recorder.heap, iterator))
    return static_cast<void>(expect_generator(frame, iterator, Then::kNext, 0));
  if (await_item(recorder, frame, iterator, Then::kNext) || go_advance(recorder, frame)) return;
  if (drive(recorder, frame, next_of, only(iterator), 0, Then::kNext) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "iteration over an unknown iterator");
}

void step_yield_from(Recorder& recorder, ShadowFrame& frame) {
  const bool awaits = (frame.code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) != 0;
  if (recorder.heap.type_of(frame.top()) == &PyCoro_Type && !awaits)
    return recorder.stop(Abort::kUnknownOperand, "yield from a coroutine");
  if (!recorder.heap.is_virtual(frame.top(), VirtualKind::kGenerator)) step_get_iter(recorder, frame);
}

// object.__await__(), of a class that has it in Python.
static Task<Val> awaitable_of(Drive& drive, Arguments args) {
  static PyObject* const name = PyUnicode_InternFromString("__await__");
  Vals none;
  Val iterator = co_await call_special(drive, args.values[0], name, none);
  if (!is_iterator(drive.recorder().heap, iterator)) co_await drive.unknown();
  co_return iterator;
}

void step_awaitable(Recorder& recorder, ShadowFrame& frame) {
  const Val awaited = frame.top();
  if (recorder.heap.is_virtual(awaited, VirtualKind::kGenerator)) {
    const Val function = recorder.heap.virtual_field(awaited, 0);
    PyObject* code = function.is_virtual() ? recorder.heap.virtual_field(function, 0).object()
                                           : PyFunction_GET_CODE(function.object());
    const bool awaitable =
        (reinterpret_cast<PyCodeObject*>(code)->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) != 0;
    if (awaitable && delegate_of(recorder.heap, awaited).is_null()) return;
    return recorder.stop(Abort::kUnknownOperand, "await");
  }
  if (drive(recorder, frame, awaitable_of, only(awaited), 1) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "await");
}

void step_send(Recorder& recorder, ShadowFrame& frame) {
  const Val receiver = frame.top(2), value = frame.top();
  if (recorder.heap.is_virtual(receiver, VirtualKind::kGenerator) && may_resume(recorder.heap, receiver) &&
      (value.object() == Py_None || has_begun(recorder.heap, receiver))) {
    expect_generator(frame, receiver, Then::kSend, 0, value);
    return;
  }
  if (value.object() == Py_None && await_item(recorder, frame, receiver, Then::kSend)) return;
  const Invoke outcome =
      value.object() == Py_None ? drive(recorder, frame, send_none, only(receiver), 0, Then::kSend) : Invoke::kUnknown;
  if (outcome == Invoke::kUnknown) recorder.stop(Abort::kUnknownOperand, "yield from an unknown iterator");
}

void step_unpack(Recorder& recorder, ShadowFrame& frame, int count) {
  Val value = frame.top();
  if (!ask_about(recorder, frame, SiteKind::kUnpack, {value}, 1, 4, count))
    start_unpack(recorder, frame, count, 0, false);
}

void step_unpack_ex(Recorder& recorder, ShadowFrame& frame, int before, int after) {
  start_unpack(recorder, frame, before, after, true);
}

}  // namespace pijit
