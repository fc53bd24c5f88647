// Tensors of numbers that are the same in every replay, such as torch.tensor([], dtype=x.dtype): their bytes are kept,
// and each replay makes a fresh tensor of them. What the binding does beside that (it goes through Python's sequences,
// and looks for a mode that wants to know of it) has been done once and for all.
#include <ATen/EmptyTensor.h>

#include <cstring>
#include <sstream>
#include <string_view>

#include "torch/calls.h"
#include "torch/eye.h"
#include "torch/kept.h"
#include "torch/literals.h"

namespace pijit::torch_adapter {
namespace {

constexpr size_t kMaxBytes = 4096;  // of more, the binding is not what takes the time

class LiteralOp final : public KeptOp<LiteralOp> {
 public:
  static constexpr const char* kName = "literal";
  LiteralOp() = default;
  LiteralOp(const Impl& tensor, uint32_t out)
      : sizes_(tensor.sizes().begin(), tensor.sizes().end()),
        device_(tensor.device()),
        dtype_(c10::typeMetaToScalarType(tensor.dtype())),
        bytes_(static_cast<size_t>(tensor.numel()) * tensor.itemsize()),
        out_(out) {
    if (!bytes_.empty()) std::memcpy(bytes_.data(), tensor.data(), bytes_.size());
  }

  bool run(Reg* regs) noexcept override {
    try {
      put(regs[out_], made());
      return true;
    } catch (...) {
      return refuse();
    }
  }
  bool is_repeatable() const noexcept override { return true; }
  OperatorCall call() const override {
    OperatorArgument value = OperatorArgument::of_literal("value", Ref::steal(THPVariable_Wrap(made())));
    std::ostringstream content;
    if (!device_.is_cpu()) content << device_;
    content << c10::toString(dtype_) << c10::IntArrayRef(sizes_);
    value.content = content.str() + std::string(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    OperatorCall call;
    call.name = "tensor::literal";
    call.repeatable = true;
    call.add(std::move(value));
    call.give(out_);
    return call;
  }
  template <class Fields>
  void fields(Fields& each) {
    each.list(sizes_, [&](int64_t& size) { each.number(size); });
    device_field(each, device_);
    choice_field(each, dtype_, static_cast<size_t>(c10::ScalarType::NumOptions));
    std::string bytes(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    each.text(bytes);
    each.reg(out_, Rep::kTensor);
    if constexpr (Fields::kReads) {
      const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
      bytes_.assign(begin, begin + bytes.size());
      if (!fits()) each.fail();
    }
  }

 private:
  // The bytes are those of a tensor of such sizes.
  bool fits() const {
    size_t count = 1;
    for (int64_t size : sizes_) {
      if (size < 0 || static_cast<size_t>(size) > kMaxBytes || count > kMaxBytes) return false;
      count *= static_cast<size_t>(size);
    }
    return dtype_ < c10::ScalarType::QInt8 && count * c10::elementSize(dtype_) == bytes_.size();
  }
  at::Tensor made() const {
    if (!device_.is_cpu()) return at::empty(sizes_, at::TensorOptions(device_).dtype(dtype_));
    at::Tensor tensor = at::detail::empty_cpu(sizes_, dtype_);
    if (!bytes_.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes_.data(), bytes_.size());
    return tensor;
  }

  Vec<int64_t> sizes_;
  c10::Device device_ = c10::kCPU;
  c10::ScalarType dtype_ = c10::kFloat;
  Vec<std::byte> bytes_;
  uint32_t out_ = 0;
};

[[maybe_unused]] const bool kKeptLiteral = add_maker<LiteralOp>();

// On another device it has no elements, such as the first ones of a cache that grows.
bool is_plain(const Impl& tensor) {
  const bool is_there = tensor.device().is_cpu() ? tensor.storage().allocator() == c10::GetAllocator(c10::kCPU)
                                                 : tensor.numel() == 0 && tensor.device().type() != c10::kMeta;
  return is_there && tensor.layout() == at::kStrided && tensor.is_contiguous() && !tensor.requires_grad() &&
         static_cast<size_t>(tensor.numel()) * tensor.itemsize() <= kMaxBytes;
}

bool is_literal(const Recording& recording) {
  for (const Arg& arg : recording.args) {
    switch (arg.kind) {
      case ArgKind::kNone:
      case ArgKind::kBool:
      case ArgKind::kInt:
      case ArgKind::kFloat:
      case ArgKind::kComplex:
      case ArgKind::kString:
      case ArgKind::kDtype:
      case ArgKind::kLayout:
      case ArgKind::kDevice:
        if (arg.dynamic) return false;
        break;
      case ArgKind::kSequence:
        break;
      default:  // kNull: what is in it was not looked at
        return false;
    }
  }
  return true;
}

}  // namespace

bool finish_literal(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  if (!is_literal(recording) || Py_TYPE(object) != tensor_type() || !is_plain_tensor(object) ||
      !is_plain(*impl_of(object)))
    return finish_callable(recording, site, object, result);
  *result = recording.api.new_reg(Rep::kTensor, tensor_type());
  recording.api.emit(std::make_unique<LiteralOp>(*impl_of(object), result->index()), {}, {*result}, false);
  Known& known = recording.known(*result);
  known.dtype = known.device = known.keys = known.dim = true;
  return true;
}

}  // namespace pijit::torch_adapter
