// The method is that of the object, if it has one of its own, else that of its class.
#include "guard/written.h"

#include "adapter.h"
#include "cpython/objects.h"
#include "ir/adapter_slot.h"

namespace pijit {
namespace {

bool is_code_of(PyObject* function, const PyCodeObject* code) noexcept {
  return function != nullptr && PyFunction_Check(function) &&
         reinterpret_cast<PyFunctionObject*>(function)->func_code == reinterpret_cast<const PyObject*>(code);
}

}  // namespace

PyCodeObject* written_code(const Trace& trace, PyObject* self) noexcept {
  const auto* called = reinterpret_cast<PyCodeObject*>(trace.code.get());
  const char* method = current_adapter() != nullptr ? current_adapter()->written_method() : nullptr;
  if (self == nullptr || method == nullptr || trace.takes_inputs) return nullptr;
  if (called->co_argcount != 1 || (called->co_flags & CO_VARARGS) == 0) return nullptr;
  static PyObject* const call = PyUnicode_InternFromString("__call__");
  if (!is_code_of(cpython::lookup_type(Py_TYPE(self), call), called)) return nullptr;
  const Ref name = Ref::steal(PyUnicode_InternFromString(method));
  if (!name) return PyErr_Clear(), nullptr;
  PyObject* dict = cpython::instance_dict(self);
  PyObject* found = nullptr;
  if (dict != nullptr && cpython::dict_lookup_exact(dict, name.get(), &found) == 1) {
    found = PyMethod_Check(found) ? PyMethod_GET_FUNCTION(found) : nullptr;  // a function is called without `self`
  } else {
    found = cpython::lookup_type(Py_TYPE(self), name.get());
  }
  if (found == nullptr || !PyFunction_Check(found)) return nullptr;
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(found)->func_code);
  return code->co_argcount > 0 ? code : nullptr;  // it names its self
}

}  // namespace pijit
