// IValues as Python objects.
#include "torch/literals.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <algorithm>
#include <cctype>

#include "torch/eye.h"

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

const c10::Type* element(const c10::Type* type) {
  type = inner(type);
  return type != nullptr && type->kind() == c10::TypeKind::ListType ? type->containedType(0).get() : nullptr;
}

Ref taken(PyObject* made) {
  if (made == nullptr) PyErr_Clear();
  return Ref::steal(made);
}

Ref integer(int64_t number, const c10::Type* type) {
  switch (type == nullptr ? c10::TypeKind::IntType : type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return python_object(static_cast<at::ScalarType>(number));
    case c10::TypeKind::MemoryFormatType:
      return python_object(static_cast<at::MemoryFormat>(number));
    case c10::TypeKind::LayoutType:
      return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<at::Layout>(number))));
    default:
      return taken(PyLong_FromLongLong(number));
  }
}

// A number that the dispatcher gets as a tensor.
Ref wrapped_number(const at::Tensor& tensor) {
  if (!tensor.defined()) return Ref::borrow(Py_None);
  if (tensor.numel() != 1) return taken(THPVariable_Wrap(tensor));
  EyeClosed closed;
  return python_object(c10::IValue(tensor.item()));
}

using Sets = std::unordered_set<c10::Symbol>;

// Where a value of the schema may lie; of a list also where its items may.
void add_sets(const c10::AliasInfo* alias, Sets* sets) {
  if (alias == nullptr) return;
  for (c10::Symbol set : alias->beforeSets()) sets->insert(set);
  for (const c10::AliasInfo& item : alias->containedTypes()) add_sets(&item, sets);
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

Ref python_object(at::ScalarType dtype) {
  return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype)));
}

Ref python_object(at::MemoryFormat format) {
  return Ref::borrow(torch::utils::getTHPMemoryFormat(format));
}

Ref python_object(c10::Device device) {
  return taken(THPDevice_New(device));
}

Ref python_object(const c10::IValue& value, const c10::Type* type) {
  if (value.isNone()) return Ref::borrow(Py_None);
  if (value.isBool()) return Ref::borrow(value.toBool() ? Py_True : Py_False);
  if (value.isInt()) return integer(value.toInt(), inner(type));
  if (value.isDouble()) return taken(PyFloat_FromDouble(value.toDouble()));
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return taken(PyComplex_FromDoubles(number.real(), number.imag()));
  }
  if (value.isString()) {
    const std::string& text = value.toStringRef();
    return taken(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  }
  if (value.isDevice()) return python_object(value.toDevice());
  if (value.isTensor()) return wrapped_number(value.toTensor());
  if (value.isGenerator()) return taken(THPGenerator_Wrap(value.toGenerator()));
  return Ref();
}

OperatorArgument literal_argument(std::string name, const c10::IValue& value, const c10::Type* type) {
  if (!value.isList()) return OperatorArgument::of_literal(std::move(name), python_object(value, type));
  OperatorArgument made = OperatorArgument::of_items(std::move(name), OperatorArgument::Kind::kList);
  for (const c10::IValue& item : value.toListRef()) made.items.push_back(literal_argument("", item, element(type)));
  return made;
}

int shared_argument(const c10::FunctionSchema& schema, size_t result) {
  static const c10::Symbol kWildcard = c10::AliasInfo::wildcardSet();
  Sets own;
  add_sets(schema.returns()[result].alias_info(), &own);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    Sets sets;
    add_sets(schema.arguments()[i].alias_info(), &sets);
    for (c10::Symbol set : sets)
      if (set != kWildcard && own.count(set) != 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace pijit::torch_adapter
