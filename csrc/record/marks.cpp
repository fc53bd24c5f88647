// What a user said about functions, by function object, by module namespace and by first argument.
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

std::unordered_map<PyObject*, Marked>& marked_things() noexcept {
  static auto* rows = new std::unordered_map<PyObject*, Marked>();
  return *rows;
}

bool g_left_alone = false;
size_t g_objects = 0;  // marked objects that are neither functions nor modules, dead ones included

// Under what the mark of a thing is kept.
PyObject* key_of(PyObject* thing) noexcept {
  return PyModule_Check(thing) ? PyModule_GetDict(thing) : thing;
}

const Marked* find(PyObject* key) noexcept {
  auto row = marked_things().find(key);
  return row == marked_things().end() ? nullptr : &row->second;
}

// Called when something marked dies; `self` is the key of its mark.
PyObject* on_death(PyObject* self, PyObject*) {
  auto row =
      marked_things().extract(static_cast<PyObject*>(PyLong_AsVoidPtr(self)));  // its references are dropped last
  Py_RETURN_NONE;
}

PyMethodDef g_on_death = {"marked_died", on_death, METH_O, nullptr};

}  // namespace

bool is_method_of(PyCodeObject* code, PyTypeObject* type) noexcept {
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro != nullptr && i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) continue;
    PyObject* name = reinterpret_cast<PyHeapTypeObject*>(base)->ht_qualname;
    const Py_ssize_t length = PyUnicode_GET_LENGTH(name), whole = PyUnicode_GET_LENGTH(code->co_qualname);
    if (whole <= length || PyUnicode_READ_CHAR(code->co_qualname, length) != '.') continue;
    if (PyUnicode_Tailmatch(code->co_qualname, name, 0, length, -1) != 1) continue;
    if (PyUnicode_FindChar(code->co_qualname, '.', length + 1, whole, 1) < 0) return true;
  }
  return false;
}

bool set_mark(PyObject* thing, Mark mark, std::string reason) {
  PyObject* key = key_of(thing);
  if (mark == Mark::kNone) {
    auto row = marked_things().extract(key);
    return true;
  }
  Ref address = Ref::steal(PyLong_FromVoidPtr(key));
  Ref callback = address ? Ref::steal(PyCFunction_New(&g_on_death, address.get())) : Ref();
  Ref weak = callback ? Ref::steal(PyWeakref_NewRef(thing, callback.get())) : Ref();
  if (!weak) return false;
  marks_set += 1;
  g_left_alone = g_left_alone || mark == Mark::kSkip || mark == Mark::kOpaque;
  g_objects += !PyFunction_Check(thing) && !PyModule_Check(thing);
  Marked row{mark, std::move(reason), std::move(weak)};
  std::swap(marked_things()[key], row);  // what was there before is dropped last
  return true;
}

bool any_left_alone() noexcept {
  return g_left_alone;
}

Mark mark_of_call(PyObject* function, PyObject* first) noexcept {
  if (marked_things().empty() || function == nullptr || !PyFunction_Check(function)) return Mark::kNone;
  const Marked* row = find(function);
  if (row == nullptr) row = find(PyFunction_GET_GLOBALS(function));
  if (row == nullptr && g_objects > 0 && first != nullptr) {
    row = find(first);
    if (row != nullptr && !is_method_of(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)), Py_TYPE(first)))
      row = nullptr;
  }
  return row == nullptr ? Mark::kNone : row->mark;
}

Mark mark_of(PyObject* thing) noexcept {
  const Marked* row = find(key_of(thing));
  return row == nullptr ? Mark::kNone : row->mark;
}

std::string mark_reason(PyObject* thing) {
  const Marked* row = find(key_of(thing));
  return row == nullptr ? "" : row->reason;
}

}  // namespace pijit
