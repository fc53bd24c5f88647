// The loops of the capture under way.
#include "record/known_loops.h"

#include <map>
#include <utility>

#include "common/ref.h"

namespace pijit {
namespace {

// By code and last jump; each holds its code.
std::map<std::pair<PyCodeObject*, int>, Ref>& loops_of_code() {
  static auto* const found = new std::map<std::pair<PyCodeObject*, int>, Ref>;  // outlives the interpreter
  return *found;
}

}  // namespace

bool is_known_loop(PyCodeObject* code, int last) noexcept {
  return loops_of_code().count({code, last}) != 0;
}

void note_loop(PyCodeObject* code, int last) {
  loops_of_code().try_emplace({code, last}, Ref::borrow(reinterpret_cast<PyObject*>(code)));
}

void forget_loops() noexcept {
  std::map<std::pair<PyCodeObject*, int>, Ref> dropped;
  dropped.swap(loops_of_code());
}

}  // namespace pijit
