// Iteration inside C code: iterators over known containers, generators, classes with __iter__ and __next__.
#include <unordered_map>

#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/mirror/restart.h"
#include "record/shared.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/exceptions.h"
#include "record/state/scalars.h"
#include "record/state/values.h"

namespace pijit {
namespace {

std::unordered_map<PyTypeObject*, Driven>& steps() {
  static auto* rows = new std::unordered_map<PyTypeObject*, Driven>();
  return *rows;
}

// The number after it. Null: it is not known how a replay gets it.
Val count_on(Recorder& recorder, Val count) {
  const Ref one = Ref::steal(PyLong_FromLong(1));
  if (count.is_reg()) return scalar_node(recorder, ScalarOp::kAdd, count, recorder.reads.owned(one.get()));
  return recorder.reads.owned(Ref::steal(PyNumber_Add(count.object(), one.get())).get());
}

Val next_of_enumerate(Recorder& recorder, Val iterator, Val next, Val item) {
  const Val count = recorder.heap.virtual_field(iterator, field::kEnumerate::kCount);
  set_field(recorder, iterator, field::kEnumerate::kCount, next);
  Val pair[2] = {count, item};
  return recorder.new_tuple(&PyTuple_Type, pair, 2);
}

// __next__ in Python.
Task<Val> next_of_class(Drive& drive, Val iterator) {
  PyObject* method = special_method(drive.recorder(), iterator, names().next);
  if (method == nullptr) co_await drive.unknown();
  Arguments args;
  args.values.push_back(iterator);
  const Inner inner = co_await enter_function(drive, method, args);
  if (!inner.raised) co_return inner.value;
  if (!drive.is_raised(PyExc_StopIteration)) co_await drive.pass_on();
  drive.set_returned(stop_value(drive.recorder()));
  drive.caught();
  co_return Val();
}

Task<Val> next_of_zip(Drive& drive, Val zip) {
  Recorder& recorder = drive.recorder();
  const Vals sources = recorder.heap.model(zip).items;
  Vals row;
  for (Val source : sources) {
    Val item = co_await iter_next(drive, source);
    if (item.is_null() && recorder.heap.model(zip).get<family::Zip>().strict) {
      // All must end together: after the first source that ended, no other may have an item left.
      if (!row.empty()) co_await drive.raise();
      for (size_t i = 1; i < sources.size(); ++i) {
        Val left = co_await iter_next(drive, sources[i]);
        if (!left.is_null()) co_await drive.raise();
      }
    }
    if (item.is_null()) co_return Val();
    row.push_back(item);
  }
  co_return row.empty() ? Val() : recorder.new_tuple(&PyTuple_Type, row.data(), row.size());
}

}  // namespace

Driven iterator_step(PyTypeObject* type) {
  if (type == &PyCallIter_Type) return next_of_callable;
  auto row = steps().find(type);
  return row == steps().end() ? nullptr : row->second;
}

void add_iterator_step(PyTypeObject* type, Driven next) {
  steps()[type] = next;
}

bool is_iterator(Heap& heap, Val value) {
  if (!value.is_virtual()) return false;
  switch (heap.model(value).kind) {
    case VirtualKind::kGenerator:
      return heap.type_of(value) == &PyGen_Type;  // no coroutine
    case VirtualKind::kIterator:
    case VirtualKind::kEnumerate:
    case VirtualKind::kZip:
    case VirtualKind::kLazy:
      return true;
    default:
      return false;
  }
}

PyTypeObject* iterator_type(PyTypeObject* iterable) {
  static PyTypeObject* const rows[][2] = {
      {&PyList_Type, &PyListIter_Type},          {&PyTuple_Type, &PyTupleIter_Type},
      {&PyBytes_Type, &PyBytesIter_Type},        {&PyDict_Type, &PyDictIterKey_Type},
      {&PyDictKeys_Type, &PyDictIterKey_Type},   {&PyDictValues_Type, &PyDictIterValue_Type},
      {&PyDictItems_Type, &PyDictIterItem_Type}, {&PyODict_Type, &PyODictIter_Type},
      {&PyODictKeys_Type, &PyODictIter_Type},    {&PyODictValues_Type, &PyODictIter_Type},
      {&PyODictItems_Type, &PyODictIter_Type},   {&PySet_Type, &PySetIter_Type},
      {&PyRange_Type, &PyRangeIter_Type}};
  for (const auto& row : rows)
    if (row[0]->tp_iter == iterable->tp_iter) return row[1];
  return iterable == deque_type() ? deque_iterator_type() : nullptr;
}

namespace {

// A string has one of two iterators, by what it is made of.
PyTypeObject* string_iterator_type(PyObject* string) {
  auto of = [](const char* text) {
    Ref sample = Ref::steal(PyUnicode_FromString(text));
    return Py_TYPE(Ref::steal(PyObject_GetIter(sample.get())).get());
  };
  static PyTypeObject* const ascii = of("a");
  static PyTypeObject* const other = of("\u00e9");
  return PyUnicode_IS_ASCII(string) ? ascii : other;
}

}  // namespace

PyTypeObject* range_iterator_type(PyObject* range, bool reversed) {
  const Ref sample = Ref::steal(reversed ? PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyReversed_Type), range)
                                         : PyObject_GetIter(range));
  if (!sample) PyErr_Clear();
  return sample ? Py_TYPE(sample.get()) : nullptr;
}

Task<Val> get_iter(Drive& drive, Val iterable) {
  Recorder& recorder = drive.recorder();
  if (is_iterator(recorder.heap, iterable)) co_return iterable;
  PyTypeObject* type = recorder.heap.type_of(iterable);
  const bool tensor = touches_tensor(recorder, iterable);  // its __iter__ is one of Python
  if (type != nullptr && begin_rows(recorder, iterable)) {
    const Val rows = new_virtual(recorder, VirtualKind::kIterator, &PySeqIter_Type);
    set_field(recorder, rows, field::kIterator::kSource, iterable);
    co_return rows;
  }
  if (type == nullptr || (iterable.is_reg() && !tensor)) co_await drive.unknown();
  if (type->tp_iter == cpython::slot_functions().iter) {
    Vals none;
    Val made = co_await call_special(drive, iterable, names().iter, none);
    PyTypeObject* of = recorder.heap.type_of(made);
    if (of == nullptr || of->tp_iternext == nullptr || cpython::has_no_next(of)) co_await drive.unknown();
    co_return made;
  }
  Vals items;
  if (tensor || (count_items(recorder, iterable) < 0 && !try_items(recorder, iterable, &items)))
    co_await drive.unknown();
  if (type == &PyDictProxy_Type) type = recorder.heap.type_of(recorder.heap.virtual_field(iterable, 0));
  PyTypeObject* of = type == &PyUnicode_Type && iterable.is_const() ? string_iterator_type(iterable.object())
                     : type == &PyRange_Type && iterable.is_const() ? range_iterator_type(iterable.object(), false)
                                                                    : iterator_type(type);
  if (of == nullptr) co_await drive.unknown();
  Val iterator = new_virtual(recorder, VirtualKind::kIterator, of);
  set_field(recorder, iterator, field::kIterator::kSource, iterable);
  if (const Py_ssize_t size = iterated_size(recorder, iterable); size >= 0)
    set_field(recorder, iterator, field::kIterator::kSize,
              recorder.reads.owned(Ref::steal(PyLong_FromSsize_t(size)).get()));
  co_return iterator;
}

Task<Val> iter_next(Drive& drive, Val iterator) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = recorder.heap.type_of(iterator);
  if (iterator.is_virtual()) {
    const VirtualKind kind = recorder.heap.model(iterator).kind;
    Val item;
    if (kind == VirtualKind::kIterator) {
      if (type == deque_iterator_type() && recorder.heap.is_stale(iterator.index(), recorder.trace().clock)) {
        const Val message =
            recorder.reads.owned(Ref::steal(PyUnicode_FromString("deque mutated during iteration")).get());
        const Vals said(1, message);
        item = make_exception(recorder, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError), said);
        co_await drive.raise(item);
      }
      const int more = next_item(recorder, iterator, &item);
      if (more < 0) co_await drive.unknown();
      co_return more == 0 ? Val() : item;
    }
    if (kind == VirtualKind::kGenerator) {
      const Inner inner = co_await resume_generator(drive, iterator, Val());
      co_return inner.ended ? Val() : inner.value;
    }
    if (kind == VirtualKind::kEnumerate) {
      // Before anything has an effect: CPython may have to do all of it again.
      const Val next = count_on(recorder, recorder.heap.virtual_field(iterator, field::kEnumerate::kCount));
      if (next.is_null()) co_await drive.unknown();
      item = co_await iter_next(drive, recorder.heap.virtual_field(iterator, field::kEnumerate::kIterator));
      co_return item.is_null() ? item : next_of_enumerate(recorder, iterator, next, item);
    }
    if (kind == VirtualKind::kZip) {
      item = co_await next_of_zip(drive, iterator);
      co_return item;
    }
    if (kind == VirtualKind::kLazy) {
      Driven step = iterator_step(type);
      if (step == nullptr) co_await drive.unknown();
      Arguments args;
      args.values.push_back(iterator);
      item = co_await step(drive, args);
      co_return item;
    }
  }
  if (type == nullptr || iterator.is_reg() || type->tp_iternext != cpython::slot_functions().iternext)
    co_await drive.unknown();
  Val item = co_await next_of_class(drive, iterator);
  co_return item;
}

bool is_drawn(Heap& heap, Val iterable) {
  PyTypeObject* type = heap.type_of(iterable);
  return is_iterator(heap, iterable) || type == nullptr || type->tp_iter == cpython::slot_functions().iter;
}

// The frame of __len__ is left with kLength, so that a replay takes its result as len() does.
Task<Val> length(Drive& drive, Val value, bool last) {
  Recorder& recorder = drive.recorder();
  PyTypeObject* type = value.is_reg() ? recorder.heap.type_of(value) : guarded_type(recorder, value);
  PyObject* method = type == nullptr ? nullptr : python_method(recorder.reads, type, names().len);
  if (method == nullptr || !recorder.live()) co_await drive.unknown();
  Arguments args;
  args.values.push_back(value);
  const Invoke outcome = invoke_function(recorder, drive.frame(), Val::constant(method), args, Then::kLength, 0);
  if (last && drive.leave(outcome)) co_await Drive::Never();
  const Inner inner = co_await drive.wait(outcome);
  if (inner.raised) co_await drive.pass_on();
  co_return inner.value;
}

Task<Val> length_of(Drive& drive, Arguments args) {
  const Val result = co_await length(drive, args.values[0], true);
  co_return result;
}

Task<bool> ask_length(Drive& drive, Val iterable) {
  static PyObject* const hint = PyUnicode_InternFromString("__length_hint__");
  Recorder& recorder = drive.recorder();
  PyTypeObject* type =
      touches_tensor(recorder, iterable) ? recorder.heap.type_of(iterable) : guarded_type(recorder, iterable);
  if (type == nullptr) co_return true;
  if (python_method(recorder.reads, type, names().len) != nullptr) {
    co_await length(drive, iterable);
  } else if (python_method(recorder.reads, type, hint) != nullptr) {
    Vals none;
    Val hinted = co_await call_special(drive, iterable, hint, none);
    PyObject* number = hinted.object();
    if (number == nullptr || !PyLong_CheckExact(number) || cpython::int_sign(number) < 0) co_await drive.unknown();
  }
  co_return true;
}

Task<Vals> collect(Drive& drive, Val iterable) {
  Val iterator = co_await get_iter(drive, iterable);
  Vals items;
  for (;;) {
    Val item = co_await iter_next(drive, iterator);
    if (item.is_null()) break;
    items.push_back(item);
  }
  co_return items;
}

Task<Vals> collect_all(Drive& drive, Val iterable, bool first) {
  Restart restart(drive, iterable);
  if (!first) restart.give_up();
  Val iterator = co_await get_iter(drive, iterable);
  co_await ask_length(drive, iterable);
  restart.draws_from(iterator);
  Vals items;
  for (;;) {
    Val item = co_await iter_next(drive, restart.ask());
    if (item.is_null()) break;
    items.push_back(item);
    restart.keep(item);
  }
  co_return drive.recorder().heap.now(items);
}

}  // namespace pijit
