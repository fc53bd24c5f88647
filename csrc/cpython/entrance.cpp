// What calls functions where CPython does not export it.
#include "cpython/entrance.h"

#include "common/ref.h"

namespace pijit::cpython {

#if PY_VERSION_HEX >= 0x030d0000
// A function is born with it.
vectorcallfunc function_vectorcall() noexcept {
  static const vectorcallfunc plain = [] {
    const Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyCode_NewEmpty("<pijit>", "sample", 1)));
    const Ref globals = Ref::steal(PyDict_New());
    const Ref sample = code && globals ? Ref::steal(PyFunction_New(code.get(), globals.get())) : Ref();
    if (!sample) Py_FatalError("pijit: no memory for a function");
    return reinterpret_cast<PyFunctionObject*>(sample.get())->vectorcall;
  }();
  return plain;
}
#endif

}  // namespace pijit::cpython
