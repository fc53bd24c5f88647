// Version tags, native lookups and instance attributes, for CPython 3.11.
#include "cpython/objects.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/ref.h"
#include "cpython/keys.h"

namespace pijit::cpython {

namespace {

// The next version this file assigns; see rule 2 of the header.
uint32_t next_function_version = UINT32_MAX;
uint32_t next_keys_version = UINT32_MAX;
constexpr uint32_t kLowestOwnVersion = 1u << 31;

constexpr Py_ssize_t kAbsent = -1, kUndecided = -2;

bool same_bits(const void* a, const void* b, size_t bytes) noexcept {
  return memcmp(a, b, bytes) == 0;
}

bool same_text(PyObject* a, PyObject* b) noexcept {
  if (!PyUnicode_IS_READY(a) || !PyUnicode_IS_READY(b)) return false;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(a);
  if (length != PyUnicode_GET_LENGTH(b) || PyUnicode_KIND(a) != PyUnicode_KIND(b)) return false;
  return same_bits(PyUnicode_DATA(a), PyUnicode_DATA(b), static_cast<size_t>(length) * PyUnicode_KIND(a));
}

bool same_int(PyObject* a, PyObject* b) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  const _PyLongValue &x = reinterpret_cast<PyLongObject*>(a)->long_value,
                     &y = reinterpret_cast<PyLongObject*>(b)->long_value;
  if ((x.lv_tag & ~uintptr_t{4}) != (y.lv_tag & ~uintptr_t{4})) return false;  // bit 2 is reserved
  return same_bits(x.ob_digit, y.ob_digit, (x.lv_tag >> _PyLong_NON_SIZE_BITS) * sizeof(digit));
#else
  const Py_ssize_t size = Py_SIZE(a);
  if (size != Py_SIZE(b)) return false;
  const auto digits = static_cast<size_t>(size < 0 ? -size : size);
  return same_bits(reinterpret_cast<PyLongObject*>(a)->ob_digit, reinterpret_cast<PyLongObject*>(b)->ob_digit,
                   digits * sizeof(digit));
#endif
}

// 1 equal, 0 different, -1 only user code could tell: keys whose hashes are equal.
int compare_keys(PyObject* a, PyObject* b) noexcept {
  if (a == b) return 1;
  if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) return same_text(a, b);
  if (!is_scalar(a) || !is_scalar(b)) return -1;
  const bool text = PyUnicode_CheckExact(a) || PyUnicode_CheckExact(b);
  if (Py_TYPE(a) != Py_TYPE(b)) return text ? 0 : -1;  // 1 == True == 1.0: leave numbers alone
  if (same_scalar(a, b)) return 1;
  return PyFloat_CheckExact(a) || PyComplex_CheckExact(a) ? -1 : 0;  // 0.0 == -0.0
}

Py_ssize_t index_at(PyDictKeysObject* keys, size_t slot) noexcept {
  const void* indices = keys->dk_indices;
  if (keys->dk_log2_size < 8) return static_cast<const int8_t*>(indices)[slot];
  if (keys->dk_log2_size < 16) return static_cast<const int16_t*>(indices)[slot];
  if (keys->dk_log2_size < 32) return static_cast<const int32_t*>(indices)[slot];
  return static_cast<Py_ssize_t>(static_cast<const int64_t*>(indices)[slot]);
}

// CPython's probing sequence. Index of the entry, kAbsent or kUndecided. By address: nothing is looked for in `key`.
template <bool kByAddress = false>
Py_ssize_t find_key(PyDictKeysObject* keys, PyObject* key, Py_hash_t hash) noexcept {
  const size_t mask = (size_t{1} << keys->dk_log2_size) - 1;
  auto perturb = static_cast<size_t>(hash);
  size_t slot = perturb & mask;
  const bool unicode = DK_IS_UNICODE(keys);
  for (;;) {
    const Py_ssize_t index = index_at(keys, slot);
    if (index == DKIX_EMPTY) return kAbsent;
    if (index >= 0) {
      PyObject* found = unicode ? DK_UNICODE_ENTRIES(keys)[index].me_key : DK_ENTRIES(keys)[index].me_key;
      const Py_hash_t found_hash =
          unicode ? reinterpret_cast<PyASCIIObject*>(found)->hash : DK_ENTRIES(keys)[index].me_hash;
      if (found == key) return index;
      if (found_hash == hash) {
        const int equal = !kByAddress ? compare_keys(found, key) : is_native_key(found) ? 0 : -1;
        if (equal != 0) return equal > 0 ? index : kUndecided;
      }
    }
    perturb >>= 5;  // PERTURB_SHIFT
    slot = (slot * 5 + perturb + 1) & mask;
  }
}

// False: the hash would run user code.
bool native_hash(PyObject* key, Py_hash_t* hash) noexcept {
  if (PyUnicode_CheckExact(key)) {
    *hash = reinterpret_cast<PyASCIIObject*>(key)->hash;
    if (*hash != -1) return true;
  } else if (!is_scalar(key) && Py_TYPE(key)->tp_hash != PyBaseObject_Type.tp_hash) {
    return false;
  }
  *hash = PyObject_Hash(key);
  return true;
}

// The beginning of OrderedDict's private struct and of its list nodes.
struct OrderedNode {
  PyObject* key;
  Py_hash_t hash;
  OrderedNode* next;
  OrderedNode* previous;
};
struct OrderedDict {
  PyDictObject dict;
  OrderedNode *first, *last;
  OrderedNode** fast_nodes;
  Py_ssize_t fast_nodes_size;
  void* resize_sentinel;
  size_t state;
};

}  // namespace

Py_ssize_t part_count(PyObject* object) noexcept {
  if (PyTuple_Check(object)) return PyTuple_GET_SIZE(object);
  if (Py_TYPE(object) == &PyMethod_Type) return 2;
  if (PySlice_Check(object)) return 3;
  return PyCFunction_Check(object) ? 1 : -1;
}

PyObject* part(PyObject* object, Py_ssize_t index) noexcept {
  if (PyTuple_Check(object)) return PyTuple_GET_ITEM(object, index);
  if (Py_TYPE(object) == &PyMethod_Type) return index == 0 ? PyMethod_GET_FUNCTION(object) : PyMethod_GET_SELF(object);
  if (!PySlice_Check(object)) return reinterpret_cast<PyCFunctionObject*>(object)->m_self;
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return index == 0 ? slice->start : index == 1 ? slice->stop : slice->step;
}

uint64_t part_definition(PyObject* object) noexcept {
  return PyCFunction_Check(object) ? reinterpret_cast<uintptr_t>(reinterpret_cast<PyCFunctionObject*>(object)->m_ml)
                                   : 0;
}

bool is_singleton(PyObject* object) noexcept {
  if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || PyBool_Check(object)) return true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(object, &overflow);
  return overflow == 0 && -_PY_NSMALLNEGINTS <= value && value < _PY_NSMALLPOSINTS;
}

namespace {

// Both are of this scalar type, or of classes derived from it.
bool same_value(PyTypeObject* type, PyObject* a, PyObject* b) noexcept {
  if (type == &PyUnicode_Type) return a == b || same_text(a, b);
  if (type == &PyLong_Type) return same_int(a, b);
  if (type == &PyFloat_Type)
    return same_bits(&reinterpret_cast<PyFloatObject*>(a)->ob_fval, &reinterpret_cast<PyFloatObject*>(b)->ob_fval,
                     sizeof(double));
  if (type == &PyComplex_Type)
    return same_bits(&reinterpret_cast<PyComplexObject*>(a)->cval, &reinterpret_cast<PyComplexObject*>(b)->cval,
                     sizeof(Py_complex));
  if (type == &PyBytes_Type)
    return Py_SIZE(a) == Py_SIZE(b) &&
           same_bits(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), static_cast<size_t>(Py_SIZE(a)));
  return a == b && is_scalar(a);
}

}  // namespace

bool same_scalar(PyObject* a, PyObject* b) noexcept {
  return Py_TYPE(a) == Py_TYPE(b) && same_value(Py_TYPE(a), a, b);
}

PyObject* plain_value(PyObject* object) noexcept {
  if (is_scalar(object)) return nullptr;
  PyObject* plain = nullptr;
  if (PyLong_Check(object)) plain = _PyLong_Copy(reinterpret_cast<PyLongObject*>(object));
  if (PyFloat_Check(object)) plain = PyFloat_FromDouble(PyFloat_AS_DOUBLE(object));
  if (PyComplex_Check(object)) plain = PyComplex_FromCComplex(reinterpret_cast<PyComplexObject*>(object)->cval);
  if (PyUnicode_Check(object)) plain = PyUnicode_FromObject(object);
  if (PyBytes_Check(object)) plain = PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), Py_SIZE(object));
  if (plain == nullptr) PyErr_Clear();
  return plain;
}

bool has_value(PyObject* object, PyObject* plain) noexcept {
  return PyObject_TypeCheck(object, Py_TYPE(plain)) && same_value(Py_TYPE(plain), object, plain);
}

#if PY_VERSION_HEX >= 0x030e0000
namespace {

#ifdef Py_GIL_DISABLED
#error "a dict has bits for a version only where there is a GIL"
#endif

int g_watcher = -1;  // negative: CPython had none left

int forget_version(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
  uint64_t& tag = reinterpret_cast<PyDictObject*>(dict)->_ma_watcher_tag;
  tag &= ((uint64_t{1} << kVersionShift) - 1) & ~(uint64_t{1} << g_watcher);
  return 0;
}

}  // namespace

// Without a watcher no two answers are the same, so that nothing passes for unchanged.
uint64_t new_dict_version(PyDictObject* dict) noexcept {
  static uint64_t last = 0;
  static const int watcher = [] {
    const SavedError error;
    g_watcher = PyDict_AddWatcher(forget_version);
    if (g_watcher < 0) PyErr_Clear();
    return g_watcher;
  }();
  const uint64_t version = ++last;
  if (watcher >= 0) dict->_ma_watcher_tag |= (version << kVersionShift) | (uint64_t{1} << watcher);
  return version;
}
#elif PY_VERSION_HEX >= 0x030d0000
uint64_t shared_values_version(PyDictObject* dict) noexcept {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15ull, kNoTag = uint64_t{1} << 63;
  const PyDictValues* values = dict->ma_values;
  uint64_t hash = dict->ma_version_tag ^ reinterpret_cast<uintptr_t>(dict->ma_keys);
  const auto mix = [&](uint64_t part) { hash = (hash ^ part ^ (hash >> 32)) * kPrime; };
  for (int i = 0; i < values->capacity; ++i) mix(reinterpret_cast<uintptr_t>(values->values[i]));
  const auto* order = reinterpret_cast<const uint8_t*>(&values->values[values->capacity]);
  for (int i = 0; i < values->size; ++i) mix(order[i]);
  return hash | kNoTag;
}
#endif

uint32_t type_version(PyTypeObject* type) noexcept {
  static PyObject* const probe = PyUnicode_InternFromString("__class__");
  if (current_type_version(type) == 0 && probe != nullptr) _PyType_Lookup(type, probe);  // assigns on its way
  return current_type_version(type);
}

uint32_t function_version(PyObject* function) noexcept {
  auto* object = reinterpret_cast<PyFunctionObject*>(function);
#if PY_VERSION_HEX >= 0x030c0000
  // All functions that one `def` makes share the version of its code, whatever their defaults and closures are. One
  // that dies leaves its address to the next, and a guard took that one for it. This also takes the version back.
  const auto* code = reinterpret_cast<PyCodeObject*>(object->func_code);
  if (has_function_version(object) && object->func_version == code->co_version)
    PyFunction_SetVectorcall(object, object->vectorcall);
#endif
  if (!has_function_version(object) && next_function_version > kLowestOwnVersion)
    object->func_version = next_function_version--;
  return object->func_version;
}

uint32_t shared_keys_version(PyTypeObject* type) noexcept {
  PyDictKeysObject* keys = shared_keys(type);
  if (keys == nullptr) return 0;
  if (keys->dk_version == 0 && next_keys_version > kLowestOwnVersion) keys->dk_version = next_keys_version--;
  return keys->dk_version;
}

Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name) noexcept {
  PyDictKeysObject* keys = shared_keys(type);
  Py_hash_t hash;
  if (keys == nullptr || !native_hash(name, &hash)) return -1;
  const Py_ssize_t index = find_key(keys, name, hash);
  return index < 0 ? -1 : index;
}

PyObject* shared_key(PyTypeObject* type, Py_ssize_t index) noexcept {
  PyDictKeysObject* keys = shared_keys(type);
  return keys == nullptr || index >= keys->dk_nentries ? nullptr : DK_UNICODE_ENTRIES(keys)[index].me_key;
}

bool meets_native_keys(PyObject* dict, Py_hash_t hash) noexcept {
  PyDictKeysObject* keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  if (keys->dk_kind != DICT_KEYS_GENERAL) return true;
  const size_t mask = (size_t{1} << keys->dk_log2_size) - 1;
  auto perturb = static_cast<size_t>(hash);
  for (size_t slot = perturb & mask;; slot = (slot * 5 + perturb + 1) & mask) {
    const Py_ssize_t index = index_at(keys, slot);
    if (index == DKIX_EMPTY) return true;
    const PyDictKeyEntry* entry = index < 0 ? nullptr : &DK_ENTRIES(keys)[index];
    if (entry != nullptr && entry->me_hash == hash && !is_native_key(entry->me_key)) return false;
    perturb >>= 5;  // PERTURB_SHIFT
  }
}

namespace {

// What a dict has at the index that find_key has given.
int value_at(PyDictObject* object, Py_ssize_t index, PyObject** value) noexcept {
  PyDictKeysObject* keys = object->ma_keys;
  *value = nullptr;
  if (index < 0) return index == kAbsent ? 0 : -1;
  if (object->ma_values != nullptr) {
    *value = object->ma_values->values[index];
  } else {
    *value = DK_IS_UNICODE(keys) ? DK_UNICODE_ENTRIES(keys)[index].me_value : DK_ENTRIES(keys)[index].me_value;
  }
  return *value != nullptr;
}

}  // namespace

int dict_lookup_same(PyObject* dict, PyObject* key, Py_hash_t hash, PyObject** value) noexcept {
  auto* object = reinterpret_cast<PyDictObject*>(dict);
  return value_at(object, find_key(object->ma_keys, key, hash), value);
}

int dict_lookup_address(PyObject* dict, PyObject* key, PyObject** value) noexcept {
  auto* object = reinterpret_cast<PyDictObject*>(dict);
  return value_at(object, find_key<true>(object->ma_keys, key, PyBaseObject_Type.tp_hash(key)), value);
}

uint64_t odict_state(PyObject* odict) noexcept {
  return reinterpret_cast<OrderedDict*>(odict)->state;
}

int dict_lookup_exact(PyObject* dict, PyObject* key, PyObject** value) noexcept {
  Py_hash_t hash;
  *value = nullptr;
  return native_hash(key, &hash) ? dict_lookup_same(dict, key, hash, value) : -1;
}

bool dict_next(PyObject* dict, DictCursor* cursor, PyObject** key, PyObject** value) noexcept {
  if (!PyODict_Check(dict)) return PyDict_Next(dict, &cursor->position, key, value) != 0;
  auto* node = static_cast<OrderedNode*>(cursor->node);
  node = cursor->position++ == 0 ? reinterpret_cast<OrderedDict*>(dict)->first : node->next;
  cursor->node = node;
  if (node == nullptr) return false;
  *key = node->key;
  return dict_lookup_exact(dict, *key, value) == 1;
}

bool dict_ends(PyObject* dict, const DictCursor& cursor) noexcept {
  if (!PyODict_Check(dict)) return true;
  const auto* node = static_cast<const OrderedNode*>(cursor.node);
  if ((node != nullptr ? node->next : reinterpret_cast<OrderedDict*>(dict)->first) != nullptr) return false;
  return Py_TYPE(dict) != &PyODict_Type || *dict_slot(dict) == nullptr;
}

PyTypeObject* reference_type() noexcept {
  return &_PyWeakref_RefType;
}

int store_attribute(PyObject* object, PyObject* name, PyObject* value) noexcept {
  if (PyType_Check(object)) return PyType_Type.tp_setattro(object, name, value);
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(object), name);
  PyTypeObject* type = descriptor == nullptr ? nullptr : Py_TYPE(descriptor);
  const bool of_program = type != nullptr && type->tp_descr_set != nullptr &&
                          (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || type == &PyProperty_Type);
  if (!of_program) return PyObject_GenericSetAttr(object, name, value);
  Ref dict = Ref::steal(PyObject_GenericGetDict(object, nullptr));
  if (!dict) return -1;
  return value == nullptr ? PyDict_DelItem(dict.get(), name) : PyDict_SetItem(dict.get(), name, value);
}

int store_item(PyObject* object, PyObject* key, PyObject* value) noexcept {
  if (!PyDict_Check(object)) {
    const PyTypeObject* type = PyList_Check(object) ? &PyList_Type : Py_TYPE(object);
    return type->tp_as_mapping->mp_ass_subscript(object, key, value);
  }
  if (value == nullptr) return PyODict_Check(object) ? PyODict_DelItem(object, key) : PyDict_DelItem(object, key);
  return PyODict_Check(object) ? PyODict_SetItem(object, key, value) : PyDict_SetItem(object, key, value);
}

void add_attribute_context(PyObject* exception, PyObject* object, PyObject* name) noexcept {
  if (PyErr_GivenExceptionMatches(exception, PyExc_AttributeError) == 0) return;
  const auto* error = reinterpret_cast<PyAttributeErrorObject*>(exception);
  if (error->name != nullptr || error->obj != nullptr) return;
  static PyObject* const names[] = {PyUnicode_InternFromString("name"), PyUnicode_InternFromString("obj")};
  if (PyObject_SetAttr(exception, names[0], name) != 0 || PyObject_SetAttr(exception, names[1], object) != 0)
    PyErr_Clear();
}

void add_attribute_context(PyObject* object, PyObject* name) noexcept {
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr) add_attribute_context(value, object, name);
  PyErr_Restore(type, value, traceback);
}

PyObject** dict_slot(PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (has_managed_dict(type)) return reinterpret_cast<PyObject**>(object) - 3;
  Py_ssize_t offset = type->tp_dictoffset;
  if (offset == 0) return nullptr;
  if (offset < 0) {  // counted from the end of an object of variable size
    const Py_ssize_t items = Py_SIZE(object);
    const auto size = static_cast<Py_ssize_t>(_PyObject_VAR_SIZE(type, items < 0 ? -items : items));
    offset += size;
  }
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

bool has_no_next(PyTypeObject* type) noexcept {
  return type->tp_iternext == slot_functions().no_next;
}

PyTypeObject* method_wrapper_type() noexcept {
  static PyTypeObject* const type = [] {
    const Ref method = Ref::steal(PyObject_GetAttrString(Py_None, "__repr__"));
    return Py_TYPE(method.get());
  }();
  return type;
}

PyObject* new_dict_view(PyObject* dict, PyTypeObject* type) noexcept {
  auto* view = PyObject_GC_New(_PyDictViewObject, type);
  if (view == nullptr) return nullptr;
  view->dv_dict = reinterpret_cast<PyDictObject*>(new_reference(dict));
  PyObject_GC_Track(view);
  return reinterpret_cast<PyObject*>(view);
}

bool set_holds(PyObject* set, PyObject* key, bool scalar) noexcept {
  const auto* object = reinterpret_cast<PySetObject*>(set);
  for (Py_ssize_t i = 0; i <= object->mask; ++i) {
    PyObject* item = object->table[i].key;
    if (item != nullptr && (item == key || (scalar && same_scalar(item, key)))) return true;
  }
  return false;
}

namespace {

// The module of that name has it under its qualified name.
bool is_found_at(PyObject* object, PyObject* module, PyObject* path) noexcept {
  PyObject* found = nullptr;
  if (module == nullptr || !PyUnicode_CheckExact(module) ||
      dict_lookup_exact(PyImport_GetModuleDict(), module, &found) <= 0 || !PyModule_Check(found))
    return false;
  PyObject* space = PyModule_GetDict(found);
  const Py_ssize_t length = PyUnicode_GET_LENGTH(path);
  for (Py_ssize_t at = 0, dot = 0; at <= length; at = dot + 1) {
    dot = PyUnicode_FindChar(path, '.', at, length, 1);
    if (dot < 0) dot = length;
    const Ref part = Ref::steal(PyUnicode_Substring(path, at, dot));
    if (!part || dict_lookup_exact(space, part.get(), &found) <= 0) return PyErr_Clear(), false;
    if (dot == length) return found == object;
    if (!PyType_Check(found)) return false;
    space = type_dict(reinterpret_cast<PyTypeObject*>(found));
  }
  return false;
}

}  // namespace

namespace {

std::vector<PyTypeObject*> tuple_types;

// Of a struct sequence of C, the fields that are no items; -1: it is none, or has fields without names.
long hidden_fields(PyTypeObject* type) noexcept {
  static PyObject* const names[] = {PyUnicode_InternFromString("n_sequence_fields"),
                                    PyUnicode_InternFromString("n_fields"),
                                    PyUnicode_InternFromString("n_unnamed_fields")};
  PyObject* counts[3];
  if (type->tp_base != &PyTuple_Type || (type->tp_flags & Py_TPFLAGS_BASETYPE) != 0) return -1;
  for (int i = 0; i < 3; ++i)
    if (dict_lookup_exact(type_dict(type), names[i], &counts[i]) <= 0 || !PyLong_CheckExact(counts[i])) return -1;
  return int_bits(counts[2]) == 0 ? PyLong_AsLong(counts[1]) - PyLong_AsLong(counts[0]) : -1;
}

}  // namespace

void add_tuple_type(PyTypeObject* type) {
  if (std::find(tuple_types.begin(), tuple_types.end(), type) == tuple_types.end()) tuple_types.push_back(type);
}

bool holds_items_only(PyTypeObject* type) noexcept {
  const bool has_slot = type->tp_dictoffset != 0 && !has_managed_dict(type);
  const auto place = static_cast<Py_ssize_t>(has_slot ? sizeof(PyObject*) : 0);
  if (type->tp_weaklistoffset != 0) return false;
  const Py_ssize_t more = type->tp_basicsize - PyTuple_Type.tp_basicsize - place;
  // From CPython 3.13 on the size of a struct sequence has the fields in it that stand behind the items.
  return more == 0 || (more > 0 && hidden_fields(type) * static_cast<Py_ssize_t>(sizeof(PyObject*)) == more);
}

bool is_plain_tuple(PyObject* object) noexcept {
  const PyTypeObject *type = Py_TYPE(object), *tuple = &PyTuple_Type;
  if (type == tuple) return true;
  if (std::find(tuple_types.begin(), tuple_types.end(), type) != tuple_types.end()) return true;
  if (!PyTuple_Check(object) || !holds_items_only(Py_TYPE(object)) || instance_dict(object) != nullptr) return false;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && hidden_fields(Py_TYPE(object)) != 0) return false;
  if (type->tp_finalize != nullptr || type->tp_del != nullptr) return false;
  if (type->tp_as_number != nullptr && type->tp_as_number->nb_bool != nullptr) return false;
  if (type->tp_iter != tuple->tp_iter || type->tp_richcompare != tuple->tp_richcompare) return false;
  const PySequenceMethods *own = type->tp_as_sequence, *plain = tuple->tp_as_sequence;
  if (own->sq_length != plain->sq_length || own->sq_contains != plain->sq_contains) return false;
  if (type->tp_hash != tuple->tp_hash) return false;
  // sq_item is another one in every class of Python: it looks for what mp_subscript says.
  const PyMappingMethods *by_key = type->tp_as_mapping, *plain_key = tuple->tp_as_mapping;
  return by_key->mp_length == plain_key->mp_length && by_key->mp_subscript == plain_key->mp_subscript;
}

bool is_plain_list(PyTypeObject* type) noexcept {
  const PyTypeObject* list = &PyList_Type;
  if (type == list) return true;
  if (!PyType_HasFeature(type, Py_TPFLAGS_LIST_SUBCLASS) || (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  if (type->tp_finalize != nullptr || type->tp_del != nullptr || type->tp_as_number->nb_bool != nullptr) return false;
  if (type->tp_iter != list->tp_iter || type->tp_richcompare != list->tp_richcompare) return false;
  const PySequenceMethods *own = type->tp_as_sequence, *plain = list->tp_as_sequence;
  if (own->sq_length != plain->sq_length || own->sq_contains != plain->sq_contains) return false;
  // sq_item, sq_ass_item and mp_subscript are others in every class of Python: the last looks for a method.
  static PyObject* const name = PyUnicode_InternFromString("__getitem__");
  const PyMappingMethods *by_key = type->tp_as_mapping, *plain_key = list->tp_as_mapping;
  return by_key->mp_length == plain_key->mp_length && by_key->mp_ass_subscript == plain_key->mp_ass_subscript &&
         lookup_type(type, name) == lookup_type(&PyList_Type, name);
}

bool is_importable(PyTypeObject* type) noexcept {
  static PyObject* const key = PyUnicode_InternFromString("__module__");
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0) return true;
  PyObject* module = nullptr;
  return dict_lookup_exact(type_dict(type), key, &module) > 0 &&
         is_found_at(reinterpret_cast<PyObject*>(type), module, reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
}

bool is_importable(PyFunctionObject* function) noexcept {
  return is_found_at(reinterpret_cast<PyObject*>(function), function->func_module, function->func_qualname);
}

namespace {

struct Range {  // Objects/rangeobject.c
  PyObject_HEAD PyObject *start, *stop, *step, *length;
};

}  // namespace

PyObject* new_item(PyObject* sequence, Py_ssize_t index) noexcept {
  if (PyRange_Check(sequence)) {
    const auto* range = reinterpret_cast<const Range*>(sequence);
    int far_start = 0, far_step = 0;
    const long long start = PyLong_AsLongLongAndOverflow(range->start, &far_start);
    const long long step = PyLong_AsLongLongAndOverflow(range->step, &far_step);
    long long way, item;
    if (far_start == 0 && far_step == 0 && !__builtin_mul_overflow(step, static_cast<long long>(index), &way) &&
        !__builtin_add_overflow(start, way, &item))
      return PyLong_FromLongLong(item);
  }
  return PySequence_GetItem(sequence, index);
}

namespace {

constexpr Py_ssize_t kMaxQuietItems = 4096;

bool is_quiet(PyObject* object, int depth) noexcept {
  if (dies_unnoticed(Py_TYPE(object))) return true;
  if (!PyTuple_CheckExact(object) || depth == 0 || PyTuple_GET_SIZE(object) > kMaxQuietItems) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_quiet(PyTuple_GET_ITEM(object, i), depth - 1)) return false;
  return true;
}

}  // namespace

namespace {

std::vector<PyTypeObject*> value_types;

}  // namespace

void add_value_type(PyTypeObject* type) {
  if (!is_value_type(type)) value_types.push_back(type);
}

bool is_value_type(PyTypeObject* type) noexcept {
  return std::find(value_types.begin(), value_types.end(), type) != value_types.end();
}

bool equal_values(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) PyErr_Clear();
  return same > 0;
}

bool holds_quiet_items(PyObject* container) noexcept {
  constexpr int kDepth = 3;
  if (PyObject_Size(container) > kMaxQuietItems) return false;
  if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i)
      if (!is_quiet(PyList_GET_ITEM(container, i), kDepth)) return false;
    return true;
  }
  Py_ssize_t position = 0;
  PyObject* item;
  Py_hash_t hash;
  while (_PySet_NextEntry(container, &position, &item, &hash))
    if (!is_quiet(item, kDepth)) return false;
  return true;
}

}  // namespace pijit::cpython
