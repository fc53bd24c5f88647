// Objects as Python expressions: scalars, and what has a name.
#include <algorithm>
#include <cstdio>

#include "cpython/objects.h"
#include "ir/print.h"

namespace pijit {
namespace {

constexpr Py_ssize_t kLongestText = 80;  // characters of a text

std::string repr_of(PyObject* object) {
  Ref text = Ref::steal(PyObject_Repr(object));
  if (!text) PyErr_Clear();
  return text_of(text.get());
}

// Only what may stand in a name, with dots.
std::string as_name(std::string text) {
  for (const char* part : {"<locals>.", "<", ">"})
    for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, std::string(part).size());
  std::replace(text.begin(), text.end(), ' ', '_');
  return text == "lambda" ? "lambda_" : text;
}

std::string address_of(PyObject* object, const std::string& kind) {
  char text[32];
  snprintf(text, sizeof text, "_at_0x%llx", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(object)));
  return kind + text;
}

std::string type_name(PyTypeObject* type) {
  return as_name(type->tp_name);
}

std::string builtin_name(PyCFunctionObject* function) {
  const std::string name = function->m_ml->ml_name;
  PyObject* self = function->m_self;
  if (self == nullptr || PyModule_Check(self)) {
    const char* module = self == nullptr ? nullptr : PyModule_GetName(self);
    if (module == nullptr) PyErr_Clear();
    return module == nullptr || std::string(module) == "builtins" ? name : module + ("." + name);
  }
  if (PyType_Check(self)) return type_name(reinterpret_cast<PyTypeObject*>(self)) + "." + name;
  return type_name(Py_TYPE(self)) + "." + name;
}

// A class of C whose objects are made of C values alone: their repr is C, too.
bool holds_nothing(PyTypeObject* type) noexcept {
  return cpython::is_value_type(type) || (type->tp_flags & (Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_HAVE_GC)) == 0;
}

// Such as a dtype or a device, by its own words: "torch.float32", "torch.device(type='cpu')".
std::string value_name(PyObject* object) {
  const std::string words = repr_of(object), type = Py_TYPE(object)->tp_name;
  const size_t dot = type.rfind('.');
  const std::string last = dot == std::string::npos ? type : type.substr(dot + 1);
  if (words.find('<') != std::string::npos) return address_of(object, as_name(last));
  return words.rfind(last + "(", 0) == 0 ? type + words.substr(last.size()) : words;
}

template <class Text>
std::string tuple_text(PyObject* tuple, Text text_of_item) {
  std::string text = "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    text += (i == 0 ? "" : ", ") + text_of_item(PyTuple_GET_ITEM(tuple, i));
  return text + (PyTuple_GET_SIZE(tuple) == 1 ? ",)" : ")");
}

std::string scalar_text(PyObject* object) {
  if (PyUnicode_CheckExact(object) && PyUnicode_GET_LENGTH(object) > kLongestText) {
    Ref start = Ref::steal(PyUnicode_Substring(object, 0, kLongestText));
    std::string text = start ? repr_of(start.get()) : "'?'";
    if (!start) PyErr_Clear();
    return text.insert(text.size() - 1, "...");
  }
  if (PyBytes_CheckExact(object) && PyBytes_GET_SIZE(object) > kLongestText) return "b'...'";
  if (PyFloat_CheckExact(object)) return python_number(PyFloat_AS_DOUBLE(object));
  return repr_of(object);
}

}  // namespace

std::string python_number(double number) {
  if (number != number) return "float('nan')";
  if (number - number != 0) return number > 0 ? "float('inf')" : "float('-inf')";
  char* text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  if (text == nullptr) return PyErr_Clear(), "0.0";
  const std::string made = text;
  PyMem_Free(text);
  return made;
}

std::string Printer::word(PyObject* name) const {
  return name != nullptr && PyUnicode_Check(name) ? as_name(text_of(name)) : "_";
}

std::string python_object(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (prints_itself(object)) return object == Py_Ellipsis ? "..." : scalar_text(object);
  if (PyTuple_CheckExact(object)) return tuple_text(object, python_object);
  if (PyType_Check(object)) return type_name(reinterpret_cast<PyTypeObject*>(object));
  if (PyFunction_Check(object)) return as_name(text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname));
  if (PyCFunction_Check(object)) return builtin_name(reinterpret_cast<PyCFunctionObject*>(object));
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(object);
    return type_name(descriptor->d_type) + "." + as_name(text_of(descriptor->d_name));
  }
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name == nullptr) PyErr_Clear();
    return name == nullptr ? "module" : name;
  }
  if (holds_nothing(type)) return value_name(object);
  std::string kind = type_name(type);
  std::replace(kind.begin(), kind.end(), '.', '_');
  return address_of(object, kind);
}

std::string Printer::python(PyObject* object) const {
  if (object == nullptr) return "None";
  if (const Source* found = sources_.of(object)) return sources_.text(*found);
  if (!sources_.is_known(object)) return address_of(object, "object");
  if (PyTuple_CheckExact(object)) return tuple_text(object, [this](PyObject* item) { return python(item); });
  return python_object(object);
}

}  // namespace pijit
