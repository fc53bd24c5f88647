// A second device in the memory of the CPU, for tests: two devices with streams, generators and captures.
//
// It is what a backend outside of PyTorch is: a guard of devices, hooks, an allocator, a few kernels, and a fallback
// that computes on copies. What it runs is written down with the device and its current stream, so that a test sees
// where a replay has put each kernel. Of a graph the kernels are kept with the tensors that they read and gave; a replay
// runs them again on the same memory.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
constexpr auto kTwin = c10::DeviceType::PrivateUse1;
constexpr DeviceIndex kDevices = 2;

thread_local DeviceIndex t_device = 0;
thread_local std::array<c10::StreamId, kDevices> t_streams{};
std::atomic<c10::StreamId> g_last_stream{0};
std::atomic<bool> g_silent{false};  // it does not say which stream is current
std::mutex g_mutex;                 // of the two below
std::vector<std::string> g_log;
std::set<c10::StreamId> g_captured;

// -- devices and streams

Stream current_stream(DeviceIndex index) {
  return Stream(Stream::UNSAFE, {kTwin, index}, t_streams.at(static_cast<size_t>(index)));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTwin; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return {kTwin, t_device}; }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() >= 0 && device.index() < kDevices, "there is no ", device);
    t_device = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override { t_device = device.index(); }
  Stream getStream(Device device) const override {
    TORCH_CHECK(!g_silent, "nobody knows");
    return current_stream(device.has_index() ? device.index() : t_device);
  }
  Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, device); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream getNewStream(Device device, int) const override {
    return Stream(Stream::UNSAFE, {kTwin, device.has_index() ? device.index() : t_device}, ++g_last_stream);
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    t_streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  bool isStreamCapturing(const Stream& stream) const {  // overrides nothing in older torches
    std::lock_guard<std::mutex> lock(g_mutex);
    return g_captured.count(stream.id()) != 0;
  }
  // Everything has run when the call returns.
  void record(void** event, const Stream&, const DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new int(0);
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<int*>(event); }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// -- graphs

struct Graph {
  c10::StreamId stream;
  std::vector<std::function<void()>> kernels;
  std::vector<at::Tensor> made;           // by the kernels
  std::set<const c10::StorageImpl*> own;  // memory that was taken in the meantime
  bool disturbed = false;                 // somebody has waited for the whole device
};
std::shared_ptr<Graph> g_graph;  // that is captured
constexpr c10::StreamId kNoStream = -1;
std::atomic<c10::StreamId> g_stream{kNoStream};  // of this graph
thread_local bool t_inside = false;              // of a kernel, whose parts are none

// The graph that what runs now belongs to.
Graph* captured(Device device) {
  return !t_inside && current_stream(device.index()).id() == g_stream ? g_graph.get() : nullptr;
}

struct Inside {
  bool before = std::exchange(t_inside, true);
  ~Inside() { t_inside = before; }
};

// -- numbers

struct Generator final : c10::GeneratorImpl {
  explicit Generator(DeviceIndex index)
      : GeneratorImpl({kTwin, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner(at::detail::createCPUGenerator(c10::default_rng_seed_val + static_cast<uint64_t>(index))) {}
  static c10::DeviceType device_type() { return kTwin; }
  void set_current_seed(uint64_t seed) override { inner.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner.set_offset(offset); }
  uint64_t get_offset() const override { return inner.get_offset(); }
  uint64_t current_seed() const override { return inner.current_seed(); }
  uint64_t seed() override { return inner.seed(); }
  void set_state(const c10::TensorImpl& state) override { inner.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner.unsafeGetGeneratorImpl()->get_state(); }
  c10::GeneratorImpl* clone_impl() const override {
    auto* made = new Generator(device().index());
    made->set_state(*get_state());
    return made;
  }
  mutable at::Generator inner;  // a CPU's, that draws
};

at::Generator& default_generator(DeviceIndex index) {
  static std::array<at::Generator, kDevices> all{at::make_generator<Generator>(0), at::make_generator<Generator>(1)};
  return all.at(static_cast<size_t>(index < 0 ? t_device : index));
}

// -- memory

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
    return {data, data, &c10::free_cpu, Device(kTwin, t_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Allocator g_allocator;
REGISTER_ALLOCATOR(kTwin, &g_allocator);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(DeviceIndex index) const override { Guard().setDevice({kTwin, index}); }
  DeviceIndex getCurrentDevice() const override { return t_device; }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return Guard().exchangeDevice({kTwin, index}).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? t_device : index);
  }
  at::Device getDeviceFromPtr(void*) const override { return {kTwin, t_device}; }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::DeviceGuard guard(storage.device());
    c10::DataPtr data = g_allocator.allocate(bytes);
    std::memcpy(data.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(data));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

// -- kernels

void note(const std::string& name, Device device) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_log.push_back(name + " " + device.str() + " stream " + std::to_string(current_stream(device.index()).id()));
}

// The tensor as one of the CPU, of the same memory.
at::Tensor host(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  const auto options = tensor.options().device(at::kCPU);
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), [](void*) {}, options);
}

at::Tensor taken(at::Tensor tensor) {
  if (current_stream(tensor.device().index()).id() == g_stream)
    g_graph->own.insert(tensor.storage().unsafeGetStorageImpl());
  return tensor;
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::OptionalDeviceGuard guard(device);
  return taken(at::detail::empty_generic(size, &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                         c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  c10::OptionalDeviceGuard guard(device);
  return taken(at::detail::empty_strided_generic(
      size, stride, &g_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype)));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  const Device device = from.device().is_cpu() ? to.device() : from.device();
  note("copy", device);
  if (Graph* graph = captured(device)) {
    TORCH_CHECK(from.device() == to.device(), "nothing comes from or goes to the CPU while a stream is captured");
    graph->kernels.push_back([from, to] { host(to).copy_(host(from)); });
  }
  host(to).copy_(host(from));
  return to;
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat>) {
  self.unsafeGetTensorImpl()->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  const size_t bytes = static_cast<size_t>(self.storage_offset() + self.numel()) * self.itemsize();
  if (self.storage().nbytes() < bytes) Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) resize(to, c10::fromIntArrayRefSlow(from.sizes()), std::nullopt);
  return copy_from(from, to, false);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  std::optional<int64_t> from;
  if (offset) from = offset->guard_int(__FILE__, __LINE__);
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), from);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
  return at::native::set_storage_cpu_(self, storage, offset.guard_int(__FILE__, __LINE__),
                                      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

at::Scalar local_scalar(const at::Tensor& self) {
  note("item", self.device());
  TORCH_CHECK(captured(self.device()) == nullptr, "nothing waits while a stream is captured");
  return host(self).item();
}

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  note("convolution", x.device());
  TORCH_CHECK(captured(x.device()) == nullptr, "no graph has a convolution");
  const auto of_cpu = bias && bias->defined() ? std::optional(host(*bias)) : std::nullopt;
  return at::convolution_symint(host(x), host(weight), of_cpu, stride, padding, dilation, transposed, output_padding,
                                groups)
      .to(x.device());
}

at::Generator inner(const at::Tensor& self, const std::optional<at::Generator>& given) {
  TORCH_CHECK(captured(self.device()) == nullptr, "no graph draws these numbers");
  const at::Generator& generator = given && given->defined() ? *given : default_generator(self.device().index());
  return at::check_generator<Generator>(generator)->inner;
}

// Draws now; in a graph at each replay, from the default generator as it is then. A capture draws nothing.
template <class Draw>
at::Tensor& drawn(const char* name, at::Tensor& self, const std::optional<at::Generator>& given, Draw draw) {
  note(name, self.device());
  Graph* graph = captured(self.device());
  if (graph == nullptr) {
    draw(host(self), inner(self, given));
    return self;
  }
  TORCH_CHECK(!given || !given->defined(), "a graph draws from the default generator");
  graph->kernels.push_back([self, draw] { draw(host(self), inner(self, std::nullopt)); });
  return self;
}

at::Tensor& normal(at::Tensor& self, double mean, double deviation, std::optional<at::Generator> generator) {
  return drawn("normal_", self, generator,
               [=](at::Tensor to, at::Generator from) { to.normal_(mean, deviation, std::move(from)); });
}

at::Tensor& uniform(at::Tensor& self, double from, double to, std::optional<at::Generator> generator) {
  return drawn("uniform_", self, generator,
               [=](at::Tensor made, at::Generator source) { made.uniform_(from, to, std::move(source)); });
}

at::Tensor& bernoulli(at::Tensor& self, double p, std::optional<at::Generator> generator) {
  return drawn("bernoulli_", self, generator,
               [=](at::Tensor to, at::Generator from) { to.bernoulli_(p, std::move(from)); });
}

// Fails after it has drawn, if the rate is 13.
at::Tensor& exponential(at::Tensor& self, double rate, std::optional<at::Generator> generator) {
  note("exponential_", self.device());
  at::Tensor made = at::empty(self.sizes(), self.options().device(at::kCPU)).exponential_(rate, inner(self, generator));
  TORCH_CHECK(rate != 13, "a rate of 13 is bad luck");
  host(self).copy_(made);
  return self;
}

std::vector<at::Tensor> tensors_in(const torch::jit::Stack& values) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) found.push_back(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& each : value.toTensorVector()) found.push_back(each);
  }
  return found;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Device device(kTwin, t_device);
  const size_t count = op.schema().arguments().size();
  for (size_t i = count; i-- > 0;) {
    const c10::IValue& value = torch::jit::peek(*stack, i, count);
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == kTwin)
      device = value.toTensor().device();
  }
  note(op.schema().name(), device);
  Graph* graph = captured(device);
  const Inside inside;
  if (graph == nullptr) return at::native::cpu_fallback(op, stack, true);
  const torch::jit::Stack given(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  at::native::cpu_fallback(op, stack, true);
  const auto results = static_cast<std::ptrdiff_t>(op.schema().returns().size());
  const std::vector<at::Tensor> made = tensors_in({stack->end() - results, stack->end()});
  graph->made.insert(graph->made.end(), made.begin(), made.end());
  graph->kernels.push_back([op, given, made, device] {
    note(op.schema().name(), device);
    const Inside inside;
    torch::jit::Stack again = given;
    at::native::cpu_fallback(op, &again, true);
    const std::vector<at::Tensor> results = tensors_in(again);
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].data_ptr() != results[i].data_ptr()) host(made[i]).copy_(host(results[i]));
    }
  });
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("resize_", &resize);
  library.impl("convolution_overrideable", &convolution);
  library.impl("view", &view);
  library.impl("as_strided", &as_strided);
  library.impl("_reshape_alias", [](const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
    return as_strided(self, size, stride, std::nullopt);
  });
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("_local_scalar_dense", &local_scalar);
  library.impl("normal_", &normal);
  library.impl("uniform_", &uniform);
  library.impl("bernoulli_.float", &bernoulli);
  library.impl("exponential_", &exponential);
}

// The backend's own kernel for gradients: it does what no other does.
at::Tensor silu(c10::DispatchKeySet keys, const at::Tensor& self) {
  note("autograd of silu", self.device());
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::silu", "").typed<at::Tensor(const at::Tensor&)>();
  return op.redispatch(keys & c10::after_autograd_keyset, self);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("silu", &silu);
}

// -- autocast

// Products are computed in the lower precision.
at::Tensor lowered(const at::Tensor& a) {
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(kTwin), a, kTwin);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  c10::impl::ExcludeDispatchKeyGuard inside(c10::DispatchKey::AutocastPrivateUse1);
  return at::linear(lowered(x), lowered(weight), bias ? std::optional(lowered(*bias)) : std::nullopt);
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) {
  c10::impl::ExcludeDispatchKeyGuard inside(c10::DispatchKey::AutocastPrivateUse1);
  return at::matmul(lowered(a), lowered(b));
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, library) {
  library.impl("linear", &linear);
  library.impl("matmul", &matmul);
}

// -- what tests ask

PyObject* take_log(PyObject*, PyObject*) {
  std::vector<std::string> taken;
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    taken.swap(g_log);
  }
  PyObject* list = PyList_New(0);
  for (const std::string& line : taken) {
    PyObject* text = PyUnicode_FromStringAndSize(line.data(), static_cast<Py_ssize_t>(line.size()));
    PyList_Append(list, text);
    Py_XDECREF(text);
  }
  return list;
}

// capture(on): of the current stream of the current device.
PyObject* capture(PyObject*, PyObject* on) {
  const c10::StreamId stream = current_stream(t_device).id();
  std::lock_guard<std::mutex> lock(g_mutex);
  if (PyObject_IsTrue(on))
    g_captured.insert(stream);
  else
    g_captured.erase(stream);
  Py_RETURN_NONE;
}

// What another thread of Python may do now, it does.
void give_up_the_gil() {
  Py_BEGIN_ALLOW_THREADS std::this_thread::sleep_for(std::chrono::milliseconds(2));
  Py_END_ALLOW_THREADS
}

// begin_graph_held(): of what runs on the current stream of the current device.
PyObject* begin_graph_held(PyObject*, PyObject*) {
  if (g_graph != nullptr) return PyErr_Format(PyExc_RuntimeError, "a graph is captured");
  g_graph = std::make_shared<Graph>(Graph{current_stream(t_device).id(), {}, {}, {}});
  g_stream = g_graph->stream;
  std::lock_guard<std::mutex> lock(g_mutex);
  g_captured.insert(g_graph->stream);
  Py_RETURN_NONE;
}

// begin_graph(): the same, as the bindings of CUDA do it.
PyObject* begin_graph(PyObject* self, PyObject* none) {
  PyObject* done = begin_graph_held(self, none);
  if (done != nullptr) give_up_the_gil();
  return done;
}

// synchronize(): waits for the device, which nobody may while a graph is captured.
PyObject* synchronize(PyObject*, PyObject*) {
  if (g_graph == nullptr) Py_RETURN_NONE;
  g_graph->disturbed = true;
  return PyErr_Format(PyExc_RuntimeError, "nobody waits for the device while a stream is captured");
}

// end_graph_held(list), which gets the graph. Its kernels have not run: what they made holds nothing that anybody could mean.
PyObject* end_graph_held(PyObject*, PyObject* list) {
  if (g_graph == nullptr) return PyErr_Format(PyExc_RuntimeError, "no graph is captured");
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_captured.erase(g_graph->stream);
  }
  g_stream = kNoStream;
  auto* made = new std::shared_ptr<Graph>(std::move(g_graph));
  g_graph = nullptr;
  if ((*made)->disturbed) {
    delete made;
    return PyErr_Format(PyExc_RuntimeError, "somebody has waited for the device");
  }
  for (const at::Tensor& each : (*made)->made) {
    const at::Storage& storage = each.storage();
    if ((*made)->own.count(storage.unsafeGetStorageImpl()) != 0)
      std::memset(storage.mutable_data(), 0x5a, storage.nbytes());
  }
  PyObject* capsule = PyCapsule_New(made, "graph", [](PyObject* capsule) {
    delete static_cast<std::shared_ptr<Graph>*>(PyCapsule_GetPointer(capsule, "graph"));
  });
  PyList_Append(list, capsule);
  Py_DECREF(capsule);
  Py_RETURN_NONE;
}

// end_graph(list): the same, as the bindings of CUDA do it.
PyObject* end_graph(PyObject* self, PyObject* list) {
  give_up_the_gil();
  return end_graph_held(self, list);
}

PyObject* replay_graph(PyObject*, PyObject* capsule) {
  const std::shared_ptr<Graph> graph = *static_cast<std::shared_ptr<Graph>*>(PyCapsule_GetPointer(capsule, "graph"));
  const Inside inside;
  note("graph", {kTwin, t_device});
  for (const std::function<void()>& kernel : graph->kernels) kernel();
  Py_RETURN_NONE;
}

// compiled(list): what a compiler could make of `(x * w).exp() + x`, of [w, x], or of [x] with 2 for w. A C function of
// a list that gives a list, and keeps the GIL.
PyObject* compiled(PyObject*, PyObject* list) {
  std::vector<at::Tensor> given;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) given.push_back(THPVariable_Unpack(PyList_GetItem(list, i)));
  PyList_SetSlice(list, 0, PyList_Size(list), nullptr);  // boxed: it takes what it is given
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor& x = given.back();
  const at::Tensor scaled = given.size() > 1 ? x * given.front() : x * 2;
  PyObject* made = PyList_New(1);
  PyList_SetItem(made, 0, THPVariable_Wrap(scaled.exp() + x));
  return made;
}

PyObject* silence(PyObject*, PyObject* on) {
  g_silent = PyObject_IsTrue(on);
  Py_RETURN_NONE;
}

PyObject* seed_all(PyObject*, PyObject* seed) {
  for (DeviceIndex i = 0; i < kDevices; ++i) default_generator(i).set_current_seed(PyLong_AsUnsignedLongLongMask(seed));
  Py_RETURN_NONE;
}

// random_state(device): of its default generator.
PyObject* random_state(PyObject*, PyObject* device) {
  const at::Generator& generator = default_generator(static_cast<DeviceIndex>(PyLong_AsLong(device)));
  const at::Tensor state = at::Tensor::wrap_tensor_impl(generator.unsafeGetGeneratorImpl()->get_state());
  return PyBytes_FromStringAndSize(static_cast<const char*>(state.data_ptr()), state.nbytes());
}

// set_random_state(device, bytes)
PyObject* set_random_state(PyObject*, PyObject* arguments) {
  int device = 0;
  const char* bytes = nullptr;
  Py_ssize_t count = 0;
  if (!PyArg_ParseTuple(arguments, "iy#", &device, &bytes, &count)) return nullptr;
  const at::Tensor state = at::empty({static_cast<int64_t>(count)}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), bytes, static_cast<size_t>(count));
  default_generator(static_cast<DeviceIndex>(device)).unsafeGetGeneratorImpl()->set_state(*state.unsafeGetTensorImpl());
  Py_RETURN_NONE;
}

PyObject* connect(PyObject*, PyObject*) {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  Py_RETURN_NONE;
}

PyMethodDef g_methods[] = {{"connect", connect, METH_NOARGS, nullptr},
                           {"take_log", take_log, METH_NOARGS, nullptr},
                           {"capture", capture, METH_O, nullptr},
                           {"begin_graph", begin_graph, METH_NOARGS, nullptr},
                           {"end_graph", end_graph, METH_O, nullptr},
                           {"begin_graph_held", begin_graph_held, METH_NOARGS, nullptr},
                           {"end_graph_held", end_graph_held, METH_O, nullptr},
                           {"synchronize", synchronize, METH_NOARGS, nullptr},
                           {"replay_graph", replay_graph, METH_O, nullptr},
                           {"compiled", compiled, METH_O, nullptr},
                           {"silence", silence, METH_O, nullptr},
                           {"seed_all", seed_all, METH_O, nullptr},
                           {"random_state", random_state, METH_O, nullptr},
                           {"set_random_state", set_random_state, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};
PyModuleDef g_module{PyModuleDef_HEAD_INIT, "twin", nullptr, -1, g_methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_twin() {
  return PyModule_Create(&g_module);
}
