// What a user said about a function, by the function object.
#include "record/marks.h"

#include <unordered_map>

#include "common/ref.h"

namespace pijit {
namespace {

struct Marked {
  Mark mark;
  std::string reason;
  Ref weak;  // its callback removes the row
};

std::unordered_map<PyObject*, Marked>& table() noexcept {
  static auto* rows = new std::unordered_map<PyObject*, Marked>();
  return *rows;
}

// Called when a marked function dies; `self` is its address.
PyObject* on_death(PyObject* self, PyObject*) {
  auto row = table().extract(static_cast<PyObject*>(PyLong_AsVoidPtr(self)));  // its references are dropped last
  Py_RETURN_NONE;
}

PyMethodDef g_on_death = {"marked_died", on_death, METH_O, nullptr};

}  // namespace

bool set_mark(PyObject* function, Mark mark, std::string reason) {
  if (mark == Mark::kNone) {
    auto row = table().extract(function);
    return true;
  }
  Ref address = Ref::steal(PyLong_FromVoidPtr(function));
  Ref callback = address ? Ref::steal(PyCFunction_New(&g_on_death, address.get())) : Ref();
  Ref weak = callback ? Ref::steal(PyWeakref_NewRef(function, callback.get())) : Ref();
  if (!weak) return false;
  Marked row{mark, std::move(reason), std::move(weak)};
  std::swap(table()[function], row);  // what was there before is dropped last
  return true;
}

Mark mark_of(PyObject* function) noexcept {
  if (table().empty()) return Mark::kNone;
  auto row = table().find(function);
  return row == table().end() ? Mark::kNone : row->second.mark;
}

std::string mark_reason(PyObject* function) {
  auto row = table().find(function);
  return row == table().end() ? "" : row->second.reason;
}

}  // namespace pijit
