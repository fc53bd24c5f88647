// Keys and slots: comparisons that run no Python, and the slot functions of classes.
#include "cpython/keys.h"

#include <cstring>

#include "common/imports.h"
#include "cpython/objects.h"

namespace pijit::cpython {

bool scalars_equal(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  PyTypeObject *left = Py_TYPE(a), *right = Py_TYPE(b);
  if (left == &PyUnicode_Type || right == &PyUnicode_Type || (left == &PyLong_Type && right == &PyLong_Type))
    return same_scalar(a, b);
  if (!is_scalar(a) || !is_scalar(b)) return false;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

bool keys_equal(PyObject* a, PyObject* b) noexcept {
  if (!is_tuple_key(a) || !is_tuple_key(b))
    return scalars_equal(a, b) || (is_value_type(Py_TYPE(a)) && equal_values(a, b));
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
    if (!keys_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

bool is_native_key(PyObject* key) noexcept {
  if (is_scalar(key)) return true;
  PyTypeObject* type = Py_TYPE(key);
  if (is_tuple_key(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_native_key(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  return type == &PyFunction_Type || type == &PyCFunction_Type || is_value_type(type) || is_address_key(key);
}

bool is_tuple_key(PyObject* key) noexcept {
  PyTypeObject* type = Py_TYPE(key);
  return type == &PyTuple_Type || (PyTuple_Check(key) && type->tp_hash == PyTuple_Type.tp_hash &&
                                   type->tp_richcompare == PyTuple_Type.tp_richcompare);
}

bool is_address_key(PyObject* key) noexcept {
  PyTypeObject* type = Py_TYPE(key);
  return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

int set_has(PyObject* set, PyObject* key, Py_hash_t wanted, bool scalar) noexcept {
  PyObject* item;
  Py_hash_t hash;
  for (Py_ssize_t position = 0; _PySet_NextEntry(set, &position, &item, &hash) != 0;) {
    if (item == key) return 1;
    if (hash != wanted) continue;
    if (!is_native_key(item)) return -1;
    const int equal = scalar ? PyObject_RichCompareBool(item, key, Py_EQ) : 0;
    if (equal < 0) return PyErr_Clear(), -1;
    if (equal != 0) return 1;
  }
  return 0;
}

bool is_lasting_key(PyObject* key) noexcept {
  if (!PyTuple_CheckExact(key)) return dies_unnoticed(Py_TYPE(key)) && is_native_key(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (!is_lasting_key(PyTuple_GET_ITEM(key, i))) return false;
  return true;
}

bool same_key(PyObject* a, PyObject* b) noexcept {
  if (a == b || Py_TYPE(a) != Py_TYPE(b)) return a == b;
  if (!is_tuple_key(a)) return same_scalar(a, b) || (is_value_type(Py_TYPE(a)) && equal_values(a, b));
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
    if (!same_key(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

bool dict_is_native(PyObject* dict) noexcept {
  PyDictKeysObject* keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
  if (keys->dk_kind != DICT_KEYS_GENERAL) return true;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    if (!is_native_key(key)) return false;
  return true;
}

int dict_lookup(PyObject* dict, PyObject* key, PyObject** value) noexcept {
  *value = nullptr;
  if (!is_native_key(key)) return -1;
  const Py_hash_t hash = PyObject_Hash(key);
  if (hash == -1) {
    PyErr_Clear();
    return -1;
  }
  if (!meets_native_keys(dict, hash)) return -1;
  *value = _PyDict_GetItem_KnownHash(dict, key, hash);
  if (*value != nullptr) return 1;
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return -1;
  }
  return 0;
}

bool odict_in_dict_order(PyObject* odict) noexcept {
  // The linked list is private: compare through the iterator, which runs no Python for native keys.
  Ref iterator = Ref::steal(PyODict_Type.tp_iter(odict));
  if (!iterator) {
    PyErr_Clear();
    return false;
  }
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(odict, &position, &key, &value)) {
    Ref next = Ref::steal(Py_TYPE(iterator.get())->tp_iternext(iterator.get()));
    if (next.get() != key) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

void dict_entry(PyObject* dict, Py_ssize_t position, PyObject** key, PyObject** value) noexcept {
  const auto* object = reinterpret_cast<PyDictObject*>(dict);
  const bool dense = object->ma_values != nullptr || object->ma_keys->dk_nentries == object->ma_used;
  Py_ssize_t next = dense ? position : 0;
  for (Py_ssize_t i = dense ? position : 0; i <= position; ++i) PyDict_Next(dict, &next, key, value);
}

Storage attribute_storage(PyObject* object) noexcept {
  if (inline_values(object) != nullptr) return Storage::kInline;
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_dictoffset == 0 && !has_managed_dict(type)) return Storage::kNoDict;
  PyObject** slot = dict_slot(object);
  if (slot == nullptr) return Storage::kOther;
  if (*slot != nullptr) return Storage::kDict;
#if PY_VERSION_HEX >= 0x030d0000
  if (PyType_HasFeature(type, Py_TPFLAGS_INLINE_VALUES)) return Storage::kOther;  // its dict was taken away
#endif
  return Storage::kUnset;
}

bool has_own_attributes(PyObject* object) noexcept {
  switch (attribute_storage(object)) {
    case Storage::kNoDict:
    case Storage::kUnset:
      return false;
    case Storage::kInline: {
      Py_ssize_t index = 0;
      while (shared_key(Py_TYPE(object), index) != nullptr && inline_value(object, index) == nullptr) ++index;
      return shared_key(Py_TYPE(object), index) != nullptr;
    }
    case Storage::kDict:
      return *dict_slot(object) == nullptr || PyDict_GET_SIZE(*dict_slot(object)) != 0;
    case Storage::kOther:
      return true;
  }
  return true;
}

bool lacks_attribute(PyObject* object, PyObject* name) noexcept {
  PyObject* value = nullptr;
  switch (attribute_storage(object)) {
    case Storage::kNoDict:
    case Storage::kUnset:
      return true;
    case Storage::kInline: {
      const Py_ssize_t index = shared_key_index(Py_TYPE(object), name);
      return index < 0 || inline_value(object, index) == nullptr;
    }
    case Storage::kDict:
      return dict_lookup(*dict_slot(object), name, &value) == 0 && value == nullptr;
    case Storage::kOther:
      return false;
  }
  return false;
}

namespace {

// The layout of _abc's module state in 3.11.
struct AbcState {
  PyTypeObject* data_type;
  unsigned long long counter;
};

const AbcState* abc_state() noexcept {
  Ref module = import_module("_abc");
  if (!module) {
    PyErr_Clear();
    return nullptr;
  }
  return static_cast<const AbcState*>(PyModule_GetState(module.get()));  // _abc is never unloaded
}

}  // namespace

uint64_t abc_registrations() noexcept {
  static const AbcState* const state = abc_state();
  return state == nullptr ? 0 : state->counter;
}

const SlotFunctions& slot_functions() noexcept {
  static const SlotFunctions table = [] {
    // The slot functions of a class are private; a class that defines everything shows them.
    const char* source =
        "class Both:\n"
        "  def __getattr__(self, n): raise AttributeError\n"
        "  def __setattr__(self, n, v): pass\n"
        "  def __call__(self): pass\n"
        "  def __new__(cls): return object.__new__(cls)\n"
        "  def __bool__(self): return True\n"
        "  def __len__(self): return 1\n"
        "  def __iter__(self): return self\n"
        "  def __next__(self): return 1\n"
        "  def __contains__(self, x): return True\n"
        "  def __getitem__(self, x): return 1\n"
        "  def __setitem__(self, x, y): pass\n"
        "  def __get__(self, o, t): return 1\n"
        "  def __set__(self, o, v): pass\n"
        "  def __eq__(self, o): return True\n"
        "  def __hash__(self): return 1\n"
        "class Only:\n"
        "  def __getattribute__(self, n): return object.__getattribute__(self, n)\n"
        "Only().__class__\n";
    SlotFunctions slots{};
    Ref space = Ref::steal(PyDict_New());
    PyDict_SetItemString(space.get(), "__builtins__", PyEval_GetBuiltins());
    Ref ran = Ref::steal(PyRun_String(source, Py_file_input, space.get(), space.get()));
    if (!ran) {
      PyErr_Clear();
      return slots;
    }
    auto* both = reinterpret_cast<PyTypeObject*>(PyDict_GetItemString(space.get(), "Both"));
    auto* only = reinterpret_cast<PyTypeObject*>(PyDict_GetItemString(space.get(), "Only"));
    slots.getattr_hook = both->tp_getattro;
    slots.getattribute = only->tp_getattro;
    slots.no_next = only->tp_iternext;
    slots.setattr = both->tp_setattro;
    slots.call = both->tp_call;
    slots.new_ = both->tp_new;
    slots.nb_bool = both->tp_as_number->nb_bool;
    slots.len = both->tp_as_sequence->sq_length;
    slots.iter = both->tp_iter;
    slots.iternext = both->tp_iternext;
    slots.contains = both->tp_as_sequence->sq_contains;
    slots.subscript = both->tp_as_mapping->mp_subscript;
    slots.ass_subscript = both->tp_as_mapping->mp_ass_subscript;
    slots.descr_get = both->tp_descr_get;
    slots.descr_set = both->tp_descr_set;
    slots.richcompare = both->tp_richcompare;
    slots.hash = both->tp_hash;
    return slots;
  }();
  return table;
}

}  // namespace pijit::cpython
