// x[index] and x[index] = value, replayed through the same C++ functions that torch's Python binding calls.
//
// The binding decides by sizes what it dispatches (x[:, :5] is alias or slice). Calling at::indexing::get_item and
// set_item at replay repeats the decision, so nothing has to be guarded but the kinds of the indices; integers keep
// their registers.
#include <algorithm>

#include "torch/calls.h"
#include "torch/compat.h"
#include "torch/kept.h"
#include "torch/literals.h"
#include "torch/lowered.h"

namespace pijit::torch_adapter {
namespace {

using at::indexing::TensorIndex;

// An integer of an index: absent (None), constant, or a register.
struct Bound {
  bool given = false, constant = true;
  int64_t value = 0;  // or the register
};

template <class Fields>
void bound_field(Fields& each, Bound& bound) {
  each.number(bound.given);
  each.number(bound.constant);
  auto reg = static_cast<uint32_t>(bound.value);
  if (bound.constant) return each.number(bound.value);
  each.reg(reg, Rep::kInt);
  bound.value = reg;
}

struct Index {
  enum Kind : uint8_t { kNone, kEllipsis, kBool, kInt, kSlice, kTensor, kList } kind = kNone;
  Bound bounds[3];     // kInt: [0]; kSlice: start, stop, step; kBool: [0]
  uint32_t reg = 0;    // kTensor
  Vec<Bound> list;     // kList: what stands in it and in lists within it, in order
  Vec<int64_t> sizes;  // kList: the shape of the tensor that the binding makes of it
  bool mask = false;   // kList: all of them are bools

  template <class Fields>
  void fields(Fields& each) {
    choice_field(each, kind, static_cast<size_t>(kList) + 1);
    for (Bound& bound : bounds) bound_field(each, bound);
    if (kind == kTensor) each.reg(reg, Rep::kTensor);
    each.list(list, [&](Bound& bound) { bound_field(each, bound); });
    each.list(sizes, [&](int64_t& size) { each.number(size); });
    each.number(mask);
    if constexpr (Fields::kReads)
      if (!is_whole()) each.fail();
  }
  // A number is there where one is needed, and as many as the shape of a list says.
  bool is_whole() const {
    if (kind == kInt && !bounds[0].given) return false;
    size_t count = 1;
    for (int64_t size : sizes) {
      if (size < 0 || static_cast<size_t>(size) > list.size()) return false;
      count *= static_cast<size_t>(size);
      if (count > list.size()) return false;
    }
    return kind != kList || (count == list.size() && !sizes.empty());
  }
};

class IndexProgram {
 public:
  void add(Index index) {
    dynamic_ |= index.kind == Index::kTensor;
    lists_ |= index.kind == Index::kList;
    for (const Bound& bound : index.bounds) dynamic_ |= !bound.constant;
    for (const Bound& bound : index.list) dynamic_ |= !bound.constant;
    parts_.push_back(std::move(index));
  }
  // Applies `use` to the indices of this run into `self`, whose device is the current one meanwhile, as in the binding.
  template <typename Use>
  void with(const at::Tensor& self, const Reg* regs, Use use) {
    c10::OptionalDeviceGuard guard;
    if (!self.is_cpu()) guard.reset_device(self.device());
    if (dynamic_ || (lists_ && !self.is_cpu())) return use(at::ArrayRef<TensorIndex>(build(self, regs)));
    if (fixed_.empty()) fixed_ = build(self, regs);
    use(at::ArrayRef<TensorIndex>(fixed_));
  }
  OperatorArgument argument() const;
  // The binding warns of it at each call, with the line of the program: CPython runs it in each replay.
  void warn() noexcept { warns_ = true; }
  bool warns() const noexcept { return warns_; }
  template <class Fields>
  void fields(Fields& each) {
    Vec<Index> parts = parts_;
    each.list(parts, [&](Index& part) { part.fields(each); });
    each.number(warns_);
    if constexpr (Fields::kReads)
      for (Index& part : parts) add(std::move(part));
  }
  // What is read by it is a view.
  bool is_basic() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Index& part) {
      return part.kind == Index::kNone || part.kind == Index::kEllipsis || part.kind == Index::kInt ||
             part.kind == Index::kSlice;
    });
  }

 private:
  Vec<TensorIndex> build(const at::Tensor& self, const Reg* regs) const {
    Vec<TensorIndex> indices;
    indices.reserve(parts_.size());
    for (const Index& part : parts_) {
      switch (part.kind) {
        case Index::kNone:
          indices.emplace_back(std::nullopt);
          break;
        case Index::kEllipsis:
          indices.emplace_back(at::indexing::Ellipsis);
          break;
        case Index::kBool:
          indices.emplace_back(part.bounds[0].value != 0);
          break;
        case Index::kInt:
          indices.emplace_back(*number(part.bounds[0], regs));
          break;
        case Index::kSlice:
          indices.emplace_back(at::indexing::Slice(number(part.bounds[0], regs), number(part.bounds[1], regs),
                                                   number(part.bounds[2], regs)));
          break;
        case Index::kTensor:
          indices.emplace_back(share(regs[part.reg].tensor));
          break;
        case Index::kList:
          indices.emplace_back(list(part, self.device(), regs));
          break;
      }
    }
    return indices;
  }
  // The tensor that the binding makes of a list.
  static at::Tensor list(const Index& part, c10::Device device, const Reg* regs) {
    at::Tensor made =
        at::empty(c10::IntArrayRef(part.sizes.data(), part.sizes.size()), part.mask ? at::kBool : at::kLong);
    if (part.mask) {
      bool* to = made.mutable_data_ptr<bool>();
      for (const Bound& item : part.list) *to++ = item.value != 0;
    } else {
      auto* to = made.mutable_data_ptr<int64_t>();
      for (const Bound& item : part.list) *to++ = item.constant ? item.value : regs[item.value].integer;
    }
    return device.is_cpu() ? made : made.to(device);
  }
  static std::optional<c10::SymInt> number(const Bound& bound, const Reg* regs) {
    if (!bound.given) return std::nullopt;
    return c10::SymInt(bound.constant ? bound.value : regs[bound.value].integer);
  }

  Vec<Index> parts_;
  Vec<TensorIndex> fixed_;
  bool dynamic_ = false, lists_ = false, warns_ = false;
};

OperatorArgument bound_argument(const Bound& bound) {
  if (!bound.given) return literal_argument("", Py_None);
  return bound.constant ? literal_argument("", c10::IValue(bound.value))
                        : OperatorArgument::of_register("", static_cast<uint32_t>(bound.value));
}

// A list of an index, from some axis of its tensor on; `next`: the first number that is not taken yet.
OperatorArgument list_argument(const Index& part, size_t axis, const Bound*& next) {
  OperatorArgument made = OperatorArgument::of_items("", OperatorArgument::Kind::kList);
  for (int64_t i = 0; i < part.sizes[axis]; ++i) {
    if (axis + 1 < part.sizes.size()) {
      made.items.push_back(list_argument(part, axis + 1, next));
      continue;
    }
    made.items.push_back(part.mask ? literal_argument("", c10::IValue(next->value != 0)) : bound_argument(*next));
    ++next;
  }
  return made;
}

OperatorArgument index_argument(const Index& part) {
  using Kind = OperatorArgument::Kind;
  OperatorArgument made;
  switch (part.kind) {
    case Index::kNone:
      return literal_argument("", Py_None);
    case Index::kEllipsis:
      return literal_argument("", Py_Ellipsis);
    case Index::kBool:
      return literal_argument("", c10::IValue(part.bounds[0].value != 0));
    case Index::kInt:
      return bound_argument(part.bounds[0]);
    case Index::kTensor:
      return OperatorArgument::of_register("", part.reg);
    case Index::kSlice:
      made = OperatorArgument::of_items("", Kind::kSlice);
      for (const Bound& bound : part.bounds) made.items.push_back(bound_argument(bound));
      return made;
    case Index::kList:
      break;
  }
  const Bound* next = part.list.data();
  return list_argument(part, 0, next);
}

// One index as it is, several as a tuple.
OperatorArgument IndexProgram::argument() const {
  OperatorArgument made = OperatorArgument::of_items("", OperatorArgument::Kind::kTuple);
  for (const Index& part : parts_) made.items.push_back(index_argument(part));
  if (made.items.size() == 1) {
    OperatorArgument only = std::move(made.items.front());
    made = std::move(only);
  }
  made.name = "index";
  return made;
}

class GetItemOp final : public KeptOp<GetItemOp> {
 public:
  static constexpr const char* kName = "getitem";
  GetItemOp() = default;
  GetItemOp(uint32_t self, uint32_t out, IndexProgram program) : self_(self), out_(out), program_(std::move(program)) {}
  bool run(Reg* regs) noexcept override {
    if (program_.warns()) return false;
    try {
      at::Tensor self = share(regs[self_].tensor), result;
      WarningTrap trap;
      program_.with(self, regs,
                    [&](at::ArrayRef<TensorIndex> indices) { result = at::indexing::get_item(self, indices); });
      put(regs[out_], std::move(result));
      trap.keep();
      return true;
    } catch (...) {
      return refuse();
    }
  }
  bool is_repeatable() const noexcept override { return true; }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::getitem";
    made.repeatable = true;
    made.add(self_argument(self_));
    made.add(program_.argument());
    made.give(out_, program_.is_basic() ? 0 : -1);
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    each.reg(out_, Rep::kTensor);
    program_.fields(each);
  }

 private:
  uint32_t self_ = 0, out_ = 0;
  IndexProgram program_;
};

class SetItemOp final : public KeptOp<SetItemOp> {
 public:
  static constexpr const char* kName = "setitem";
  static bool has_integer(const Arg& value) { return value.kind == ArgKind::kInt || value.kind == ArgKind::kBool; }
  SetItemOp() = default;
  SetItemOp(uint32_t self, const Arg& value, IndexProgram program)
      : self_(self),
        value_{value.kind, value.dynamic, value.value.is_reg() ? value.value.index() : 0,
               has_integer(value) ? value.integer : 0, value.kind == ArgKind::kFloat ? value.number : 0},
        program_(std::move(program)) {}
  bool run(Reg* regs) noexcept override {
    if (program_.warns()) return false;
    try {
      at::Tensor self = share(regs[self_].tensor);
      WarningTrap trap;
      program_.with(self, regs, [&](at::ArrayRef<TensorIndex> indices) {
        if (value_.kind == ArgKind::kTensor)
          at::indexing::set_item(self, indices, share(regs[value_.reg].tensor));
        else
          write_number(self, indices, scalar(regs));
      });
      trap.keep();
      return true;
    } catch (...) {
      return refuse();
    }
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "tensor::setitem";
    made.add(self_argument(self_, true));
    made.add(program_.argument());
    if (value_.kind == ArgKind::kTensor || value_.dynamic)
      made.add(OperatorArgument::of_register("value", value_.reg));
    else
      made.add(literal_argument(
          "value", value_.kind == ArgKind::kFloat ? c10::IValue(value_.number) : c10::IValue(value_.integer)));
    return made;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.reg(self_, Rep::kTensor);
    choice_field(each, value_.kind, static_cast<size_t>(ArgKind::kOther) + 1);
    each.number(value_.dynamic);
    const bool is_tensor = value_.kind == ArgKind::kTensor;
    if (is_tensor || value_.dynamic) each.reg(value_.reg, is_tensor ? Rep::kTensor : Rep::kEmpty);
    each.number(value_.integer);
    each.number(value_.number);
    program_.fields(each);
    if constexpr (Fields::kReads)
      if (value_.dynamic && !is_tensor && !is_number(each.rep(value_.reg))) each.fail();
  }

 private:
  struct Value {
    ArgKind kind = ArgKind::kInt;
    bool dynamic = false;
    uint32_t reg = 0;
    int64_t integer = 0;
    double number = 0;
  };
  c10::Scalar scalar(const Reg* regs) const {
    if (value_.dynamic) {
      const Reg& reg = regs[value_.reg];
      if (reg.rep == Rep::kFloat) return reg.number;
      return reg.rep == Rep::kInt ? reg.integer : static_cast<int64_t>(reg.boolean);
    }
    // The binding turns bools into integers.
    if (value_.kind == ArgKind::kFloat) return value_.number;
    return value_.integer;
  }

  uint32_t self_ = 0;
  Value value_;
  IndexProgram program_;
};

[[maybe_unused]] const bool kKeptIndexing = add_maker<GetItemOp>() && add_maker<SetItemOp>();

bool take_bound(const Arg& arg, Bound* bound, Vals* inputs) {
  if (arg.kind == ArgKind::kNone) return true;
  if (arg.kind != ArgKind::kInt) return false;
  *bound = {true, !arg.dynamic, arg.dynamic ? static_cast<int64_t>(arg.value.index()) : arg.integer};
  if (arg.dynamic) inputs->push_back(arg.value);
  return true;
}

// The numbers of nested lists; false: they have no shape, or something else stands in them.
bool take_list(const Recording& recording, const Arg& arg, size_t axis, Index* index, Vals* inputs) {
  if (axis == index->sizes.size() && index->list.empty()) index->sizes.push_back(arg.count);
  if (axis >= index->sizes.size() || index->sizes[axis] != arg.count) return false;
  for (uint32_t i = 0; i < arg.count; ++i) {
    const Arg& item = recording.child(arg, i);
    if (item.kind == ArgKind::kSequence) {
      if (!take_list(recording, item, axis + 1, index, inputs)) return false;
      continue;
    }
    if (axis + 1 != index->sizes.size()) return false;
    const bool is_bool = item.kind == ArgKind::kBool && !item.dynamic;
    Bound bound;
    if (is_bool) bound = {true, true, item.integer};
    if (!is_bool && (!take_bound(item, &bound, inputs) || !bound.given)) return false;
    index->mask = is_bool && (index->mask || index->list.empty());
    index->list.push_back(bound);
  }
  return true;
}

bool take_index(const Recording& recording, const Arg& arg, IndexProgram* program, Vals* inputs) {
  Index index{};
  switch (arg.kind) {
    case ArgKind::kNone:
      index.kind = Index::kNone;
      break;
    case ArgKind::kEllipsis:
      index.kind = Index::kEllipsis;
      break;
    case ArgKind::kBool:
      if (arg.dynamic) return false;
      index.kind = Index::kBool;
      index.bounds[0] = {true, true, arg.integer};
      break;
    case ArgKind::kInt:
      index.kind = Index::kInt;
      if (!take_bound(arg, &index.bounds[0], inputs)) return false;
      break;
    case ArgKind::kSlice:
      index.kind = Index::kSlice;
      for (uint32_t i = 0; i < 3; ++i)
        if (!take_bound(recording.child(arg, i), &index.bounds[i], inputs)) return false;
      break;
    case ArgKind::kTensor:
      index.kind = Index::kTensor;
      index.reg = arg.value.index();
      inputs->push_back(arg.value);
      break;
    case ArgKind::kSequence:
      index.kind = Index::kList;
      if (!take_list(recording, arg, 0, &index, inputs)) return false;
      break;
    default:
      return false;
  }
  program->add(std::move(index));
  return true;
}

// Tuples, torch.Size among them, and lists that the binding takes for one (treatSequenceAsTuple in
// python_variable_indexing.cpp).
bool is_as_tuple(const Recording& recording, const Arg& arg) {
  if (arg.type != &PyList_Type) return true;
  constexpr uint32_t kTooLong = 32;
  for (uint32_t i = 0; arg.count < kTooLong && i < arg.count; ++i) {
    const ArgKind kind = recording.child(arg, i).kind;
    if (kind == ArgKind::kTensor || kind == ArgKind::kSequence || kind == ArgKind::kSlice ||
        kind == ArgKind::kEllipsis || kind == ArgKind::kNone)
      return true;
  }
  return false;
}

// A tuple is several indices; a list of numbers, or of lists of them, is one, a tensor. Other lists are not taken.
bool take_program(const Recording& recording, const Arg& arg, IndexProgram* program, Vals* inputs) {
  if (arg.kind == ArgKind::kSequence && arg.type == nullptr) return false;
  if (arg.kind != ArgKind::kSequence || !is_as_tuple(recording, arg))
    return take_index(recording, arg, program, inputs);
  if (arg.type == &PyList_Type) program->warn();
  for (uint32_t i = 0; i < arg.count; ++i)
    if (!take_index(recording, recording.child(arg, i), program, inputs)) return false;
  // x[i,] takes the way of several indices; an ellipsis changes nothing else.
  if (arg.count == 1) program->add(Index{Index::kEllipsis, {}, 0, {}, {}, false});
  return true;
}

constexpr const char* kIndexOperators[] = {
    "select",       "slice",      "unsqueeze",  "alias",  "index", "item",  "_local_scalar_dense", "copy_",
    "fill_",        "view",       "index_put_", "expand", "empty", "zeros", "scalar_tensor",       "lift_fresh",
    "to",                            // of the tensor that is made of a list
    "masked_fill_", "index_fill_"};  // of a number, from torch 2.15 on

bool known_operators(const Eye& eye) {
  for (const SeenOp& op : eye.ops) {
    bool known = false;
    for (const char* name : kIndexOperators) known |= op.info->base == name;
    if (!known || op.info->python) return false;
  }
  return true;
}

}  // namespace

CallFate begin_index(Recording& recording, const CallSite& site) {
  bool store = site.kind == SiteKind::kStoreSubscr;
  if (recording.operands != (store ? 3u : 2u) || recording.arg(0).kind != ArgKind::kTensor) return CallFate::kUnknown;
  if (store) {
    ArgKind kind = recording.arg(2).kind;
    if (kind != ArgKind::kTensor && kind != ArgKind::kInt && kind != ArgKind::kFloat && kind != ArgKind::kBool)
      return CallFate::kUnknown;
  }
  return CallFate::kObserve;
}

bool finish_index(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  const Arg& self = recording.arg(0);
  IndexProgram program;
  Vals inputs{self.value};
  if (!known_operators(recording.eye) || !take_program(recording, recording.arg(1), &program, &inputs)) return false;
  if (site.kind == SiteKind::kSubscr) {
    if (!recording.follows(object)) return false;
    *result = recording.api.new_reg(Rep::kTensor, tensor_type());
    auto op = std::make_unique<GetItemOp>(self.value.index(), result->index(), std::move(program));
    recording.api.emit(std::move(op), inputs, {*result}, false);
    return true;
  }
  const Arg& value = recording.arg(2);
  if (value.kind == ArgKind::kTensor || value.dynamic) inputs.push_back(value.value);
  recording.api.emit(std::make_unique<SetItemOp>(self.value.index(), value, std::move(program)), inputs, {}, false);
  recording.forget_autograd();
  return true;
}

}  // namespace pijit::torch_adapter
