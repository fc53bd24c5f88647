// Numbers that id() gave: as long as they only say which object is which, another process may have others.
//
// Such a number is moved, and is a key of a dict that the call has made: whether two of them are equal says whether two
// objects are one. A kept trace names the object then, in place of the number (Lead::kAddress). With anything else that
// is done to one, such as arithmetic, an order, or a call, what comes of it is a constant of this process.
#include <algorithm>

#include "ir/origin.h"
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

bool is_clean(Recorder& recorder, Val value) {
  bool only = true;
  return !(value.is_const() && is_address(recorder, value.object())) && !has_address(recorder, value, &only);
}

bool are_clean(Recorder& recorder, ShadowFrame& frame, int first, int last, int every = 1) {
  for (int place = first; place <= last && place <= frame.sp; place += every)
    if (!is_clean(recorder, frame.top(place))) return false;
  return true;
}

bool is_length(ShadowFrame& frame) {
  static PyObject* const kLength = PyDict_GetItemString(PyEval_GetBuiltins(), "len");
  const Callee called = frame.callee(1);
  return called.self.is_null() && called.callable.object() == kLength;
}

// Whatever the numbers are, the same is done.
bool only_tells_apart(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  bool only = true;
  switch (now.operation) {
    case Operation::kPop:
    case Operation::kDeleteLocal:
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
      has_address(recorder, frame.top(), &only);
      return only && is_made_dict(recorder, frame.top());
    case Operation::kStoreSubscript:
      if (are_clean(recorder, frame, 1, 3)) return true;
      return is_made_dict(recorder, frame.top(2)) && is_clean(recorder, frame.top(3));
    case Operation::kCall:
      if (now.argument == 1 && is_length(frame) && is_made_dict(recorder, frame.top())) return true;
      return are_clean(recorder, frame, 1, now.argument + 2);  // what is called, and NULL or `self`
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
