// The ints that stand for the plain numbers of frames.
#include "cpython/slot.h"

#if PY_VERSION_HEX >= 0x030e0000
#include <vector>

namespace pijit::cpython {
namespace {

// By number; each lives as long as the process. A number is the index of an instruction, so they are few.
std::vector<PyObject*>& stand_ins() noexcept {
  static auto* ints = new std::vector<PyObject*>();
  return *ints;
}

// An int that CPython's own table of small ints does not have. It is filled before anything can see it.
PyObject* own_int(size_t number) noexcept {
  constexpr long kOneDigit = 1 << 20;  // is in no table
  auto* made = reinterpret_cast<PyLongObject*>(PyLong_FromLong(kOneDigit));
  if (made == nullptr) Py_FatalError("pijit: no memory for an int");
  if (number == 0) made->long_value.lv_tag = 1;  // SIGN_ZERO, no digit
  made->long_value.ob_digit[0] = static_cast<digit>(number);
  return reinterpret_cast<PyObject*>(made);
}

}  // namespace

PyObject* int_for_number(intptr_t number) noexcept {
  std::vector<PyObject*>& ints = stand_ins();
  const auto index = static_cast<size_t>(number);
  if (index >= ints.size()) ints.resize(index + 1, nullptr);
  if (ints[index] == nullptr) ints[index] = own_int(index);
  return ints[index];
}

bool stands_for_number(PyObject* object) noexcept {
  if (!PyLong_CheckExact(object) || !_PyLong_IsNonNegativeCompact(reinterpret_cast<PyLongObject*>(object)))
    return false;
  const auto number = static_cast<size_t>(_PyLong_CompactValue(reinterpret_cast<PyLongObject*>(object)));
  return number < stand_ins().size() && stand_ins()[number] == object;
}

}  // namespace pijit::cpython
#endif
