// What is guarded of a class in which a program counts, in place of its version: its MRO, and the dicts of all classes
// in it that are written.
#include "cpython/classes.h"
#include "record/state/counting.h"

namespace pijit {
namespace {

// What the class has of its own, but for what varies.
bool guard_counting_dict(ReadSet& reads, const Varying& varying, PyObject* dict) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  if (dict == nullptr || !reads.guard_dict_keys(dict)) return false;
  while (PyDict_Next(dict, &position, &key, &value))
    if (!varying.has(dict, key) && !reads.guard_item(dict, key, value)) return false;
  return true;
}

}  // namespace

bool counts_in(const Varying* varying, const PyTypeObject* type) {
  if (varying == nullptr || !varying->counts_in_classes() || type->tp_mro == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    if (varying->has_any(cpython::type_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)))))
      return true;
  return false;
}

void guard_counting_class(ReadSet& reads, Kernel& recording, PyTypeObject* type, PyObject* instance) {
  bool created;
  reads.facts.find(type, FactKind::kTypeVersion, &created);
  if (!created) return;
  if (instance != nullptr) {
    Guard guard{};
    guard.op = GuardOp::kType;
    guard.subject = Val::constant(instance);
    guard.expected = reinterpret_cast<PyObject*>(type);
    reads.add_guard(guard);
  }
  PyObject* mro = type->tp_mro;
  if (!reads.guard_slot(reinterpret_cast<PyObject*>(type), offsetof(PyTypeObject, tp_mro), &mro)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro) && recording.live(); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!counts_in(recording.varying(), base))
      reads.guard_type_version(base);
    else if (!guard_counting_dict(reads, *recording.varying(), cpython::type_dict(base)))
      return recording.stop(Abort::kUnknownAttribute, std::string("class that is written: ") + type->tp_name);
  }
}

}  // namespace pijit
