// A Python callable of torch as an operation: called by vectorcall with registers as objects.
//
// For bindings that do more than dispatch one operator and have no effect on Python objects: factories that fill
// tensors themselves, setters of modes, generated bindings whose operator could not be explained.
#include <algorithm>

#include "common/ref.h"
#include "torch/calls.h"
#include "torch/kept.h"
#include "torch/literals.h"
#include "torch/undo.h"

namespace pijit::torch_adapter {
namespace {

bool is_generator(PyObject* object) noexcept {
  return THPGeneratorClass != nullptr && Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(THPGeneratorClass);
}

// It keeps what it is given, or the state of a generator, for functions of torch: what a checkpoint is done once more
// with.
bool keeps(const Callable& callable) noexcept {
  return callable.family == Family::kCore && callable.rule == Rule::kCallable &&
         callable.name.rfind("_functorch.", 0) != 0;
}

struct Source {
  PyObject* constant = nullptr;  // borrowed: the trace keeps it; null: the register
  uint32_t reg = 0;
};

class CallableOp final : public KeptOp<CallableOp> {
 public:
  static constexpr const char* kName = "callable";
  CallableOp() = default;
  enum class Take : uint8_t { kNothing, kTensor, kTuple, kInt, kObject };

  // `wrapped`: a tensor that it gives may be one that torch.func has wrapped.
  CallableOp(const Callable& callable, PyObject* kwnames, bool wrapped)
      : callable_(&callable), kwnames_(kwnames), wrapped_(wrapped) {}

  void add(Source source) { sources_.push_back(source); }
  // An operator that it dispatches draws random numbers, on this device.
  void draws(c10::Device device) {
    if (std::find(drawn_on_.begin(), drawn_on_.end(), device) == drawn_on_.end()) drawn_on_.push_back(device);
  }
  void take(Take take, std::vector<uint32_t> regs) {
    take_ = take;
    regs_ = std::move(regs);
  }
  // An object of exactly this class, which lives as long as torch.
  void take_object(PyTypeObject* type, uint32_t reg) {
    type_ = type;
    take(Take::kObject, {reg});
  }

  bool is_repeatable() const noexcept override { return wraps(); }

  bool run(Reg* regs) noexcept override {
    try {
      std::vector<Ref> held;
      Objects stack(sources_.size() + 1);
      held.reserve(sources_.size());
      for (size_t i = 0; i < sources_.size(); ++i) {
        if (sources_[i].constant != nullptr) {
          stack[i + 1] = sources_[i].constant;
          continue;
        }
        held.push_back(box(regs[sources_[i].reg]));
        if (!held.back()) return refuse();
        stack[i + 1] = held.back().get();
      }
      Draws drawn;
      if (!keep_generators(&drawn)) return refuse();
      size_t names = kwnames_ != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_)) : 0;
      size_t positional = (sources_.size() - names) | PY_VECTORCALL_ARGUMENTS_OFFSET;
      Ref value = Ref::steal(PyObject_Vectorcall(callable_->object, stack.data() + 1, positional, kwnames_));
      if (value) return store(value.get(), regs);
      drawn.put_back();
      return refuse();
    } catch (...) {
      return refuse();
    }
  }

  OperatorCall call() const override {
    OperatorCall made;
    made.name = name();
    made.callable = Ref::borrow(callable_->object);
    made.random = !drawn_on_.empty();
    const size_t names = kwnames_ != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_)) : 0;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const size_t positional = sources_.size() - names;
      const char* word = i < positional ? "" : PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames_, i - positional));
      if (word == nullptr) PyErr_Clear();
      const std::string name = word == nullptr ? "" : word;
      made.add(sources_[i].constant != nullptr ? literal_argument(name, sources_[i].constant)
                                               : OperatorArgument::of_register(name, sources_[i].reg));
      made.arguments.back().keyword = i >= positional;
    }
    if (take_ == Take::kTuple)
      made.results.push_back({OperatorResult::Kind::kList, regs_, -1});
    else if (take_ != Take::kNothing)
      made.give(regs_[0]);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    callable_field(each, callable_);
    each.object(kwnames_);
    each.number(wrapped_);
    each.list(sources_, [&](Source& source) {
      bool constant = source.constant != nullptr;
      each.number(constant);
      if (constant) each.object(source.constant);
      if (!constant) each.reg(source.reg, Rep::kEmpty);
      if (constant && source.constant == nullptr) each.fail();
    });
    if (take_ == Take::kObject) return each.fail();  // an object of torch, of a class that only the call has shown
    choice_field(each, take_, static_cast<size_t>(Take::kInt) + 1);
    each.list(regs_, [&](uint32_t& reg) { each.reg(reg, take_ == Take::kInt ? Rep::kInt : Rep::kTensor); });
    std::vector<c10::Device> drawn(drawn_on_.begin(), drawn_on_.end());
    devices_field(each, drawn);
    if constexpr (Fields::kReads) {
      drawn_on_.assign(drawn.begin(), drawn.end());
      const bool named = kwnames_ == nullptr || is_names(kwnames_, sources_.size());
      const bool taken = take_ == Take::kNothing || take_ == Take::kTuple || regs_.size() == 1;
      if (!named || !taken || callable_ == nullptr || callable_->rule == Rule::kLevel) each.fail();
    } else if (callable_->rule == Rule::kLevel) {
      each.fail();  // what stands between levels is not kept
    }
  }

 private:
  static bool is_names(PyObject* names, size_t most) {
    if (!PyTuple_CheckExact(names) || static_cast<size_t>(PyTuple_GET_SIZE(names)) > most) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
      if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(names, i))) return false;
    return true;
  }
  // Before a call: from the generators that it may be given, and from those of the devices that it draws on.
  bool keep_generators(Draws* drawn) const {
    bool known = true;
    for (c10::Device device : drawn_on_) known &= drawn->keep_default(device);
    for (const Source& source : sources_)
      if (!drawn_on_.empty() && source.constant != nullptr && is_generator(source.constant))
        drawn->keep(reinterpret_cast<THPGenerator*>(source.constant)->cdata);
    return known;
  }

  // It wraps a tensor for a level of torch.func, or unwraps it, and does nothing else.
  bool wraps() const noexcept {
    return callable_->family == Family::kCore && callable_->rule == Rule::kCallable && !keeps(*callable_);
  }
  bool opens_level() const noexcept {
    return callable_->name.find("increment") != std::string::npos || callable_->name.find("enter") != std::string::npos;
  }

  // "torch::ones", "torch::Tensor.new_ones", "torch::_C.set_default_dtype", "builtins::int"
  std::string name() const {
    if (callable_->family == Family::kMethod || callable_->family == Family::kAttribute)
      return "torch::Tensor." + callable_->name;
    if (callable_->rule == Rule::kLevel) return opens_level() ? kOpensLevel : kClosesLevel;
    if (callable_->family == Family::kCore) return "torch::_C." + callable_->name;
    for (PyTypeObject* type : {&PyLong_Type, &PyFloat_Type, &PyBool_Type})
      if (callable_->object == reinterpret_cast<PyObject*>(type)) return "builtins::" + callable_->name;
    return "torch::" + callable_->name;
  }

  static Ref box(const Reg& reg) {
    switch (reg.rep) {
      case Rep::kObject:
        return Ref::borrow(reg.object);
      case Rep::kTensor:
        return Ref::steal(THPVariable_Wrap(share(reg.tensor)));
      case Rep::kInt:
        return Ref::steal(PyLong_FromLongLong(reg.integer));
      case Rep::kFloat:
        return Ref::steal(PyFloat_FromDouble(reg.number));
      case Rep::kBool:
        return Ref::borrow(reg.boolean ? Py_True : Py_False);
      default:
        return Ref();
    }
  }

  bool is_one(PyObject* value) const { return wrapped_ ? is_plain_or_wrapped_tensor(value) : is_plain_tensor(value); }

  bool store(PyObject* value, Reg* regs) const {
    switch (take_) {
      case Take::kNothing:
        return true;
      case Take::kInt: {
        if (Py_TYPE(value) != &PyLong_Type) return false;
        int overflow = 0;
        regs[regs_[0]].integer = PyLong_AsLongLongAndOverflow(value, &overflow);
        regs[regs_[0]].rep = Rep::kInt;
        regs[regs_[0]].owned = 0;
        return overflow == 0;
      }
      case Take::kObject:
        if (Py_TYPE(value) != type_) return false;
        regs[regs_[0]].object = new_reference(value);
        regs[regs_[0]].rep = Rep::kObject;
        regs[regs_[0]].owned = 1;
        return true;
      case Take::kTensor:
        if (!is_one(value)) return false;
        put(regs[regs_[0]], at::Tensor(THPVariable_Unpack(value)));
        return true;
      case Take::kTuple: {
        bool tuple = PyTuple_Check(value);
        if (static_cast<size_t>(Py_SIZE(value)) != regs_.size()) return false;
        for (size_t i = 0; i < regs_.size(); ++i) {
          PyObject* item = tuple ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i);
          if (!is_one(item)) return false;
        }
        for (size_t i = 0; i < regs_.size(); ++i) {
          PyObject* item = tuple ? PyTuple_GET_ITEM(value, i) : PyList_GET_ITEM(value, i);
          put(regs[regs_[i]], at::Tensor(THPVariable_Unpack(item)));
        }
        return true;
      }
    }
    return false;
  }

  const Callable* callable_ = nullptr;
  PyObject* kwnames_ = nullptr;  // borrowed: the trace keeps it
  bool wrapped_ = false;
  std::vector<Source> sources_;
  std::vector<uint32_t> regs_;
  Take take_ = Take::kNothing;
  PyTypeObject* type_ = nullptr;  // kObject
  c10::SmallVector<c10::Device, 1> drawn_on_;
};

[[maybe_unused]] const bool kKeptCallable = add_maker<CallableOp>();

// What writes to an operand cannot be called again when it raised: that is for an opaque call.
bool writes_operand(const Recording& recording, const SeenOp& op) {
  auto is_operand = [&recording](const Impl* tensor) {
    for (const Arg& arg : recording.args)
      if (arg.kind == ArgKind::kTensor && arg.tensor == tensor) return true;
    return false;
  };
  for (size_t i = 0; i < op.info->arguments.size(); ++i) {
    if (!op.info->arguments[i].written) continue;
    const SeenValue& seen = recording.eye.argument(op, i);
    if (seen.kind == SeenKind::kTensor && is_operand(seen.tensor)) return true;
    for (uint32_t k = 0; seen.kind == SeenKind::kTensorList && k < seen.count; ++k)
      if (is_operand(recording.eye.items[seen.first + k])) return true;
  }
  return false;
}

// Registers for what the call returned; false: of no known kind.
bool plan_result(Recording& recording, CallableOp& op, PyObject* object, Vals& outputs, Val* result) {
  using Take = CallableOp::Take;
  RecordApi& api = recording.api;
  if (recording.callable->rule == Rule::kLevel) {  // of which there are as many each time
    *result = api.own_const(object);
    return !result->is_null();
  }
  if (object == Py_None || object == Py_True || object == Py_False) {
    if (object != Py_None && recording.callable->rule != Rule::kSetMode) return false;
    *result = Val::constant(object);
    return true;
  }
  if (Py_TYPE(object) == &PyLong_Type && recording.callable->rule == Rule::kSetMode) {
    outputs.push_back(*result = api.new_reg(Rep::kInt, &PyLong_Type));
    op.take(Take::kInt, {result->index()});
    return true;
  }
  if (recording.follows(object)) {
    PyTypeObject* type = Py_TYPE(object) == tensor_type() ? tensor_type() : nullptr;
    outputs.push_back(*result = api.new_reg(Rep::kTensor, type));
    op.take(Take::kTensor, {result->index()});
    return true;
  }
  if (keeps(*recording.callable)) {
    outputs.push_back(*result = api.new_reg(Rep::kObject, Py_TYPE(object)));
    op.take_object(Py_TYPE(object), result->index());
    return true;
  }
  if (!PyTuple_Check(object) && !PyList_CheckExact(object)) return false;
  std::vector<uint32_t> regs;
  bool tuple = PyTuple_Check(object);
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
    PyObject* item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    if (!recording.follows(item)) return false;
    outputs.push_back(api.new_reg(Rep::kTensor, Py_TYPE(item) == tensor_type() ? tensor_type() : nullptr));
    regs.push_back(outputs.back().index());
  }
  op.take(Take::kTuple, std::move(regs));
  *result = tuple ? api.new_tuple(Py_TYPE(object), outputs.data(), outputs.size())
                  : api.new_list(outputs.data(), outputs.size());
  return !result->is_null();
}

}  // namespace

bool finish_callable(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  for (const SeenOp& op : recording.eye.ops)
    if (!op.info->aten || op.info->python || writes_operand(recording, op)) return false;
  for (const Arg& arg : recording.args)
    if ((arg.kind == ArgKind::kOther && !keeps(*recording.callable)) || arg.kind == ArgKind::kSlice) return false;
  RecordApi& api = recording.api;
  PyObject* kwnames = recording.keywords != 0 ? site.kwnames : nullptr;
  Vals inputs, outputs;
  if (kwnames != nullptr) {
    Val names = api.own_const(kwnames);
    if (names.is_null()) return false;
    inputs.push_back(names);
  }
  auto op = std::make_unique<CallableOp>(*recording.callable, kwnames, recording.has_levels);
  for (const SeenOp& seen : recording.eye.ops)
    for (size_t i = 0; seen.info->random && i < seen.info->returns; ++i)
      if (const Impl* made = recording.eye.result(seen, i).tensor) op->draws(made->device());
  for (size_t i = 0; i < site.count; ++i) {
    Val value = api.materialize({recording.arg(i).value, site.operands[i].object});
    if (value.is_null()) {
      recording.stopped = true;
      return false;
    }
    op->add({value.object(), value.is_reg() ? value.index() : 0});
    inputs.push_back(value);
  }
  if (!plan_result(recording, *op, object, outputs, result)) return false;
  const Rule rule = recording.callable->rule;
  bool foreign = rule == Rule::kSetMode || rule == Rule::kLevel || kwnames != nullptr;
  api.emit(std::move(op), inputs, outputs, false);
  if (foreign) recording.forget_all();
  return true;
}

}  // namespace pijit::torch_adapter
