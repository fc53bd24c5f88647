// Private facts of objects: version tags, dict lookup that never runs user code, instance dicts and inline values.
//
// 1. Nothing here runs Python, raises, or makes an instance's __dict__ (an instance that has one reads its attributes
// slower).
// 2. Version numbers that CPython does not export a way to assign (functions, shared keys) are assigned here from the
//    top of their range downwards; CPython counts upwards from 1, so the two never meet.
#pragma once
#include <cstdint>

#include "common/ref.h"
#include "cpython/internals.h"

namespace pijit::cpython {

// --- versions; 0: none can be had -------------------------------------------------------------
#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000
// A number made of all that a dict has whose values lie in the object that it belongs to.
uint64_t shared_values_version(PyDictObject* dict) noexcept;
#endif
#if PY_VERSION_HEX >= 0x030e0000
// 3.14 counts no changes of a dict. It tells a watcher before each, and has bits in the dict that it does not use:
// there a dict that was asked about has its version, until the first change takes it away.
inline constexpr int kVersionShift = DICT_MAX_WATCHERS + DICT_WATCHED_MUTATION_BITS;
// Gives a version to a dict that has none.
uint64_t new_dict_version(PyDictObject* dict) noexcept;
inline uint64_t dict_version(PyObject* object) noexcept {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
  const uint64_t version = dict->_ma_watcher_tag >> kVersionShift;
  return version != 0 ? version : new_dict_version(dict);
}
#else
// On 3.13 a store to an attribute changes no tag where the dict shares its values with the object: the values are the
// version then, and one that died may have left its address to another.
inline uint64_t dict_version(PyObject* object) noexcept {
  auto* dict = reinterpret_cast<PyDictObject*>(object);
#if PY_VERSION_HEX >= 0x030d0000
  if (dict->ma_values != nullptr && dict->ma_values->embedded != 0) return shared_values_version(dict);
#endif
  return dict->ma_version_tag;
}
#endif
// The valid version tag of a type; assigned if need be.
uint32_t type_version(PyTypeObject* type) noexcept;
// The current valid tag, 0 if there is none now.
inline uint32_t current_type_version(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return type->tp_version_tag;
#else
  return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
#endif
}
// Changes with __code__, __defaults__, __kwdefaults__ (the object, not its content), __annotations__; assigned if need
// be.
uint32_t function_version(PyObject* function) noexcept;
// From 3.14 on one that lost its version has 1.
inline bool has_function_version(const PyFunctionObject* function) noexcept {
  return function->func_version > (PY_VERSION_HEX >= 0x030e0000 ? 1u : 0u);
}
inline uint32_t current_function_version(PyObject* function) noexcept {
  return reinterpret_cast<PyFunctionObject*>(function)->func_version;
}
// Where a function keeps its type parameters, null or a tuple; negative: it has none.
#if PY_VERSION_HEX >= 0x030c0000
inline constexpr Py_ssize_t kTypeParameters = offsetof(PyFunctionObject, func_typeparams);
#else
inline constexpr Py_ssize_t kTypeParameters = -1;
#endif

// And where the function that makes its annotations when they are first asked for; may be null or None there.
#if PY_VERSION_HEX >= 0x030e0000
inline constexpr Py_ssize_t kAnnotate = offsetof(PyFunctionObject, func_annotate);
#else
inline constexpr Py_ssize_t kAnnotate = -1;
#endif

// issubset() draws no further from an iterator that has given all that the set has.
inline constexpr bool kSubsetEndsEarly = PY_VERSION_HEX >= 0x030c0000;

// --- dicts ------------------------------------------------------------------------------------
// 1 found (*value borrowed), 0 absent, -1 undecided: only user code could compare the keys.
int dict_lookup_exact(PyObject* dict, PyObject* key, PyObject** value) noexcept;
// All keys of the dict that a key with this hash is compared with are native.
bool meets_native_keys(PyObject* dict, Py_hash_t hash) noexcept;
// As dict_lookup_exact, for a key of any class, with this hash.
int dict_lookup_same(PyObject* dict, PyObject* key, Py_hash_t hash, PyObject** value) noexcept;
// As dict_lookup_exact, for a key that is_address_key: nothing is looked for in it, and it may be dead.
int dict_lookup_address(PyObject* dict, PyObject* key, PyObject** value) noexcept;
// Both of exactly the same immutable scalar type (int, float, complex, bool, None, Ellipsis, str, bytes) with the same
// bits.
bool same_scalar(PyObject* a, PyObject* b) noexcept;
// The value of an object whose class is derived from int, float, complex, str or bytes as a plain scalar (new
// reference), or null without an error.
PyObject* plain_value(PyObject* object) noexcept;
// plain_value(object) would have the bits of `plain`.
bool has_value(PyObject* object, PyObject* plain) noexcept;
// same_scalar() compares objects of that type, and such objects.
inline bool is_scalar_type(PyTypeObject* type) noexcept {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type;
}
inline bool is_scalar(PyObject* object) noexcept {
  return is_scalar_type(Py_TYPE(object)) || object == Py_None || object == Py_Ellipsis;
}
// Every object of that type and value is this one: None, Ellipsis, NotImplemented, booleans, small integers.
bool is_singleton(PyObject* object) noexcept;

// Walks a dict in iteration order; an OrderedDict in its own order. Start with all zero; false at the end.
struct DictCursor {
  Py_ssize_t position = 0;
  void* node = nullptr;
};
bool dict_next(PyObject* dict, DictCursor* cursor, PyObject** key, PyObject** value) noexcept;
// After as many keys as the dict has: that is all. An OrderedDict that methods of dict have written has others in its
// order than it holds, and one may have attributes.
bool dict_ends(PyObject* dict, const DictCursor& cursor) noexcept;

// --- instances --------------------------------------------------------------------------------
inline bool has_managed_dict(PyTypeObject* type) noexcept {
  return PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT);
}
// Where the instance's dict pointer lives, or null when the type has none.
PyObject** dict_slot(PyObject* object) noexcept;
// On 3.12 the place of a managed dict holds the inline values, tagged, as long as there is no dict.
inline bool is_tagged([[maybe_unused]] const void* pointer) noexcept {
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
  return (reinterpret_cast<uintptr_t>(pointer) & 1) != 0;
#else
  return false;
#endif
}
// The instance dict if it exists as an object (borrowed), or null.
inline PyObject* instance_dict(PyObject* object) noexcept {
  PyObject** slot = dict_slot(object);
  return slot == nullptr || is_tagged(*slot) ? nullptr : *slot;
}
PyTypeObject* reference_type() noexcept;  // weakref.ref
// Stores an attribute where it is kept, the instance's dict or a slot, or deletes it there (null): no descriptor of the
// program's is asked. A class is written as type.__setattr__ does it. -1 with an error.
int store_attribute(PyObject* object, PyObject* name, PyObject* value) noexcept;
// object[key] = value (null: del object[key]) of a list or dict: no method that a derived class has runs.
int store_item(PyObject* object, PyObject* key, PyObject* value) noexcept;
// As PyObject_GetAttr does when it fails: an AttributeError that has no name and no object gets these.
void add_attribute_context(PyObject* exception, PyObject* object, PyObject* name) noexcept;
// The same for the error that is set.
void add_attribute_context(PyObject* object, PyObject* name) noexcept;
// The inline attribute values, or null (no managed dict, or the dict has been made).
inline PyDictValues* inline_values(PyObject* object) noexcept {
  if (!has_managed_dict(Py_TYPE(object))) return nullptr;
#if PY_VERSION_HEX >= 0x030d0000
  if (reinterpret_cast<PyObject**>(object)[-3] != nullptr ||
      !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_INLINE_VALUES))
    return nullptr;
  auto* values = _PyObject_InlineValues(object);
  return values->valid != 0 ? values : nullptr;
#elif PY_VERSION_HEX >= 0x030c0000
  char* values = reinterpret_cast<char**>(object)[-3];
  return is_tagged(values) ? reinterpret_cast<PyDictValues*>(values + 1) : nullptr;
#else
  return reinterpret_cast<PyDictValues**>(object)[-4];
#endif
}
inline PyObject* inline_value(PyObject* object, Py_ssize_t index) noexcept {
  return inline_values(object)->values[index];
}
// The keys shared by the instances of a heap type, or null. Names are only ever appended, so an index stays right.
inline PyDictKeysObject* shared_keys(PyTypeObject* type) noexcept {
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys
                                                      : nullptr;
}
// The values under the shared keys: inline ones, or those that a dict shows which the object alone holds: vars() makes
// such a dict, and it stays. Null: neither.
inline PyDictValues* own_values(PyObject* object) noexcept {
  if (PyDictValues* values = inline_values(object)) return values;
  PyObject* dict = has_managed_dict(Py_TYPE(object)) ? instance_dict(object) : nullptr;
  if (dict == nullptr || !PyDict_CheckExact(dict) || Py_REFCNT(dict) != 1) return nullptr;
  const auto* shown = reinterpret_cast<PyDictObject*>(dict);
  return shown->ma_keys == shared_keys(Py_TYPE(object)) ? shown->ma_values : nullptr;
}
// What kInlineSlot guards: the address of the shared keys.
inline uint64_t shared_keys_id(PyTypeObject* type) noexcept {
  return reinterpret_cast<uintptr_t>(shared_keys(type));
}
// What kNoInlineSlot guards: changes when a name is added; unique among all keys. Assigned if need be.
uint32_t shared_keys_version(PyTypeObject* type) noexcept;
inline uint32_t current_shared_keys_version(PyTypeObject* type) noexcept {
  PyDictKeysObject* keys = shared_keys(type);
  return keys == nullptr ? 0 : keys->dk_version;
}
// Index of an exact str in the shared keys, or -1.
Py_ssize_t shared_key_index(PyTypeObject* type, PyObject* name) noexcept;
// The name at that index, borrowed, or null.
PyObject* shared_key(PyTypeObject* type, Py_ssize_t index) noexcept;

// --- sequences that cannot change ---------------------------------------------------------------
// The item of a range, str or bytes (new reference); index as in C, within.
PyObject* new_item(PyObject* sequence, Py_ssize_t index) noexcept;

// list[a:b] = iterable takes the items first: the bounds are those of the list as the iterable has left it.
inline constexpr bool kSlicesTakeItemsFirst = PY_VERSION_HEX >= 0x030d0000;

// --- sets -------------------------------------------------------------------------------------
// Walks a set in the order of its table (borrowed); start with 0. False at the end.
inline bool next_set_item(PyObject* set, Py_ssize_t* position, PyObject** item) noexcept {
  Py_hash_t hash;
  return _PySet_NextEntry(set, position, item, &hash) != 0;
}

// --- integers ---------------------------------------------------------------------------------
// One of CPython's table of small ints, which live as long as the process; borrowed.
inline PyObject* small_int(int value) noexcept {
  return Ref::steal(PyLong_FromLong(value)).get();
}
// -1, 0 or 1; of an int or of what is derived from it.
inline int int_sign(PyObject* number) noexcept {
  return _PyLong_Sign(number);
}
// Bits of its magnitude.
inline size_t int_bits(PyObject* number) noexcept {
  return _PyLong_NumBits(number);
}

// --- classes ----------------------------------------------------------------------------------
// What the class or one of its bases has under that name (borrowed), or null.
inline PyObject* lookup_type(PyTypeObject* type, PyObject* name) noexcept {
  return _PyType_Lookup(type, name);
}
// Its class has a property of that name, or the like: loading it runs code that may raise.
inline bool has_property(PyObject* object, PyObject* name) noexcept {
  PyObject* found = lookup_type(Py_TYPE(object), name);
  return found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr;
}
// The dict of a class (borrowed); null: it has none yet.
inline PyObject* type_dict(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  return Ref::steal(PyType_GetDict(type)).get();  // of a class of C the interpreter keeps it
#else
  return type->tp_dict;
#endif
}
// How many slots the class itself has made of __slots__.
inline Py_ssize_t slot_count(PyTypeObject* type) noexcept {
  return Py_SIZE(type);
}
// A positional pattern of that class stands for the subject: int(x), str(x), ...
inline bool matches_itself(PyTypeObject* type) noexcept {
  return (type->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0;
}
// Its instances say that they are no iterators (__next__ = None).
bool has_no_next(PyTypeObject* type) noexcept;
// The class of a slot method of C that is bound: (1).__add__.
PyTypeObject* method_wrapper_type() noexcept;

// What code names by a number, borrowed: AssertionError is 0, and before 3.14 the only one.
inline PyObject* common_constant([[maybe_unused]] int which) noexcept {
#if PY_VERSION_HEX >= 0x030e0000
  return PyInterpreterState_Get()->common_consts[which];
#else
  return PyExc_AssertionError;
#endif
}

// --- other ------------------------------------------------------------------------------------
// True if the set holds `key` by identity or, if `scalar`, as the same scalar; linear, never hashes; looks into `key`
// only then.
bool set_holds(PyObject* set, PyObject* key, bool scalar) noexcept;

// Objects that cannot change and hold others: tuples, bound methods, methods of C bound to an object, slices. -1: none
// of these.
Py_ssize_t part_count(PyObject* object) noexcept;
// Borrowed; may be null.
PyObject* part(PyObject* object, Py_ssize_t index) noexcept;
// What tells methods of C of one object apart; 0 for the others.
uint64_t part_definition(PyObject* object) noexcept;
// A class that its module has under its qualified name, or one of C: it was not made for the moment.
bool is_importable(PyTypeObject* type) noexcept;
bool is_importable(PyFunctionObject* function) noexcept;
// Nothing is told when an object of that type dies: no finaliser, no weak reference, nothing inside that could have
// one.
inline bool dies_unnoticed(PyTypeObject* type) noexcept {
  constexpr unsigned long kNoticed = Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_HAVE_GC;
  return (type->tp_flags & kNoticed) == 0 && type->tp_weaklistoffset == 0;
}

// keys(), values() or items() of a dict, by the class of the view. New reference.
PyObject* new_dict_view(PyObject* dict, PyTypeObject* type) noexcept;
inline bool equals_ascii(PyObject* text, const char* ascii) noexcept {
  return _PyUnicode_EqualToASCIIString(text, ascii) != 0;
}
// The interpreter is at its end.
inline bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// What an object holds at that byte; borrowed, may be null.
inline PyObject* object_at(PyObject* object, Py_ssize_t offset) noexcept {
  PyObject* found = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
  return is_tagged(found) ? nullptr : found;
}

// The annotations of a function are still to be made, by code of the program.
inline bool has_lazy_annotations(PyObject* function) noexcept {
  PyObject* annotate = kAnnotate < 0 ? nullptr : object_at(function, kAnnotate);
  return annotate != nullptr && annotate != Py_None &&
         reinterpret_cast<PyFunctionObject*>(function)->func_annotations == nullptr;
}

// An object of C that shows its memory (the buffer protocol), such as an array; no scalar.
inline bool shows_memory(PyObject* object) noexcept {
  const PyTypeObject* type = Py_TYPE(object);
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && type->tp_as_buffer != nullptr &&
         type->tp_as_buffer->bf_getbuffer != nullptr && !is_scalar(object);
}

// Types of C whose objects, if they are equal, are told apart by nothing but their identity: devices.
void add_value_type(PyTypeObject* type);
bool is_value_type(PyTypeObject* type) noexcept;
bool equal_values(PyObject* a, PyObject* b) noexcept;  // of one such type

// A tuple, or one of a class of Python that is derived from it, is indexed, iterated over and compared as a tuple is, and
// has nothing else now: a NamedTuple. It may be given attributes, if its class has a place for a dict.
bool is_plain_tuple(PyObject* object) noexcept;
bool holds_items_only(PyTypeObject* type) noexcept;  // of a class derived from tuple: beside a dict, perhaps
void add_tuple_type(PyTypeObject* type);             // another type of C whose objects do so
// list, or a class derived from it that does as lists do with its items.
bool is_plain_list(PyTypeObject* type) noexcept;

// When this list or set dies nothing is told of any of its items. Tuples of such items are such, too.
bool holds_quiet_items(PyObject* container) noexcept;

// The constructor of the built-in class that a class comes from.
inline initproc builtin_init(PyTypeObject* type) noexcept {
  while ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) type = type->tp_base;
  return type->tp_init;
}

// The next allocation starts no collection; one after it may.
inline void postpone_collection() noexcept {
  gc_generation& youngest = PyInterpreterState_Get()->gc.generations[0];
  if (youngest.threshold > 0 && youngest.count >= youngest.threshold) youngest.count = youngest.threshold - 1;
}

// Stops automatic garbage collection, so that allocation cannot run Python.
class GcPause {
 public:
  GcPause() noexcept : enabled_(PyGC_Disable() != 0) {}
  ~GcPause() { end(); }
  void end() noexcept {
    if (enabled_) PyGC_Enable();
    enabled_ = false;
  }
  GcPause(const GcPause&) = delete;
  GcPause& operator=(const GcPause&) = delete;

 private:
  bool enabled_;
};

}  // namespace pijit::cpython
