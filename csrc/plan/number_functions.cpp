// Functions of Python that make a number of numbers, by their modules.
#include "plan/number_functions.h"

#include "common/ref.h"

namespace pijit {

namespace {

struct Functions {
  const char* module;
  const char* names;  // apart by spaces
};

constexpr Functions kFunctions[] = {
    {"builtins", "abs bool float int max min pow round"},
    {"math",
     "acos asin atan atan2 ceil cos cosh erf exp expm1 floor fmod gcd hypot isqrt log log10 log1p log2 sin sinh sqrt "
     "tan tanh trunc"},
    {"operator",
     "abs add and_ eq floordiv ge gt iadd ifloordiv imod imul invert ipow isub itruediv le lshift lt mod mul ne neg "
     "not_ or_ pow rshift sub truediv xor"},
};

Ref import_all() {
  const Ref list = Ref::steal(PyList_New(0));
  if (!list) return {};
  for (const Functions& each : kFunctions) {
    const Ref module = Ref::steal(PyImport_ImportModule(each.module));
    const Ref text = Ref::steal(PyUnicode_FromString(each.names));
    const Ref names = text ? Ref::steal(PyUnicode_Split(text.get(), nullptr, -1)) : Ref();
    if (!module || !names) return {};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
      const Ref function = Ref::steal(PyObject_GetAttr(module.get(), PyList_GET_ITEM(names.get(), i)));
      if (!function || PyList_Append(list.get(), function.get()) != 0) return {};
    }
  }
  return Ref::steal(PyList_AsTuple(list.get()));
}

}  // namespace

PyObject* number_functions() noexcept {
  static PyObject* all = nullptr;
  if (all == nullptr) {
    SavedError error;
    all = import_all().release();
    PyErr_Clear();
  }
  return all;
}

bool is_number_function(PyObject* callable) noexcept {
  PyObject* all = number_functions();
  for (Py_ssize_t i = 0; all != nullptr && i < PyTuple_GET_SIZE(all); ++i)
    if (PyTuple_GET_ITEM(all, i) == callable) return true;
  return false;
}

}  // namespace pijit
