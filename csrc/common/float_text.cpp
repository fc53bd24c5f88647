// A float as a Python expression: as repr gives it, but what repr gives no expression for is a call of float().
#include "common/float_text.h"

#include "common/python.h"

namespace pijit {

std::string float_text(double number) {
  if (number != number) return "float('nan')";
  if (number - number != 0) return number > 0 ? "float('inf')" : "float('-inf')";
  char* text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  if (text == nullptr) return PyErr_Clear(), "0.0";
  const std::string made = text;
  PyMem_Free(text);
  return made;
}

}  // namespace pijit
