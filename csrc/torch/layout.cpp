// Compares sizes and places of fields, as this module was compiled, with those of the torch that runs.
//
// What headers define inline is compiled into this module. If a torch of another layout is there, such as one that a
// vendor has changed, it reads other fields than it means to. So known things are made by functions of libtorch, and
// read here inline. A size is compared where Python says it: the basic size of a class.
#include "torch/layout.h"

#include "common/ref.h"
#include "torch/pch.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {
namespace {

struct Size {
  const char* name;
  Py_ssize_t compiled;
  Py_ssize_t running;
};

// The basic size of a class that the headers do not declare; -1 with an error set.
Py_ssize_t basic_size(const char* name) {
  Ref module = Ref::steal(PyImport_ImportModule("torch._C"));
  Ref type = Ref::steal(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  Ref size = Ref::steal(type ? PyObject_GetAttrString(type.get(), "__basicsize__") : nullptr);
  return size ? PyLong_AsSsize_t(size.get()) : -1;
}

const char* size_trouble() {
  const Size sizes[] = {
      {"torch._C.TensorBase", sizeof(THPVariable), basic_size("TensorBase")},
      {"torch._C.Generator", sizeof(THPGenerator), basic_size("Generator")},
      {"torch.device", sizeof(THPDevice), THPDeviceType.tp_basicsize},
      {"torch.dtype", sizeof(THPDtype), THPDtypeType.tp_basicsize},
      {"torch.layout", sizeof(THPLayout), THPLayoutType.tp_basicsize},
      {"torch.memory_format", sizeof(THPMemoryFormat), THPMemoryFormatType.tp_basicsize},
  };
  for (const Size& size : sizes)
    if (size.compiled != size.running) return size.name;
  return nullptr;
}

// A tensor whose every fact is known, and another one than the default.
bool reads_tensors() {
  at::Tensor whole = at::zeros({4, 6}, at::TensorOptions().dtype(at::kDouble).device(at::kCPU));
  at::Tensor part = at::slice(at::transpose(whole, 0, 1), 0, 2, 5);
  const Impl* impl = part.unsafeGetTensorImpl();
  bool good = impl->sizes() == at::IntArrayRef({3, 4}) && impl->strides() == at::IntArrayRef({1, 6}) &&
              impl->storage_offset() == 2 && impl->numel() == 12 && impl->dim() == 2 &&
              impl->dtype() == caffe2::TypeMeta::Make<double>() && impl->device() == at::Device(at::kCPU) &&
              impl->layout() == at::kStrided && !impl->is_contiguous() && !impl->requires_grad() &&
              !impl->is_wrapped_number() && impl->key_set().has(c10::DispatchKey::AutogradCPU) && is_plain(impl) &&
              impl->storage().unsafeGetStorageImpl() == whole.storage().unsafeGetStorageImpl() &&
              impl->storage().nbytes() == 24 * sizeof(double);
  if (!good || part.use_count() != 1 || part.weak_use_count() != 1) return false;
  const at::Tensor second = part;
  const auto before = impl->version_counter().current_version();
  part.fill_(3);
  good = part.use_count() == 2 && impl->version_counter().current_version() == before + 1 &&
         static_cast<const double*>(impl->data())[6] == 3 && whole.sum().item().toDouble() == 36;
  part.requires_grad_(true);
  return good && impl->requires_grad() && object_of(impl) == nullptr;
}

// A tensor and its object find each other.
bool finds_objects() {
  const at::Tensor tensor = at::zeros({1}, at::TensorOptions().device(at::kCPU));
  Ref object = Ref::steal(THPVariable_Wrap(tensor));
  return object && is_plain_tensor(object.get()) && impl_of(object.get()) == tensor.unsafeGetTensorImpl() &&
         object_of(tensor.unsafeGetTensorImpl()) == object.get();
}

// An operator, its schema, and a call by a stack of values.
bool calls_operators() {
  const c10::OperatorHandle add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  const auto& arguments = add.schema().arguments();
  if (arguments.size() != 3 || arguments[2].name() != "alpha" || !arguments[2].kwarg_only()) return false;
  if (arguments[0].alias_info() != nullptr || add.schema().returns().size() != 1) return false;
  const at::Tensor three = at::full({2}, 3, at::TensorOptions().dtype(at::kLong).device(at::kCPU));
  torch::jit::Stack stack{three, three, at::Scalar(2)};
  add.callBoxed(stack);
  return stack.size() == 1 && stack[0].isTensor() && stack[0].toTensor()[0].item().toLong() == 9;
}

}  // namespace

std::string layout_trouble() {
  if (const char* name = size_trouble()) return name;
  if (PyErr_Occurred() != nullptr) return {};
  // Whatever mode the program is in: the tensors here are plain.
  const c10::InferenceMode no_inference(false);
  const at::AutoGradMode no_gradients(false);
  const c10::impl::ExcludeDispatchKeyGuard plain(kNotPlain | c10::autocast_dispatch_keyset);
  try {
    if (!reads_tensors()) return "a tensor";
    if (!finds_objects()) return "the object of a tensor";
    if (!calls_operators()) return "an operator";
  } catch (const std::exception&) {
    PyErr_Clear();
    return "an operator";
  }
  return {};
}

}  // namespace pijit::torch_adapter
