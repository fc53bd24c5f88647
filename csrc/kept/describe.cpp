// Words and digests for objects. Digests tell changes apart; they are no defence against somebody who forges one.
#include "kept/describe.h"

#include <cstring>
#include <string_view>

#include "adapter.h"
#include "common/ref.h"
#include "cpython/classes.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "ir/adapter_slot.h"
#include "ir/origin.h"

namespace pijit {
namespace {

constexpr int kDeepest = 50;  // of tuples in tuples

// Eight bytes at a time: classes have much code and long texts, and the first call waits for their digests. Each step can
// be undone, so what differs in one place only never has the same digest.
class Digest {
 public:
  explicit Digest(std::string_view kind) { add(kind); }
  void add(std::string_view bytes) {
    add(bytes.size());
    uint64_t word = 0;
    size_t at = 0;
    for (; at + sizeof word <= bytes.size(); at += sizeof word) {
      std::memcpy(&word, bytes.data() + at, sizeof word);
      add(word);
    }
    if (at == bytes.size()) return;
    word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    add(word);
  }
  void add(uint64_t number) {
    value_ = (value_ ^ number) * kFactor;
    value_ ^= value_ >> 32;
  }
  // Digests are added up, too: each bit of one depends on all that went in.
  uint64_t value() const {
    uint64_t mixed = value_ * 0xff51afd7ed558ccd;
    mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53;
    return mixed ^ (mixed >> 33);
  }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t value_ = 0xcbf29ce484222325;
};

std::string_view text_of(PyObject* str) {
  if (str == nullptr || !PyUnicode_Check(str)) return "?";
  return {static_cast<const char*>(PyUnicode_DATA(str)),
          static_cast<size_t>(PyUnicode_GET_LENGTH(str)) * static_cast<size_t>(PyUnicode_KIND(str))};
}

std::string words_of(PyObject* str) {
  const char* text = str != nullptr && PyUnicode_Check(str) ? PyUnicode_AsUTF8(str) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "?" : text;
}

std::string_view bytes_of(PyObject* bytes) {
  if (bytes == nullptr || !PyBytes_Check(bytes)) return "";
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

// One that tells itself apart by its address has nothing in it that cannot change, such as the object that torch has its
// functions from, or the engine of autograd.
bool has_address(PyObject* text) {
  return text != nullptr && words_of(text).find(" at 0x") != std::string::npos;
}

void add_integer(PyObject* integer, Digest* all) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(integer, &overflow);
  if (overflow == 0) return all->add(static_cast<uint64_t>(number));
  const Ref text = Ref::steal(PyNumber_ToBase(integer, 16));
  if (!text) PyErr_Clear();
  all->add(text_of(text.get()));
}

// A class statement made it. All such classes free their instances by one function.
bool is_made_in_python(PyTypeObject* type) {
  PyTypeObject* known = cpython::module_spec_type();
  return known != nullptr && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_dealloc == known->tp_dealloc;
}

// The first class that is none of Python's.
PyTypeObject* base_in_c(PyTypeObject* type) {
  while (type != nullptr && is_made_in_python(type)) type = type->tp_base;
  return type;
}

// What a class has for itself, or what changes without a meaning.
bool is_passed_over(PyObject* name) {
  static constexpr const char* kNames[] = {"__dict__",          "__weakref__",           "__doc__",
                                           "__module__",        "__annotations__",       "_abc_impl",
                                           "__slotnames__",     "__orig_bases__",        "__parameters__",
                                           "__firstlineno__",   "__static_attributes__", "__annotate__",
                                           "__annotate_func__", "__annotations_cache__"};
  for (const char* each : kNames)
    if (PyUnicode_CompareWithASCIIString(name, each) == 0) return true;
  return false;
}

bool is_described_by_its_text(PyTypeObject* type) {
  return cpython::is_value_type(type) || type == &PyRange_Type ||
         (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && std::strncmp(type->tp_name, "torch.", 6) == 0);
}

}  // namespace

std::string hex(uint64_t number) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, number >>= 4) text[static_cast<size_t>(i)] = kDigits[number & 15];
  return text;
}

uint64_t digest_of(std::string_view bytes) {
  return Digest(bytes).value();
}

std::string full_name(PyTypeObject* type) {
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return type->tp_name;
  PyObject* module = PyDict_GetItemString(cpython::type_dict(type), "__module__");
  return words_of(module) + "." + words_of(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
}

const std::string& Descriptions::name_of(PyTypeObject* type) {
  std::string& name = names_[type];
  if (name.empty()) name = full_name(type);
  return name;
}

// Of what cannot change; of anything else, the name of its class.
uint64_t Descriptions::literal(PyObject* object, int depth) {
  if (object == nullptr) return 0;
  PyTypeObject* type = Py_TYPE(object);
  Digest all(type->tp_name);
  if (PyLong_Check(object)) {
    add_integer(object, &all);
  } else if (PyFloat_Check(object)) {
    uint64_t bits;
    const double number = PyFloat_AS_DOUBLE(object);
    std::memcpy(&bits, &number, sizeof bits);
    all.add(bits);
  } else if (PyComplex_Check(object)) {
    const Py_complex number = PyComplex_AsCComplex(object);
    all.add(std::string_view(reinterpret_cast<const char*>(&number), sizeof number));
  } else if (PyUnicode_Check(object)) {
    all.add(text_of(object));
  } else if (PyBytes_Check(object)) {
    all.add(bytes_of(object));
  } else if (PyTuple_Check(object)) {
    all.add(static_cast<uint64_t>(PyTuple_GET_SIZE(object)));
    for (Py_ssize_t i = 0; depth < kDeepest && i < PyTuple_GET_SIZE(object); ++i)
      all.add(literal(PyTuple_GET_ITEM(object, i), depth + 1));
  } else if (PyFrozenSet_Check(object)) {
    uint64_t sum = 0;
    PyObject* item = nullptr;
    for (Py_ssize_t at = 0; depth < kDeepest && cpython::next_set_item(object, &at, &item);)
      sum += literal(item, depth + 1);
    all.add(sum);
  } else if (PyCode_Check(object)) {
    all.add(digest(reinterpret_cast<PyCodeObject*>(object)));
  } else if (is_described_by_its_text(type)) {
    const Ref text = Ref::steal(PyObject_Repr(object));
    if (!text) PyErr_Clear();
    if (!has_address(text.get())) all.add(text_of(text.get()));
  }
  return all.value();
}

uint64_t Descriptions::digest(PyCodeObject* code) {
  if (const auto found = known_.find(code); found != known_.end()) return found->second;
  Digest all("code");
  const Ref bytes = Ref::steal(PyCode_GetCode(code));
  if (!bytes) PyErr_Clear();
  all.add(bytes_of(bytes.get()));
  for (const int number : {code->co_argcount, code->co_posonlyargcount, code->co_kwonlyargcount, code->co_flags,
                           code->co_stacksize, code->co_nlocalsplus})
    all.add(static_cast<uint64_t>(number));
  for (PyObject* text : {code->co_name, code->co_qualname}) all.add(text_of(text));
  for (PyObject* part :
       {code->co_names, code->co_localsplusnames, code->co_localspluskinds, code->co_exceptiontable, code->co_consts})
    all.add(literal(part));
  return known_[code] = all.value();
}

uint64_t Descriptions::function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  Digest all("function");
  all.add(digest(reinterpret_cast<PyCodeObject*>(function->func_code)));
  all.add(literal(function->func_defaults));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (function->func_kwdefaults != nullptr && PyDict_Next(function->func_kwdefaults, &at, &key, &value)) {
    all.add(literal(key));
    all.add(literal(value));
  }
  return all.value();
}

// Of what makes an attribute of a class.
uint64_t Descriptions::descriptor(PyObject* object) {
  if (PyFunction_Check(object)) return function(object);
  Digest all(Py_TYPE(object)->tp_name);
  if (PyType_Check(object)) {
    all.add(name_of(reinterpret_cast<PyTypeObject*>(object)));
    return all.value();
  }
  bool has_parts = false;
  for (const Lead part : {Lead::kGetter, Lead::kSetter, Lead::kDeleter, Lead::kWrapped}) {
    PyObject* made = part_of({object, part});
    all.add(made == nullptr ? 0 : made == Py_None ? 1 : descriptor(made));
    has_parts |= made != nullptr;
  }
  return has_parts ? all.value() : literal(object);
}

uint64_t Descriptions::own_members(PyTypeObject* type) {
  if (const auto found = known_.find(type); found != known_.end()) return found->second;
  uint64_t sum = 0;  // whatever their order
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  PyObject* dict = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? cpython::type_dict(type) : nullptr;
  while (dict != nullptr && PyDict_Next(dict, &at, &key, &value)) {
    if (!PyUnicode_CheckExact(key) || is_passed_over(key)) continue;
    Digest each("member");
    each.add(text_of(key));
    each.add(descriptor(value));
    sum += each.value();
  }
  return known_[type] = sum;
}

uint64_t Descriptions::class_digest(PyTypeObject* type) {
  Digest all("class");
  all.add(static_cast<uint64_t>(type->tp_basicsize));
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    all.add(name_of(base));
    all.add(own_members(base));
  }
  return all.value();
}

uint64_t Descriptions::types_in(PyObject* joined) {
  const Ref types = Ref::steal(PyObject_GetAttrString(joined, "__args__"));
  if (!types) PyErr_Clear();
  Digest all("union");
  for (Py_ssize_t i = 0; types && PyTuple_Check(types.get()) && i < PyTuple_GET_SIZE(types.get()); ++i) {
    PyObject* each = PyTuple_GET_ITEM(types.get(), i);
    all.add(PyType_Check(each) ? class_digest(reinterpret_cast<PyTypeObject*>(each)) : literal(each));
  }
  return all.value();
}

// What cannot change in the object; false: nobody knows what it holds.
bool Descriptions::content(PyObject* object, uint64_t* digest) {
  PyTypeObject* base = base_in_c(Py_TYPE(object));
  Adapter* adapter = current_adapter();
  *digest = 0;
  for (PyTypeObject* type :
       {&PyBaseObject_Type, &PyDict_Type, &PyODict_Type, &PyList_Type, &PySet_Type, &PyCell_Type, &PyType_Type,
        &PyMethod_Type, &PyContextVar_Type, cpython::default_dict_type(), cpython::partial_type()})
    if (base == type) return true;
  if (adapter != nullptr && adapter->is_tensor(object)) return true;
  if (Py_TYPE(object) == cpython::union_type()) return *digest = types_in(object), true;
  if (cpython::is_cache(Py_TYPE(object))) {
    PyObject* function = Py_TYPE(object) == cpython::lru_cache_type() ? cpython::cached_function(object) : nullptr;
    if (function != nullptr && PyFunction_Check(function)) *digest = this->function(function);
    return true;
  }
  for (PyTypeObject* type :
       {&PyLong_Type, &PyBool_Type, &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type, &PyBytes_Type, &PyFrozenSet_Type})
    if (base == type) return *digest = literal(object), true;
  if (!PyTuple_Check(object) && !(is_described_by_its_text(base) && base == Py_TYPE(object))) return false;
  const Ref text = PyTuple_Check(object) ? Ref() : Ref::steal(PyObject_Repr(object));
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (has_address(text.get())) return true;
  return *digest = literal(object), true;
}

std::string Descriptions::of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  const auto say = [](const char* kind, const std::string& name, uint64_t digest) {
    return kind + (" " + name) + " " + hex(digest);
  };
  if (PyCode_Check(object)) {
    auto* code = reinterpret_cast<PyCodeObject*>(object);
    return say("code", words_of(code->co_qualname), digest(code));
  }
  if (PyFunction_Check(object))
    return say("function", words_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname), function(object));
  if (PyType_Check(object)) {
    auto* its = reinterpret_cast<PyTypeObject*>(object);
    return say("class", name_of(its), class_digest(its));
  }
  if (PyModule_Check(object))
    return say("module", words_of(PyDict_GetItemString(PyModule_GetDict(object), "__name__")), 0);
  if (PyCFunction_Check(object)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(object);
    return say("builtin", words_of(function->m_module) + "." + function->m_ml->ml_name,
               static_cast<uint64_t>(function->m_ml->ml_flags));
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type ||
      type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type) {
    auto* its = reinterpret_cast<PyDescrObject*>(object);
    return say("descriptor", name_of(its->d_type) + "." + words_of(its->d_name), 0);
  }
  if (type == &PyProperty_Type || type == &PyStaticMethod_Type || type == &PyClassMethod_Type)
    return say("descriptor", type->tp_name, descriptor(object));
  uint64_t held = 0;
  return content(object, &held) ? say("object", name_of(type), held) : "";
}

}  // namespace pijit
