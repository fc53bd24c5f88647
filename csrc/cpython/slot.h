// What one slot of a frame holds, a local variable or an entry of the stack.
//
// Up to 3.13 it is a pointer. From 3.14 on it is marked: an empty one is not null; one may borrow its object from a
// variable or a constant, so that nothing can be stolen from it; and the index of the instruction that an exception
// came from is a plain number. No other header reads or writes the marks.
#pragma once
#include "common/ref.h"
#include "cpython/internals.h"

namespace pijit::cpython {

#if PY_VERSION_HEX >= 0x030e0000
using Slot = _PyStackRef;
inline const Slot kEmptySlot = PyStackRef_NULL;

// The int that stands for a plain number wherever objects are expected; no other int is it, be it equal. Borrowed.
PyObject* int_for_number(intptr_t number) noexcept;
bool stands_for_number(PyObject* object) noexcept;

// Borrowed; null: the slot is empty.
inline PyObject* object_in(Slot slot) noexcept {
  if (PyStackRef_IsTaggedInt(slot)) [[unlikely]]
    return int_for_number(PyStackRef_UntagInt(slot));
  return PyStackRef_IsNull(slot) ? nullptr : PyStackRef_AsPyObjectBorrow(slot);
}
// A slot that holds `object`, or nothing (null); steals.
inline Slot new_slot(PyObject* object) noexcept {
  if (object == nullptr) return kEmptySlot;
  if (!stands_for_number(object)) return PyStackRef_FromPyObjectSteal(object);
  const Ref held = Ref::steal(object);
  return PyStackRef_TagInt(PyLong_AsLong(object));
}
// What a slot that nothing reads any more held, as a reference of its own; may be null.
inline PyObject* take(Slot slot) noexcept {
  if (PyStackRef_IsNull(slot)) return nullptr;
  return PyStackRef_IsTaggedInt(slot) ? new_reference(object_in(slot)) : PyStackRef_AsPyObjectSteal(slot);
}
// The index of an instruction as exception handlers find it on the stack. New reference.
inline PyObject* number_on_stack(int number) noexcept {
  return new_reference(int_for_number(number));
}
#else
using Slot = PyObject*;

inline PyObject* object_in(Slot slot) noexcept {
  return slot;
}
inline Slot new_slot(PyObject* object) noexcept {
  return object;
}
inline PyObject* take(Slot slot) noexcept {
  return slot;
}
inline PyObject* number_on_stack(int number) noexcept {
  return PyLong_FromLong(number);
}
#endif

}  // namespace pijit::cpython
