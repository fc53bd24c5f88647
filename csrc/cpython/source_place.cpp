// The columns of instructions, which CPython tells of each.
#include "cpython/source_place.h"

#include "cpython/internals.h"

namespace pijit::cpython {

bool source_place(PyCodeObject* code, int index, std::array<int, 4>* place) {
  auto& [first, last, start, end] = *place;
  const int address = index * static_cast<int>(sizeof(_Py_CODEUNIT));
  return PyCode_Addr2Location(code, address, &first, &start, &last, &end) != 0 && start >= 0;
}

}  // namespace pijit::cpython
