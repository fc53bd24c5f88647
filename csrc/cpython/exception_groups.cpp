// What the instructions of except* do.
#include "cpython/exception_groups.h"

#include <unordered_set>

#include "common/ref.h"

namespace pijit::cpython {
namespace {

bool is_group(PyObject* exception) {
  return PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0;
}

Ref group_of(PyObject* exceptions) {
  return Ref::steal(PyObject_CallFunction(PyExc_BaseExceptionGroup, "sO", "", exceptions));
}

// Raised again as it was, not raised in the clause.
bool has_metadata_of(PyObject* exception, PyObject* caught) {
  const auto* a = reinterpret_cast<PyBaseExceptionObject*>(exception);
  const auto* b = reinterpret_cast<PyBaseExceptionObject*>(caught);
  return a->notes == b->notes && a->traceback == b->traceback && a->cause == b->cause && a->context == b->context;
}

using Leaves = std::unordered_set<PyObject*>;

PyObject* parts_of(PyObject* group) {
  return reinterpret_cast<PyBaseExceptionGroupObject*>(group)->excs;
}

void collect_leaves(PyObject* exception, Leaves* leaves) {
  if (!is_group(exception)) {
    leaves->insert(exception);
    return;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts_of(exception)); ++i)
    collect_leaves(PyTuple_GET_ITEM(parts_of(exception), i), leaves);
}

// What `group` derives for some of its exceptions.
Ref derived(PyObject* group, PyObject* exceptions) {
  Ref made = Ref::steal(PyObject_CallMethod(group, "derive", "(O)", exceptions));
  if (!made) return made;
  if (!is_group(made.get())) {
    PyErr_SetString(PyExc_TypeError, "derive must return an instance of BaseExceptionGroup");
    return Ref();
  }
  const Ref traceback = Ref::steal(PyException_GetTraceback(group));
  if (traceback && PyException_SetTraceback(made.get(), traceback.get()) < 0) return Ref();
  PyException_SetContext(made.get(), PyException_GetContext(group));
  PyException_SetCause(made.get(), PyException_GetCause(group));
  const Ref notes = Ref::steal(PyObject_GetAttrString(group, "__notes__"));
  if (!notes && PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return Ref();
  PyErr_Clear();
  if (!notes || PySequence_Check(notes.get()) == 0) return made;
  const Ref copy = Ref::steal(PySequence_List(notes.get()));
  return copy && PyObject_SetAttrString(made.get(), "__notes__", copy.get()) == 0 ? std::move(made) : Ref();
}

// The exception with no other leaves than these; None if none is left. Null with an error set.
Ref restricted(PyObject* exception, const Leaves& leaves) {
  if (!is_group(exception)) return Ref::borrow(leaves.count(exception) != 0 ? exception : Py_None);
  const Ref kept = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; kept && i < PyTuple_GET_SIZE(parts_of(exception)); ++i) {
    const Ref part = restricted(PyTuple_GET_ITEM(parts_of(exception), i), leaves);
    if (!part || (part.get() != Py_None && PyList_Append(kept.get(), part.get()) < 0)) return Ref();
  }
  if (!kept) return Ref();
  return PyList_GET_SIZE(kept.get()) == 0 ? Ref::borrow(Py_None) : derived(exception, kept.get());
}

// Sets an error where they may not stand in an except* clause.
bool check_classes(PyObject* classes) {
  const bool many = PyTuple_Check(classes) != 0;
  const Py_ssize_t count = many ? PyTuple_GET_SIZE(classes) : 1;
  const auto at = [&](Py_ssize_t i) { return many ? PyTuple_GET_ITEM(classes, i) : classes; };
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyExceptionClass_Check(at(i))) continue;
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int group = PyObject_IsSubclass(at(i), PyExc_BaseExceptionGroup);
    if (group > 0)
      PyErr_SetString(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
    if (group != 0) return false;
  }
  return true;
}

PyObject* split(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject *exception = args[0], *classes = args[1], *handled = args[2];
  if (!check_classes(classes)) return nullptr;
  if (exception == Py_None) return PyTuple_Pack(3, Py_None, Py_None, handled);
  if (PyErr_GivenExceptionMatches(exception, classes) != 0) {
    const Ref only = is_group(exception) ? Ref() : Ref::steal(PyTuple_Pack(1, exception));
    const Ref match = only ? group_of(only.get()) : Ref::borrow(exception);
    return match ? PyTuple_Pack(3, Py_None, match.get(), match.get()) : nullptr;
  }
  if (!is_group(exception)) return PyTuple_Pack(3, exception, Py_None, handled);
  const Ref pair = Ref::steal(PyObject_CallMethod(exception, "split", "(O)", classes));
  if (!pair) return nullptr;
  const char* const name = Py_TYPE(exception)->tp_name;
  if (!PyTuple_Check(pair.get()))
    return PyErr_Format(PyExc_TypeError, "%.200s.split must return a tuple, not %.200s", name,
                        Py_TYPE(pair.get())->tp_name);
  if (PyTuple_GET_SIZE(pair.get()) < 2)
    return PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple, got tuple of size %zd", name,
                        PyTuple_GET_SIZE(pair.get()));
  PyObject *match = PyTuple_GET_ITEM(pair.get(), 0), *rest = PyTuple_GET_ITEM(pair.get(), 1);
  if (match != Py_None) return PyTuple_Pack(3, rest, match, match);
  return PyTuple_Pack(3, kUnmatchedIsCopied ? rest : exception, Py_None, handled);
}

PyObject* prepare_reraise(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject *caught = args[0], *exceptions = args[1];
  if (PyList_GET_SIZE(exceptions) == 0) return Ref::borrow(Py_None).release();
  if (!is_group(caught)) return Ref::borrow(PyList_GET_ITEM(exceptions, 0)).release();
  const Ref raised = Ref::steal(PyList_New(0));
  Leaves again;
  for (Py_ssize_t i = 0; raised && i < PyList_GET_SIZE(exceptions); ++i) {
    PyObject* exception = PyList_GET_ITEM(exceptions, i);
    if (exception == Py_None) continue;
    if (has_metadata_of(exception, caught)) {
      collect_leaves(exception, &again);
    } else if (PyList_Append(raised.get(), exception) < 0) {
      return nullptr;
    }
  }
  Ref rest = raised ? restricted(caught, again) : Ref();
  if (!rest || PyList_GET_SIZE(raised.get()) == 0) return rest.release();
  if (rest.get() != Py_None && PyList_Append(raised.get(), rest.get()) < 0) return nullptr;
  if (PyList_GET_SIZE(raised.get()) > 1) return group_of(raised.get()).release();
  return Ref::borrow(PyList_GET_ITEM(raised.get(), 0)).release();
}

PyObject* make(PyMethodDef* definition) {
  return PyCFunction_New(definition, nullptr);  // lives as long as the process
}

}  // namespace

PyObject* group_splitter() noexcept {
  static PyMethodDef definition = {"split_group", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(split)),
                                   METH_FASTCALL, nullptr};
  static PyObject* const function = make(&definition);
  return function;
}

PyObject* group_reraiser() noexcept {
  static PyMethodDef definition = {"prepare_reraise",
                                   reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(prepare_reraise)),
                                   METH_FASTCALL, nullptr};
  static PyObject* const function = make(&definition);
  return function;
}

}  // namespace pijit::cpython
