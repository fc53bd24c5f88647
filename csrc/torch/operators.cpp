// Facts of ATen operators, and which of them have kernels that were registered from Python.
#include "torch/operators.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "common/ref.h"

namespace pijit::torch_adapter {
namespace {

// Guards all below: operators are dispatched without the GIL.
std::mutex g_mutex;
std::unordered_set<std::string>& python_kernels() {
  static auto* names = new std::unordered_set<std::string>;
  return *names;
}
Py_ssize_t g_python_kernel_count = 0;
bool g_python_autograd = false;
uint64_t g_generation = 1;

// Writes that add to what is there: a kernel that fails in the middle must not be run again.
constexpr const char* kAccumulating[] = {"index_add_",       "scatter_add_",   "scatter_reduce_",
                                         "index_reduce_",    "index_put_",     "put_",
                                         "_index_put_impl_", "segment_reduce", "embedding_renorm_"};

// It does the same to each tensor of a list.
bool is_of_lists(const std::string& base) noexcept {
  return base.rfind("_foreach_", 0) == 0;
}

Form form_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return Form::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return Form::kInt;
    case c10::TypeKind::FloatType:
      return Form::kFloat;
    case c10::TypeKind::NumberType:
      return Form::kScalar;
    case c10::TypeKind::BoolType:
      return Form::kBool;
    case c10::TypeKind::OptionalType:
      return form_of(*type.containedType(0));
    case c10::TypeKind::ListType: {
      Form element = form_of(*type.containedType(0));
      if (element == Form::kTensor) return Form::kTensorList;
      return element == Form::kInt ? Form::kIntList : Form::kOther;
    }
    default:
      return Form::kOther;
  }
}

// Kernels of other dispatch keys see tensors without data, or those of vmap: torch.func registers some when it is first
// used.
bool meets_plain_tensors(const std::string& key) {
  return key != "Meta" && key != "FuncTorchBatched";
}

bool is_option(const std::string& name) {
  return name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& op) : handle(op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  aten = name.rfind("aten::", 0) == 0;
  base = name.substr(name.find("::") + 2);
  full = schema.overload_name().empty() ? name : name + "." + schema.overload_name();
  for (const c10::Argument& argument : schema.arguments()) {
    bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    bool option = argument.type()->kind() == c10::TypeKind::OptionalType && is_option(argument.name());
    arguments.push_back({&argument, form_of(*argument.type()), argument.type()->kind() == c10::TypeKind::OptionalType,
                         argument.kwarg_only(), argument.is_out(), written, option});
    if (!argument.kwarg_only()) ++positional;
    mutates |= written;
    reshapes |= argument.is_out();
  }
  returns = schema.returns().size();
  reshapes |=
      mutates && (op.hasTag(at::Tag::inplace_view) || base == "set_" || base == "resize_" || base == "resize_as_");
  random = op.hasTag(at::Tag::nondeterministic_seeded);
  statistics = base.find("batch_norm") != std::string::npos || base == "instance_norm";
  accumulates = is_accumulating(base) || (mutates && is_of_lists(base));
}

bool is_accumulating(const std::string& base) noexcept {
  if (is_of_lists(base)) return base.back() == '_';
  return std::any_of(std::begin(kAccumulating), std::end(kAccumulating),
                     [&](const char* accumulating) { return base == accumulating; });
}

const OperatorInfo& operator_info(const c10::OperatorHandle& op) {
  static auto* infos = new std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OperatorInfo>>;
  std::lock_guard<std::mutex> lock(g_mutex);
  std::unique_ptr<OperatorInfo>& info = (*infos)[&op.schema()];
  if (info == nullptr) info = std::make_unique<OperatorInfo>(op);
  if (info->generation != g_generation) {
    info->generation = g_generation;
    info->python = python_kernels().count(info->full) != 0;
  }
  return *info;
}

bool python_autograd_kernels() {
  return g_python_autograd;
}

void refresh_python_kernels() {
  // torch.library._impls is a set of "namespace/name.overload/key". A recording that begins imports nothing: the import
  // would itself be recorded, and that recording would import again. Where the program or the end of the process has
  // removed the module, what is known stays true.
  const Ref name = Ref::steal(PyUnicode_FromString("torch.library"));
  Ref library = Ref::steal(name ? PyImport_GetModule(name.get()) : nullptr);
  if (!library) return PyErr_Clear();
  Ref impls = Ref::steal(library ? PyObject_GetAttrString(library.get(), "_impls") : nullptr);
  Py_ssize_t count = impls ? PySet_Size(impls.get()) : 0;
  if (count < 0 || !impls) PyErr_Clear();
  if (count == g_python_kernel_count) return;
  std::unordered_set<std::string> names;
  bool autograd = false;
  Ref iterator = Ref::steal(PyObject_GetIter(impls.get()));
  while (iterator) {
    Ref item = Ref::steal(PyIter_Next(iterator.get()));
    if (!item) break;
    const char* text = PyUnicode_AsUTF8(item.get());
    if (text == nullptr) continue;
    std::string key(text);
    size_t first = key.find('/'), last = key.rfind('/');
    if (first == last || !meets_plain_tensors(key.substr(last + 1))) continue;
    autograd |= key.rfind("aten/", 0) == 0 && key.find("Autograd", last) != std::string::npos;
    names.insert(key.substr(0, first) + "::" + key.substr(first + 1, last - first - 1));
  }
  PyErr_Clear();
  std::lock_guard<std::mutex> lock(g_mutex);
  python_kernels() = std::move(names);
  g_python_autograd = autograd;
  g_python_kernel_count = count;
  ++g_generation;
}

}  // namespace pijit::torch_adapter
