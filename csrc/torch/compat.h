// What differs between the releases of PyTorch that this room is compiled for: the only file that asks for the version.
//
// pijit/_torches.py lists the releases. What is written here for a release is tested by `make test-torch TORCH=...`.
#pragma once
#include "torch/pch.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/version.h>

#include "common/imports.h"

namespace pijit::torch_adapter {

// `x[index] = number`. From 2.15 on the binding hands the number on as it is: it calls fill_, masked_fill_ and
// index_fill_ where it can. Before, it makes a tensor of the dtype of x, below autograd, and calls what it calls for
// tensors. Which one is seen: the graph of autograd differs.
inline void write_number(const at::Tensor& self, at::ArrayRef<at::indexing::TensorIndex> indices,
                         const c10::Scalar& value) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  at::Tensor tensor;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    c10::Device device = self.is_cuda() ? c10::Device(at::kCPU) : self.device();
    tensor = at::indexing::scalarToTensor(value, self.options(), device);
  }
  at::indexing::set_item(self, indices, tensor);
#else
  at::indexing::set_item(self, indices, value);
#endif
}

// A function of autograd without functions behind it. A shared pointer holds it in older torches such as 2.11, an
// intrusive one in later ones.
template <typename Node, typename... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Node>)
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  else
    return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
}

// Python holds the object that stands for a function. Where functions are held by intrusive pointers they own their
// objects, and so one may be there for nobody.
template <typename Function>
bool is_held_in_python(const Function& function) {
  if constexpr (requires { function.pyobj_slot(); })
    return function.pyobj_slot()->load_pyobj() != nullptr && !function.pyobj_slot()->has_unique_reference();
  else
    return function.pyobj() != nullptr;
}

// Of `count` that hold a function, how many there are without its object.
template <typename Function>
size_t without_object(const Function& function, size_t count) {
  if constexpr (requires { function.pyobj_slot(); }) return count - (function.pyobj_slot()->load_pyobj() ? 1 : 0);
  return count;
}

// What is put on the stream now is recorded for a graph of the device, and not run. Where guards of devices do not say
// so, as those of 2.11, CUDA alone has such graphs, and its functions for Python tell it of the current stream. GIL
// held.
template <typename Guard>
bool is_captured(const Guard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.isStreamCapturing(stream); }) {
    return guard.isStreamCapturing(stream);
  } else {
    if (stream.device_type() != c10::kCUDA) return false;
    static PyObject* const ask = [] {
      Ref core = import_module("torch._C");
      return core ? PyObject_GetAttrString(core.get(), "_cuda_isCurrentStreamCapturing") : nullptr;
    }();
    Ref answer = Ref::steal(ask == nullptr ? nullptr : PyObject_CallNoArgs(ask));
    PyErr_Clear();
    return answer.get() != Py_False;  // it cannot be told: as if it were
  }
}

}  // namespace pijit::torch_adapter
