// The attribute grad of leaves: read, and set.
//
// The gradient is another tensor at each call, so it is read anew at every replay and what decides which kernels are
// meant is checked there, as of an input. Reading it of a tensor that is no leaf may warn: that is left to CPython.
#include "common/ref.h"
#include "torch/calls.h"
#include "torch/kept.h"
#include "torch/literals.h"
#include "torch/metadata.h"

namespace pijit::torch_adapter {
namespace {

// The class that the tensor has in Python.
PyTypeObject* class_of(const Impl* tensor) noexcept {
  PyObject* object = object_of(tensor);
  return object == nullptr ? tensor_type() : Py_TYPE(object);
}

class GradIsNone final : public KeptOp<GradIsNone> {
 public:
  static constexpr const char* kName = "grad_is_none";
  GradIsNone() = default;
  explicit GradIsNone(uint32_t self) : self_(self) {}
  bool run(Reg* regs) noexcept override { return !static_cast<const Impl*>(regs[self_].tensor)->grad().defined(); }
  OperatorCall call() const override { return check_call(self_, "grad", Ref::borrow(Py_None)); }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
  }

 private:
  uint32_t self_ = 0;
};

class ReadGrad final : public KeptOp<ReadGrad> {
 public:
  static constexpr const char* kName = "read_grad";
  ReadGrad() = default;
  ReadGrad(uint32_t self, uint32_t out, const Impl* grad)
      : self_(self), out_(out), type_(class_of(grad)), expected_(facts(grad)) {}
  bool run(Reg* regs) noexcept override {
    const at::Tensor& grad = static_cast<const Impl*>(regs[self_].tensor)->grad();
    if (!grad.defined()) return false;
    const Impl* now = grad.unsafeGetTensorImpl();
    if (class_of(now) != type_ || facts(now) != expected_) return false;
    put(regs[out_], at::Tensor(grad));
    return true;
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::grad";
    made.repeatable = true;
    made.add(self_argument(self_));
    made.give(out_);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    each.reg(out_, Rep::kTensor);
    PyObject* type = reinterpret_cast<PyObject*>(type_);
    each.object(type);
    each.list(expected_, [&](int64_t& fact) { each.number(fact); });
    if constexpr (Fields::kReads) {
      const bool is_class =
          type != nullptr && PyType_Check(type) && is_tensor_type(reinterpret_cast<PyTypeObject*>(type));
      if (!is_class || expected_.size() != kFacts) return each.fail();
      type_ = reinterpret_cast<PyTypeObject*>(type);
    }
  }

 private:
  static constexpr size_t kFacts = 4;
  using Facts = Vec<int64_t>;
  static Facts facts(const Impl* tensor) noexcept {
    return {read_fact(tensor, Fact::kDtype), read_fact(tensor, Fact::kDevice), read_fact(tensor, Fact::kKeys),
            read_fact(tensor, Fact::kDim)};
  }

  uint32_t self_ = 0, out_ = 0;
  PyTypeObject* type_ = nullptr;  // of torch
  Facts expected_;
};

// By the binding, which checks what it is given.
class WriteGrad final : public KeptOp<WriteGrad> {
 public:
  static constexpr const char* kName = "write_grad";
  WriteGrad() = default;
  WriteGrad(uint32_t self, std::optional<uint32_t> value) : self_(self), value_(value) {}
  bool run(Reg* regs) noexcept override {
    try {
      static PyObject* const name = PyUnicode_InternFromString("grad");
      const Ref self = Ref::steal(THPVariable_Wrap(share(regs[self_].tensor)));
      const Ref value = value_ ? Ref::steal(THPVariable_Wrap(share(regs[*value_].tensor))) : Ref::borrow(Py_None);
      return (self && value && PyObject_SetAttr(self.get(), name, value.get()) == 0) || refuse();
    } catch (...) {
      return refuse();
    }
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::set_grad";
    made.add(self_argument(self_, true));
    made.add(value_ ? OperatorArgument::of_register("value", *value_) : literal_argument("value", Py_None));
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    bool given = value_.has_value();
    uint32_t value = value_.value_or(0);
    each.number(given);
    if (given) each.reg(value, Rep::kTensor);
    if (given) value_ = value;
  }

 private:
  uint32_t self_ = 0;
  std::optional<uint32_t> value_;  // none: None
};

[[maybe_unused]] const bool kKeptGradients = add_maker<GradIsNone>() && add_maker<ReadGrad>() && add_maker<WriteGrad>();

}  // namespace

CallFate begin_grad(Recording& recording) {
  const Arg& self = recording.arg(0);
  if (self.kind != ArgKind::kTensor || read_fact(self.tensor, Fact::kNodeless) == 0) return CallFate::kUnknown;
  require(recording, self, Fact::kNodeless);
  return CallFate::kObserve;
}

bool finish_grad(Recording& recording, PyObject* object, Val* result) {
  const Val self = recording.arg(0).value;
  if (object == Py_None) {
    recording.api.emit(std::make_unique<GradIsNone>(self.index()), {self}, {}, true);
    *result = Val::constant(Py_None);
    return true;
  }
  if (!is_plain_tensor(object)) return false;
  *result = recording.api.new_reg(Rep::kTensor, Py_TYPE(object));
  Known& known = recording.known(*result);
  known.dtype = known.device = known.keys = known.dim = true;
  recording.api.emit(std::make_unique<ReadGrad>(self.index(), result->index(), impl_of(object)), {self}, {*result},
                     true);
  return true;
}

CallFate begin_set_grad(Recording& recording, const CallSite& site) {
  if (recording.arg(0).kind != ArgKind::kTensor) return CallFate::kUnknown;
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(site.operands[0].object), site.name);
  recording.callable = descriptor != nullptr ? find_callable(descriptor) : nullptr;
  if (recording.callable == nullptr || recording.callable->rule != Rule::kGrad) return CallFate::kUnknown;
  const ArgKind kind = recording.arg(1).kind;
  return kind == ArgKind::kNone || kind == ArgKind::kTensor ? CallFate::kObserve : CallFate::kUnknown;
}

bool finish_set_grad(Recording& recording) {
  const Val self = recording.arg(0).value;
  Vals inputs{self};
  std::optional<uint32_t> value;
  if (recording.arg(1).kind == ArgKind::kTensor) {
    inputs.push_back(recording.arg(1).value);
    value = inputs[1].index();
  }
  recording.api.emit(std::make_unique<WriteGrad>(self.index(), value), inputs, {}, false);
  return true;
}

}  // namespace pijit::torch_adapter
