// Asks CPython for the f_back of a generator's frame that has ended, and for the traceback of a group.
#include "cpython/patch_releases.h"

#include "common/ref.h"
#include "cpython/exception_groups.h"
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
    has_caller = error.__traceback__.tb_next.tb_frame.f_back is not None
try:
    raise LookupError
except* LookupError as group:
    has_traceback = group.__traceback__ is not None
)";
constexpr bool kChanged = PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000;

bool g_have_callers = kEndedGeneratorsHaveCallers, g_have_tracebacks = kWrappedHaveTracebacks;

}  // namespace

bool look_at_patch_release() noexcept {
  if (!kChanged) return true;
  const Ref names = Ref::steal(PyDict_New());
  if (!names || PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins()) < 0) return false;
  const Ref ran = Ref::steal(PyRun_String(kProgram, Py_file_input, names.get(), names.get()));
  if (!ran) return false;
  g_have_callers = PyDict_GetItemString(names.get(), "has_caller") == Py_True;
  g_have_tracebacks = PyDict_GetItemString(names.get(), "has_traceback") == Py_True;
  return true;
}

bool ended_generators_have_callers() noexcept {
  return g_have_callers;
}

bool wrapped_have_tracebacks() noexcept {
  return g_have_tracebacks;
}

}  // namespace pijit::cpython
