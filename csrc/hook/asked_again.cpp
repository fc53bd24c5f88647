// Which pairs of classes are asked about, and when.
#include "hook/asked_again.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/ref.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "exec/replay.h"
#include "record/mirror/builtins.h"

namespace pijit {
namespace {

// The class answers by ABCMeta's own rules alone.
bool asks_registries(PyObject* abstract) noexcept {
  static PyObject* const name = PyUnicode_InternFromString("__subclasscheck__");
  static PyObject* const meta = find_object("abc", "ABCMeta");
  return meta != nullptr && cpython::lookup_type(Py_TYPE(abstract), name) ==
                                cpython::lookup_type(reinterpret_cast<PyTypeObject*>(meta), name);
}

// No class has become a subclass of the abstract class beside it. The pairs are alive: the other guards hold.
bool are_refused(const Trace& trace, const Guard& guard) {
  static PyObject* const ask = find_object("_abc", "_abc_subclasscheck");
  std::vector<Ref> pairs;
  for (uint32_t i = 0; i < guard.count; ++i) pairs.push_back(Ref::borrow(trace.guard_items[guard.first + i]));
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (ask == nullptr || !PyType_Check(pairs[i + 1].get()) || !asks_registries(pairs[i].get())) return false;
    const Ref answer = Ref::steal(PyObject_CallFunctionObjArgs(ask, pairs[i].get(), pairs[i + 1].get(), nullptr));
    if (!answer) PyErr_Clear();
    if (answer.get() != Py_False) return false;
  }
  return true;
}

bool renew(const Trace& trace, const Guard& guard, cpython::Frame* frame) {
  const uint64_t before = std::exchange(guard.number, cpython::abc_registrations());
  const uint64_t asked = guard.number;
  if (before == asked) return false;
  if (would_replay(trace, frame)) {
    guard.number = before;  // while Python runs, nobody may rely on what is not known yet
    if (are_refused(trace, guard) && cpython::abc_registrations() == asked) {
      guard.number = asked;
      return true;
    }
  }
  guard.number = before;
  return false;
}

}  // namespace

bool ask_again(Root& root, cpython::Frame* frame) {
  for (size_t i = 0; i < root.traces.size(); ++i) {
    const std::shared_ptr<Trace> trace = root.traces[i];  // what answers in Python may change them
    if (trace->registries != kNone && renew(*trace, trace->guards[trace->registries], frame)) return true;
  }
  return false;
}

}  // namespace pijit
