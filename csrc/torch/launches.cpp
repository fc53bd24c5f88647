// Sees the operators of a call, and captures them in a graph of CUDA with the GIL held.
#include "torch/launches.h"

#include <c10/core/Allocator.h>
#include <dlfcn.h>
#include <pybind11/detail/common.h>
#include <pybind11/pytypes.h>

#include <algorithm>

#include "common/imports.h"
#include "common/ref.h"

namespace pijit::torch_adapter {

namespace {

constexpr uint32_t kMade = 0;  // TapeValue::node

// Its memory tells it apart from others.
bool has_memory(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor.is_quantized();
}

// Nothing in it is a tensor.
bool is_constant(const c10::IValue& value) {
  return value.isNone() || value.isScalar() || value.isString() || value.isDevice() || value.isGenerator() ||
         value.isIntList() || value.isDoubleList() || value.isBoolList() || value.isStream();
}

}  // namespace

Launches::Launches(const std::vector<at::Tensor>& inputs) {
  for (const at::Tensor& each : inputs) inputs_.push_back(values_.add(each, kMade));
}

// One that was not met before has been there all the time, unless it is in memory of what was made.
uint32_t Launches::value_of(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return failed_ = true, kNone;
  uint32_t found = values_.find(tensor);
  if (found != kNone) return found;
  found = values_.add(tensor, kNone);
  for (uint32_t other : values_.sharing(found)) failed_ |= values_[other].node == kMade;
  constants_.emplace_back(found, tensor);
  return found;
}

bool Launches::add_argument(const c10::IValue& argument, size_t at) {
  LaunchArgument made{LaunchArgument::kTensor, at, {}};
  const auto add = [&](const at::Tensor& tensor) {
    made.values.push_back(tensor.defined() ? value_of(tensor) : kNone);
  };
  if (argument.isTensor()) {
    add(argument.toTensor());
  } else if (argument.isTensorList()) {
    made.kind = LaunchArgument::kList;
    for (const at::Tensor& each : argument.toTensorVector()) add(each);
  } else if (argument.isOptionalTensorList()) {
    made.kind = LaunchArgument::kOptionalList;
    for (const std::optional<at::Tensor>& each : argument.toOptionalTensorVector()) add(each.value_or(at::Tensor()));
  } else {
    all_.back().arguments.push_back(argument);
    return is_constant(argument);
  }
  all_.back().arguments.emplace_back();
  all_.back().tensors.push_back(std::move(made));
  return true;
}

void Launches::see(const OperatorInfo& info, const torch::jit::Stack& stack) {
  if (info.python || info.reshapes) failed_ = true;
  all_.push_back({&info, {}, {}, {}, {}});
  const size_t count = info.arguments.size();
  for (size_t i = 0; i < count && !failed_; ++i)
    if (!add_argument(torch::jit::peek(stack, i, count), i)) failed_ = true;
}

void Launches::before(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept {
  try {
    if (!failed_) see(info, stack);
  } catch (const std::exception&) {
    failed_ = true;
  }
}

bool Launches::add_result(const c10::IValue& result) {
  Vec<uint32_t> made;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return made.push_back(kNone);
    if (!has_memory(tensor)) failed_ = true;
    if (failed_) return;
    const uint32_t found = values_.find(tensor);
    const bool is_it = found != kNone && values_[found].tensor._unsafe_get_target() == tensor.unsafeGetTensorImpl();
    made.push_back(is_it ? found : values_.add(tensor, kMade));
  };
  if (result.isTensor()) {
    add(result.toTensor());
  } else if (result.isTensorList()) {
    for (const at::Tensor& each : result.toTensorVector()) add(each);
  } else {
    return false;
  }
  all_.back().results.push_back(std::move(made));
  return true;
}

void Launches::after(const OperatorInfo& info, const torch::jit::Stack& stack) noexcept {
  try {
    for (size_t i = 0; i < info.returns && !failed_; ++i)
      if (!add_result(torch::jit::peek(stack, i, info.returns))) failed_ = true;
  } catch (const std::exception&) {
    failed_ = true;
  }
}

bool Launches::finish(const std::vector<at::Tensor>& outputs) {
  for (const at::Tensor& each : outputs) outputs_.push_back(each.defined() ? values_.find(each) : kNone);
  if (failed_ || std::count(outputs_.begin(), outputs_.end(), kNone) != 0) return false;
  Vec<bool> needed(values_.size());
  for (uint32_t value : outputs_) needed[value] = true;
  for (auto launch = all_.rbegin(); launch != all_.rend(); ++launch) {
    const auto see = [&](uint32_t value) {
      if (value == kNone || needed[value]) return;
      needed[value] = true;
      launch->drops.push_back(value);
    };
    for (const Vec<uint32_t>& each : launch->results) std::for_each(each.begin(), each.end(), see);
    for (const LaunchArgument& each : launch->tensors) std::for_each(each.values.begin(), each.values.end(), see);
  }
  return true;
}

std::vector<at::Tensor> Launches::run(const std::vector<at::Tensor>& inputs) const {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const c10::AutoGradMode no_gradients(false);
  TORCH_CHECK(inputs.size() == inputs_.size(), "other tensors than were seen");
  std::vector<at::Tensor> values(values_.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]] = inputs[i];
  for (const auto& [value, tensor] : constants_) values[value] = tensor;
  const auto value = [&](uint32_t each) { return each == kNone ? at::Tensor() : values[each]; };
  for (const Launch& launch : all_) {
    torch::jit::Stack stack = launch.arguments;
    for (const LaunchArgument& each : launch.tensors) {
      if (each.kind == LaunchArgument::kTensor) {
        stack[each.at] = value(each.values[0]);
      } else if (each.kind == LaunchArgument::kList) {
        c10::List<at::Tensor> list;
        for (uint32_t item : each.values) list.push_back(value(item));
        stack[each.at] = std::move(list);
      } else {
        c10::List<std::optional<at::Tensor>> list;
        for (uint32_t item : each.values)
          list.push_back(item == kNone ? std::optional<at::Tensor>() : std::optional(values[item]));
        stack[each.at] = std::move(list);
      }
    }
    launch.info->handle.callBoxed(&stack);
    for (size_t i = 0; i < launch.results.size(); ++i) {
      const Vec<uint32_t>& results = launch.results[i];
      if (!stack[i].isTensor()) {
        const std::vector<at::Tensor> made = stack[i].toTensorVector();
        for (size_t k = 0; k < results.size(); ++k) values[results[k]] = made.at(k);
      } else if (results[0] != kNone) {
        values[results[0]] = stack[i].toTensor();
      }
    }
    for (uint32_t each : launch.drops) values[each] = at::Tensor();
  }
  std::vector<at::Tensor> outputs;
  for (uint32_t each : outputs_) outputs.push_back(values[each]);
  return outputs;
}

// -- for Python

namespace {

constexpr const char* kCapsule = "pijit.launches";

bool unpack(PyObject* sequence, std::vector<at::Tensor>* tensors) {
  const Ref items = Ref::steal(PySequence_Tuple(sequence));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (!THPVariable_Check(item)) return PyErr_SetString(PyExc_TypeError, "launches are of tensors"), false;
    tensors->push_back(THPVariable_Unpack(item));
  }
  return true;
}

PyObject* pack(const std::vector<at::Tensor>& tensors) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; tuple && i < tensors.size(); ++i) {
    PyObject* item = THPVariable_Wrap(tensors[i]);
    if (item == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple.release();
}

template <typename Work>
PyObject* guarded(const Work& work) noexcept {
  try {
    return work();
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* watch(PyObject*, PyObject* arguments) {
  PyObject *call = nullptr, *inputs = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO", &call, &inputs)) return nullptr;
  return guarded([&]() -> PyObject* {
    std::vector<at::Tensor> given, made;
    const Ref tuple = Ref::steal(PySequence_Tuple(inputs));
    if (!tuple || !unpack(inputs, &given)) return nullptr;
    auto launches = std::make_unique<Launches>(given);
    Ref results;
    {
      const LookBelow looks(can_look_below() ? launches.get() : nullptr);
      results = Ref::steal(PyObject_CallOneArg(call, tuple.get()));
    }
    if (!results || !unpack(results.get(), &made)) return nullptr;
    if (!can_look_below() || !launches->finish(made)) Py_RETURN_NONE;
    return PyCapsule_New(launches.release(), kCapsule, [](PyObject* capsule) {
      delete static_cast<Launches*>(PyCapsule_GetPointer(capsule, kCapsule));
    });
  });
}

// Calls begin(), the work, which gives tensors, and end(); gives these tensors. Nothing here gives up the GIL.
template <typename Work>
PyObject* captured(PyObject* begin, PyObject* end, PyObject* ended, const Work& work) {
  if (!Ref::steal(PyObject_CallNoArgs(begin))) return nullptr;
  std::vector<at::Tensor> made;
  const Ref done = Ref::steal(guarded([&]() -> PyObject* { return work(&made) ? new_reference(Py_None) : nullptr; }));
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (Ref::steal(PyObject_CallNoArgs(end))) PyList_Append(ended, Py_True);
  if (!done) {
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  return PyErr_Occurred() == nullptr ? pack(made) : nullptr;
}

PyObject* capture(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *inputs = nullptr, *begin = nullptr, *end = nullptr, *ended = nullptr;
  if (!PyArg_ParseTuple(arguments, "OOOOO!", &capsule, &inputs, &begin, &end, &PyList_Type, &ended)) return nullptr;
  const auto* launches = static_cast<Launches*>(PyCapsule_GetPointer(capsule, kCapsule));
  std::vector<at::Tensor> given;
  if (launches == nullptr || !unpack(inputs, &given)) return nullptr;
  return captured(begin, end, ended, [&](std::vector<at::Tensor>* made) { return *made = launches->run(given), true; });
}

// What a callable gives for a list of tensors; each result is written to the tensor of its place, if there is one.
bool call_and_keep(PyObject* call, PyObject* list, PyObject* targets, std::vector<at::Tensor>* made) {
  const Ref results = Ref::steal(PyObject_CallOneArg(call, list));
  if (!results || !unpack(results.get(), made)) return false;
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::AutoGradMode no_gradients(false);
  if (made->size() != static_cast<size_t>(PyTuple_GET_SIZE(targets)))
    return PyErr_SetString(PyExc_RuntimeError, "it gives another number of tensors"), false;
  for (size_t i = 0; i < made->size(); ++i) {
    PyObject* target = PyTuple_GET_ITEM(targets, static_cast<Py_ssize_t>(i));
    if (target != Py_None) THPVariable_Unpack(target).copy_((*made)[i]);
  }
  return true;
}

PyObject* capture_call(PyObject*, PyObject* arguments) {
  PyObject *call = nullptr, *inputs = nullptr, *targets = nullptr, *begin = nullptr, *end = nullptr, *ended = nullptr;
  if (!PyArg_ParseTuple(arguments, "OOO!OOO!", &call, &inputs, &PyTuple_Type, &targets, &begin, &end, &PyList_Type,
                        &ended))
    return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(targets); ++i) {
    PyObject* target = PyTuple_GET_ITEM(targets, i);
    if (target != Py_None && !THPVariable_Check(target))
      return PyErr_SetString(PyExc_TypeError, "a target is a tensor, or None"), nullptr;
  }
  const Ref list = Ref::steal(PySequence_List(inputs));  // the call may empty it
  if (!list) return nullptr;
  return captured(begin, end, ended,
                  [&](std::vector<at::Tensor>* made) { return call_and_keep(call, list.get(), targets, made); });
}

// Functions of libtorch_cuda, to which this module is not linked: it is built where there is none.
struct CudaGraphs {
  static constexpr int kThreadLocal = 1;  // cudaStreamCaptureModeThreadLocal
  void (*begin)(void*, c10::MempoolId_t, int) = nullptr;
  void (*end)(void*) = nullptr;

  static const CudaGraphs& get() {
    static const CudaGraphs found = [] {
      CudaGraphs made;
      void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr) return made;
      const auto find = [&](auto* function, const char* name) {
        *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      };
      find(&made.begin, "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode");
      find(&made.end, "_ZN2at4cuda9CUDAGraph11capture_endEv");
      return made;
    }();
    return found;
  }
};

// The at::cuda::CUDAGraph of its object; null: it is another object.
void* cuda_graph(PyObject* object) {
  static PyObject* const type = [] {
    const Ref core = import_module("torch._C");
    PyObject* found = core ? PyObject_GetAttrString(core.get(), "_CUDAGraph") : nullptr;
    PyErr_Clear();
    return found;
  }();
  if (type == nullptr || PyObject_IsInstance(object, type) != 1) return PyErr_Clear(), nullptr;
  const auto* instance = reinterpret_cast<pybind11::detail::instance*>(object);
  return instance->simple_layout ? instance->simple_value_holder[0] : nullptr;
}

PyObject* can_hold(PyObject*, PyObject* graph) {
  const CudaGraphs& calls = CudaGraphs::get();
  return PyBool_FromLong(calls.begin != nullptr && calls.end != nullptr && cuda_graph(graph) != nullptr);
}

PyObject* begin_capture(PyObject*, PyObject* arguments) {
  PyObject* object = nullptr;
  unsigned long long first = 0, second = 0;
  if (!PyArg_ParseTuple(arguments, "O(KK)", &object, &first, &second)) return nullptr;
  void* graph = cuda_graph(object);
  if (graph == nullptr) return PyErr_SetString(PyExc_TypeError, "it is no graph of CUDA"), nullptr;
  return guarded([&]() -> PyObject* {
    CudaGraphs::get().begin(graph, {first, second}, CudaGraphs::kThreadLocal);
    return new_reference(Py_None);
  });
}

PyObject* end_capture(PyObject*, PyObject* object) {
  void* graph = cuda_graph(object);
  if (graph == nullptr) return PyErr_SetString(PyExc_TypeError, "it is no graph of CUDA"), nullptr;
  return guarded([&]() -> PyObject* {
    CudaGraphs::get().end(graph);
    return new_reference(Py_None);
  });
}

}  // namespace

PyMethodDef kWatchLaunches = {
    "watch_launches", watch, METH_VARARGS,
    "watch_launches(call, inputs)\n--\n\nCalls call(inputs), of tensors and giving tensors; gives the operators "
    "that were dispatched, or None where they cannot be dispatched by themselves."};
PyMethodDef kCaptureLaunches = {
    "capture_launches", capture, METH_VARARGS,
    "capture_launches(launches, inputs, begin, end, ended)\n--\n\nCalls begin(), dispatches the operators on these "
    "tensors, and calls end(), without giving up the GIL; gives the results. Where end() has not raised, `ended` gets "
    "an item."};
PyMethodDef kCaptureCall = {
    "capture_call", capture_call, METH_VARARGS,
    "capture_call(call, inputs, targets, begin, end, ended)\n--\n\nAs capture_launches(), of what call(inputs) "
    "launches: compiled code that takes a list of tensors and gives one. Each result is written to the tensor of its "
    "place in the tuple of targets, if that is one."};
PyMethodDef kCanHold = {"can_hold", can_hold, METH_O,
                        "can_hold(graph)\n--\n\nbegin_capture() and end_capture() take it."};
PyMethodDef kBeginCapture = {"begin_capture", begin_capture, METH_VARARGS,
                             "begin_capture(graph, pool)\n--\n\nAs capture_begin() of a graph of CUDA, with the mode "
                             "thread_local; keeps the GIL. RuntimeError as there."};
PyMethodDef kEndCapture = {"end_capture", end_capture, METH_O,
                           "end_capture(graph)\n--\n\nAs capture_end() of a graph of CUDA; keeps the GIL. RuntimeError "
                           "as there."};

}  // namespace pijit::torch_adapter
