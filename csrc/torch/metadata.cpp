// Checks of tensor facts, and the callables and attributes that only read them.
#include "torch/metadata.h"

#include "common/ref.h"
#include "torch/callables.h"
#include "torch/kept.h"
#include "torch/literals.h"

namespace pijit::torch_adapter {
namespace {

constexpr const char* kFactNames[] = {"dtype",   "device", "keys",          "dim",           "size",    "numel",
                                      "strides", "offset", "is_contiguous", "requires_grad", "is_leaf", "has_no_node"};

// Compares one fact of a register's tensor with what it was.
class TensorCheck final : public KeptOp<TensorCheck> {
 public:
  static constexpr const char* kName = "check";
  TensorCheck() = default;
  TensorCheck(const Arg& tensor, Fact fact, int64_t dim) : reg_(tensor.value.index()), fact_(fact), dim_(dim) {
    if (fact == Fact::kDtype)
      expected_ = tensor.dtype;
    else if (fact == Fact::kDevice)
      expected_ = tensor.device;
    else if (fact == Fact::kStrides)
      list_ = tensor.tensor->strides().vec();
    else
      expected_ = read_fact(tensor.tensor, fact, dim);
  }

  bool run(Reg* regs) noexcept override {
    const Impl* now = static_cast<const Impl*>(regs[reg_].tensor);
    if (fact_ == Fact::kStrides) return now->strides() == c10::IntArrayRef(list_);
    return read_fact(now, fact_, dim_) == expected_;
  }
  bool is_of_form() const noexcept override { return true; }

  OperatorCall call() const override {
    const bool sized = fact_ == Fact::kSize, contiguous = fact_ == Fact::kContiguous;
    Ref detail = sized        ? python_object(c10::IValue(dim_))
                 : contiguous ? python_object(static_cast<at::MemoryFormat>(dim_))
                              : Ref::borrow(Py_None);
    return check_call(reg_, kFactNames[static_cast<size_t>(fact_)], expected(), std::move(detail));
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(reg_, Rep::kTensor);
    choice_field(each, fact_, std::size(kFactNames));
    each.number(dim_);
    each.number(expected_);
    each.list(list_, [&](int64_t& stride) { each.number(stride); });
  }

 private:
  Ref expected() const {
    switch (fact_) {
      case Fact::kDtype:
        return python_object(static_cast<at::ScalarType>(expected_));
      case Fact::kDevice:
        return python_object(c10::Device(static_cast<c10::DeviceType>(expected_ >> 8),
                                         static_cast<c10::DeviceIndex>(static_cast<int8_t>(expected_ & 0xff))));
      case Fact::kStrides: {
        Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(list_.size())));
        for (size_t i = 0; tuple && i < list_.size(); ++i)
          PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(list_[i]));
        return tuple;
      }
      case Fact::kContiguous:
      case Fact::kRequiresGrad:
      case Fact::kLeaf:
      case Fact::kNodeless:
        return python_object(c10::IValue(expected_ != 0));
      default:
        return python_object(c10::IValue(expected_));
    }
  }

  uint32_t reg_ = 0;
  Fact fact_ = Fact::kDtype;
  int64_t dim_ = 0;
  int64_t expected_ = 0;
  std::vector<int64_t> list_;
};

// Reads one fact of a register's tensor: a number.
class TensorRead final : public KeptOp<TensorRead> {
 public:
  static constexpr const char* kName = "read";
  TensorRead() = default;
  TensorRead(Val tensor, Fact fact, int64_t dim, Val out)
      : reg_(tensor.index()), out_(out.index()), fact_(fact), dim_(dim) {}

  bool run(Reg* regs) noexcept override {
    Reg& out = regs[out_];
    out.rep = Rep::kInt;
    out.owned = 0;
    out.integer = read_fact(static_cast<const Impl*>(regs[reg_].tensor), fact_, dim_);
    return true;
  }
  bool is_of_form() const noexcept override { return true; }

  OperatorCall call() const override {
    OperatorCall made;
    made.name = std::string("tensor::") + kFactNames[static_cast<size_t>(fact_)];
    made.repeatable = true;
    made.add(self_argument(reg_));
    if (fact_ == Fact::kSize) made.add(literal_argument("dim", c10::IValue(dim_)));
    made.give(out_);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(reg_, Rep::kTensor);
    each.reg(out_, Rep::kInt);
    choice_field(each, fact_, std::size(kFactNames));
    each.number(dim_);
  }

 private:
  uint32_t reg_ = 0, out_ = 0;
  Fact fact_ = Fact::kSize;
  int64_t dim_ = 0;
};

[[maybe_unused]] const bool kKeptMetadata = add_maker<TensorCheck>() && add_maker<TensorRead>();

bool* known_flag(Known& known, Fact fact) {
  switch (fact) {
    case Fact::kDtype:
      return &known.dtype;
    case Fact::kDevice:
      return &known.device;
    case Fact::kKeys:
      return &known.keys;
    case Fact::kDim:
      return &known.dim;
    case Fact::kStrides:
      return &known.strides;
    case Fact::kOffset:
      return &known.offset;
    case Fact::kRequiresGrad:
      return &known.requires_grad;
    case Fact::kLeaf:
      return &known.leaf;
    case Fact::kNodeless:
      return &known.nodeless;
    default:
      return nullptr;
  }
}

void emit_check(Recording& recording, const Arg& tensor, Fact fact, int64_t dim) {
  recording.api.emit(std::make_unique<TensorCheck>(tensor, fact, dim), {tensor.value}, {}, true);
}

Val read_value(Recording& recording, const Arg& tensor, Fact fact, int64_t dim = 0) {
  const Val out = recording.api.new_int(read_fact(tensor.tensor, fact, dim));
  if (!out.is_null())
    recording.api.emit(std::make_unique<TensorRead>(tensor.value, fact, dim, out), {tensor.value}, {out}, true);
  return out;
}

Val integer(Recording& recording, int64_t value) {
  Ref number = Ref::steal(PyLong_FromLongLong(value));
  return number ? recording.api.own_const(number.get()) : Val();
}

// A number of sizes: read at every replay, or a constant that is checked.
Val read_size(Recording& recording, const Arg& tensor, Fact fact, int64_t dim = 0) {
  const int64_t now = read_fact(tensor.tensor, fact, dim);
  if (!recording.api.sizes.fixes(now)) return read_value(recording, tensor, fact, dim);
  require(recording, tensor, fact, dim);
  return integer(recording, now);
}

Val boolean(bool value) {
  return Val::constant(value ? Py_True : Py_False);
}

// Wraps a dimension; false: out of range or not a constant.
bool dimension(Recording& recording, const Arg& tensor, const Arg& dim, PyObject* object, int64_t* out) {
  if (dim.kind != ArgKind::kInt) return false;
  if (dim.dynamic && recording.api.force_const(dim.value, object).is_null()) {
    recording.stopped = true;
    return false;
  }
  int64_t count = tensor.tensor->dim();
  *out = dim.integer < 0 ? dim.integer + count : dim.integer;
  return *out >= 0 && *out < count && *out < 64;
}

CallFate done(Recording& recording, Val value, Val* result) {
  *result = value;
  if (!value.is_null()) return CallFate::kDone;
  recording.stop("a value could not be built");
  return CallFate::kStop;
}

CallFate all_dimensions(Recording& recording, const Arg& self, Val* result) {
  require(recording, self, Fact::kDim);
  Vals items;
  for (int64_t i = 0; i < self.tensor->dim(); ++i) items.push_back(size_value(recording, self, i));
  return done(recording, recording.api.new_tuple(&THPSizeType, items.data(), items.size()), result);
}

}  // namespace

namespace {

// The attribute; -1: torch raises. A view's node is made when it is asked for, if its base was written.
int64_t is_leaf(const Impl* tensor) noexcept {
  if (tensor->autograd_meta() == nullptr) return 1;
  try {
    return share(const_cast<Impl*>(tensor)).grad_fn() == nullptr;
  } catch (...) {
    return -1;
  }
}

}  // namespace

int64_t read_fact(const Impl* tensor, Fact fact, int64_t dim) noexcept {
  switch (fact) {
    case Fact::kDtype:
      return static_cast<int64_t>(c10::typeMetaToScalarType(tensor->dtype()));
    case Fact::kDevice:
      return (static_cast<int64_t>(tensor->device().type()) << 8) | (tensor->device().index() & 0xff);
    case Fact::kKeys:
      return static_cast<int64_t>(tensor->key_set().raw_repr());
    case Fact::kDim:
      return tensor->dim();
    case Fact::kSize:
      return tensor->sizes()[dim];
    case Fact::kNumel:
      return tensor->numel();
    case Fact::kOffset:
      return tensor->storage_offset();
    case Fact::kContiguous:
      return tensor->is_contiguous(static_cast<at::MemoryFormat>(dim));
    case Fact::kRequiresGrad:
      return tensor->requires_grad();
    case Fact::kLeaf:
      return is_leaf(tensor);
    case Fact::kNodeless: {
      const c10::AutogradMetaInterface* meta = tensor->autograd_meta();
      return meta == nullptr || static_cast<const torch::autograd::AutogradMeta*>(meta)->grad_fn_ == nullptr;
    }
    default:
      return 0;
  }
}

OperatorCall check_call(uint32_t reg, const char* fact, Ref expected, Ref detail) {
  OperatorCall made;
  made.name = "tensor::check";
  made.repeatable = true;
  made.add(self_argument(reg));
  made.add(literal_argument("fact", c10::IValue(std::string(fact))));
  made.add(OperatorArgument::of_literal("detail", std::move(detail)));
  made.add(OperatorArgument::of_literal("expected", std::move(expected)));
  return made;
}

void require(Recording& recording, const Arg& tensor, Fact fact, int64_t dim) {
  Known& known = recording.known(tensor.value);
  if (bool* flag = known_flag(known, fact)) {
    if (*flag) return;
    *flag = true;
  }
  emit_check(recording, tensor, fact, dim);
}

Val size_value(Recording& recording, const Arg& tensor, int64_t dim) {
  for (const auto& [known, value] : recording.known(tensor.value).sizes)
    if (known == dim) return value;
  const Val value = read_size(recording, tensor, Fact::kSize, dim);
  recording.known(tensor.value).sizes.emplace_back(dim, value);
  return value;
}

void fix_sizes(Recording& recording, TensorInputs& inputs, const Impl* tensor, Known& known) {
  if (!recording.api.sizes.fixed) return;
  for (int64_t dim = 0; dim < tensor->dim(); ++dim) {
    const int64_t size = tensor->sizes()[static_cast<size_t>(dim)];
    if (!recording.api.sizes.fixes(size)) continue;
    inputs.fix_size(dim, size);
    const Val number = integer(recording, size);
    if (!number.is_null()) known.sizes.emplace_back(dim, number);
  }
}

namespace {

// The items of the only operand, a sequence. False: it is none, or not all of them are integers.
bool take_integers(const Recording& recording, Vals* items) {
  if (recording.operands != 1 || recording.keywords != 0 || recording.arg(0).kind != ArgKind::kSequence) return false;
  const Arg& list = recording.arg(0);
  for (uint32_t i = 0; i < list.count; ++i) {
    const Arg& item = recording.child(list, i);
    if (item.kind != ArgKind::kInt) return false;
    items->push_back(item.value);
  }
  return true;
}

}  // namespace

CallFate begin_sizes(Recording& recording, Val* result) {
  if (recording.operands == 0 && recording.keywords == 0)
    return done(recording, recording.api.new_tuple(&THPSizeType, nullptr, 0), result);
  Vals items;
  if (!take_integers(recording, &items)) return CallFate::kUnknown;
  return done(recording, recording.api.new_tuple(&THPSizeType, items.data(), items.size()), result);
}

CallFate begin_product(Recording& recording, Val* result) {
  Vals items;
  if (!take_integers(recording, &items)) return CallFate::kUnknown;
  return done(recording, recording.api.product(items.data(), items.size()), result);
}

CallFate begin_query(Recording& recording, const CallSite& site, Val* result) {
  if (recording.operands == 0 || recording.arg(0).kind != ArgKind::kTensor) return CallFate::kUnknown;
  const Arg self = recording.arg(0);
  const Impl* tensor = self.tensor;
  Rule rule = recording.callable->rule;
  bool plain = recording.operands == 1;
  switch (rule) {
    case Rule::kSize:
    case Rule::kStride: {
      if (plain && rule == Rule::kSize) return all_dimensions(recording, self, result);
      if (recording.operands > 2) return CallFate::kUnknown;
      int64_t dim = 0;
      if (plain) {
        require(recording, self, Fact::kStrides);
        Vals items;
        for (int64_t value : tensor->strides()) items.push_back(integer(recording, value));
        return done(recording, recording.api.new_tuple(&PyTuple_Type, items.data(), items.size()), result);
      }
      if (!dimension(recording, self, recording.arg(1), site.operands[1].object, &dim))
        return recording.stopped ? CallFate::kStop : CallFate::kUnknown;
      require(recording, self, Fact::kDim);
      if (rule == Rule::kSize) return done(recording, size_value(recording, self, dim), result);
      require(recording, self, Fact::kStrides);
      return done(recording, integer(recording, tensor->strides()[dim]), result);
    }
    case Rule::kIsContiguous: {
      at::MemoryFormat format = at::MemoryFormat::Contiguous;
      if (!plain && recording.operands == 2 && recording.arg(1).kind == ArgKind::kMemoryFormat)
        format = static_cast<at::MemoryFormat>(recording.arg(1).integer);
      else if (!plain)
        return CallFate::kUnknown;
      require(recording, self, Fact::kContiguous, static_cast<int64_t>(format));
      return done(recording, boolean(tensor->is_contiguous(format)), result);
    }
    default:
      break;
  }
  if (!plain) return CallFate::kUnknown;
  at::ScalarType type = c10::typeMetaToScalarType(tensor->dtype());
  switch (rule) {
    case Rule::kDim:
      require(recording, self, Fact::kDim);
      return done(recording, integer(recording, tensor->dim()), result);
    case Rule::kNumel:
      return done(recording, read_size(recording, self, Fact::kNumel), result);
    case Rule::kWrapped:
      require(recording, self, Fact::kKeys);
      return CallFate::kObserve;
    case Rule::kStorageOffset:
      require(recording, self, Fact::kOffset);
      return done(recording, integer(recording, tensor->storage_offset()), result);
    case Rule::kElementSize:
      require(recording, self, Fact::kDtype);
      return done(recording, integer(recording, static_cast<int64_t>(tensor->itemsize())), result);
    case Rule::kIsFloatingPoint:
      require(recording, self, Fact::kDtype);
      return done(recording, boolean(at::isFloatingType(type)), result);
    case Rule::kIsComplex:
      require(recording, self, Fact::kDtype);
      return done(recording, boolean(at::isComplexType(type)), result);
    case Rule::kIsSigned:
      require(recording, self, Fact::kDtype);
      return done(recording, boolean(at::isSignedType(type)), result);
    case Rule::kIsConj:
      require(recording, self, Fact::kKeys);
      return done(recording, boolean(tensor->key_set().has(c10::DispatchKey::Conjugate)), result);
    case Rule::kIsNeg:
      require(recording, self, Fact::kKeys);
      return done(recording, boolean(tensor->key_set().has(c10::DispatchKey::Negative)), result);
    default:
      return CallFate::kUnknown;
  }
}

CallFate begin_attribute(Recording& recording, const CallSite&, Val* result) {
  const Arg self = recording.arg(0);
  if (self.kind != ArgKind::kTensor) return CallFate::kUnknown;
  const Impl* tensor = self.tensor;
  switch (recording.callable->rule) {
    case Rule::kShape:
      return all_dimensions(recording, self, result);
    case Rule::kDim:
      require(recording, self, Fact::kDim);
      return done(recording, integer(recording, tensor->dim()), result);
    case Rule::kElementSize:
      require(recording, self, Fact::kDtype);
      return done(recording, integer(recording, static_cast<int64_t>(tensor->itemsize())), result);
    case Rule::kBytes:
      require(recording, self, Fact::kDtype);
      require(recording, self, Fact::kNumel);
      return done(recording, integer(recording, tensor->numel() * static_cast<int64_t>(tensor->itemsize())), result);
    case Rule::kRequiresGrad:
      require(recording, self, Fact::kRequiresGrad);
      return done(recording, boolean(tensor->requires_grad()), result);
    case Rule::kIsLeaf:
      if (read_fact(tensor, Fact::kLeaf) < 0) return CallFate::kUnknown;
      require(recording, self, Fact::kLeaf);
      return done(recording, boolean(read_fact(tensor, Fact::kLeaf) != 0), result);
    case Rule::kGradFn:
      if (read_fact(tensor, Fact::kLeaf) != 1) return CallFate::kUnknown;
      require(recording, self, Fact::kLeaf);
      return done(recording, Val::constant(Py_None), result);
    case Rule::kDtype:
      require(recording, self, Fact::kDtype);
      return CallFate::kObserve;
    case Rule::kDevice:
      require(recording, self, Fact::kDevice);
      return CallFate::kObserve;
    case Rule::kKeys:
      require(recording, self, Fact::kKeys);
      return CallFate::kObserve;
    default:
      return CallFate::kUnknown;
  }
}

bool finish_attribute(Recording& recording, const CallSite&, PyObject* object, Val* result) {
  *result = recording.api.own_const(object);
  if (result->is_null()) recording.stopped = true;
  return !recording.stopped;
}

}  // namespace pijit::torch_adapter
