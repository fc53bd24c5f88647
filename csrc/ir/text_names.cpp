// Literals and names of objects, as a text of a trace has them.
#include "ir/text_names.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "cpython/objects.h"

namespace pijit {
namespace {

constexpr int kDeepestTuple = 50;  // of tuples in tuples

std::string escaped(const char* form, unsigned value) {
  char text[16];
  snprintf(text, sizeof text, form, value);
  return text;
}

void add_character(std::string* text, unsigned character, const char* form) {
  if (character == '"' || character == '\\') {
    *text += '\\';
    *text += static_cast<char>(character);
  } else if (character >= 0x20 && character < 0x7f) {
    *text += static_cast<char>(character);
  } else {
    *text += escaped(form, character);
  }
}

std::string hex_text(PyObject* integer) {
  const Ref text = Ref::steal(PyNumber_ToBase(integer, 16));
  const char* made = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (made == nullptr) PyErr_Clear();
  return made == nullptr ? "0" : made;
}

std::string integer_text(PyObject* integer) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(integer, &overflow);
  return overflow != 0 ? hex_text(integer) : std::to_string(number);
}

// Classes that never die.
bool is_built_in_class(PyObject* object) {
  static PyTypeObject* const kTypes[] = {
      &PyBool_Type,     &PyByteArray_Type, &PyBytes_Type,       &PyCFunction_Type,   &PyCell_Type,
      &PyComplex_Type,  &PyDictItems_Type, &PyDictKeys_Type,    &PyDictValues_Type,  &PyDict_Type,
      &PyEllipsis_Type, &PyEnum_Type,      &PyFloat_Type,       &PyFrozenSet_Type,   &PyFunction_Type,
      &PyGen_Type,      &PyListIter_Type,  &PyList_Type,        &PyLong_Type,        &PyMethod_Type,
      &PyModule_Type,   &PyODict_Type,     &PyBaseObject_Type,  &PyRangeIter_Type,   &PyRange_Type,
      &PySet_Type,      &PySlice_Type,     &PySuper_Type,       &PyTupleIter_Type,   &PyTuple_Type,
      &PyType_Type,     &PyUnicode_Type,   &PyMethodDescr_Type, &PyZip_Type,         &PyMap_Type,
      &PyFilter_Type,   &PyReversed_Type,  &PyProperty_Type,    &PyClassMethod_Type, &PyStaticMethod_Type,
  };
  for (PyTypeObject* type : kTypes)
    if (reinterpret_cast<PyObject*>(type) == object) return true;
  return object == reinterpret_cast<PyObject*>(Py_TYPE(Py_None)) ||
         object == reinterpret_cast<PyObject*>(Py_TYPE(Py_NotImplemented));
}

// "torch.nn.Linear": a word of words, else in quotes.
std::string dotted(const std::string& text) {
  std::string word;
  bool plain = !text.empty();
  for (char c : text + ".") {
    if (c != '.') {
      word += c;
      continue;
    }
    plain = plain && is_plain_word(word);
    word.clear();
  }
  return plain ? text : quoted(text);
}

std::string utf8(PyObject* str) {
  const char* text = str != nullptr && PyUnicode_Check(str) ? PyUnicode_AsUTF8(str) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "?" : text;
}

std::string class_text(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type->tp_name;
  PyObject* module = PyDict_GetItemString(cpython::type_dict(type), "__module__");
  const std::string name = utf8(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  return module != nullptr && PyUnicode_Check(module) ? utf8(module) + "." + name : name;
}

std::string quoted_repr(PyObject* object) {
  const Ref text = Ref::steal(PyObject_Repr(object));
  if (!text) PyErr_Clear();
  return text ? quoted(text.get()) : "\"?\"";
}

}  // namespace

std::string quoted(const std::string& bytes) {
  std::string text = "\"";
  for (char c : bytes) add_character(&text, static_cast<unsigned char>(c), "\\x%02x");
  return text + "\"";
}

std::string quoted(PyObject* str) {
  std::string text = "\"";
  for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(str); ++i)
    add_character(&text, PyUnicode_READ_CHAR(str, i), "\\u{%x}");
  return text + "\"";
}

std::string float_text(double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  char* made = std::isfinite(number) ? PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr) : nullptr;
  if (made == nullptr) {
    char text[40];
    snprintf(text, sizeof text, "float(0x%llx)", static_cast<unsigned long long>(bits));
    return text;
  }
  std::string text = made;
  PyMem_Free(made);
  return text;
}

bool is_plain_word(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
  for (char c : text)
    if (c != '_' && (static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) == 0))
      return false;
  return true;
}

std::string word_text(PyObject* str) {
  const std::string text = utf8(str);
  return is_plain_word(text) ? text : quoted(str);
}

bool ObjectTexts::is_known(PyObject* object) const {
  return sources_ == nullptr || sources_->is_known(object) || is_built_in_class(object);
}

// The object is alive.
bool ObjectTexts::literal(PyObject* object, std::string* text, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  if (object == Py_None || object == Py_True || object == Py_False) {
    *text = object == Py_None ? "None" : object == Py_True ? "True" : "False";
  } else if (object == Py_Ellipsis || object == Py_NotImplemented) {
    *text = object == Py_Ellipsis ? "Ellipsis" : "NotImplemented";
  } else if (type == &PyLong_Type) {
    *text = integer_text(object);
  } else if (type == &PyFloat_Type) {
    *text = float_text(PyFloat_AS_DOUBLE(object));
  } else if (type == &PyComplex_Type) {
    const Py_complex number = PyComplex_AsCComplex(object);
    *text = "complex(" + float_text(number.real) + ", " + float_text(number.imag) + ")";
  } else if (type == &PyUnicode_Type) {
    *text = quoted(object);
  } else if (type == &PyBytes_Type) {
    *text = "b" + quoted(std::string(PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))));
  } else if (type == &PyTuple_Type && depth < kDeepestTuple) {
    std::string items, item;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!literal(PyTuple_GET_ITEM(object, i), &item, depth + 1)) return false;
      items += (i == 0 ? "" : ", ") + item;
    }
    *text = "tuple(" + items + ")";
  } else {
    return false;
  }
  return true;
}

std::string ObjectTexts::path(const Source& source) {
  using Step = Source::Step;
  const std::string before = source.of == nullptr ? "" : path(*source.of);
  const std::string number = std::to_string(source.number);
  switch (source.step) {
    case Step::kArgument:
      return "arg(" + word_text(source.object) + ")";
    case Step::kGlobal:
      return "global(" + word_text(source.object) + ")";
    case Step::kCell:
      return "cell(" + word_text(source.object) + ")";
    case Step::kConstant: {
      std::string made;
      if (source.object == nullptr) return "unknown()";
      if (is_known(source.object) && literal(source.object, &made, 0)) return "literal(" + made + ")";
      // The object itself may be found behind this path.
      if (given_.count(source.object) != 0 || sources_->of(source.object) == nullptr) return text(source.object);
      return is_known(source.object) ? described(source.object) : "unknown()";
    }
    case Step::kRegister:
      return "reg(" + number + ")";
    case Step::kAttribute:
      return before + "." + word_text(source.object);
    case Step::kItem: {
      if (source.object == nullptr) return before + "[" + number + "]";
      return before + "[" + (source.key != nullptr ? path(*source.key) : text(source.object)) + "]";
    }
    case Step::kKeyAt:
      return before + ".key(" + number + ")";
    case Step::kValueAt:
      return before + ".value(" + number + ")";
    case Step::kInline:
      return before + ".inline(" + number + ")";
    case Step::kOffset:
      return before + ".offset(" + number + ")";
    case Step::kGet:
      return before + ".get()";
  }
  return before;
}

// The object is alive.
std::string ObjectTexts::described(PyObject* object) const {
  if (PyType_Check(object)) return "class(" + dotted(class_text(reinterpret_cast<PyTypeObject*>(object))) + ")";
  if (PyFunction_Check(object))
    return "function(" + dotted(utf8(reinterpret_cast<PyFunctionObject*>(object)->func_qualname)) + ")";
  if (PyCFunction_Check(object))
    return "builtin(" + dotted(reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name) + ")";
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name == nullptr) PyErr_Clear();
    return "module(" + dotted(name == nullptr ? "?" : name) + ")";
  }
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type ||
      type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(object);
    return "descriptor(" + dotted(class_text(descriptor->d_type) + "." + utf8(descriptor->d_name)) + ")";
  }
  if (cpython::is_value_type(type) || type == &PyRange_Type) return "value(" + quoted_repr(object) + ")";
  return "object(" + dotted(class_text(type)) + ")";
}

std::string ObjectTexts::kept(PyObject* object, bool alive) {
  std::string made = kept_->name(object, alive);
  if (made.empty() && !literal(object, &made, 0)) kept_->fail("an object that is no literal");
  return made;
}

std::string ObjectTexts::text(PyObject* object, bool alive) {
  if (object == nullptr) return "-";
  if (kept_ != nullptr) return kept(object, alive);
  if (names_ != nullptr)
    if (const auto named = names_->find(object); named != names_->end()) return named->second;
  if (const auto given = given_.find(object); given != given_.end()) return given->second;
  const bool known = alive || is_known(object);
  std::string made;
  if (known && literal(object, &made, 0)) return made;
  if (known && PyCode_Check(object)) {
    made = "code(" + std::to_string(codes_.size()) + ")";
    codes_.push_back(reinterpret_cast<PyCodeObject*>(object));
    return given_.emplace(object, made).first->second;
  }
  const Source* source = sources_ == nullptr ? nullptr : sources_->of(object);
  if (source != nullptr)
    made = path(*source);
  else
    made = known ? described(object) : "unknown()";
  if (const int before = times_[made]++; before > 0) made += "#" + std::to_string(before + 1);
  return given_.emplace(object, made).first->second;
}

}  // namespace pijit
