// A vectorcall of a function's own: its calls are heard of without an eval-frame hook, from CPython 3.12 on.
//
// CPython calls a function by its vectorcall, but where it has specialised a call on the function's version. A function
// that is given an entrance has no version, and gets one only where a guard asks for it (function_version).
#pragma once
#include "cpython/internals.h"
#include "cpython/objects.h"

namespace pijit::cpython {

#if PY_VERSION_HEX >= 0x030c0000
inline constexpr bool kHasEntrances = true;

// What calls a function of Python that has no entrance.
#if PY_VERSION_HEX >= 0x030d0000
vectorcallfunc function_vectorcall() noexcept;  // is private
#else
inline vectorcallfunc function_vectorcall() noexcept {
  return _PyFunction_Vectorcall;
}
#endif

// Null takes it away.
inline void set_entrance(PyObject* function, vectorcallfunc entrance) noexcept {
  PyFunction_SetVectorcall(reinterpret_cast<PyFunctionObject*>(function),
                           entrance != nullptr ? entrance : function_vectorcall());
}
// Every call of the function comes to an entrance.
inline bool is_entered_by_calls(PyObject* function) noexcept {
  const auto* object = reinterpret_cast<PyFunctionObject*>(function);
  return object->vectorcall != function_vectorcall() && !has_function_version(object);
}
#else
inline constexpr bool kHasEntrances = false;
inline vectorcallfunc function_vectorcall() noexcept {
  return _PyFunction_Vectorcall;
}
inline void set_entrance(PyObject*, vectorcallfunc) noexcept {}
inline bool is_entered_by_calls(PyObject*) noexcept {
  return false;
}
#endif
// As if the function had none.
inline PyObject* call_past_entrance(PyObject* function, PyObject* const* arguments, size_t count, PyObject* names) {
  return function_vectorcall()(function, arguments, count, names);
}

}  // namespace pijit::cpython
