// The classes and callables, by where MindSpore has them.
#include "mindspore/library.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_set>

#include "common/imports.h"
#include "common/ref.h"
#include "cpython/objects.h"

namespace pijit::mindspore {
namespace {

constexpr int kDeepestOperand = 3;
constexpr Py_ssize_t kMostItems = 64;

constexpr const char* kModule = "mindspore._c_expression";
// Functions of C that are given a primitive, or are one's call.
constexpr const char *kOperators = "pyboost_", *kCall = "__call__", *kExecutors[] = {"run_op_async", "real_run_op"};
// Functions that say something of dtypes and classes: of the module of dtypes, and of the class of C of tensors.
constexpr const char* kHelpers[] = {"type_to_type_id", "_is_test_stub"};
constexpr const char* kOverloads = "Functional_";  // classes of objects that choose an operator by their operands
constexpr const char* kAttributes[] = {"init", "_shape", "_dtype", "_size", "_itemsize", "_nbytes", "_strides"};
// Methods that say something of a tensor to Python or take a function are no operators.
constexpr const char* kNoOperators[] = {"hooks", "_set_user_data", "_get_user_data", "__setstate__", "set_"};
// Primitives that call functions of the program.
constexpr const char* kCallBack[] = {"Custom", "PyFunc", "PyExecute", "HookBackward", "CellBackwardHook", "Print"};
// Functions of the module _operator.
constexpr const char* kFunctions[] = {
    "add",  "and_", "floordiv",  "matmul", "mul",  "mod",      "or_",  "pow",     "sub",  "truediv", "xor",  "lt",
    "le",   "eq",   "ne",        "gt",     "ge",   "neg",      "pos",  "invert",  "abs",  "getitem", "iadd", "iand",
    "imod", "imul", "ifloordiv", "ior",    "ipow", "itruediv", "isub", "imatmul", "ixor", "setitem"};

struct Library {
  PyTypeObject *base, *tensor, *parameter, *dtype;
};
Library* g_library = nullptr;

std::unordered_set<const void*>& functions() {
  static auto* all = new std::unordered_set<const void*>;
  return *all;
}
std::unordered_set<const PyMethodDef*>& helpers() {
  static auto* all = new std::unordered_set<const PyMethodDef*>;
  return *all;
}
std::unordered_set<PyTypeObject*>& overloads() {
  static auto* all = new std::unordered_set<PyTypeObject*>;
  return *all;
}

bool take_type(PyTypeObject** place, const Ref& object) noexcept {
  if (!object || !PyType_Check(object.get())) return false;
  *place = reinterpret_cast<PyTypeObject*>(new_reference(object.get()));  // it lasts
  return true;
}

bool is_in(const char* name, const char* const* first, const char* const* last) noexcept {
  return std::any_of(first, last, [&](const char* each) { return std::strcmp(name, each) == 0; });
}

bool ends_with(const char* name, const char* end) noexcept {
  const size_t size = std::strlen(name), tail = std::strlen(end);
  return size >= tail && std::strcmp(name + size - tail, end) == 0;
}

// Dtypes that are equal are told apart by nothing but their identity.
void add_dtypes(const Ref& module) noexcept {
  if (!module || !PyModule_Check(module.get())) return;
  PyObject *dict = PyModule_GetDict(module.get()), *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    if (!PyType_Check(value)) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value);
    if (PyType_IsSubtype(type, g_library->dtype) != 0) cpython::add_value_type(type);
  }
}

void add_callables(const Ref& module) noexcept {
  PyObject *dict = PyModule_GetDict(module.get()), *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    if (!PyType_Check(value)) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value);
    if (ends_with(type->tp_name, kOverloads)) overloads().insert(type);
  }
  const Ref holders[] = {attribute_of(module, "typing"), attribute_of(module, "TensorPy")};
  for (size_t i = 0; i < std::size(kHelpers); ++i) {
    const Ref helper = attribute_of(holders[i], kHelpers[i]);
    if (helper && PyCFunction_CheckExact(helper.get()))
      helpers().insert(reinterpret_cast<PyCFunctionObject*>(helper.get())->m_ml);
  }
  const Ref operators = loaded_module("_operator");
  for (const char* name : kFunctions)
    if (const Ref function = attribute_of(operators, name)) functions().insert(function.get());  // its module holds it
}

}  // namespace

bool is_loaded() noexcept {
  return g_library != nullptr;
}

void find_library() noexcept {
  if (g_library != nullptr) return;
  const Ref whole = loaded_module("mindspore"), module = loaded_module(kModule);
  if (!whole || !module || !PyModule_Check(module.get()) || is_being_imported(whole)) return;
  static Library found{};
  const bool complete =
      take_type(&found.base, attribute_of(module, "TensorPy")) &&
      take_type(&found.tensor, attribute_of(loaded_module("mindspore.common.tensor"), "Tensor")) &&
      take_type(&found.parameter, attribute_of(loaded_module("mindspore.common.parameter"), "Parameter")) &&
      take_type(&found.dtype, attribute_of(attribute_of(module, "typing"), "Type"));
  PyErr_Clear();
  if (!complete || PyType_IsSubtype(found.tensor, found.base) == 0) return;
  g_library = &found;
  add_callables(module);
  add_dtypes(attribute_of(module, "typing"));
}

bool is_class_of_tensors(const PyTypeObject* type) noexcept {
  if (g_library == nullptr || type == nullptr) return false;
  if (type == g_library->tensor || type == g_library->parameter) return true;
  // The class of parameters is derived when the first is made, and has nothing of its own.
  if (type->tp_base != g_library->parameter || type->tp_dict == nullptr) return false;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(type->tp_dict, &at, &key, &value) != 0;)
    if (PyFunction_Check(value) || Py_TYPE(value)->tp_descr_set != nullptr) return false;
  return type->tp_getattro == PyObject_GenericGetAttr;
}

bool is_tensor(PyObject* object) noexcept {
  return is_class_of_tensors(Py_TYPE(object));
}

bool is_dtype(PyObject* object) noexcept {
  return g_library != nullptr && PyObject_TypeCheck(object, g_library->dtype) != 0;
}

bool is_plain(PyObject* object, int depth) noexcept {
  if (is_tensor(object) || is_dtype(object) || object == Py_None || object == Py_Ellipsis) return true;
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) || PyUnicode_CheckExact(object))
    return true;
  if (depth > kDeepestOperand) return false;
  if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_plain(slice->start, depth + 1) && is_plain(slice->stop, depth + 1) && is_plain(slice->step, depth + 1);
  }
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  PyObject** items = PySequence_Fast_ITEMS(object);
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  return size <= kMostItems &&
         std::all_of(items, items + size, [&](PyObject* each) { return is_plain(each, depth + 1); });
}

bool is_known_attribute(PyObject* tensor, PyObject* name) noexcept {
  if (!is_tensor(tensor) || !PyUnicode_Check(name)) return false;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return PyErr_Clear(), false;
  if (!is_in(text, std::begin(kAttributes), std::end(kAttributes))) return false;
  PyObject* found = PyDict_GetItemString(g_library->base->tp_dict, text);
  return found != nullptr && Py_TYPE(found) == &PyGetSetDescr_Type;
}

Call call_of(PyObject* callable) noexcept {
  if (g_library == nullptr) return Call::kNone;
  if (functions().count(callable) != 0) return Call::kPython;
  if (callable == reinterpret_cast<PyObject*>(g_library->tensor)) return Call::kOperator;  // its constructor
  if (Py_TYPE(callable) == &PyMethodDescr_Type) {
    const bool own = PyDescr_TYPE(callable) == g_library->base;
    const char* name = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
    return own && !is_in(name, std::begin(kNoOperators), std::end(kNoOperators)) ? Call::kOperator : Call::kNone;
  }
  if (overloads().count(Py_TYPE(callable)) != 0) return Call::kOperator;
  if (!PyCFunction_CheckExact(callable)) return Call::kNone;
  const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  if (helpers().count(function->m_ml) != 0) return Call::kOperator;
  if (function->m_module == nullptr || !PyUnicode_Check(function->m_module) ||
      PyUnicode_CompareWithASCIIString(function->m_module, kModule) != 0)
    return Call::kNone;
  const char* name = function->m_ml->ml_name;
  if (std::strncmp(name, kOperators, std::strlen(kOperators)) == 0 || std::strcmp(name, kCall) == 0)
    return Call::kPrimitive;
  return is_in(name, std::begin(kExecutors), std::end(kExecutors)) ? Call::kExecutor : Call::kNone;
}

bool is_own_primitive(PyObject* primitive, PyObject* name) noexcept {
  const char* text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (text == nullptr) return PyErr_Clear(), false;
  if (is_in(text, std::begin(kCallBack), std::end(kCallBack))) return false;
  PyObject* module = PyDict_GetItemString(Py_TYPE(primitive)->tp_dict, "__module__");
  const char* where = module != nullptr && PyUnicode_CheckExact(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (where == nullptr) return PyErr_Clear(), false;
  return std::strncmp(where, "mindspore.", std::strlen("mindspore.")) == 0;
}

}  // namespace pijit::mindspore
