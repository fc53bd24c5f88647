// The tables of callables, and what is plain.
#include "numpy/library.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/imports.h"
namespace pijit::numpy {
namespace {

constexpr int kDeepestOperand = 3;
constexpr Py_ssize_t kMostItems = 64;  // of a container that is looked into at each call

struct Row {
  const char *module, *names;
  Known known;
};

constexpr Row kCallables[] = {
#define PIJIT_ARRAY_CALLS(module, names, rule, arrays) {module, names, {Rule::rule, arrays}},
#include "numpy/callables.def"
#undef PIJIT_ARRAY_CALLS
};

// Methods, and what they hand on to.
constexpr const char* kBodies[][2] = {
#define PIJIT_ARRAY_CALLS(...)
#define PIJIT_ARRAY_BODY(method, function) {method, function},
#include "numpy/callables.def"
#undef PIJIT_ARRAY_BODY
#undef PIJIT_ARRAY_CALLS
};

const char* const kArrayAttributes[] = {"shape",  "ndim", "size", "T",  "dtype",  "itemsize",
                                        "nbytes", "real", "imag", "mT", "strides"};
const char* const kDtypeAttributes[] = {"kind", "itemsize", "char", "num", "type", "alignment"};

Library* g_library = nullptr;
std::unordered_map<const void*, Known>& rules() {
  static auto* all = new std::unordered_map<const void*, Known>;
  return *all;
}
std::unordered_map<const void*, PyObject*>& bodies() {
  static auto* all = new std::unordered_map<const void*, PyObject*>;
  return *all;
}
std::unordered_set<PyTypeObject*>& scalar_types() {
  static auto* all = new std::unordered_set<PyTypeObject*>;
  return *all;
}

// What the tables name, for ever.
std::vector<Ref>& lasting() {
  static auto* all = new std::vector<Ref>;
  return *all;
}

// What identifies a callable of C: its definition, else the object.
const void* identity_of(PyObject* callable) noexcept {
  if (PyCFunction_CheckExact(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (Py_TYPE(callable) == &PyMethodDescr_Type) return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  return callable;
}

template <class T>
bool fill(T** place, const Ref& object) noexcept {
  *place = reinterpret_cast<T*>(new_reference(object.get()));  // it lasts
  return *place != nullptr;
}

// `draws`: those of numpy.random, which may be loaded later, or all others.
void add_rules(bool draws) {
  for (const Row& row : kCallables) {
    if ((row.known.rule == Rule::kDraws) != draws) continue;
    const Ref module = loaded_module(row.module);
    std::istringstream names(row.names);
    for (std::string name; module && names >> name;) {
      const size_t dot = name.find('.');
      Ref found = attribute_of(module, name.substr(0, dot).c_str());
      if (dot != std::string::npos) {
        PyObject* dict = found ? reinterpret_cast<PyTypeObject*>(found.get())->tp_dict : nullptr;
        found = dict == nullptr ? Ref() : Ref::borrow(PyDict_GetItemString(dict, name.c_str() + dot + 1));
      }
      if (!found) continue;
      if (PyObject* inner = implementation_of(found.get())) found = Ref::borrow(inner);
      rules().emplace(identity_of(found.get()), row.known);
      lasting().push_back(std::move(found));
    }
  }
}

void add_bodies() {
  const Ref module = loaded_module("numpy._core._methods");
  for (const auto& [method, function] : kBodies) {
    Ref body = attribute_of(module, function);
    PyObject* found = PyDict_GetItemString(g_library->array->tp_dict, method);
    if (!body || !PyFunction_Check(body.get()) || found == nullptr || Py_TYPE(found) != &PyMethodDescr_Type) continue;
    bodies().emplace(identity_of(found), body.get());
    lasting().push_back(std::move(body));
  }
}

// Types of numbers that NumPy has: they are immutable, and of C.
void add_scalar_types(const Ref& module) {
  for (const char* name : {"bool",       "int8",        "int16",    "int32",     "int64",   "uint8",      "uint16",
                           "uint32",     "uint64",      "float16",  "float32",   "float64", "longdouble", "complex64",
                           "complex128", "clongdouble", "longlong", "ulonglong", "intc",    "uintc"})
    if (PyTypeObject* type = nullptr; fill(&type, attribute_of(module, name)) && PyType_Check(type) != 0)
      scalar_types().emplace(type);
}

bool has_name(PyObject* name, const char* const* first, const char* const* last) noexcept {
  return std::any_of(first, last, [&](const char* each) { return PyUnicode_CompareWithASCIIString(name, each) == 0; });
}

bool is_plain_dtype(const Descr* descr) noexcept {
  return descr->type_num >= kBoolean && descr->type_num <= kComplexLong;
}

bool is_number_of_python(PyTypeObject* type) noexcept {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type;
}

bool is_plain_type(PyTypeObject* type) noexcept {
  return is_number_of_python(type) || is_type_of_scalars(type);
}

// A class of C that stands for a dtype.
bool is_name_of_dtype(PyTypeObject* type) noexcept {
  return is_number_of_python(type) || type == &PyBaseObject_Type ||
         ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && PyType_IsSubtype(type, g_library->generic) != 0);
}

}  // namespace

const Library* library() noexcept {
  return g_library;
}

void find_library() noexcept {
  if (g_library != nullptr) return;
  const Ref module = loaded_module("numpy"), umath = loaded_module("numpy._core._multiarray_umath");
  if (!module || !umath || is_being_imported(module)) return;
  static Library found{};
  const Ref table = attribute_of(umath, "_ARRAY_API");
  void** api = table ? static_cast<void**>(PyCapsule_GetPointer(table.get(), nullptr)) : nullptr;
  const bool complete =
      api != nullptr && fill(&found.array, attribute_of(umath, "ndarray")) &&
      fill(&found.ufunc, attribute_of(module, "ufunc")) && fill(&found.generic, attribute_of(module, "generic")) &&
      fill(&found.complex, attribute_of(module, "complexfloating")) &&
      fill(&found.dtype, attribute_of(module, "dtype")) &&
      fill(&found.dispatcher, attribute_of(umath, "_ArrayFunctionDispatcher")) &&
      fill(&found.errors, attribute_of(umath, "_extobj_contextvar")) &&
      fill(&found.make_errors, attribute_of(umath, "_make_extobj")) &&
      fill(&found.tell_errors, attribute_of(umath, "_get_extobj_dict")) &&
      fill(&found.no_value, attribute_of(module, "_NoValue")) && fill(&found.add, attribute_of(module, "add")) &&
      fill(&found.mean, attribute_of(loaded_module("numpy._core._methods"), "_mean")) &&
      fill(&found.truth, attribute_of(loaded_module("_operator"), "truth"));
  PyErr_Clear();
  if (!complete || found.array != api[2]) return;
  constexpr size_t kMake = 94, kDtypeOf = 45, kScalar = 60, kSetBase = 282;
  found.make = reinterpret_cast<decltype(found.make)>(api[kMake]);
  found.dtype_of = reinterpret_cast<decltype(found.dtype_of)>(api[kDtypeOf]);
  found.scalar = reinterpret_cast<decltype(found.scalar)>(api[kScalar]);
  found.set_base = reinterpret_cast<decltype(found.set_base)>(api[kSetBase]);
  g_library = &found;
  add_scalar_types(module);
  add_rules(false);
  add_bodies();
}

PyObject* implementation_of(PyObject* callable) noexcept {
  if (g_library == nullptr || Py_TYPE(callable) != g_library->dispatcher) return nullptr;
  const Ref found = attribute_of(Ref::borrow(callable), "_implementation");
  return found.get();  // the callable holds it
}

// NumPy does not promise where it has that: what it has beside it is compared.
PyObject* question_of(PyObject* callable) noexcept {
  struct Dispatcher {
    PyObject_HEAD;
    void* vectorcall;
    PyObject *dict, *question, *implementation;
  };
  PyObject* implementation = implementation_of(callable);
  const auto* found = reinterpret_cast<const Dispatcher*>(callable);
  if (implementation == nullptr || g_library->dispatcher->tp_basicsize < static_cast<Py_ssize_t>(sizeof(Dispatcher)) ||
      found->implementation != implementation)
    return nullptr;
  return found->question != nullptr && PyFunction_Check(found->question) ? found->question : nullptr;
}

bool is_known_ufunc(PyObject* object) noexcept {
  if (g_library == nullptr || Py_TYPE(object) != g_library->ufunc) return false;
  // Loops that other packages have added are for their own dtypes, of which no plain array is.
  const Ufunc* ufunc = as_ufunc(object);
  return ufunc->count > 0 && ufunc->types[0] != kObject;
}

Ref ufunc_named(const char* name) noexcept {
  return attribute_of(loaded_module("numpy._core._multiarray_umath"), name);
}

Known known_callable(PyObject* callable) noexcept {
  if (g_library == nullptr) return {};
  if (is_known_ufunc(callable)) return {Rule::kComputes, static_cast<uint8_t>(as_ufunc(callable)->inputs)};
  if (PyType_Check(callable) && is_type_of_scalars(reinterpret_cast<PyTypeObject*>(callable)))
    return {Rule::kScalars, 1};
  const auto row = rules().find(identity_of(callable));
  if (row == rules().end()) return {};
  Known known = row->second;
  if (PyCFunction_CheckExact(callable)) {  // of a module, or a method of a ufunc
    PyObject* self = PyCFunction_GET_SELF(callable);
    const bool bound = self != nullptr && !PyModule_Check(self);
    if (bound && !is_known_ufunc(self)) return {};
    known.arrays = static_cast<uint8_t>(known.arrays - (bound ? 1 : 0));
  }
  return known;
}

bool draws(PyObject* callable) noexcept {
  static bool looked = false;
  if (g_library == nullptr) return false;
  if (!looked && loaded_module("numpy.random")) {
    looked = true;
    add_rules(true);
  }
  if (!looked) return PyErr_Clear(), false;
  const auto row = rules().find(identity_of(callable));
  return row != rules().end() && row->second.rule == Rule::kDraws;
}

bool is_generator(PyObject* object) noexcept {
  static PyTypeObject* types[2];
  if (types[0] == nullptr) {
    const Ref module = loaded_module("numpy.random");
    fill(&types[0], attribute_of(module, "Generator"));
    fill(&types[1], attribute_of(module, "RandomState"));
    PyErr_Clear();
  }
  return Py_TYPE(object) == types[0] || Py_TYPE(object) == types[1];
}

int destination_of(PyObject* callable, PyObject* names, size_t operands) noexcept {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  const int positional = static_cast<int>(operands) - static_cast<int>(named);
  for (Py_ssize_t i = 0; i < named; ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "out") == 0)
      return positional + static_cast<int>(i);
  if (known_callable(callable).rule == Rule::kWrites) return 0;
  // ufunc.reduce(array, axis, dtype, out) and accumulate, bound or not.
  constexpr int kOutOfBound = 3, kOut = 4;
  const bool unbound = Py_TYPE(callable) == &PyMethodDescr_Type && PyDescr_TYPE(callable) == g_library->ufunc;
  const bool bound = PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) != nullptr &&
                     Py_TYPE(PyCFunction_GET_SELF(callable)) == g_library->ufunc;
  if (unbound || bound) {
    const int place = unbound ? kOut : kOutOfBound;
    return positional > place ? place : -1;
  }
  if (!is_known_ufunc(callable)) return -1;
  const Ufunc* ufunc = as_ufunc(callable);
  return ufunc->outputs == 1 && positional == ufunc->operands ? ufunc->inputs : -1;
}

bool makes_arrays(PyObject* callable) noexcept {
  if (is_known_ufunc(callable) || PyFunction_Check(callable)) return true;
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    return type == g_library->dtype || is_type_of_scalars(type);
  }
  if (!PyCFunction_CheckExact(callable)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  return module != nullptr && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "_operator") != 0 &&
         PyUnicode_CompareWithASCIIString(module, "builtins") != 0;
}

bool is_array(PyObject* object) noexcept {
  return g_library != nullptr && Py_TYPE(object) == g_library->array && is_plain_dtype(as_array(object)->descr);
}

bool is_type_of_scalars(PyTypeObject* type) noexcept {
  return g_library != nullptr && scalar_types().count(type) != 0;
}

bool is_scalar(PyObject* object) noexcept {
  return is_type_of_scalars(Py_TYPE(object));
}

bool is_dtype(PyObject* object) noexcept {
  return g_library != nullptr && PyObject_TypeCheck(object, g_library->dtype) != 0;
}

bool is_plain(PyObject* object, int depth) noexcept {
  if (g_library == nullptr) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (type == g_library->array) return is_plain_dtype(as_array(object)->descr);
  if (is_plain_type(type) || type == &PyUnicode_Type || object == Py_None || object == Py_Ellipsis) return true;
  if (PyType_Check(object)) return is_name_of_dtype(reinterpret_cast<PyTypeObject*>(object));
  if (is_dtype(object)) return is_plain_dtype(reinterpret_cast<Descr*>(object));
  if (type == g_library->ufunc) return is_known_ufunc(object);
  if (depth > kDeepestOperand) return false;
  if (type == &PySlice_Type) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_plain(slice->start, depth + 1) && is_plain(slice->stop, depth + 1) && is_plain(slice->step, depth + 1);
  }
  if (type != &PyTuple_Type && type != &PyList_Type) return object == g_library->no_value;
  PyObject** items = PySequence_Fast_ITEMS(object);
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  return size <= kMostItems &&
         std::all_of(items, items + size, [&](PyObject* each) { return is_plain(each, depth + 1); });
}

bool is_known_attribute(PyObject* object, PyObject* name) noexcept {
  if (!PyUnicode_Check(name)) return false;
  if (is_array(object) || is_scalar(object))
    return has_name(name, std::begin(kArrayAttributes), std::end(kArrayAttributes));
  return is_dtype(object) && is_plain_dtype(reinterpret_cast<Descr*>(object)) &&
         has_name(name, std::begin(kDtypeAttributes), std::end(kDtypeAttributes));
}

namespace {

bool is_complex(PyObject* object) noexcept {
  if (PyComplex_CheckExact(object)) return true;
  if (is_scalar(object)) return PyType_IsSubtype(Py_TYPE(object), g_library->complex) != 0;
  return Py_TYPE(object) == g_library->array && as_array(object)->descr->kind == 'c';
}

// It may say which dtype the result has.
bool may_name_dtype(PyObject* object) noexcept {
  return PyUnicode_CheckExact(object) || PyType_Check(object) || is_dtype(object);
}

// use(object) of an operand, or of what a tuple or list has: any is true.
template <class Use>
bool any_of(PyObject* operand, const Use& use, int depth = 0) noexcept {
  if (!PyTuple_CheckExact(operand) && !PyList_CheckExact(operand)) return use(operand);
  PyObject** items = PySequence_Fast_ITEMS(operand);
  return depth <= kDeepestOperand && std::any_of(items, items + PySequence_Fast_GET_SIZE(operand),
                                                 [&](PyObject* each) { return any_of(each, use, depth + 1); });
}

bool is_empty(PyObject* object) noexcept {
  if (Py_TYPE(object) != g_library->array) return false;
  const Array* array = as_array(object);
  return std::find(array->sizes, array->sizes + array->nd, 0) != array->sizes + array->nd;
}

bool has_dimensions(PyObject* object) noexcept {
  return Py_TYPE(object) == g_library->array && as_array(object)->nd > 0;
}

}  // namespace

// A complex number that becomes a real one makes NumPy warn.
bool fit(Rule rule, PyObject* const* operands, size_t count) noexcept {
  const auto any = [&](const auto& use) {
    return std::any_of(operands, operands + count, [&](PyObject* each) { return any_of(each, use); });
  };
  if (rule == Rule::kFilled && any(is_empty)) return false;
  if (rule == Rule::kScalars) return !any(has_dimensions) && !any(is_complex);
  return !any(is_complex) || !std::any_of(operands, operands + count, may_name_dtype);
}

PyObject* body_of(PyObject* method) noexcept {
  if (Py_TYPE(method) != &PyMethodDescr_Type) return nullptr;
  const auto found = bodies().find(identity_of(method));
  return found == bodies().end() ? nullptr : found->second;
}

}  // namespace pijit::numpy
