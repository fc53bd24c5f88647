// Operators and their constant arguments as Python.
#include "torch/python_text.h"

#include <algorithm>

#include "common/float_text.h"
#include "common/ref.h"
#include "torch/eye.h"
#include "torch/lowered.h"

namespace pijit::torch_adapter {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

const c10::Type* inner(const c10::Type* type) {
  while (type != nullptr && type->kind() == c10::TypeKind::OptionalType)
    type = type->castRaw<c10::OptionalType>()->getElementType().get();
  return type;
}

std::string integer_text(int64_t number, const c10::Type* type) {
  constexpr const char* kLayouts[] = {"strided", "sparse_coo", "sparse_csr", "_mkldnn"};
  const c10::TypeKind kind = type == nullptr ? c10::TypeKind::IntType : type->kind();
  if (kind == c10::TypeKind::ScalarTypeType) return "torch." + type_words(static_cast<c10::ScalarType>(number));
  if (kind == c10::TypeKind::MemoryFormatType) return memory_format_words(number);
  if (kind == c10::TypeKind::LayoutType && number >= 0 && number < 4) return std::string("torch.") + kLayouts[number];
  return std::to_string(number);
}

std::string quoted(const std::string& text) {
  const Ref unicode = Ref::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  const Ref repr = unicode ? Ref::steal(PyObject_Repr(unicode.get())) : Ref();
  const char* made = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
  if (made == nullptr) PyErr_Clear();
  return made == nullptr ? "'?'" : made;
}

std::string tensor_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "None";
  return tensor.numel() == 1 ? python_text(c10::IValue(tensor.item())) : "literal()";
}

}  // namespace

std::string type_words(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    default:
      return lower(c10::toString(dtype));
  }
}

std::string memory_format_words(int64_t format) {
  constexpr const char* kNames[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
  return std::string("torch.") + (format >= 0 && format < 4 ? kNames[format] : "contiguous_format");
}

std::string python_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string python_text(const c10::IValue& value, const c10::Type* type) {
  type = inner(type);
  if (value.isNone()) return "None";
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isInt()) return integer_text(value.toInt(), type);
  if (value.isDouble()) return float_text(value.toDouble());
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return "complex(" + float_text(number.real()) + ", " + float_text(number.imag()) + ")";
  }
  if (value.isString()) return quoted(value.toStringRef());
  if (value.isDevice()) return "torch.device('" + value.toDevice().str() + "')";
  if (value.isTensor()) return tensor_text(value.toTensor());
  if (value.isList()) {
    std::string text;
    for (const c10::IValue& item : value.toListRef()) text += (text.empty() ? "" : ", ") + python_text(item);
    return "[" + text + "]";
  }
  return quoted(value.tagKind());
}

// Arguments at the end that are what the schema has for a default are left out.
std::string LoweredOp::python() const {
  EyeClosed closed;
  const auto& schema = info_.handle.schema().arguments();
  std::vector<std::string> texts;
  std::vector<bool> usual;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    std::string text;
    bool is_usual = false;
    if (slot.kind == Slot::kConst) {
      const c10::Type* type = schema[i].real_type().get();
      text = python_text(values_[i], type);
      is_usual = schema[i].default_value() && python_text(*schema[i].default_value(), type) == text;
    } else if (slot.kind == Slot::kIntList || slot.kind == Slot::kTensorList || slot.kind == Slot::kOptionalList) {
      for (uint32_t k = 0; k < slot.count; ++k) {
        const Part& part = parts_[slot.first + k];
        text += k != 0 ? ", " : "";
        text += !part.constant                ? "r" + std::to_string(part.value)
                : slot.kind == Slot::kIntList ? std::to_string(part.value)
                                              : "None";
      }
      text = "[" + text + "]";
    } else {
      text = "r" + std::to_string(slot.reg);
    }
    texts.push_back(std::move(text));
    usual.push_back(is_usual);
  }
  size_t positional = std::min(info_.positional, texts.size());
  while (positional > 0 && usual[positional - 1]) positional -= 1;
  std::string text;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i < info_.positional ? i >= positional : usual[i]) continue;
    text += text.empty() ? "" : ", ";
    if (i >= info_.positional) text += schema[i].name() + "=";
    text += texts[i];
  }
  std::string name = info_.full;
  if (const size_t at = name.find("::"); at != std::string::npos) name.replace(at, 2, ".");
  return "torch.ops." + name + "(" + text + ")";
}

}  // namespace pijit::torch_adapter
