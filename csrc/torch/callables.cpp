// The table of known callables: built once from torch's own namespaces, looked up by address.
#include "torch/callables.h"

#include <deque>
#include <sstream>

#include "common/ref.h"
#include "torch/named_operators.h"
#include "torch/pch.h"

namespace pijit::torch_adapter {
namespace {

struct Row {
  Family family;
  const char* name;
  Rule rule;
};

constexpr Row kRows[] = {
#define PIJIT_CALLABLE(family, name, rule) {Family::family, name, Rule::rule},
#include "torch/callables.def"
#undef PIJIT_CALLABLE
};

// Open addressing from key to row: one probe per instruction that may touch a tensor.
class Table {
 public:
  const Callable* find(const void* key) const noexcept {
    if (slots_.empty()) return nullptr;
    for (size_t i = start(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].row;
      if (slots_[i].key == nullptr) return nullptr;
    }
  }
  // The first one wins.
  void add(const void* key, const Callable* row) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    size_t i = start(key);
    while (slots_[i].key != nullptr && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    if (slots_[i].key != nullptr) return;
    slots_[i] = {key, row};
    ++used_;
  }

 private:
  struct Slot {
    const void* key = nullptr;
    const Callable* row = nullptr;
  };
  size_t start(const void* key) const noexcept {
    return (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull >> 32) & (slots_.size() - 1);
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 8192 : slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const Slot& slot : old)
      if (slot.key != nullptr) add(slot.key, slot.row);
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

Table g_table;
std::deque<Callable>& rows() {
  static auto* all = new std::deque<Callable>;
  return *all;
}

const void* key_of(PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyCFunction_Type) return reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  if (type == &PyMethodDescr_Type) return reinterpret_cast<PyMethodDescrObject*>(object)->d_method;
  if (type == &PyGetSetDescr_Type) return reinterpret_cast<PyGetSetDescrObject*>(object)->d_getset;
  return object;
}

Rule rule_of(Family family, const char* name, Rule otherwise) {
  for (const Row& row : kRows)
    if (row.family == family && std::strcmp(row.name, name) == 0) return row.rule;
  return otherwise;
}

// The operator that a binding dispatches, where its name is another one.
std::string operator_of(Family family, const std::string& name) {
  if (family == Family::kAttribute) {
    if (name == "T") return "numpy_T";
    if (name == "H") return "matrix_H";
  }
  if (family == Family::kMethod) {
    constexpr const char* kSpecial[][2] = {
        {"__add__", "add"},       {"__radd__", "add"},      {"__iadd__", "add_"},         {"__sub__", "sub"},
        {"__isub__", "sub_"},     {"__mul__", "mul"},       {"__rmul__", "mul"},          {"__imul__", "mul_"},
        {"__truediv__", "div"},   {"__itruediv__", "div_"}, {"__div__", "div"},           {"__idiv__", "div_"},
        {"__matmul__", "matmul"}, {"__mod__", "remainder"}, {"__invert__", "bitwise_not"}};
    for (const auto& [special, plain] : kSpecial)
      if (name == special) return plain;
  }
  return name;
}

void add(PyObject* object, Family family, const char* name, Rule rule) {
  rows().push_back({family, rule, name, operator_of(family, name), new_reference(object)});
  g_table.add(key_of(object), &rows().back());
}

bool is_function(PyObject* object) {
  return Py_TYPE(object) == &PyCFunction_Type;
}

// All builtin functions that a namespace offers.
bool add_functions(PyObject* space) {
  Ref names = Ref::steal(PyObject_Dir(space));
  if (!names) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(names.get(), i);
    Ref item = Ref::steal(PyObject_GetAttr(space, key));
    const char* name = PyUnicode_AsUTF8(key);
    if (!item || name == nullptr) {
      PyErr_Clear();
      continue;
    }
    if (!is_function(item.get()) || std::strncmp(name, "__", 2) == 0) continue;
    add(item.get(), Family::kFunction, name, rule_of(Family::kFunction, name, Rule::kOperator));
  }
  return true;
}

bool add_tensor_members(PyTypeObject* base) {
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(base->tp_dict, &position, &key, &item)) {
    const char* name = PyUnicode_AsUTF8(key);
    if (name == nullptr) return false;
    if (Py_TYPE(item) == &PyMethodDescr_Type)
      add(item, Family::kMethod, name, rule_of(Family::kMethod, name, Rule::kOperator));
    else if (Py_TYPE(item) == &PyGetSetDescr_Type)
      add(item, Family::kAttribute, name, rule_of(Family::kAttribute, name, Rule::kRefuse));
  }
  return true;
}

// What stands under a path of names such as "_dynamo.eval_frame.set_eval_frame"; null: this torch has no such thing.
Ref find_path(PyObject* space, const char* path) {
  Ref at = Ref::borrow(space);
  std::istringstream names(path);
  for (std::string name; at && std::getline(names, name, '.');)
    at = Ref::steal(PyObject_GetAttrString(at.get(), name.c_str()));
  if (!at) PyErr_Clear();
  return at;
}

// Functions and methods of torch._C that have a row; torch re-exports some of them under the same definition.
bool add_core(PyObject* space) {
  for (const Row& row : kRows) {
    if (row.family != Family::kCore) continue;
    const Ref item = find_path(space, row.name);
    if (item && (is_function(item.get()) || Py_IS_TYPE(item.get(), &PyMethodDescr_Type)))
      add(item.get(), row.family, row.name, row.rule);
  }
  return true;
}

// Attributes of objects that never change: dtype.itemsize, finfo.min, ...
void add_constant_attributes(PyTypeObject* type) {
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (type->tp_dict != nullptr && PyDict_Next(type->tp_dict, &position, &key, &item)) {
    const char* name = PyUnicode_AsUTF8(key);
    if (name != nullptr && (Py_TYPE(item) == &PyGetSetDescr_Type || Py_TYPE(item) == &PyMemberDescr_Type))
      add(item, Family::kAttribute, name, Rule::kConstantMaker);
  }
}

bool add_types(PyObject* torch) {
  add(reinterpret_cast<PyObject*>(&THPDeviceType), Family::kType, "device", Rule::kConstantMaker);
  add(reinterpret_cast<PyObject*>(&THPSizeType), Family::kType, "Size", Rule::kSizes);
  const Ref numel = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&THPSizeType), "numel"));
  if (!numel) return false;
  add(numel.get(), Family::kType, "Size.numel", Rule::kProduct);
  for (const char* name : {"finfo", "iinfo"}) {
    Ref type = Ref::steal(PyObject_GetAttrString(torch, name));
    if (!type) return false;
    add(type.get(), Family::kType, name, Rule::kConstantMaker);
    add_constant_attributes(reinterpret_cast<PyTypeObject*>(type.get()));
  }
  add_constant_attributes(&THPDtypeType);
  add_constant_attributes(&THPDeviceType);
  // int(x), float(x), bool(x) on a tensor.
  add(reinterpret_cast<PyObject*>(&PyLong_Type), Family::kType, "int", Rule::kToInt);
  add(reinterpret_cast<PyObject*>(&PyFloat_Type), Family::kType, "float", Rule::kToFloat);
  add(reinterpret_cast<PyObject*>(&PyBool_Type), Family::kType, "bool", Rule::kToBool);
  return true;
}

// Functions of Python on a tensor: those that call one operator with what they were given.
bool add_python_functions() {
  constexpr const char* kFunctions[][2] = {
      {"abs", "abs"},        {"pow", "pow"},       {"add", "add"}, {"sub", "sub"},      {"mul", "mul"},
      {"truediv", "div"},    {"matmul", "matmul"}, {"neg", "neg"}, {"pos", "positive"}, {"invert", "bitwise_not"},
      {"inv", "bitwise_not"}};
  const Ref builtins = Ref::steal(PyImport_ImportModule("builtins"));
  const Ref operators = Ref::steal(PyImport_ImportModule("_operator"));
  if (!builtins || !operators) return false;
  for (const Ref& space : {Ref::borrow(builtins.get()), Ref::borrow(operators.get())})
    for (const auto& [name, op] : kFunctions) {
      const Ref item = find_path(space.get(), name);
      if (!item || !is_function(item.get())) continue;
      rows().push_back({Family::kFunction, Rule::kOperator, name, op, new_reference(item.get())});
      g_table.add(key_of(item.get()), &rows().back());
    }
  return true;
}

constexpr const char* kBinary[] = {
    "add",
    "__and__|bitwise_and",
    "floor_divide",
    "__lshift__|bitwise_left_shift",
    "matmul",
    "mul",
    "remainder",
    "__or__|bitwise_or",
    "pow",
    "__rshift__|bitwise_right_shift",
    "sub|rsub",
    "div|reciprocal mul",
    "__xor__|bitwise_xor",
};
constexpr const char* kInPlace[] = {
    "add_|add",
    "__iand__|bitwise_and_|__and__",
    "floor_divide_|floor_divide",
    "__ilshift__|__lshift__|bitwise_left_shift",
    "matmul",
    "mul_|mul",
    "remainder_|remainder",
    "__ior__|bitwise_or_|__or__",
    "pow_|pow",
    "__irshift__|__rshift__|bitwise_right_shift",
    "sub_|sub|rsub",
    "div_|div|reciprocal mul",
    "__ixor__|bitwise_xor_|__xor__",
};
constexpr const char* kCompare[] = {"lt|gt", "le|ge", "eq", "ne", "gt|lt", "ge|le"};
constexpr const char* kCompareTruth[] = {
    "lt is_nonzero|gt is_nonzero", "le is_nonzero|ge is_nonzero", "eq is_nonzero", "ne is_nonzero",
    "gt is_nonzero|lt is_nonzero", "ge is_nonzero|le is_nonzero"};
constexpr const char* kUnary[] = {"neg", "positive", "bitwise_not", "is_nonzero"};

}  // namespace

bool build_callables() {
  Ref torch = Ref::steal(PyImport_ImportModule("torch"));
  Ref core = Ref::steal(torch ? PyObject_GetAttrString(torch.get(), "_C") : nullptr);
  if (!core || !add_core(core.get())) return false;
  for (const char* name : {"_VariableFunctions", "_nn", "_linalg", "_fft", "_special"}) {
    Ref space = Ref::steal(PyObject_GetAttrString(core.get(), name));
    if (!space || !add_functions(space.get())) return false;
  }
  if (!find_operator_space(torch.get())) return false;
  PyTypeObject* base = reinterpret_cast<PyTypeObject*>(THPVariableClass)->tp_base;
  return add_tensor_members(base) && add_types(torch.get()) && add_python_functions();
}

const Callable* find_core(const char* name) noexcept {
  for (const Callable& row : rows())
    if (row.family == Family::kCore && row.name == name) return &row;
  return nullptr;
}

const Callable* find_callable(PyObject* object) noexcept {
  const Callable* row = g_table.find(key_of(object));
  if (row == nullptr) return find_named_operator(object);
  // A bound method has the definition of the method: operands would not begin with self.
  if (row->family == Family::kMethod && Py_TYPE(object) != &PyMethodDescr_Type) return nullptr;
  return row;
}

const Callable* add_named_operator(PyObject* function, const std::string& op) {
  const std::string name = "ops.aten." + (op.rfind("aten::", 0) == 0 ? op.substr(std::strlen("aten::")) : op);
  rows().push_back({Family::kFunction, Rule::kNamedOperator, name, op, new_reference(function)});
  g_table.add(key_of(function), &rows().back());
  return &rows().back();
}

std::string base_of(const Callable& row) {
  if (row.rule != Rule::kNamedOperator) return row.op;
  const size_t space = row.op.find("::");
  if (space == std::string::npos) return row.op;
  const size_t begin = space + std::strlen("::");
  return row.op.substr(begin, row.op.find('.', begin) - begin);
}

const char* site_operators(const CallSite& site) noexcept {
  switch (site.kind) {
    case SiteKind::kBinary:
      if (site.oparg < 0 || site.oparg > 25) return nullptr;
      return site.oparg < 13 ? kBinary[site.oparg] : kInPlace[site.oparg - 13];
    case SiteKind::kCompare:
      return site.oparg >= 0 && site.oparg < 6 ? kCompare[site.oparg] : nullptr;
    case SiteKind::kCompareTruth:
      return site.oparg >= 0 && site.oparg < 6 ? kCompareTruth[site.oparg] : nullptr;
    case SiteKind::kUnary:
      return site.oparg >= 0 && site.oparg < 4 ? kUnary[site.oparg] : nullptr;
    case SiteKind::kBool:
      return "is_nonzero";
    case SiteKind::kContains:
      return "eq any item";
    case SiteKind::kIter:
    case SiteKind::kUnpack:
      return "unbind";
    default:
      return nullptr;
  }
}

}  // namespace pijit::torch_adapter
