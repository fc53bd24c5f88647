// One class per signature, made by template; which one fits an operator is looked up once.
#include "torch/direct.h"

#include <unordered_map>

#include "torch/direct_arguments.h"

namespace pijit::torch_adapter {
namespace {

using T = const at::Tensor&;
using MaybeT = const std::optional<at::Tensor>&;
using S = const at::Scalar&;
using MaybeS = const std::optional<at::Scalar>&;
using MaybeSymInt = std::optional<c10::SymInt>;

using Maker = std::unique_ptr<AdapterOp> (*)(std::unique_ptr<LoweredOp>&);

// Where results go.
template <typename Result>
class DirectResult;

template <>
class DirectResult<at::Tensor> {
 public:
  static constexpr const char* kName = "Tensor";
  bool bind(const LoweredOp& op) {
    const Vec<Out>& outs = op.outs();
    if (outs.size() != 1 || outs[0].kind != Out::kTensor) return false;
    reg_ = outs[0].reg;
    return true;
  }
  bool store(at::Tensor&& value, Reg* regs) const noexcept {
    if (!value.defined()) return false;
    put(regs[reg_], std::move(value));
    return true;
  }

 private:
  uint32_t reg_ = 0;
};

template <>
class DirectResult<std::vector<at::Tensor>> {
 public:
  static constexpr const char* kName = "Tensor[]";
  bool bind(const LoweredOp& op) {
    const Vec<Out>& outs = op.outs();
    if (outs.size() != 1 || outs[0].kind != Out::kTensorList) return false;
    for (uint32_t i = 0; i < outs[0].count; ++i) regs_.push_back(op.list_reg(outs[0].reg + i));
    return true;
  }
  bool store(std::vector<at::Tensor>&& values, Reg* regs) const noexcept {
    if (values.size() != regs_.size()) return false;
    for (size_t i = 0; i < values.size(); ++i) put(regs[regs_[i]], std::move(values[i]));
    return true;
  }

 private:
  c10::SmallVector<uint32_t, 6> regs_;
};

template <typename Result, typename... Arguments>
class DirectOp final : public AdapterOp {
 public:
  using Signature = Result(Arguments...);

  static std::string key() {
    std::string text = DirectResult<Result>::kName;
    ((text += std::string(",") + DirectArgument<Arguments>::kName), ...);
    return text;
  }
  // Null, and the operation is untouched: an argument is of a kind that is not made here.
  static std::unique_ptr<AdapterOp> make(std::unique_ptr<LoweredOp>& op) {
    auto made = std::make_unique<DirectOp>(op->info().handle.typed<Signature>());
    if (!made->bind(*op, std::index_sequence_for<Arguments...>())) return nullptr;
    made->boxed_ = std::move(op);
    return made;
  }

  explicit DirectOp(c10::TypedOperatorHandle<Signature> handle) : handle_(handle) {}

  bool run(Reg* regs) noexcept override {
    try {
      return run(regs, std::index_sequence_for<Arguments...>());
    } catch (...) {
      return refuse();
    }
  }
  bool is_repeatable() const noexcept override { return boxed_->is_repeatable(); }
  OperatorCall call() const override { return boxed_->call(); }
  bool keep(Words& words) const override { return boxed_->keep(words); }

 private:
  template <size_t... kIndex>
  bool bind(const LoweredOp& op, std::index_sequence<kIndex...>) {
    skipped_ = op.skipped();
    factory_ = op.factory();
    return result_.bind(op) && (std::get<kIndex>(arguments_).bind(op, kIndex) && ...);
  }

  template <size_t... kIndex>
  bool run(Reg* regs, std::index_sequence<kIndex...> indices) {
    WarningTrap trap;
    SkipAutograd skip(skipped_, factory_);
    Result value = handle_.call(std::get<kIndex>(arguments_).make(regs)...);
    (void)indices;
    if (!result_.store(std::move(value), regs)) return false;
    trap.keep();
    return true;
  }

  c10::TypedOperatorHandle<Signature> handle_;
  std::tuple<DirectArgument<Arguments>...> arguments_;
  DirectResult<Result> result_;
  c10::DispatchKeySet skipped_;
  bool factory_;
  std::unique_ptr<LoweredOp> boxed_;  // as it was recorded: for printing, and the owner of constants
};

std::string key_of(const OperatorInfo& info) {
  const c10::FunctionSchema& schema = info.handle.schema();
  if (schema.returns().size() != 1) return "";
  std::string text = schema.returns()[0].real_type()->str();
  for (const c10::Argument& argument : schema.arguments()) text += "," + argument.real_type()->str();
  return text;
}

const std::unordered_multimap<std::string, Maker>& makers() {
  static const auto* table = new std::unordered_multimap<std::string, Maker>{
#define PIJIT_SIGNATURE(...) {DirectOp<__VA_ARGS__>::key(), &DirectOp<__VA_ARGS__>::make},
#include "torch/direct_signatures.def"
#undef PIJIT_SIGNATURE
  };
  return *table;
}

// The maker whose signature the operator really has. Guarded by the GIL.
Maker maker_of(const OperatorInfo& info, std::unique_ptr<LoweredOp>& op, std::unique_ptr<AdapterOp>* made) {
  auto [first, last] = makers().equal_range(key_of(info));
  for (; first != last; ++first) {
    try {
      *made = first->second(op);
      return first->second;
    } catch (const c10::Error&) {  // the kernels have another C++ signature
    }
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<AdapterOp> make_direct(std::unique_ptr<LoweredOp> op) {
  static auto* known = new Map<const OperatorInfo*, Maker>;
  const OperatorInfo& info = op->info();
  std::unique_ptr<AdapterOp> made;
  if (!info.mutates && !op->draws()) {
    auto found = known->find(&info);
    if (found == known->end()) {
      Maker maker = maker_of(info, op, &made);
      known->emplace(&info, maker);
    } else if (found->second != nullptr) {
      made = found->second(op);
    }
  }
  if (made == nullptr) return op;
  return made;
}

void list_signatures() {
  makers();
}

}  // namespace pijit::torch_adapter
