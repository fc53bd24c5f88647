// Known callables of exceptions: the classes of C, their methods, and what sys tells of the one that is handled.
#include <algorithm>

#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/exceptions.h"
#include "record/state/pending.h"
#include "record/state/values.h"

namespace pijit {

using namespace exception_field;

namespace {

// The exceptions that a group is made of. Of another sequence, newer patch releases keep the repr that it had then.
bool parts_given(Recorder& recorder, Val given, Vals* parts) {
  PyTypeObject* type = recorder.heap.type_of(given);
  const bool plain = type != nullptr && PyType_HasFeature(type, Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS);
  return plain && try_items(recorder, given, parts);
}

}  // namespace

// type(*args) of an exception class whose constructors are C's; or its tp_new alone. A group takes what is in the list
// then.
Val make_exception(Recorder& recorder, PyTypeObject* type, const Vals& args) {
  const Val items = recorder.new_tuple(&PyTuple_Type, args.data(), args.size());
  Vals parts;
  if (makes_group(type) && args.size() == 2 && parts_given(recorder, args[1], &parts)) {
    return new_group(recorder, type, items, parts);
  }
  const Val exception = new_virtual(recorder, VirtualKind::kException, type);
  set_field(recorder, exception, kArgs, items);
  if (!is_plain_exception(type) && !makes_itself(type, args.size()))
    recorder.trace().virtuals[exception.index()].buildable = false;
  return exception;
}

void init_exception(Recorder& recorder, Val exception, const Vals& args) {
  const Val items = recorder.new_tuple(&PyTuple_Type, args.data(), args.size());
  set_field(recorder, exception, kInitArgs, items);
  recorder.heap.model(exception).items[kArgs] = items;
  recorder.heap.mention(exception, items, kArgs);
}

Invoke invoke_builtin_exception(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, Arguments& args, int pops) {
  PyObject* init = recorder.reads.lookup_type(type, names().init);
  if (init == nullptr) return Invoke::kUnknown;
  if (Py_TYPE(init) == &PyFunction_Type) {
    if (!is_plain_exception(type)) return Invoke::kUnknown;
    const Vals positional(args.values.begin(), args.values.begin() + static_cast<ptrdiff_t>(args.positional()));
    return after_new(recorder, frame, make_exception(recorder, type, positional), args, pops);
  }
  Vals parts;
  if (!args.names.empty() || decides_by_arguments(type, args.values.size())) return Invoke::kUnknown;
  if (makes_group(type) && args.values.size() == 2) {  // what it holds decides its class
    const auto is_unknown = [&recorder](Val part) { return recorder.heap.type_of(part) == nullptr; };
    if (!parts_given(recorder, args.values[1], &parts) || std::any_of(parts.begin(), parts.end(), is_unknown))
      return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  }
  const Val exception = make_exception(recorder, type, args.values);
  if (cpython::builtin_init(type) != base_exception()->tp_init) init_exception(recorder, exception, args.values);
  known(frame, pops, exception);
  return Invoke::kStarted;
}

namespace {

// BaseException.__init__(self, *args), by whichever class it is found.
Invoke exception_init(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const Val self = args.values[0];
  if (!recorder.heap.is_virtual(self, VirtualKind::kException) || is_foreign(recorder.heap, self))
    return Invoke::kUnknown;
  init_exception(recorder, self, {args.values.begin() + 1, args.values.end()});
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Invoke exception_add_note(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  static PyObject* const notes = PyUnicode_InternFromString("__notes__");
  if (!recorder.heap.is_virtual(args.values[0], VirtualKind::kException) || is_foreign(recorder.heap, args.values[0]) ||
      recorder.heap.type_of(args.values[1]) != &PyUnicode_Type)
    return Invoke::kUnknown;
  const Val self = args.values[0], note = args.values[1];
  if (recorder.reads.lookup_type(recorder.heap.type_of(self), notes) != nullptr) return Invoke::kUnknown;
  Val list;
  if (!attr_find(recorder.heap, self, notes, &list)) {
    attr_set(recorder, self, notes, recorder.new_list(&note, 1));
    return give(recorder, frame, pops, Val::constant(Py_None));
  }
  if (!recorder.heap.is_virtual(list, VirtualKind::kList) || recorder.heap.is_built(list)) return Invoke::kUnknown;
  recorder.heap.model(list).items.push_back(note);
  log(recorder, list, LogOp::kItem, Val(), note, static_cast<uint32_t>(recorder.heap.model(list).items.size() - 1));
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Invoke sys_exc_info(Recorder& recorder, ShadowFrame& frame, Arguments&, int pops) {
  Vals items;
  if (!exc_info(recorder, &items)) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  return give(recorder, frame, pops, recorder.new_tuple(&PyTuple_Type, items.data(), items.size()));
}

Invoke sys_exception(Recorder& recorder, ShadowFrame& frame, Arguments&, int pops) {
  Vals items;
  if (!exc_info(recorder, &items)) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  return give(recorder, frame, pops, items[1]);
}

constexpr KnownCallable kExceptionRows[] = {
    {"sys", "exc_info", sys_exc_info, 0, 0},
    {"sys", "exception", sys_exception, 0, 0},
    {"builtins", "BaseException.add_note", exception_add_note, 2, 2},
};

// Each class has one of its own.
constexpr KnownCallable kInitRow = {"builtins", "BaseException.__init__", exception_init, 1, kAny};

}  // namespace

constinit const KnownCalls kExceptionCalls = kExceptionRows;

void add_exception_inits() {
  PyObject *name, *object;
  Py_ssize_t position = 0;
  while (PyDict_Next(PyEval_GetBuiltins(), &position, &name, &object) != 0) {
    if (!PyExceptionClass_Check(object)) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    PyObject* init = type->tp_init == base_exception()->tp_init ? cpython::lookup_type(type, names().init) : nullptr;
    if (init != nullptr && !is_known_builtin(init)) add_known(init, kInitRow);
  }
}

}  // namespace pijit
