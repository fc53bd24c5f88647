// Callables that read or set modes: grad mode, autocast, default dtype, tracing, __torch_function__.
//
// A mode that was read is a constant: the state guard proves it at entry, and the trace changes modes only with
// constants. Getters of what the state guard leaves out are called again at replay, once a trace.
#include <algorithm>

#include "common/ref.h"
#include "torch/calls.h"
#include "torch/kept.h"
#include "torch/literals.h"
#include "torch/state.h"

namespace pijit::torch_adapter {
namespace {

class SetGradOp final : public KeptOp<SetGradOp> {
 public:
  static constexpr const char* kName = "set_grad";
  SetGradOp() = default;
  explicit SetGradOp(bool enabled) : enabled_(enabled) {}
  bool run(Reg*) noexcept override {
    c10::GradMode::set_enabled(enabled_);
    return true;
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::set_grad_enabled";
    made.add(literal_argument("enabled", c10::IValue(enabled_)));
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.number(enabled_);
  }

 private:
  bool enabled_ = false;
};

// Calls a getter and compares: bool, int, str, device, None.
class GetterCheck final : public KeptOp<GetterCheck> {
 public:
  static constexpr const char* kName = "getter";
  GetterCheck() = default;
  GetterCheck(const Callable& getter, PyObject* expected) : getter_(&getter), expected_(expected) {}
  bool run(Reg*) noexcept override {
    Ref now = Ref::steal(PyObject_CallNoArgs(getter_->object));
    if (!now) return refuse();
    if (now.get() == expected_) return true;
    if (Py_TYPE(now.get()) != Py_TYPE(expected_)) return false;
    int same = PyObject_RichCompareBool(now.get(), expected_, Py_EQ);
    return same == 1 || refuse();
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::check";
    made.repeatable = true;
    made.callable = Ref::borrow(getter_->object);
    made.add(literal_argument("getter", c10::IValue(getter_->name)));
    made.add(literal_argument("expected", expected_));
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    callable_field(each, getter_);
    each.object(expected_);
    if (expected_ == nullptr) each.fail();
  }

 private:
  const Callable* getter_ = nullptr;
  PyObject* expected_ = nullptr;  // borrowed: the trace keeps it
};

[[maybe_unused]] const bool kKeptModes = add_maker<SetGradOp>() && add_maker<GetterCheck>();

bool comparable(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return object == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyUnicode_Type ||
         THPDevice_Check(object);
}

// No object of these types can have a __torch_function__.
bool is_simple(const Recording& recording, const Arg& arg) {
  switch (arg.kind) {
    case ArgKind::kOther:
      return arg.type != nullptr && !(arg.type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !is_tensor_type(arg.type);
    case ArgKind::kSequence:
      for (uint32_t i = 0; i < arg.count; ++i)
        if (!is_simple(recording, recording.child(arg, i))) return false;
      return true;
    default:
      return true;
  }
}

bool constants_only(const Recording& recording) {
  for (const Arg& arg : recording.args)
    if (arg.dynamic || arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kSlice) return false;
  for (size_t i = 0; i < recording.operands; ++i)
    if (recording.arg(i).kind == ArgKind::kOther && !recording.arg(i).value.is_const()) return false;
  return true;
}

// A size is the only thing that is given to a new level and may be another one the next time.
bool has_fixed_arguments(const Recording& recording) {
  return std::all_of(recording.args.begin(), recording.args.end(),
                     [](const Arg& arg) { return arg.kind == ArgKind::kInt || arg.kind == ArgKind::kString; });
}

// The getter of each mode that setters of kSetAgain set.
constexpr std::pair<const char*, const char*> kGetters[] = {
    {"_dynamo.eval_frame.set_eval_frame", "_dynamo.eval_frame.get_eval_frame_callback"},
};

const Callable* getter_of(const Callable& setter) noexcept {
  for (auto [name, getter] : kGetters)
    if (setter.name == name) return find_core(getter);
  return nullptr;
}

// The mode is checked in front of what is recorded from here on, once a trace.
void check_again(Recording& recording, const Callable& getter, Val value) {
  for (const auto& checked : recording.checked_getters)
    if (checked.first == getter.object) return;
  recording.checked_getters.emplace_back(getter.object, value.object());
  recording.api.emit(std::make_unique<GetterCheck>(getter, value.object()), {value}, {}, true);
}

// Setters of kSetAgain give the value of before, which is the one that they are given.
CallFate begin_set_again(Recording& recording, Val* result) {
  const Callable* getter = getter_of(*recording.callable);
  if (getter == nullptr || recording.operands != 1 || recording.arg(0).kind != ArgKind::kNone)
    return CallFate::kUnknown;
  const Ref now = Ref::steal(PyObject_CallNoArgs(getter->object));
  if (!now) PyErr_Clear();
  if (now.get() != Py_None) return CallFate::kUnknown;
  *result = Val::constant(Py_None);
  check_again(recording, *getter, *result);
  return CallFate::kDone;
}

// get_autocast_dtype("xpu"): the state that is guarded has it, or it cannot be a constant.
bool is_guarded(const Recording& recording) {
  if (recording.callable->name != "get_autocast_dtype") return true;
  const char* name = recording.operands == 1 && recording.arg(0).kind == ArgKind::kString
                         ? PyUnicode_AsUTF8(recording.arg(0).object)
                         : nullptr;
  return name != nullptr && has_autocast_dtype(c10::Device(name).type());
}

}  // namespace

CallFate begin_mode(Recording& recording, const CallSite&, Val* result) {
  switch (recording.callable->rule) {
    case Rule::kNotTracing:
      // must_step_aside() and the state guard see to it.
      *result = Val::constant(recording.callable->name == "_is_tracing" ? Py_False : Py_None);
      return CallFate::kDone;
    case Rule::kItself:
      if (recording.operands != 1 || recording.arg(0).kind != ArgKind::kTensor || !is_plain(recording.arg(0).tensor))
        return CallFate::kUnknown;
      *result = recording.arg(0).value;
      return CallFate::kDone;
    case Rule::kOnce:
      *result = Val::constant(Py_None);
      return CallFate::kDone;
    case Rule::kTorchFunction:
      for (size_t i = 0; i < recording.operands; ++i)
        if (!is_simple(recording, recording.arg(i))) return CallFate::kUnknown;
      *result = Val::constant(Py_False);
      return CallFate::kDone;
    case Rule::kCheckedMode:
      return recording.operands == 0 ? CallFate::kObserve : CallFate::kUnknown;
    case Rule::kMode:
      return constants_only(recording) && is_guarded(recording) ? CallFate::kObserve : CallFate::kUnknown;
    case Rule::kSetAgain:
      return begin_set_again(recording, result);
    case Rule::kLevel:
      return has_fixed_arguments(recording) ? CallFate::kObserve : CallFate::kUnknown;
    case Rule::kSetGrad:
      // The mode of before is a constant, too: to set it once more does nothing, and would split a segment.
      if (constants_only(recording) && recording.operands == 1 && recording.arg(0).kind == ArgKind::kBool &&
          (recording.arg(0).integer != 0) == c10::GradMode::is_enabled()) {
        *result = Val::constant(Py_None);
        return CallFate::kDone;
      }
      [[fallthrough]];
    case Rule::kSetMode:
    case Rule::kConstantMaker:
      return constants_only(recording) ? CallFate::kObserve : CallFate::kUnknown;
    default:
      return CallFate::kUnknown;
  }
}

bool finish_mode(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  const Callable& callable = *recording.callable;
  if (!recording.eye.ops.empty()) return false;
  RecordApi& api = recording.api;
  switch (callable.rule) {
    case Rule::kMode:
    case Rule::kConstantMaker:
      if (site.kind == SiteKind::kGetAttr) api.own_const(site.operands[0].object);  // no other one at its address
      *result = api.own_const(object);
      return !result->is_null();
    case Rule::kCheckedMode: {
      if (!comparable(object)) return false;
      *result = api.own_const(object);
      if (result->is_null()) return false;
      check_again(recording, callable, *result);
      return true;
    }
    case Rule::kSetGrad:
      if (recording.operands != 1 || recording.arg(0).kind != ArgKind::kBool) return false;
      api.emit(std::make_unique<SetGradOp>(recording.arg(0).integer != 0), {}, {}, false);
      *result = Val::constant(Py_None);
      return true;
    case Rule::kLevel:
      recording.has_levels = true;
      [[fallthrough]];
    case Rule::kSetMode:
      return finish_callable(recording, site, object, result);
    default:
      return false;
  }
}

}  // namespace pijit::torch_adapter
