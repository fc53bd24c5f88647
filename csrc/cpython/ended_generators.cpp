// Asks CPython for the f_back of a generator's frame that has ended.
#include "cpython/ended_generators.h"

#include "common/ref.h"
#include "cpython/frame_view.h"

namespace pijit::cpython {

namespace {

constexpr const char* kProgram = R"(
def ends():
    yield
    raise LookupError

generator = ends()
next(generator)
try:
    next(generator)
except LookupError as error:
    named = error.__traceback__.tb_next.tb_frame.f_back is not None
)";

bool g_have_callers = kEndedGeneratorsHaveCallers;

}  // namespace

bool look_at_ended_generators() noexcept {
  if (!kEndedGeneratorsHaveCallers) return true;
  const Ref names = Ref::steal(PyDict_New());
  if (!names || PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins()) < 0) return false;
  const Ref ran = Ref::steal(PyRun_String(kProgram, Py_file_input, names.get(), names.get()));
  if (!ran) return false;
  g_have_callers = PyDict_GetItemString(names.get(), "named") == Py_True;
  return true;
}

bool ended_generators_have_callers() noexcept {
  return g_have_callers;
}

}  // namespace pijit::cpython
