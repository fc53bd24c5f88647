// pijit::Adapter for PyTorch: routes sites to rules.
#include "torch/torch_adapter.h"

#include <cstring>

#include "common/work.h"
#include "torch/accelerators.h"
#include "torch/calls.h"
#include "torch/first_calls.h"
#include "torch/foreign_calls.h"
#include "torch/guards.h"
#include "torch/lowered.h"
#include "torch/metadata.h"
#include "torch/plan_key.h"
#include "torch/profiled.h"
#include "torch/state.h"
#include "torch/tape_maker.h"
#include "torch/waking.h"
#include "torch/watch.h"

namespace pijit::torch_adapter {
namespace {

// The recording of this thread, or null.
thread_local std::unique_ptr<Recording> t_recording;
thread_local std::unique_ptr<Recording> t_ended;    // a call that stops its recording still looks at it
thread_local bool t_python_operator = false;        // what is observed may be a method of torch.Tensor in Python
thread_local const char* t_unreplayable = nullptr;  // why what is recorded touches a device that cannot be followed

void touch(c10::Device device) noexcept {
  if (!is_accelerator(device)) return;
  if (const char* why = touch_device(device)) t_unreplayable = why;
}

// The devices of what the operators of the observed call gave.
void touch_results(const Eye& eye) noexcept {
  for (const SeenOp& op : eye.ops)
    for (size_t i = 0; i < op.info->returns; ++i) {
      const SeenValue& seen = eye.result(op, i);
      if (seen.tensor != nullptr) touch(seen.tensor->device());
      for (uint32_t k = 0; k < seen.count; ++k)
        if (const Impl* item = eye.items[seen.first + k]) touch(item->device());
    }
}

class RecordingAside final : public Adapter::Aside {
 public:
  RecordingAside()
      : recording_(std::move(t_recording)),
        ended_(std::move(t_ended)),
        unreplayable_(std::exchange(t_unreplayable, nullptr)) {
    if (recording_ != nullptr) recording_->eye.stop();
  }
  ~RecordingAside() override {
    t_recording = std::move(recording_);
    t_ended = std::move(ended_);
    t_unreplayable = unreplayable_;
    if (t_recording != nullptr) t_recording->eye.start();
  }

 private:
  std::unique_ptr<Recording> recording_, ended_;
  const char* unreplayable_;
  CapturedAside captured_;
};

// Why the recording must not be kept. In the middle of an instruction C code may yet run what is expected of it.
const char* trouble_of(const Recording& recording, bool at_end) noexcept {
  if (t_unreplayable != nullptr) return t_unreplayable;
  if (recording.eye.unexpected != 0) return "an operator ran outside of the calls that were observed";
  if (at_end && !recording.eye.expected.empty()) return "an operator that was expected did not run";
  return recording.eye.is_watching() ? nullptr : "torch's callbacks of the thread were replaced or switched off";
}

class TorchAdapter final : public Adapter {
 public:
  const char* name() const noexcept override { return "torch"; }

  PyTypeObject* const* value_types() const noexcept override {
    static PyTypeObject* const types[] = {&THPDeviceType, nullptr};
    return types;
  }
  PyTypeObject* const* tuple_types() const noexcept override {
    static PyTypeObject* const types[] = {&THPSizeType, nullptr};
    return types;
  }
  bool is_tensor(PyObject* object) const noexcept override {
    return t_recording != nullptr ? t_recording->follows(object) : is_plain_tensor(object);
  }
  uint64_t tensor_kind(PyObject* tensor) const noexcept override { return kind_of(tensor); }
  int64_t tensor_elements(PyObject* tensor) const noexcept override { return elements_of(tensor); }
  bool claims(PyObject* callable) const noexcept override { return find_callable(callable) != nullptr; }

  void retain(void* tensor) noexcept override { c10::raw::intrusive_ptr::incref(static_cast<Impl*>(tensor)); }
  void release(void* tensor) noexcept override { c10::raw::intrusive_ptr::decref(static_cast<Impl*>(tensor)); }
  PyObject* wrap(void* tensor) noexcept override {
    try {
      return THPVariable_Wrap(share(tensor));
    } catch (const std::exception& error) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, error.what());
      return nullptr;
    }
  }
  void* unwrap(PyObject* object) noexcept override { return impl_of(object); }
  PyObject* object_of(void* tensor) const noexcept override {
    return torch_adapter::object_of(static_cast<Impl*>(tensor));
  }

  const char* written_method() const noexcept override { return "forward"; }
  const char* must_step_aside() noexcept override {
    return torch_adapter::must_step_aside(t_recording != nullptr, t_recording != nullptr && t_recording->has_levels);
  }
  std::unique_ptr<StateGuard> capture_state() override {
    if (t_recording == nullptr) t_unreplayable = nullptr;  // one begins
    return torch_adapter::capture_state();
  }
  std::unique_ptr<InputGuards> new_inputs() override { return std::make_unique<TensorInputs>(); }
  std::unique_ptr<AdapterOp> make_operation(const Words& words, const std::vector<Rep>& reps) override {
    return pijit::torch_adapter::make_operation(words, reps);
  }
  std::unique_ptr<StateGuard> make_state(const Words& words) override {
    return pijit::torch_adapter::make_state(words);
  }
  bool add_facts(InputGuards& inputs, Val source, uint32_t out, const TensorFacts& facts) override {
    return static_cast<TensorInputs&>(inputs).add(source, out, facts);
  }
  void add_input(InputGuards& inputs, Val source, PyObject* tensor, uint32_t out) override {
    static_cast<TensorInputs&>(inputs).add(source, tensor, out);
    touch(impl_of(tensor)->device());
    // Inputs are checked before the first operator: what one of these has changed may be this tensor in another call.
    if (t_recording == nullptr || t_recording->has_forgotten_layouts()) return;
    Known& known = t_recording->known(Val::reg(out));
    known.dtype = known.device = known.keys = known.dim = true;
    fix_sizes(*t_recording, static_cast<TensorInputs&>(inputs), impl_of(tensor), known);
  }

  void make_what_first_calls_make() noexcept override {
    torch_adapter::make_what_first_calls_make();
    torch_adapter::find_foreign_calls();
  }
  bool begin_recording(RecordApi& api) override {
    refresh_python_kernels();
    t_recording = std::make_unique<Recording>(api, Eye::of_thread());
    t_recording->eye.start();
    return true;
  }
  void end_recording() noexcept override {
    if (t_recording != nullptr) t_recording->eye.stop();
    t_ended = std::move(t_recording);
  }
  void forget_recording() noexcept override { t_ended.reset(); }
  std::unique_ptr<Aside> put_aside() override { return std::make_unique<RecordingAside>(); }

  CallFate begin_call(const CallSite& site, Val* result) override;
  bool finish_call(const CallSite& site, PyObject* result_object, Val* result) override;
  Val compute(const CallSite& site) override {
    return t_recording != nullptr && !runs_saved_hooks() ? compute_inside(*t_recording, site) : Val();
  }
  void forget_computed() noexcept override {
    if (t_recording != nullptr) t_recording->eye.expected.clear();
  }
  void cancel_call() noexcept override {
    if (t_recording != nullptr) t_recording->eye.close();
  }
  void pause_call(bool away) noexcept override {
    if (t_recording != nullptr && !t_python_operator) t_recording->eye.pause(away);
  }

  bool counts_holders(PyObject* object) const noexcept override {
    const Callable* known = find_callable(object);
    return known != nullptr && known->rule == Rule::kHolders;
  }
  bool issue_warnings() override { return issue_kept_warnings(); }
  void forget_warnings() noexcept override { forget_kept_warnings(); }
  void foreign_code() noexcept override {
    if (t_recording == nullptr) return;
    t_recording->forget_all();
    t_recording->stopped = false;
    t_recording->eye.unexpected = 0;
    t_recording->eye.expected.clear();
  }
  void begin_idle_call() noexcept override {
    if (t_recording != nullptr) t_recording->unexpected_before = t_recording->eye.unexpected;
  }
  void end_idle_call() noexcept override {
    if (t_recording != nullptr) t_recording->eye.unexpected = t_recording->unexpected_before;
  }
  const char* trouble() noexcept override { return t_recording == nullptr ? nullptr : trouble_of(*t_recording, true); }

  std::unique_ptr<PlanKey> make_key(const PlanRegisters& registers, const Reg* regs) override {
    return make_plan_key(registers, regs);
  }
  std::unique_ptr<TapeMaker> make_tape(const TapeStretch& stretch) override {
    return torch_adapter::make_tape(stretch);
  }
  ForeignCall foreign_call(PyObject* callable) noexcept override { return torch_adapter::foreign_call(callable); }
  Ref copy_of(void* tensor) noexcept override { return torch_adapter::copy_of(static_cast<const Impl*>(tensor)); }

  bool is_profiled() const noexcept override { return torch_adapter::is_profiled(); }
  std::unique_ptr<Range> open_range(const std::string& name) noexcept override {
    return torch_adapter::open_range(name);
  }

  PyObject* engine_code() noexcept override { return torch_adapter::engine_code(); }
  PyObject* hash_code() noexcept override { return torch_adapter::hash_code(); }
  void count_operators(bool on) noexcept override { Eye::of_thread().count(on); }
  uint64_t operators_counted() const noexcept override { return Eye::of_thread().counted(); }
  void wake_on_operator(void (*wake)() noexcept, Waking waking) noexcept override {
    torch_adapter::wake_on_operator(wake, waking == Waking::kSome);
  }

 private:
  static CallFate begin(Recording& recording, const CallSite& site, Val* result);
  static CallFate begin_rule(Recording& recording, const CallSite& site, Val* result);
  static bool finish(Recording& recording, const CallSite& site, PyObject* object, Val* result);
  static bool finish_rule(Recording& recording, const CallSite& site, PyObject* object, Val* result);
};

bool any_tensor(const Recording& recording) {
  for (size_t i = 0; i < recording.operands; ++i)
    if (recording.arg(i).kind == ArgKind::kTensor) return true;
  return false;
}

// What the user called, for messages.
std::string words(const Recording& recording, const CallSite& site) {
  switch (site.kind) {
    case SiteKind::kCall:
    case SiteKind::kGetAttr:
      return recording.callable != nullptr ? recording.callable->name : "a call";
    case SiteKind::kSubscr:
      return "indexing";
    case SiteKind::kStoreSubscr:
      return "assignment to an index";
    default: {
      const char* names = site_operators(site);
      return names != nullptr ? names : "an operation on a tensor";
    }
  }
}

bool copies_tensor(const Recording& recording) {
  const size_t data = recording.callable->family == Family::kMethod ? 1 : 0;
  return recording.callable->family != Family::kCore && recording.callable->name.find("tensor") != std::string::npos &&
         recording.callable->name != "as_tensor" && data < recording.operands &&
         recording.arg(data).kind == ArgKind::kTensor;
}

// Numbers are drawn on a device of which the generator is not known: after a failure they would be drawn twice.
bool draws_for_good(const Eye& eye) {
  for (const SeenOp& op : eye.ops) {
    if (!op.info->random) continue;
    for (size_t i = 0; i < op.info->returns; ++i) {
      const Impl* made = eye.result(op, i).tensor;
      if (made != nullptr && is_accelerator(made->device()) && !default_generator(made->device()).defined())
        return true;
    }
  }
  return false;
}

// An operator hands what it saves to functions of Python, which a replay may call only in an opaque call. Of operands
// that require no gradients it saves none.
bool calls_python(Recording& recording) {
  if (!runs_saved_hooks()) return false;
  const auto is_differentiable = [](const Arg& arg) {
    return arg.kind == ArgKind::kTensor && arg.tensor->requires_grad();
  };
  if (std::any_of(recording.args.begin(), recording.args.end(), is_differentiable)) return true;
  for (const Arg& arg : Vec<Arg>(recording.args))
    if (arg.kind == ArgKind::kTensor) require(recording, arg, Fact::kRequiresGrad);
  return false;
}

// `abs(x)` of an array of NumPy, which no operator does.
bool is_of_arrays(const CallSite& site) {
  bool found = false;
  for (size_t i = 0; i < site.count; ++i) {
    PyObject* object = site.operands[i].object;
    if (object == nullptr) return false;
    const bool of_numpy = std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0;
    if (!of_numpy && !PyLong_CheckExact(object) && !PyFloat_CheckExact(object)) return false;
    found = found || of_numpy;
  }
  if (!found || !PyCFunction_CheckExact(site.callable)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(site.callable)->m_module;
  return module != nullptr && PyUnicode_Check(module) &&
         (PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
          PyUnicode_CompareWithASCIIString(module, "_operator") == 0);
}

CallFate TorchAdapter::begin_rule(Recording& recording, const CallSite& site, Val* result) {
  if (recording.callable == nullptr) return CallFate::kUnknown;
  const Callable& callable = *recording.callable;
  bool attribute = callable.family == Family::kAttribute;
  if (attribute != (site.kind == SiteKind::kGetAttr) || (attribute && recording.operands == 0))
    return CallFate::kUnknown;
  if (callable.family == Family::kMethod && (recording.operands == 0 || recording.arg(0).kind != ArgKind::kTensor))
    return CallFate::kUnknown;
  switch (callable.rule) {
    case Rule::kRefuse:
    case Rule::kHolders:
      return CallFate::kUnknown;
    case Rule::kCallable:
    case Rule::kLiteral:
      // A copy of a tensor warns in the binding, at the line of its caller.
      return copies_tensor(recording) ? CallFate::kUnknown : CallFate::kObserve;
    case Rule::kOperator:
      return is_of_arrays(site) ? CallFate::kUnknown : CallFate::kObserve;
    case Rule::kNamedOperator:
    case Rule::kAsSeen:
    case Rule::kContiguous:
    case Rule::kView:
    case Rule::kData:
    case Rule::kItem:
      return CallFate::kObserve;
    case Rule::kToBool:
    case Rule::kToInt:
    case Rule::kToFloat:
      return recording.operands == 1 && recording.arg(0).kind == ArgKind::kTensor ? CallFate::kObserve
                                                                                  : CallFate::kUnknown;
    case Rule::kSizes:
      return begin_sizes(recording, result);
    case Rule::kProduct:
      return begin_product(recording, result);
    case Rule::kGroups:
      return begin_groups(recording);
    case Rule::kGrad:
      return begin_grad(recording);
    case Rule::kSetRequiresGrad:
      return begin_set_requires_grad(recording, site);
    case Rule::kMode:
    case Rule::kCheckedMode:
    case Rule::kNotTracing:
    case Rule::kSetGrad:
    case Rule::kSetAgain:
    case Rule::kSetMode:
    case Rule::kLevel:
    case Rule::kTorchFunction:
    case Rule::kItself:
    case Rule::kOnce:
    case Rule::kConstantMaker:
      return begin_mode(recording, site, result);
    default:
      return attribute ? begin_attribute(recording, site, result) : begin_query(recording, site, result);
  }
}

CallFate TorchAdapter::begin(Recording& recording, const CallSite& site, Val* result) {
  if (const char* why = trouble_of(recording, false)) {
    recording.stop(why);
    return CallFate::kStop;
  }
  bool named = site.kind == SiteKind::kCall || site.kind == SiteKind::kGetAttr;
  t_python_operator = !named && site.kind != SiteKind::kSubscr && site.kind != SiteKind::kStoreSubscr;
  recording.callable = named && site.callable != nullptr ? find_callable(site.callable) : nullptr;
  if (named && recording.callable == nullptr) return CallFate::kUnknown;
  PyObject* owner = site.kind == SiteKind::kSetAttr ? site.operands[0].object : nullptr;
  if (site.kind == SiteKind::kSetAttr && (owner == nullptr || !is_plain_tensor(owner))) return CallFate::kUnknown;
  if (!recording.take(site)) return CallFate::kStop;
  if (site.kind == SiteKind::kSetAttr) return begin_set_grad(recording, site);
  if (named) return begin_rule(recording, site, result);
  if (!any_tensor(recording)) return CallFate::kUnknown;
  switch (site.kind) {
    case SiteKind::kSubscr:
    case SiteKind::kStoreSubscr:
      return begin_index(recording, site);
    case SiteKind::kLen: {
      const Arg self = recording.arg(0);
      if (self.tensor->dim() == 0) return CallFate::kUnknown;
      require(recording, self, Fact::kDim);
      *result = size_value(recording, self, 0);
      return result->is_null() ? CallFate::kStop : CallFate::kDone;
    }
    case SiteKind::kContains: {
      const PyObject* container = site.operands[0].object;  // of these it is a key
      const bool keyed = container != nullptr && (PyAnySet_Check(container) || PyDict_Check(container));
      return keyed ? CallFate::kUnknown : CallFate::kObserve;
    }
    default:
      return CallFate::kObserve;
  }
}

bool TorchAdapter::finish_rule(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  switch (recording.callable->rule) {
    case Rule::kOperator:
    case Rule::kNamedOperator:
      return finish_operator(recording, site, object, result);
    case Rule::kAsSeen:
      return finish_as_seen(recording, site, object, result);
    case Rule::kCallable:
      return finish_callable(recording, site, object, result);
    case Rule::kLiteral:
      return finish_literal(recording, site, object, result);
    case Rule::kContiguous:
      return finish_contiguous(recording, site, object, result);
    case Rule::kView:
      return finish_view(recording, site, object, result);
    case Rule::kData:
      return finish_data(recording, site, object, result);
    case Rule::kItem:
    case Rule::kToInt:
    case Rule::kToFloat:
      return finish_number(recording, site, object, result);
    case Rule::kGrad:
      return finish_grad(recording, object, result);
    case Rule::kToBool:
      return finish_truth(recording, site, result);
    case Rule::kGroups:
      return finish_groups(recording, object, result);
    case Rule::kSetRequiresGrad:
      return finish_set_requires_grad(recording, site, object, result);
    case Rule::kDtype:
    case Rule::kDevice:
    case Rule::kKeys:
    case Rule::kWrapped:
      return finish_attribute(recording, site, object, result);
    default:
      return finish_mode(recording, site, object, result);
  }
}

bool TorchAdapter::finish(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  Eye& eye = recording.eye;
  if (!eye.has_key())
    return recording.stop("the dispatcher's thread-local state was replaced while " + words(recording, site) + " ran");
  if (eye.warnings != 0) return recording.stop(words(recording, site) + " warned");
  if (draws_for_good(eye))
    return recording.stop(words(recording, site) + " draws from a generator that cannot be put back");
  bool done;
  switch (site.kind) {
    case SiteKind::kCall:
    case SiteKind::kGetAttr:
      done = finish_rule(recording, site, object, result);
      break;
    case SiteKind::kSubscr:
    case SiteKind::kStoreSubscr:
      done = finish_index(recording, site, object, result);
      break;
    case SiteKind::kSetAttr:
      done = finish_set_grad(recording);
      break;
    case SiteKind::kBool:
      done = finish_truth(recording, site, result);
      break;
    case SiteKind::kUnary:
      done = site.oparg == 3 ? finish_truth(recording, site, result) : finish_site(recording, site, object, result);
      break;
    default:
      done = finish_site(recording, site, object, result);
  }
  if (done || recording.stopped) return done;
  std::string seen;
  for (const SeenOp& op : eye.ops) seen += (seen.empty() ? "" : ", ") + op.info->full;
  return recording.stop(words(recording, site) +
                        " cannot be replayed: " + (seen.empty() ? "no operator was dispatched" : seen));
}

CallFate TorchAdapter::begin_call(const CallSite& site, Val* result) {
  if (t_recording == nullptr) return CallFate::kUnknown;
  try {
    CallFate fate = begin(*t_recording, site, result);
    // What C code is about to run is not seen where the eye is open.
    const bool seen = t_recording->eye.expected.empty() && !calls_python(*t_recording);
    if (fate == CallFate::kObserve && !seen) fate = CallFate::kUnknown;
    if (fate == CallFate::kObserve) t_recording->eye.open();
    return fate;
  } catch (const TooMuchWork&) {  // the recorder is in the middle of something: the recording ends
    throw;
  } catch (const std::exception& error) {
    t_recording->stop(error.what());
    return CallFate::kStop;
  }
}

bool TorchAdapter::finish_call(const CallSite& site, PyObject* result_object, Val* result) {
  if (t_recording == nullptr) return false;
  Recording& recording = *t_recording;
  bool done = false;
  try {
    touch_results(recording.eye);
    done = finish(recording, site, result_object, result);
  } catch (const TooMuchWork&) {
    recording.eye.close();
    throw;
  } catch (const std::exception& error) {
    recording.stop(error.what());
  }
  recording.eye.close();
  return done;
}

}  // namespace

Adapter* the_adapter() {
  static TorchAdapter adapter;
  return &adapter;
}

}  // namespace pijit::torch_adapter
