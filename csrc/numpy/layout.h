// Arrays, dtypes and ufuncs as NumPy lays them out: the first fields, which its C API promises to all extensions.
//
// Rejected: the headers of NumPy. They would have to be there where pijit is built, also for those who never use NumPy.
#pragma once
#include "common/python.h"

namespace pijit::numpy {

struct Descr {
  PyObject_HEAD;
  PyTypeObject* scalar;
  char kind, type, byteorder, former_flags;
  int type_num;
};

struct Array {
  PyObject_HEAD;
  char* data;
  int nd;
  Py_ssize_t *sizes, *strides;
  PyObject* base;
  Descr* descr;
  int flags;
};

// Of Array::flags.
inline constexpr int kContiguous = 0x1, kColumns = 0x2, kAligned = 0x100, kWriteable = 0x400;

// What a ufunc calls for one row of elements.
using Loop = void (*)(char** operands, const Py_ssize_t* count, const Py_ssize_t* steps, void* data);

struct Ufunc {
  PyObject_HEAD;
  int inputs, outputs, operands, identity;
  Loop* loops;
  void* const* data;
  int count, reserved;
  const char* name;
  const char* types;  // of the operands of each loop, by type_num
  const char* doc;
  void* memory;
  PyObject *object, *user_loops;
  int generalized;
};

// Values of type_num.
inline constexpr int kBoolean = 0, kLong = 7, kFloat = 11, kDouble = 12, kComplexLong = 16, kObject = 17;

inline Array* as_array(PyObject* object) noexcept {
  return reinterpret_cast<Array*>(object);
}
inline Ufunc* as_ufunc(PyObject* object) noexcept {
  return reinterpret_cast<Ufunc*>(object);
}

}  // namespace pijit::numpy
