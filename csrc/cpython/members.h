// Members that classes of C describe (PyMemberDef), and the descriptors that read them.
//
// Up to CPython 3.11 a header of its own declares them, which brings macros with short names (T_INT, READONLY): other
// rooms include this file.
#pragma once
#include "common/python.h"

#include <structmember.h>

namespace pijit::cpython {

// What the descriptor of a member describes; null: it is no such descriptor, or there is none.
inline const PyMemberDef* member_of(PyObject* descriptor) noexcept {
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyMemberDescr_Type) return nullptr;
  return reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
}

}  // namespace pijit::cpython
