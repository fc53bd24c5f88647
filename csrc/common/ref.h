// Ownership of Python objects: Ref owns one reference and moves; a plain PyObject* parameter or member borrows.
//
// 1. A Ref parameter taken by value steals; a pointer borrows.
// 2. Dropping a reference may run Python: bring your own state in order first, drop references last.
// 3. No file outside this one increments or decrements a reference count by hand.
#pragma once
#include <utility>

#include "common/python.h"

namespace pijit {

class Ref {
 public:
  Ref() noexcept = default;
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  Ref& operator=(Ref&& other) noexcept {
    PyObject* old = std::exchange(object_, std::exchange(other.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  // Takes over a new reference (null is allowed).
  static Ref steal(PyObject* object) noexcept { return Ref(object); }
  // Adds a reference to a borrowed object (null is allowed).
  static Ref borrow(PyObject* object) noexcept {
    Py_XINCREF(object);
    return Ref(object);
  }

  PyObject* get() const noexcept { return object_; }
  // Gives the reference to the caller.
  [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* object) noexcept : object_(object) {}
  PyObject* object_ = nullptr;
};

// Returns a new reference to a borrowed object, for slots that CPython owns.
inline PyObject* new_reference(PyObject* object) noexcept {
  Py_XINCREF(object);
  return object;
}

// Drops a reference that CPython or a register owned.
inline void drop_reference(PyObject* object) noexcept {
  Py_XDECREF(object);
}

// Keeps the error indicator of the thread while code in between may disturb it.
class SavedError {
 public:
  SavedError() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~SavedError() { PyErr_Restore(type_, value_, traceback_); }
  SavedError(const SavedError&) = delete;
  SavedError& operator=(const SavedError&) = delete;

 private:
  PyObject* type_;
  PyObject* value_;
  PyObject* traceback_;
};

}  // namespace pijit
