// The first of the filters is one of pijit's, which asks whether the thread is in such a call. Others ask those behind it.
//
// Rejected: warnings.catch_warnings. It tells the interpreter that the filters have changed, and warnings that were given
// already would be given again.
#include "pandas/warnings.h"

#include "common/imports.h"
#include "common/ref.h"

namespace pijit::pandas {
namespace {

thread_local int g_depth = 0;
int g_active = 0;  // of all threads, under the GIL

PyObject* is_in_call(PyObject*, PyObject*) {
  return new_reference(g_depth > 0 ? Py_True : Py_False);
}
PyMethodDef question_row = {"match", is_in_call, METH_O, nullptr};

struct Filters {
  PyObject *dict, *name, *filter;  // of the module warnings
};

// Null members: it cannot be had.
const Filters& filters() noexcept {
  static const Filters all = [] {
    Filters made{};
    const Ref module = import_module("warnings"), space = attribute_of(import_module("types"), "SimpleNamespace");
    const Ref matcher = Ref::steal(space ? PyObject_CallNoArgs(space.get()) : nullptr);
    const Ref question = Ref::steal(PyCFunction_New(&question_row, nullptr));
    if (module && matcher && question && PyObject_SetAttrString(matcher.get(), "match", question.get()) == 0) {
      made.filter = Py_BuildValue("(sOOOi)", "error", matcher.get(), PyExc_Warning, Py_None, 0);
      made.dict = new_reference(PyModule_GetDict(module.get()));
      made.name = PyUnicode_InternFromString("filters");
    }
    PyErr_Clear();
    return made;
  }();
  return all;
}

Ref g_before, g_put;  // what the program had, and what stands in its place

}  // namespace

StrictWarnings::StrictWarnings() noexcept {
  ++g_depth;
  ++g_active;
  const Filters& all = filters();
  PyObject* now = all.filter == nullptr ? nullptr : PyDict_GetItemWithError(all.dict, all.name);
  failed_ = now == nullptr || !PyList_CheckExact(now);
  if (failed_ || (PyList_GET_SIZE(now) > 0 && PyList_GET_ITEM(now, 0) == all.filter)) return;
  const Ref before = Ref::borrow(now), put = Ref::steal(PyList_GetSlice(now, 0, PyList_GET_SIZE(now)));
  failed_ = !put || PyList_Insert(put.get(), 0, all.filter) != 0 || PyDict_SetItem(all.dict, all.name, put.get()) != 0;
  if (failed_) {
    PyErr_Clear();
    return;
  }
  g_before = Ref::borrow(before.get());
  g_put = Ref::borrow(put.get());
}

StrictWarnings::~StrictWarnings() {
  --g_depth;
  if (--g_active > 0 || !g_put) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Filters& all = filters();
  const Ref before = std::move(g_before), put = std::move(g_put);
  if (PyDict_GetItemWithError(all.dict, all.name) == put.get() && PyDict_SetItem(all.dict, all.name, before.get()) != 0)
    PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

}  // namespace pijit::pandas
