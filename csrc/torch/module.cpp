// The module pijit._torch: attach() and built_against().
#include "common/ref.h"
#include "torch/callables.h"
#include "torch/direct.h"
#include "torch/operators.h"
#include "torch/pch.h"
#include "torch/torch_adapter.h"

#ifndef PIJIT_TORCH_VERSION
#error "PIJIT_TORCH_VERSION is the version of torch that this module is built against"
#endif

namespace pijit::torch_adapter {
namespace {

// The ABI of libtorch changes with every release: another one than we were built against must not be used.
bool check_version() {
  Ref torch = Ref::steal(PyImport_ImportModule("torch"));
  Ref version = Ref::steal(torch ? PyObject_GetAttrString(torch.get(), "__version__") : nullptr);
  Ref text = Ref::steal(version ? PyObject_Str(version.get()) : nullptr);
  const char* now = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (now == nullptr) return false;
  if (std::strcmp(now, PIJIT_TORCH_VERSION) == 0) return true;
  PyErr_Format(PyExc_RuntimeError,
               "pijit's adapter was built against torch %s, but torch %s is running; build it again with: "
               "pip install --no-build-isolation --force-reinstall pijit",
               PIJIT_TORCH_VERSION, now);
  return false;
}

PyObject* attach(PyObject*, PyObject*) {
  if (!check_version()) return nullptr;
  static bool built = false;
  if (!built && !build_callables()) return nullptr;
  // What the first recording would have to look up.
  if (!built) {
    refresh_python_kernels();
    list_signatures();
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
     "attach()\n--\n\nHands the PyTorch adapter to pijit._core. RuntimeError if another torch is running than it was "
     "built against."},
    {"built_against", built_against, METH_NOARGS,
     "built_against()\n--\n\nThe version of torch that this module was built against."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "pijit._torch",
                       "The PyTorch adapter of pijit.",
                       -1,
                       kMethods,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace
}  // namespace pijit::torch_adapter

PyMODINIT_FUNC PyInit__torch() {
  return PyModule_Create(&pijit::torch_adapter::kModule);
}
