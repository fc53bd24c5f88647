// Reads of instances, and of places that the trace has written: they need to know what else the recording has.
#include "record/state/instances.h"

#include <algorithm>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/recorder.h"
#include "record/state/varying.h"

namespace pijit {

bool guard_instance(Recorder& recorder, PyObject* object, PyObject** dict) {
  PyTypeObject* type = Py_TYPE(object);
  *dict = cpython::instance_dict(object);
  bool movable = cpython::may_change(type) || PyModule_Check(object);
  if (!movable && *dict == nullptr) return true;
  bool created;
  Fact& fact = recorder.reads.facts.find(object, FactKind::kInstance, &created);
  if (created) {
    if (*dict != nullptr && recorder.foreign.is_found(*dict)) {
      recorder.abandon("the attributes of an object are read under two names");
      return false;
    }
    fact.stamp = reinterpret_cast<uintptr_t>(*dict);
    Guard guard{};
    guard.op = GuardOp::kInstance;
    guard.subject = Val::constant(object);
    guard.expected = reinterpret_cast<PyObject*>(type);
    guard.number = reinterpret_cast<uintptr_t>(*dict);
    fact.guard = recorder.reads.add_guard(guard);
  } else if (fact.stamp != reinterpret_cast<uintptr_t>(*dict)) {
    if (fact.stamp != 0) {
      recorder.stop(Abort::kChanged, "an instance's __dict__");
      return false;
    }
    *dict = nullptr;  // the recorded code made the dict itself: no guard can name it
  }
  return true;
}

bool overlay_find(Recorder& recorder, PyObject* container, PyObject* key, Val* value) {
  const Val* known = recorder.reads.overlay.find(container, key);
  if (known == nullptr) return false;
  *value = *known;
  if (has_moved(recorder, container, key, *known)) recorder.stop(Abort::kChanged, "a number that varies");
  return true;
}

void overlay_set(Recorder& recorder, PyObject* container, PyObject* key, Val value) {
  if (Val* known = recorder.reads.overlay.find(container, key)) {
    *known = value;
    recorder.heap.note_lasting();
  } else {
    recorder.reads.overlay.add(container, key, value);
  }
}

bool guard_no_dict(Recorder& recorder, PyObject* object) {
  PyObject* dict = nullptr;
  bool created;
  if (!guard_instance(recorder, object, &dict)) return false;
  Fact& fact = recorder.reads.facts.find(object, FactKind::kNoInline, &created);
  fact.stamp = 0;
  if (created) recorder.reads.guard_no_dict(object, Val::constant(object));
  return true;
}

// An instance with inline values that is written: a dict of its own might be what an argument is or has, or what
// foreign code returned.
void guard_own_dict(Recorder& recorder, PyObject* object) {
  const bool shared =
      !recorder.trace().epochs.empty() ||
      std::any_of(recorder.heap.arguments.begin(), recorder.heap.arguments.end(), [&](Val argument) {
        return recorder.heap.type_of(argument) != &PyList_Type && recorder.heap.type_of(argument) != &PyTuple_Type;
      });
  bool created = false;
  if (shared) recorder.reads.facts.find(object, FactKind::kOwnDict, &created);
  if (!created) return;
  Guard own{};
  own.op = GuardOp::kOwnDict;
  own.subject = Val::constant(object);
  recorder.reads.add_guard(own);
}

}  // namespace pijit
