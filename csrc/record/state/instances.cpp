// Reads of instances, and of places that the trace has written: they need to know what else the recording has.
#include <algorithm>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/recorder.h"

namespace pijit {

bool Recorder::guard_instance(PyObject* object, PyObject** dict) {
  PyTypeObject* type = Py_TYPE(object);
  *dict = cpython::instance_dict(object);
  bool movable = cpython::may_change(type) || PyModule_Check(object);
  if (!movable && *dict == nullptr) return true;
  bool created;
  Fact& fact = reads_.facts.find(object, FactKind::kInstance, &created);
  if (created) {
    if (*dict != nullptr && foreign_.is_found(*dict)) {
      abandon("the attributes of an object are read under two names");
      return false;
    }
    fact.stamp = reinterpret_cast<uintptr_t>(*dict);
    Guard guard{};
    guard.op = GuardOp::kInstance;
    guard.subject = Val::constant(object);
    guard.expected = reinterpret_cast<PyObject*>(type);
    guard.number = reinterpret_cast<uintptr_t>(*dict);
    fact.guard = reads_.add_guard(guard);
  } else if (fact.stamp != reinterpret_cast<uintptr_t>(*dict)) {
    if (fact.stamp != 0) {
      stop(Abort::kChanged, "an instance's __dict__");
      return false;
    }
    *dict = nullptr;  // the recorded code made the dict itself: no guard can name it
  }
  return true;
}

bool Recorder::overlay_find(PyObject* container, PyObject* key, Val* value) {
  const Val* known = reads_.overlay.find(container, key);
  if (known == nullptr) return false;
  *value = *known;
  if (has_moved(container, key, *known)) stop(Abort::kChanged, "a number that varies");
  return true;
}

void Recorder::overlay_set(PyObject* container, PyObject* key, Val value) {
  if (Val* known = reads_.overlay.find(container, key)) {
    *known = value;
    note_lasting();
  } else {
    reads_.overlay.add(container, key, value);
  }
}

bool Recorder::guard_no_dict(PyObject* object) {
  PyObject* dict = nullptr;
  bool created;
  if (!guard_instance(object, &dict)) return false;
  Fact& fact = reads_.facts.find(object, FactKind::kNoInline, &created);
  fact.stamp = 0;
  if (created) reads_.guard_no_dict(object, Val::constant(object));
  return true;
}

// An instance with inline values that is written: a dict of its own might be what an argument is or has, or what
// foreign code returned.
void Recorder::guard_no_dict_yet(PyObject* object) {
  const bool shared =
      !trace_->epochs.empty() || std::any_of(heap_.arguments.begin(), heap_.arguments.end(), [&](Val argument) {
        return type_of(argument) != &PyList_Type && type_of(argument) != &PyTuple_Type;
      });
  bool created = false;
  if (shared) reads_.facts.find(object, FactKind::kNoDictYet, &created);
  if (!created) return;
  Guard unset{};
  unset.op = GuardOp::kSlot;
  unset.subject = Val::constant(object);
  unset.number =
      static_cast<uint64_t>(reinterpret_cast<char*>(cpython::dict_slot(object)) - reinterpret_cast<char*>(object));
  reads_.add_guard(unset);
}

}  // namespace pijit
