// The match statement on subjects whose class and content are known.
#include "cpython/keys.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/pending.h"
#include "record/step/step.h"

namespace pijit {
namespace {

void push_flag(Recorder& recorder, ShadowFrame& frame, unsigned long flag) {
  PyTypeObject* type = guarded_type(recorder, frame.top());
  if (type == nullptr)
    return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "the subject of a match") : void();
  recorder.reads.guard_type_version(type);
  if (recorder.live()) known(frame, 0, Val::constant((type->tp_flags & flag) != 0 ? Py_True : Py_False));
}

// len(subject), above it.
void push_length(Recorder& recorder, ShadowFrame& frame) {
  Vals items;
  Objects keys;
  PyTypeObject* type = frame.top().is_reg() ? nullptr : recorder.heap.type_of(frame.top());
  const bool sequence =
      type != nullptr && (type == &PyList_Type || type == &PyRange_Type || PyType_IsSubtype(type, &PyTuple_Type));
  const bool mapping = type == &PyDict_Type || type == &PyODict_Type;
  const bool is_known = sequence  ? try_items(recorder, frame.top(), &items)
                        : mapping ? dict_content(recorder, frame.top(), &keys, &items)
                                  : false;
  if (!is_known) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "the length of a subject") : void();
  known(frame, 0, recorder.reads.owned(Ref::steal(PyLong_FromSize_t(items.size())).get()));
}

// The values of the keys on top as a tuple, or None when one is missing.
void push_values(Recorder& recorder, ShadowFrame& frame) {
  const Val subject = frame.top(2);
  Vals keys, values;
  PyTypeObject* type = recorder.heap.type_of(subject);
  bool is_known =
      (type == &PyDict_Type || type == &PyODict_Type) && !subject.is_reg() && try_items(recorder, frame.top(), &keys);
  for (size_t i = 0; i < keys.size() && is_known; ++i) {
    Val value;
    const int found = mapping_find(recorder, subject, keys[i], &value);
    if (found == 0) return known(frame, 0, Val::constant(Py_None));
    is_known = found > 0;
    values.push_back(value);
  }
  if (!is_known) return recorder.live() ? recorder.stop(Abort::kUnknownOperand, "the keys of a subject") : void();
  known(frame, 0, recorder.new_tuple(&PyTuple_Type, values.data(), values.size()));
}

// Stands for an attribute that is not there.
Val missing() {
  static PyObject* const object = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return Val::constant(object);
}

Task<Val> attribute_of(Drive& drive, Val object, PyObject* name) {
  static PyObject* const getattr = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
  Arguments args;
  args.values.push_back(object);
  args.values.push_back(drive.recorder().reads.owned(name));
  args.values.push_back(missing());
  Val value = co_await call(drive, Val::constant(getattr), args);
  co_return value;
}

// The names that positional patterns stand for; *self: the one pattern stands for the subject.
Task<Vals> positional_names(Drive& drive, Val type, size_t count, bool* self) {
  static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
  Recorder& recorder = drive.recorder();
  Vals known;
  Val given = co_await attribute_of(drive, type, match_args);
  if (given == missing()) {
    *self = cpython::matches_itself(reinterpret_cast<PyTypeObject*>(type.object()));
    if (count > (*self ? 1 : 0)) co_await drive.raise();
    co_return known;
  }
  PyTypeObject* kind = recorder.heap.type_of(given);
  if (given.is_reg() || kind == nullptr) co_await drive.unknown();
  if (kind != &PyTuple_Type) co_await drive.raise();
  if (!try_items(recorder, given, &known)) co_await drive.unknown();
  if (known.size() < count) co_await drive.raise();
  known.resize(count);
  co_return known;
}

// match_class(): the attributes of the subject as a tuple, or None where it does not match.
Task<Val> class_pattern(Drive& drive, Arguments args) {
  static PyObject* const isinstance = PyDict_GetItemString(PyEval_GetBuiltins(), "isinstance");
  Recorder& recorder = drive.recorder();
  const Val subject = args.values[0], type = args.values[1];
  if (type.object() == nullptr) co_await drive.unknown();
  if (!PyType_Check(type.object())) co_await drive.raise();
  Val matches = co_await call_two(drive, Val::constant(isinstance), subject, type);
  const bool yes = co_await is_true(drive, matches);
  if (!yes) co_return Val::constant(Py_None);
  const auto count = static_cast<size_t>(PyLong_AsSsize_t(args.values[3].object()));
  bool self = false;
  Vals wanted, found;
  if (count > 0) wanted = co_await positional_names(drive, type, count, &self);
  if (self) found.push_back(subject);
  PyObject* keywords = args.values[2].object();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i)
    wanted.push_back(recorder.reads.owned(PyTuple_GET_ITEM(keywords, i)));
  KeyList seen;
  for (const Val name : wanted) {
    if (name.object() == nullptr) co_await drive.unknown();
    if (!PyUnicode_CheckExact(name.object()) || seen.holds(name.object())) co_await drive.raise();
    seen.push_back(name.object());
    Val value = co_await attribute_of(drive, subject, name.object());
    if (value == missing()) co_return Val::constant(Py_None);
    found.push_back(value);
  }
  co_return recorder.new_tuple(&PyTuple_Type, found.data(), found.size());
}

void match_class(Recorder& recorder, ShadowFrame& frame, int count) {
  Arguments args;
  args.values = {frame.top(3), frame.top(2), frame.top(1),
                 recorder.reads.owned(Ref::steal(PyLong_FromLong(count)).get())};
  if (drive(recorder, frame, class_pattern, args, 3) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownOperand, "a class pattern");
}

}  // namespace

bool step_match(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  switch (now.operation) {
    case Operation::kGetLength:
      return push_length(recorder, frame), true;
    case Operation::kMatchSequence:
      return push_flag(recorder, frame, Py_TPFLAGS_SEQUENCE), true;
    case Operation::kMatchMapping:
      return push_flag(recorder, frame, Py_TPFLAGS_MAPPING), true;
    case Operation::kMatchKeys:
      return push_values(recorder, frame), true;
    case Operation::kMatchClass:
      return match_class(recorder, frame, now.argument), true;
    default:
      return false;
  }
}

}  // namespace pijit
