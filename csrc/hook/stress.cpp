// The stress switch: which frames it takes.
#include "hook/stress.h"

#include <cstring>

#include "cache/code_state.h"

namespace pijit {
namespace {

constexpr char kPackage[] = "pijit";

}  // namespace

bool is_own_python(cpython::Frame* frame) noexcept {
  PyObject* globals = cpython::globals(frame);
  PyObject* module = PyDict_CheckExact(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  const char* name = module != nullptr && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (name == nullptr) {
    PyErr_Clear();
    return false;
  }
  constexpr size_t kLength = sizeof kPackage - 1;
  return strncmp(name, kPackage, kLength) == 0 && (name[kLength] == '\0' || name[kLength] == '.');
}

std::shared_ptr<Root> stress_root(cpython::Frame* frame) {
  PyCodeObject* code = cpython::code(frame);
  CodeState* state = code_state(code, true);
  if (state == nullptr || state->roots.size() >= kStressRoots) return nullptr;
  const char* name = PyUnicode_AsUTF8(code->co_qualname);
  if (add_root(code, cpython::function(frame), nullptr, name == nullptr ? "?" : name, false, true) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  return state->roots.back();
}

}  // namespace pijit
