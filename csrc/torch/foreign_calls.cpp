// The table of such calls, found in torch once.
#include "torch/foreign_calls.h"

#include <cstring>
#include <utility>
#include <vector>

#include "common/imports.h"
#include "torch/callables.h"
#include "torch/operators.h"
#include "torch/pch.h"
#include "torch/state.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {
namespace {

struct ForeignRow {
  const char* path;
  ForeignCall kind;
};

// Optimizers bracket their work with marks for a profiler, and backward() keeps the context of its thread. Without a
// profiler nobody sees such a call. An object in which a checkpoint keeps its books is read by torch alone.
constexpr ForeignRow kForeignRows[] = {
    {"torch.ops.profiler._record_function_enter_new._op", ForeignCall::kIdle},
    {"torch.ops.profiler._record_function_exit._RecordFunction._op", ForeignCall::kIdle},
    {"torch._C.DisableTorchFunctionSubclass", ForeignCall::kIdle},
    {"torch._C.DisableTorchFunctionSubclass.__enter__", ForeignCall::kIdle},
    {"torch._C.DisableTorchFunctionSubclass.__exit__", ForeignCall::kIdle},
    {"torch._C._stash_obj_in_tls", ForeignCall::kIdle},
    {"torch._C._remove_obj_from_tls", ForeignCall::kIdle},
    {"contextvars.copy_context", ForeignCall::kIdle},
    {"torch._C._ImperativeEngine.run_backward", ForeignCall::kBackward},
    {"torch.utils.checkpoint._CheckpointFrame", ForeignCall::kIdle},
};

struct KnownCall {
  Ref object;
  ForeignCall kind;
};

// Null: this torch has no such thing.
Ref find(const char* path) {
  const char* dot = std::strchr(path, '.');
  Ref at = import_module(std::string(path, dot).c_str());
  while (at && dot != nullptr) {
    const char* name = dot + 1;
    dot = std::strchr(name, '.');
    at = Ref::steal(
        PyObject_GetAttrString(at.get(), (dot != nullptr ? std::string(name, dot) : std::string(name)).c_str()));
  }
  if (!at) PyErr_Clear();
  return at;
}

// Methods are told by their definitions: looking one up makes a new object.
const void* definition_of(PyObject* object) noexcept {
  if (PyCFunction_Check(object)) return reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  if (Py_IS_TYPE(object, &PyMethodDescr_Type)) return reinterpret_cast<PyMethodDescrObject*>(object)->d_method;
  if (PyInstanceMethod_Check(object)) return definition_of(PyInstanceMethod_GET_FUNCTION(object));
  return object;
}

const std::vector<KnownCall>& known_calls() {
  static const auto* all = [] {
    auto* made = new std::vector<KnownCall>;
    for (const ForeignRow& row : kForeignRows)
      if (Ref object = find(row.path)) made->push_back({std::move(object), row.kind});
    return made;
  }();
  return *all;
}

}  // namespace

void find_foreign_calls() noexcept {
  try {
    known_calls();
  } catch (...) {
  }
}

ForeignCall foreign_call(PyObject* callable) noexcept {
  try {
    for (const KnownCall& each : known_calls())
      if (definition_of(each.object.get()) == definition_of(callable)) return each.kind;
    const Callable* known = find_callable(callable);
    if (known != nullptr && (known->rule == Rule::kOperator || known->rule == Rule::kNamedOperator) &&
        is_accumulating(base_of(*known)) && !runs_saved_hooks())
      return ForeignCall::kWrites;
  } catch (...) {
  }
  return ForeignCall::kUnknown;
}

PyObject* engine_code() noexcept {
  static PyObject* code = nullptr;
  static bool is_sought = false;  // code of Python may run meanwhile
  if (code != nullptr || std::exchange(is_sought, true)) return code;
  Ref function = find("torch.autograd.graph._engine_run_backward");
  if (function && PyFunction_Check(function.get())) code = PyFunction_GET_CODE(function.release());
  is_sought = false;
  return code;
}

// `return id(self)`: nothing else than that name stands in it.
PyObject* hash_code() noexcept {
  static PyObject* const code = []() -> PyObject* {
    PyObject* function = PyDict_GetItemString(tensor_type()->tp_dict, "__hash__");
    if (function == nullptr || !PyFunction_Check(function)) return nullptr;
    auto* found = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    const bool one = PyTuple_GET_SIZE(found->co_names) == 1 && found->co_argcount == 1 && found->co_nlocalsplus == 1;
    const char* name = one ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(found->co_names, 0)) : nullptr;
    if (name == nullptr || std::strcmp(name, "id") != 0) return PyErr_Clear(), nullptr;
    return new_reference(reinterpret_cast<PyObject*>(found));
  }();
  return code;
}

}  // namespace pijit::torch_adapter
