// Numbers that id() gave: as long as they only say which object is which, another process may have others.
//
// Such a number is moved, and is a key of a dict that the call has made: whether two of them are equal says whether two
// objects are one. A kept trace names the object then, in place of the number (Lead::kAddress). A function of Python may
// be given one, and a KeyError may be made of one, as long as nobody looks into that. With anything else that is done to
// one, such as arithmetic, an order, or a call of C, what comes of it is a constant of this process.
#include <algorithm>

#include "cpython/classes.h"
#include "ir/origin.h"
#include "record/marks.h"
#include "record/state/values.h"
#include "record/step/step.h"

namespace pijit {
namespace {

bool is_address(Recorder& recorder, PyObject* object) {
  return addressed(recorder.trace().addresses, object) != nullptr;
}

bool is_made_dict(Recorder& recorder, Val value) {
  return recorder.heap.is_virtual(value, VirtualKind::kDict) && recorder.heap.type_of(value) == &PyDict_Type;
}

// One of the keys is such a number. `only`: all keys that are numbers are.
bool has_address(Recorder& recorder, Val value, bool* only) {
  const auto* keyed = value.is_virtual() ? recorder.heap.model(value).find<family::Keys>() : nullptr;
  if (keyed == nullptr) return false;
  bool found = false;
  for (PyObject* key : keyed->keys) {
    const bool is_one = is_address(recorder, key);
    found |= is_one;
    *only &= is_one || !PyNumber_Check(key);
  }
  return found;
}

bool is_address(Recorder& recorder, Val value) {
  return value.is_const() && is_address(recorder, value.object());
}

// An exception was made of such a number, as the KeyError of a dict is.
bool is_of_address(Recorder& recorder, Val value) {
  if (!recorder.heap.is_virtual(value, VirtualKind::kException)) return false;
  for (const Val given : recorder.heap.model(value).items) {
    PyObject* tuple = given.object();
    for (Py_ssize_t i = 0; tuple != nullptr && PyTuple_CheckExact(tuple) && i < PyTuple_GET_SIZE(tuple); ++i)
      if (is_address(recorder, PyTuple_GET_ITEM(tuple, i))) return true;
    if (!recorder.heap.is_virtual(given, VirtualKind::kTuple)) continue;
    for (const Val item : recorder.heap.model(given).items)
      if (is_address(recorder, item)) return true;
  }
  return false;
}

bool is_clean(Recorder& recorder, Val value) {
  bool only = true;
  return !is_address(recorder, value) && !has_address(recorder, value, &only) && !is_of_address(recorder, value);
}

bool are_clean(Recorder& recorder, ShadowFrame& frame, int first, int last, int every = 1) {
  for (int place = first; place <= last && place <= frame.sp; place += every)
    if (!is_clean(recorder, frame.top(place))) return false;
  return true;
}

// len() and id() do not look at keys.
bool looks_at_no_key(PyObject* callable) {
  static PyObject* const kLength = PyDict_GetItemString(PyEval_GetBuiltins(), "len");
  static PyObject* const kId = PyDict_GetItemString(PyEval_GetBuiltins(), "id");
  return callable == kLength || callable == kId;
}

PyObject* static_member(const char* module, const char* name) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return found == nullptr ? nullptr : PyDict_GetItemString(PyModule_GetDict(found), name);
}

// Only numbers that id() gave are among the keys of the dict, or no numbers at all: none of them is equal to another
// number by chance.
bool is_keyed_by_objects(Recorder& recorder, Val dict) {
  bool only = true;
  has_address(recorder, dict, &only);
  return only && is_made_dict(recorder, dict);
}

// A function of Python is followed, or is given what it would be given without a trace.
bool only_moves(Recorder& recorder, ShadowFrame& frame, int count) {
  static PyObject* const kGet = PyDict_GetItemString(cpython::type_dict(&PyDict_Type), "get");
  static PyObject* const kInfo = static_member("sys", "exc_info");
  static PyObject* const kException = static_member("sys", "exception");
  const Callee called = frame.callee(count);
  PyObject* callable = called.callable.object();
  if (callable == nullptr) return are_clean(recorder, frame, 1, count + 2);
  if (PyFunction_Check(callable)) return mark_of_call(callable, called.self.object()) != Mark::kConstant;
  if (callable == kInfo || callable == kException) return false;  // the exception may have been made of a number
  if (count == 1 && looks_at_no_key(callable) && is_made_dict(recorder, frame.top())) return true;
  if (callable == kGet && count > 0 && is_keyed_by_objects(recorder, called.self)) {
    return count == 1 || are_clean(recorder, frame, 1, count - 1);  // dict.get(key, default)
  }
  return are_clean(recorder, frame, 1, count + 2);  // with what is called, and NULL or `self`
}

// Whatever the numbers are, the same is done.
bool only_tells_apart(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  switch (now.operation) {
    case Operation::kPop:
    case Operation::kPushException:
    case Operation::kMatchException:
    case Operation::kPopException:
    case Operation::kReraise:
    case Operation::kDeleteLocal:
    case Operation::kJumpIfNone:
    case Operation::kLoadGlobal:
    case Operation::kPrepareCall:
    case Operation::kJumpIf:
    case Operation::kToBool:
    case Operation::kNot:
      return true;
    case Operation::kBuildMap:  // of keys and values in turn, a value on top
      return are_clean(recorder, frame, 1, 2 * now.argument, 2);
    case Operation::kContains:
      if (are_clean(recorder, frame, 1, 2)) return true;
      return is_keyed_by_objects(recorder, frame.top());
    case Operation::kSubscript:
      return are_clean(recorder, frame, 1, 2) || is_keyed_by_objects(recorder, frame.top(2));
    case Operation::kLoadAttribute:
      return are_clean(recorder, frame, 1, 1) || (now.flag != 0 && is_made_dict(recorder, frame.top()));
    case Operation::kStoreSubscript:
      if (are_clean(recorder, frame, 1, 3)) return true;
      return is_made_dict(recorder, frame.top(2)) && is_clean(recorder, frame.top(3));
    case Operation::kCall:
      return only_moves(recorder, frame, now.argument);
    default: {
      const int pops = cpython::call_form_of(now.operation).pops;
      const int looks = cpython::looks_of(now).last;
      return are_clean(recorder, frame, 1, pops == cpython::kVaries ? frame.sp : std::max(pops, looks));
    }
  }
}

}  // namespace

void follow_addresses(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  if (recorder.trace().of_this_process || only_tells_apart(recorder, frame, now)) return;
  recorder.trace().of_this_process = true;
}

}  // namespace pijit
