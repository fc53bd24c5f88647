// The tables of classes and callables, and what is plain.
#include "pandas/library.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/imports.h"
#include "common/ref.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "numpy/layout.h"
#include "numpy/library.h"

namespace pijit::pandas {
namespace {

constexpr int kDeepestItem = 3;
constexpr Py_ssize_t kMostItems = 256;   // of a container that is looked into
constexpr Py_ssize_t kMostObjects = 64;  // of an array of Python's objects

struct TypeRow {
  const char *module, *names;
  Kind kind;
};
constexpr TypeRow kTypes[] = {
#define PIJIT_FRAME_CALLS(...)
#define PIJIT_FRAME_ATTRIBUTES(...)
#define PIJIT_FRAME_TYPES(module, names, kind) {module, names, Kind::kind},
#include "pandas/callables.def"
#undef PIJIT_FRAME_TYPES
#undef PIJIT_FRAME_CALLS
};

struct CallRow {
  const char *module, *owners, *names;
};
constexpr CallRow kCalls[] = {
#define PIJIT_FRAME_TYPES(...)
#define PIJIT_FRAME_CALLS(module, owners, names) {module, owners, names},
#include "pandas/callables.def"
#undef PIJIT_FRAME_ATTRIBUTES
#undef PIJIT_FRAME_CALLS
};

constexpr const char* kAttributes =
#define PIJIT_FRAME_CALLS(...)
#define PIJIT_FRAME_ATTRIBUTES(names) names
#include "pandas/callables.def"
    ;
#undef PIJIT_FRAME_ATTRIBUTES
#undef PIJIT_FRAME_CALLS
#undef PIJIT_FRAME_TYPES

// A class as it was found.
struct Class {
  std::vector<std::pair<PyObject*, PyObject*>> functions;  // by name; they last
  uint32_t seen = 0;                                       // the version under which they were the same
};

struct Tables {
  std::unordered_map<PyTypeObject*, Class> classes;
  std::unordered_map<PyTypeObject*, Kind> kinds;
  std::unordered_set<PyObject*> calls, makers;
  std::unordered_set<std::string> attributes;
  std::vector<Ref> lasting;
  PyTypeObject *series, *frame, *index, *range, *extension_array, *extension_dtype;
  PyObject *manager, *blocks, *values, *data, *attrs, *dtype, *categories;  // names
  PyObject* shortcuts;
};
Tables* g_tables = nullptr;

PyObject* keep(Tables& tables, Ref object) {
  tables.lasting.push_back(std::move(object));
  return tables.lasting.back().get();
}

PyTypeObject* keep_type(Tables& tables, const char* module, const char* name) {
  PyObject* found = keep(tables, attribute_of(loaded_module(module), name));
  return found != nullptr && PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found) : nullptr;
}

void add_types(Tables& tables) {
  for (const TypeRow& row : kTypes) {
    std::istringstream names(row.names);
    for (std::string name; names >> name;)
      if (PyTypeObject* type = keep_type(tables, row.module, name.c_str())) tables.kinds.emplace(type, row.kind);
  }
}

void add_calls(Tables& tables) {
  for (const CallRow& row : kCalls) {
    const Ref module = loaded_module(row.module);
    std::istringstream owners(row.owners);
    const bool free = *row.owners == 0;
    for (std::string owner; free || owners >> owner;) {
      const Ref holder = free ? Ref::borrow(module.get()) : attribute_of(module, owner.c_str());
      std::istringstream names(row.names);
      for (std::string name; holder && names >> name;) {
        PyObject* found = keep(tables, attribute_of(holder, name.c_str()));
        if (found == nullptr) continue;
        tables.calls.insert(found);
        if (free && std::string_view(row.module) == "pandas") tables.makers.insert(found);
      }
      if (free) break;
    }
  }
  std::istringstream attributes(kAttributes);
  for (std::string name; attributes >> name;) tables.attributes.insert(name);
}

void add_functions(Tables& tables) {
  for (const auto& [type, kind] : tables.kinds)
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      PyObject* dict = cpython::type_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
      Py_ssize_t position = 0;
      PyObject *name, *value;
      while (dict != nullptr && PyDict_Next(dict, &position, &name, &value)) {
        if (!PyFunction_Check(value) && Py_TYPE(value) != &PyProperty_Type) continue;
        if (PyObject* found = cpython::lookup_type(type, name); found == value)
          tables.classes[type].functions.emplace_back(keep(tables, Ref::borrow(name)),
                                                      keep(tables, Ref::borrow(value)));
      }
    }
}

bool is_supported(const Ref& module) noexcept {
  const Ref version = attribute_of(module, "__version__");
  const char* text = version && PyUnicode_Check(version.get()) ? PyUnicode_AsUTF8(version.get()) : nullptr;
  return text != nullptr && text[0] == '3' && text[1] == '.';
}

PyObject* own(PyObject* object, PyObject* name) noexcept {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

bool are_plain_objects(PyObject* array) noexcept {
  const numpy::Array* objects = numpy::as_array(array);
  if (objects->nd != 1 || objects->sizes[0] > kMostObjects) return false;
  for (Py_ssize_t i = 0; i < objects->sizes[0]; ++i) {
    PyObject* object = *reinterpret_cast<PyObject**>(objects->data + i * objects->strides[0]);
    if (object == nullptr || (!numpy::is_plain(object) && kind_of(Py_TYPE(object)) != Kind::kScalar)) return false;
  }
  return true;
}

// An array of NumPy or of pandas that a block or an index has.
bool is_plain_array(PyObject* values) noexcept {
  if (Py_TYPE(values) == numpy::library()->array) {
    constexpr int kDates = 21, kTimes = 22;
    const int type = numpy::as_array(values)->descr->type_num;
    if (type == numpy::kObject) return are_plain_objects(values);
    return (type >= numpy::kBoolean && type <= numpy::kComplexLong) || type == kDates || type == kTimes;
  }
  if (PyType_IsSubtype(Py_TYPE(values), g_tables->extension_array) == 0 ||
      !is_of_pandas(reinterpret_cast<PyObject*>(Py_TYPE(values))))
    return false;
  if (kind_of(Py_TYPE(values)) == Kind::kNone) return true;
  const Ref dtype = Ref::steal(PyObject_GetAttr(values, g_tables->dtype));  // a Categorical
  const Ref categories = Ref::steal(dtype ? PyObject_GetAttr(dtype.get(), g_tables->categories) : nullptr);
  if (!categories) return PyErr_Clear(), false;
  return is_plain(categories.get(), 1);
}

bool is_plain_index(PyObject* index) noexcept {
  if (Py_TYPE(index) == g_tables->range) return true;
  if (Py_TYPE(index) != g_tables->index) return kind_of(Py_TYPE(index)) == Kind::kData;
  const Ref data = Ref::steal(own(index, g_tables->data));
  return data && is_plain_array(data.get());
}

// It has no attributes but those that pandas gives it.
bool has_only(PyObject* object, Py_ssize_t count) noexcept {
  switch (cpython::attribute_storage(object)) {
    case cpython::Storage::kInline: {
      for (Py_ssize_t i = 0; cpython::shared_key(Py_TYPE(object), i) != nullptr; ++i)
        if (cpython::inline_value(object, i) != nullptr) count -= 1;
      return count >= 0;
    }
    case cpython::Storage::kDict: {
      PyObject* dict = cpython::instance_dict(object);
      return dict == nullptr || PyDict_GET_SIZE(dict) <= count;
    }
    default:
      return false;
  }
}

bool is_plain_frame(PyObject* object) noexcept {
  constexpr Py_ssize_t kOfFrame = 3, kOfSeries = 4;
  if (!has_only(object, Py_TYPE(object) == g_tables->series ? kOfSeries : kOfFrame)) return false;
  const Ref attrs = Ref::steal(own(object, g_tables->attrs));
  if (!attrs || !PyDict_CheckExact(attrs.get()) || PyDict_GET_SIZE(attrs.get()) != 0) return false;
  const Ref manager = Ref::steal(own(object, g_tables->manager));
  const Ref blocks = Ref::steal(manager ? PyObject_GetAttr(manager.get(), g_tables->blocks) : nullptr);
  if (!blocks || !PyTuple_CheckExact(blocks.get())) return PyErr_Clear(), false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(blocks.get()); ++i) {
    const Ref values = Ref::steal(PyObject_GetAttr(PyTuple_GET_ITEM(blocks.get(), i), g_tables->values));
    if (!values) return PyErr_Clear(), false;
    if (!is_plain_array(values.get())) return false;
  }
  return true;
}

bool are_plain_items(PyObject** items, Py_ssize_t size, int depth) noexcept {
  return size <= kMostItems && std::all_of(items, items + size, [&](PyObject* each) { return is_plain(each, depth); });
}

bool is_plain_dict(PyObject* dict, int depth) noexcept {
  if (PyDict_GET_SIZE(dict) > kMostItems) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (!is_plain(key, depth) || !is_plain(value, depth)) return false;
  return true;
}

bool is_module_of_pandas(PyObject* name) noexcept {
  const char* text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  const std::string_view module = text == nullptr ? "" : text;
  return module == "pandas" || module.starts_with("pandas.");
}

}  // namespace

bool is_loaded() noexcept {
  return g_tables != nullptr;
}

void find_library() noexcept {
  static bool refused = false;
  if (g_tables != nullptr || refused) return;
  const Ref module = loaded_module("pandas");
  if (!module || numpy::library() == nullptr || is_being_imported(module)) return;
  refused = true;
  if (!is_supported(module)) return;
  auto& tables = *new Tables{};  // for ever
  add_types(tables);
  add_calls(tables);
  add_functions(tables);
  tables.series = keep_type(tables, "pandas", "Series");
  tables.frame = keep_type(tables, "pandas", "DataFrame");
  tables.index = keep_type(tables, "pandas", "Index");
  tables.range = keep_type(tables, "pandas", "RangeIndex");
  tables.extension_array = keep_type(tables, "pandas.core.arrays.base", "ExtensionArray");
  tables.extension_dtype = keep_type(tables, "pandas.core.dtypes.base", "ExtensionDtype");
  for (auto [place, name] : {std::pair{&tables.manager, "_mgr"},
                             {&tables.blocks, "blocks"},
                             {&tables.values, "values"},
                             {&tables.data, "_data"},
                             {&tables.attrs, "_attrs"},
                             {&tables.dtype, "dtype"},
                             {&tables.categories, "categories"}})
    *place = PyUnicode_InternFromString(name);
  const Ref shortcuts = attribute_of(import_module("pijit._pandas"), "SHORTCUTS");
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  tables.shortcuts =
      shortcuts && PyDict_CheckExact(shortcuts.get()) ? keep(tables, Ref::borrow(shortcuts.get())) : nullptr;
  const bool complete = tables.series != nullptr && tables.frame != nullptr && tables.index != nullptr &&
                        tables.range != nullptr && tables.extension_array != nullptr &&
                        tables.extension_dtype != nullptr && tables.categories != nullptr;
  if (complete) g_tables = &tables;
}

Kind kind_of(PyTypeObject* type) noexcept {
  if (g_tables == nullptr || type == nullptr) return Kind::kNone;
  const auto found = g_tables->kinds.find(type);
  return found == g_tables->kinds.end() ? Kind::kNone : found->second;
}

bool is_plain(PyObject* object, int depth) noexcept {
  if (g_tables == nullptr) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (type == g_tables->series || type == g_tables->frame) return is_plain_frame(object);
  switch (kind_of(type)) {
    case Kind::kData:
      return PyType_IsSubtype(type, g_tables->extension_array) != 0 ? is_plain_array(object) : is_plain_index(object);
    case Kind::kDerived:
      return false;
    case Kind::kScalar:
      return true;
    case Kind::kNone:
      break;
  }
  if (type == numpy::library()->array) return is_plain_array(object);
  if (depth > kDeepestItem) return false;
  if (type == &PyTuple_Type || type == &PyList_Type)
    return are_plain_items(PySequence_Fast_ITEMS(object), PySequence_Fast_GET_SIZE(object), depth + 1);
  if (type == &PyDict_Type) return is_plain_dict(object, depth + 1);
  if (type == &PyBytes_Type ||
      (PyType_IsSubtype(type, g_tables->extension_dtype) != 0 && is_of_pandas(reinterpret_cast<PyObject*>(type))))
    return true;
  return numpy::is_plain(object, depth);
}

bool is_known(PyObject* callable) noexcept {
  if (g_tables == nullptr) return false;
  if (g_tables->calls.count(callable) != 0) return true;
  switch (numpy::known_callable(callable).rule) {
    case numpy::Rule::kComputes:
    case numpy::Rule::kMoves:
    case numpy::Rule::kFilled:
    case numpy::Rule::kScalars:
      return true;
    default:
      return false;
  }
}

bool is_known_attribute(PyObject* name) noexcept {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  return g_tables != nullptr && text != nullptr && g_tables->attributes.count(text) != 0;
}

bool is_untouched(PyTypeObject* type) noexcept {
  const auto found = g_tables->classes.find(type);
  if (found == g_tables->classes.end()) return true;  // of C
  Class& known = found->second;
  const uint32_t version = cpython::type_version(type);
  if (version != 0 && version == known.seen) return true;
  for (const auto& [name, function] : known.functions)
    if (cpython::lookup_type(type, name) != function) return false;
  known.seen = version;
  return true;
}

std::array<PyTypeObject*, 3> main_types() noexcept {
  return {g_tables->series, g_tables->frame, g_tables->index};
}

bool makes_frames(PyObject* callable) noexcept {
  return g_tables != nullptr && g_tables->makers.count(callable) != 0;
}

bool is_of_pandas(PyObject* callable) noexcept {
  if (g_tables == nullptr) return false;
  if (PyFunction_Check(callable)) return is_module_of_pandas(PyFunction_GET_MODULE(callable));
  if (!PyType_Check(callable)) return false;
  PyObject* dict = cpython::type_dict(reinterpret_cast<PyTypeObject*>(callable));
  return dict != nullptr && is_module_of_pandas(PyDict_GetItemString(dict, "__module__"));
}

PyObject* shortcut_of(PyObject* callable) noexcept {
  if (g_tables == nullptr || g_tables->shortcuts == nullptr) return nullptr;
  PyObject* found = PyDict_GetItemWithError(g_tables->shortcuts, callable);
  if (found == nullptr) PyErr_Clear();
  return found;
}

}  // namespace pijit::pandas
