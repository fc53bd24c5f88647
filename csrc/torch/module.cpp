// The module of this adapter, such as pijit._torch_2_13: attach() and built_against().
#include "common/ref.h"
#include "torch/below.h"
#include "torch/callables.h"
#include "torch/direct.h"
#include "torch/launches.h"
#include "torch/layout.h"
#include "torch/operators.h"
#include "torch/pch.h"
#include "torch/torch_adapter.h"

#if !defined(PIJIT_TORCH_VERSION) || !defined(PIJIT_TORCH_SERIES) || !defined(PIJIT_TORCH_MODULE)
#error "PIJIT_TORCH_VERSION, _SERIES and _MODULE say which torch this module is for (pijit/_torches.py)"
#endif

#define PIJIT_NAME_OF(name) #name
#define PIJIT_TEXT(name) PIJIT_NAME_OF(name)
#define PIJIT_JOINED(left, right) left##right
#define PIJIT_INIT(name) PIJIT_JOINED(PyInit_, name)

namespace pijit::torch_adapter {
namespace {

// The layouts of libtorch are those of a minor release: one of another must not be used. Patch releases share them.
bool is_same_series(const char* running) noexcept {
  constexpr size_t kLength = sizeof(PIJIT_TORCH_SERIES) - 1;
  return std::strncmp(running, PIJIT_TORCH_SERIES, kLength) == 0 &&
         (running[kLength] == '.' || running[kLength] == '\0');
}

bool check_version() {
  Ref torch = Ref::steal(PyImport_ImportModule("torch"));
  Ref version = Ref::steal(torch ? PyObject_GetAttrString(torch.get(), "__version__") : nullptr);
  Ref text = Ref::steal(version ? PyObject_Str(version.get()) : nullptr);
  const char* now = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (now == nullptr) return false;
  if (is_same_series(now)) return true;
  PyErr_Format(PyExc_RuntimeError, "it is for torch %s", PIJIT_TORCH_SERIES);
  return false;
}

// Sizes and places of fields are looked at once, before anything relies on them.
bool check_layout() {
  const std::string trouble = layout_trouble();
  if (PyErr_Occurred() != nullptr) return false;
  if (trouble.empty()) return true;
  PyErr_Format(PyExc_RuntimeError, "%s is not laid out as in torch %s", trouble.c_str(), PIJIT_TORCH_VERSION);
  return false;
}

PyObject* attach(PyObject*, PyObject*) {
  static bool built = false;
  if (!built && (!check_version() || !check_layout())) return nullptr;
  if (!built && !build_callables()) return nullptr;
  // What the first recording would have to look up.
  if (!built) {
    refresh_python_kernels();
    list_signatures();
    offer_below();
  }
  built = true;
  Ref capsule = Ref::steal(PyCapsule_New(the_adapter(), kAdapterCapsule, nullptr));
  Ref core = Ref::steal(capsule ? PyImport_ImportModule("pijit._core") : nullptr);
  return core ? PyObject_CallMethod(core.get(), "attach_adapter", "O", capsule.get()) : nullptr;
}

PyObject* built_against(PyObject*, PyObject*) {
  return PyUnicode_FromString(PIJIT_TORCH_VERSION);
}

PyMethodDef kMethods[] = {
    {"attach", attach, METH_NOARGS,
     "attach()\n--\n\nHands the PyTorch adapter to pijit._core. RuntimeError if a torch is running that it does not "
     "fit."},
    {"built_against", built_against, METH_NOARGS,
     "built_against()\n--\n\nThe version of torch that this module was built against."},
    kWatchLaunches,
    kCaptureLaunches,
    kCaptureCall,
    kCanHold,
    kBeginCapture,
    kEndCapture,
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "pijit." PIJIT_TEXT(PIJIT_TORCH_MODULE),
                       "The PyTorch adapter of pijit.",
                       -1,
                       kMethods,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace
}  // namespace pijit::torch_adapter

PyMODINIT_FUNC PIJIT_INIT(PIJIT_TORCH_MODULE)() {
  return PyModule_Create(&pijit::torch_adapter::kModule);
}
