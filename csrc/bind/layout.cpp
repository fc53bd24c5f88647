// Compares sizes of CPython's objects and places of their fields, as the core was compiled, with what the types that
// run say.
//
// A wheel is for one minor release of CPython, whose patch releases keep these. A build with other options, or of a
// vendor, need not. The core would read other fields than it means to, so it steps aside there.
#include "bind/layout.h"

#include <cstddef>

#include "common/python.h"

namespace pijit {
namespace {

struct Row {
  const char* name;
  const PyTypeObject* type;
  size_t size;
  size_t dict;        // 0: not compared
  size_t weak_list;   // 0: not compared
  size_t vectorcall;  // 0: not compared
};

const Row kRows[] = {
    {"function", &PyFunction_Type, sizeof(PyFunctionObject), offsetof(PyFunctionObject, func_dict),
     offsetof(PyFunctionObject, func_weakreflist), offsetof(PyFunctionObject, vectorcall)},
    {"code", &PyCode_Type, offsetof(PyCodeObject, co_code_adaptive), 0, offsetof(PyCodeObject, co_weakreflist), 0},
    {"type", &PyType_Type, sizeof(PyHeapTypeObject), offsetof(PyTypeObject, tp_dict),
     offsetof(PyTypeObject, tp_weaklist), 0},
    {"method", &PyMethod_Type, sizeof(PyMethodObject), 0, offsetof(PyMethodObject, im_weakreflist),
     offsetof(PyMethodObject, vectorcall)},
    {"built-in function", &PyCFunction_Type, sizeof(PyCFunctionObject), 0, offsetof(PyCFunctionObject, m_weakreflist),
     offsetof(PyCFunctionObject, vectorcall)},
    {"method descriptor", &PyMethodDescr_Type, sizeof(PyMethodDescrObject), 0, 0,
     offsetof(PyMethodDescrObject, vectorcall)},
    {"dict", &PyDict_Type, sizeof(PyDictObject), 0, 0, 0},
    {"list", &PyList_Type, sizeof(PyListObject), 0, 0, 0},
    {"set", &PySet_Type, sizeof(PySetObject), 0, offsetof(PySetObject, weakreflist), 0},
    {"float", &PyFloat_Type, sizeof(PyFloatObject), 0, 0, 0},
    {"slice", &PySlice_Type, sizeof(PySliceObject), 0, 0, 0},
};

bool differs(size_t compiled, Py_ssize_t running) noexcept {
  return compiled != 0 && compiled != static_cast<size_t>(running);
}

}  // namespace

const char* python_layout_trouble() noexcept {
  for (const Row& row : kRows) {
    const PyTypeObject* type = row.type;
    if (differs(row.size, type->tp_basicsize) || differs(row.dict, type->tp_dictoffset)) return row.name;
    if (differs(row.weak_list, type->tp_weaklistoffset)) return row.name;
    if (differs(row.vectorcall, type->tp_vectorcall_offset)) return row.name;
  }
  return nullptr;
}

}  // namespace pijit
