// The slot of a code object that holds its state.
#include "cache/code_state.h"

#include <new>

#include "cache/entry_points.h"
#include "cpython/bytecode.h"

namespace pijit {
namespace {

void free_state(void* state) {
  forget_points(static_cast<CodeState*>(state));
  delete static_cast<CodeState*>(state);
}

}  // namespace

bool start_cache() noexcept {
  if (code_state_slot < 0) code_state_slot = cpython::request_code_extra(free_state);
  if (code_state_slot < 0) PyErr_SetString(PyExc_RuntimeError, "pijit: no slot is left on code objects");
  return code_state_slot >= 0;
}

CodeState* code_state(PyCodeObject* code, bool create) noexcept {
  CodeState* state = code_state(code);
  if (state != nullptr || !create) return state;
  state = new (std::nothrow) CodeState();
  if (state != nullptr && !cpython::set_code_extra(code, code_state_slot, state)) {
    delete state;
    return nullptr;
  }
  return state;
}

}  // namespace pijit
