// Steps from one object to another.
#include "ir/origin.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"

namespace pijit {
namespace {

namespace origin_column {
constexpr bool begins = true, goes_on = false, used = true, none = false;
constexpr LeadKey text = LeadKey::kText, literal = LeadKey::kLiteral, object = LeadKey::kObject;
// The word of a row that has no key.
constexpr LeadKey key_of(bool) {
  return LeadKey::kNone;
}
constexpr LeadKey key_of(LeadKey key) {
  return key;
}
}  // namespace origin_column
constexpr LeadRow kLeadRows[] = {
#define PIJIT_LEAD(name, print, start, number, key, doc) \
  {print, origin_column::start, origin_column::number, origin_column::key_of(origin_column::key)},
#include "ir/origins.def"
#undef PIJIT_LEAD
};
static_assert(std::size(kLeadRows) == kLeads);

// Classes of C, which never die, by their names; null where several share one.
struct StaticClasses {
  std::unordered_map<std::string, PyTypeObject*> names;
  std::unordered_set<PyObject*> all;
};

void add_static(PyTypeObject* type, StaticClasses* classes) {
  if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return;
  if (!classes->all.insert(reinterpret_cast<PyObject*>(type)).second) return;
  const auto [at, added] = classes->names.emplace(type->tp_name, type);
  if (!added) at->second = nullptr;
  PyObject* of = reinterpret_cast<PyObject*>(&PyType_Type);
  const Ref found = Ref::steal(PyObject_CallMethod(of, "__subclasses__", "O", type));
  if (!found) PyErr_Clear();
  for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(found.get()); ++i)
    add_static(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(found.get(), i)), classes);
}

// Looked for anew where there may be more: modules of C bring some.
const StaticClasses& static_classes() {
  static auto* all = new StaticClasses;
  static Py_ssize_t modules = -1;
  const Py_ssize_t now = PyDict_GET_SIZE(PyImport_GetModuleDict());
  if (std::exchange(modules, now) == now) return *all;
  *all = StaticClasses();
  add_static(&PyBaseObject_Type, all);
  return *all;
}

PyObject* value_under(PyObject* dict, PyObject* key) noexcept {
  PyObject* value = nullptr;
  if (dict == nullptr || key == nullptr || !PyDict_Check(dict) || !PyUnicode_CheckExact(key)) return nullptr;
  return cpython::dict_lookup_exact(dict, key, &value) > 0 ? value : nullptr;
}

// By identity, or the bits of a scalar: no key is asked for its hash.
PyObject* value_under_object(PyObject* dict, PyObject* wanted) noexcept {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (wanted != nullptr && PyDict_Check(dict) && PyDict_Next(dict, &at, &key, &value))
    if (key == wanted || cpython::same_key(key, wanted)) return value;
  return nullptr;
}

PyObject* attribute_of(PyObject* object, PyTypeObject* type, const char* name) noexcept {
  if (Py_TYPE(object) != type) return nullptr;
  const Ref part = Ref::steal(PyObject_GetAttrString(object, name));  // of a descriptor of C, which keeps it
  if (!part) PyErr_Clear();
  return part.get();
}

PyObject* function_part(const Origin& origin) noexcept {
  if (!PyFunction_Check(origin.of)) return nullptr;
  auto* function = reinterpret_cast<PyFunctionObject*>(origin.of);
  switch (origin.part) {
    case Lead::kCode:
      return function->func_code;
    case Lead::kGlobals:
      return function->func_globals;
    case Lead::kFunctionBuiltins:
      return function->func_builtins;
    case Lead::kClosure:
      return function->func_closure;
    case Lead::kDefaults:
      return function->func_defaults;
    default:
      return function->func_kwdefaults;
  }
}

PyObject* class_part(const Origin& origin) noexcept {
  if (!PyType_Check(origin.of)) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(origin.of);
  if (origin.part == Lead::kMember) return value_under(cpython::type_dict(type), origin.key);
  const bool is_there =
      type->tp_mro != nullptr && origin.number < static_cast<uint64_t>(PyTuple_GET_SIZE(type->tp_mro));
  return is_there ? PyTuple_GET_ITEM(type->tp_mro, static_cast<Py_ssize_t>(origin.number)) : nullptr;
}

// What a function keeps and shows as no member.
bool is_function_slot(PyTypeObject* type, Py_ssize_t offset) noexcept {
  return type == &PyFunction_Type && (offset == static_cast<Py_ssize_t>(offsetof(PyFunctionObject, func_annotations)) ||
                                      offset == static_cast<Py_ssize_t>(offsetof(PyFunctionObject, func_dict)));
}

PyObject* slot_part(const Origin& origin) noexcept {
  const auto offset = static_cast<Py_ssize_t>(origin.number);
  PyTypeObject* type = Py_TYPE(origin.of);
  if (offset <= 0 || offset >= type->tp_basicsize) return nullptr;
  if (cpython::member_name(type, offset) == nullptr && cpython::dict_offset(type) != offset &&
      !is_function_slot(type, offset) && !cpython::is_cache_slot(type, offset))
    return nullptr;
  return cpython::object_at(origin.of, offset);
}

PyObject* inline_part(const Origin& origin) noexcept {
  if (origin.key == nullptr || !PyUnicode_CheckExact(origin.key)) return nullptr;
  const Py_ssize_t index = cpython::shared_key_index(Py_TYPE(origin.of), origin.key);
  PyDictValues* values = index < 0 ? nullptr : cpython::own_values(origin.of);
  return values == nullptr ? nullptr : values->values[index];
}

}  // namespace

const LeadRow& row_of(Lead part) noexcept {
  return kLeadRows[static_cast<size_t>(part)];
}

bool is_static_class(PyObject* object) {
  return static_classes().all.count(object) != 0;
}

PyObject* part_of(const Origin& origin) noexcept {
  PyObject* of = origin.of;
  if (!row_of(origin.part).begins && of == nullptr) return nullptr;
  const auto at = static_cast<Py_ssize_t>(origin.number);
  switch (origin.part) {
    case Lead::kNowhere:
    case Lead::kOwner:
    case Lead::kArgument:
    case Lead::kMade:
    case Lead::kTuple:
    case Lead::kUnion:
    case Lead::kAddress:
      return nullptr;
    case Lead::kLiteral:
      return origin.key;
    case Lead::kBuiltins:
      return PyEval_GetBuiltins();
    case Lead::kModules:
      return PyImport_GetModuleDict();
    case Lead::kStatic: {
      const char* name = origin.key == nullptr ? nullptr : PyUnicode_AsUTF8(origin.key);
      if (name == nullptr) return PyErr_Clear(), nullptr;
      const auto& names = static_classes().names;
      const auto found = names.find(name);
      return found == names.end() ? nullptr : reinterpret_cast<PyObject*>(found->second);
    }
    case Lead::kClass:
      return reinterpret_cast<PyObject*>(Py_TYPE(of));
    case Lead::kBase:
    case Lead::kMember:
      return class_part(origin);
    case Lead::kValue:
      return value_under(of, origin.key);
    case Lead::kUnder:
      return value_under_object(of, origin.key);
    case Lead::kItem:
      return at >= 0 && at < cpython::part_count(of) ? cpython::part(of, at) : nullptr;
    case Lead::kListItem:
      return PyList_Check(of) && at >= 0 && at < PyList_GET_SIZE(of) ? PyList_GET_ITEM(of, at) : nullptr;
    case Lead::kContent:
      return PyCell_Check(of) ? PyCell_GET(of) : nullptr;
    case Lead::kSlot:
      return slot_part(origin);
    case Lead::kInline:
      return inline_part(origin);
    case Lead::kDict:
      return cpython::instance_dict(of);
    case Lead::kCode:
    case Lead::kGlobals:
    case Lead::kFunctionBuiltins:
    case Lead::kClosure:
    case Lead::kDefaults:
    case Lead::kKeywordDefaults:
      return function_part(origin);
    case Lead::kConstants:
      return PyCode_Check(of) ? reinterpret_cast<PyCodeObject*>(of)->co_consts : nullptr;
    case Lead::kGetter:
      return attribute_of(of, &PyProperty_Type, "fget");
    case Lead::kSetter:
      return attribute_of(of, &PyProperty_Type, "fset");
    case Lead::kDeleter:
      return attribute_of(of, &PyProperty_Type, "fdel");
    case Lead::kWrapped: {
      PyObject* wrapped = attribute_of(of, &PyStaticMethod_Type, "__func__");
      return wrapped != nullptr ? wrapped : attribute_of(of, &PyClassMethod_Type, "__func__");
    }
  }
  return nullptr;
}

PyObject* addressed(const Objects& objects, PyObject* number) noexcept {
  if (objects.empty() || number == nullptr || !PyLong_CheckExact(number)) return nullptr;
  auto* at = static_cast<PyObject*>(PyLong_AsVoidPtr(number));
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return std::find(objects.begin(), objects.end(), at) == objects.end() ? nullptr : at;
}

}  // namespace pijit
