// What a tensor is to this adapter: a c10::TensorImpl behind a register, and a THPVariable of an exact class in Python.
//
// Registers hold a TensorImpl* (Reg::tensor), with one reference if the register owns it. Going through intrusive_ptr
// keeps libtorch's bookkeeping right: from the second reference on, the tensor keeps its Python object alive.
#pragma once
#include "ir/value.h"
#include "torch/pch.h"

namespace pijit::torch_adapter {

using Impl = c10::TensorImpl;

// Functionalities of tensors that are not plain: what the operators then do is decided by code that is not observed.
inline const c10::DispatchKeySet kNotPlain{c10::DispatchKey::Python,
                                           c10::DispatchKey::PythonTLSSnapshot,
                                           c10::DispatchKey::FuncTorchBatched,
                                           c10::DispatchKey::Batched,
                                           c10::DispatchKey::FuncTorchGradWrapper,
                                           c10::DispatchKey::Functionalize,
                                           c10::DispatchKey::Sparse,
                                           c10::DispatchKey::SparseCsr,
                                           c10::DispatchKey::NestedTensor,
                                           c10::DispatchKey::BatchedNestedTensor,
                                           c10::DispatchKey::Quantized,
                                           c10::DispatchKey::ZeroTensor};

// Dense, strided, concrete sizes, no wrapper.
inline bool is_plain(const Impl* impl) noexcept {
  return !impl->key_set().has_any(kNotPlain) && !impl->has_symbolic_sizes_strides();
}

// What the transformations of torch.func wrap tensors in. Operators take such a tensor as they take any other.
inline const c10::DispatchKeySet kWrappers{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper};

inline bool is_plain_or_wrapped(const Impl* impl) noexcept {
  return !(impl->key_set() - kWrappers).has_any(kNotPlain) && !impl->has_symbolic_sizes_strides();
}

// A level of torch.func is open on this thread.
inline bool in_level() noexcept {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

inline bool is_tensor_type(PyTypeObject* type) noexcept {
  return THPVariable_CheckTypeExact(type);
}

// The tensor of an object of a tensor class (borrowed).
inline Impl* impl_of(PyObject* object) noexcept {
  return THPVariable_Unpack(object).unsafeGetTensorImpl();
}

// Its object in Python (borrowed), or null if it has none yet.
inline PyObject* object_of(const Impl* tensor) noexcept {
  return tensor->pyobj_slot()->load_pyobj();
}

inline bool is_plain_tensor(PyObject* object) noexcept {
  return is_tensor_type(Py_TYPE(object)) && THPVariable_Unpack(object).defined() && is_plain(impl_of(object));
}

inline bool is_plain_or_wrapped_tensor(PyObject* object) noexcept {
  return is_tensor_type(Py_TYPE(object)) && THPVariable_Unpack(object).defined() &&
         is_plain_or_wrapped(impl_of(object));
}

// A handle that shares the tensor of a register.
inline at::Tensor share(void* tensor) noexcept {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(static_cast<Impl*>(tensor)));
}

// Moves a tensor into a register that owns it.
inline void put(Reg& reg, at::Tensor&& tensor) noexcept {
  reg.tensor = tensor.unsafeReleaseTensorImpl();
  reg.rep = Rep::kTensor;
  reg.owned = 1;
}

inline PyTypeObject* tensor_type() noexcept {
  return reinterpret_cast<PyTypeObject*>(THPVariableClass);
}

// Whatever a run threw or left behind is dropped: the core lets CPython run the original again.
inline bool refuse() noexcept {
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return false;
}

}  // namespace pijit::torch_adapter
