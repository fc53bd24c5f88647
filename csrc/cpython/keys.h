// Keys and slots: comparisons that run no Python, how attributes are stored, and the slot functions of classes.
#pragma once
#include <cstdint>

#include "common/python.h"

namespace pijit::cpython {

// Equal as dict keys are (1 == True == 1.0); false unless both are scalars.
bool scalars_equal(PyObject* a, PyObject* b) noexcept;
// Equality of two native keys.
bool keys_equal(PyObject* a, PyObject* b) noexcept;
// A key whose hash and equality run no Python: a scalar, a tuple (is_tuple_key) of native keys, a value of a type of C
// such as torch.device, or an object with the hash and equality of `object`.
bool is_native_key(PyObject* key) noexcept;
// A tuple, or an object of a class that compares and hashes as tuples do, such as torch.Size.
bool is_tuple_key(PyObject* key) noexcept;
// An object with those of `object`: its hash is its address, and it equals nothing but itself.
bool is_address_key(PyObject* key) noexcept;
// Whether a set has a native key of this hash: 1, 0; -1: it has one of this hash that only code of Python can compare.
// Nothing is looked for in a key that is no scalar, and it may be dead.
int set_has(PyObject* set, PyObject* key, Py_hash_t hash, bool scalar) noexcept;
// A native key that a trace may keep, whatever becomes of the dict that it was found in.
bool is_lasting_key(PyObject* key) noexcept;
// One cannot be told from the other but by its identity; both are alive, and such keys.
bool same_key(PyObject* a, PyObject* b) noexcept;
// All keys of the dict are native.
bool dict_is_native(PyObject* dict) noexcept;
// Looks `key` up without running Python. 1: found (*value borrowed), 0: absent, -1: not natively comparable.
int dict_lookup(PyObject* dict, PyObject* key, PyObject** value) noexcept;
// Whether an OrderedDict iterates in the order of its underlying dict.
bool odict_in_dict_order(PyObject* odict) noexcept;
// Changes with its order, and only with that.
uint64_t odict_state(PyObject* odict) noexcept;
// Key and value number `position` of the dict itself: at once, if nothing was ever deleted from it.
void dict_entry(PyObject* dict, Py_ssize_t position, PyObject** key, PyObject** value) noexcept;

// Counts registrations with abstract base classes (abc.get_cache_token), so that what isinstance answered can be
// trusted.
uint64_t abc_registrations() noexcept;

// How the attributes of an object are stored now.
enum class Storage : uint8_t { kNoDict, kDict, kInline, kUnset, kOther };
// Inline values have a place of their own, in front of that of the dict. From 3.12 on weak references stand there.
inline constexpr bool kValuesBeforeDict = PY_VERSION_HEX < 0x030c0000;
Storage attribute_storage(PyObject* object) noexcept;
bool has_own_attributes(PyObject* object) noexcept;  // any, or they cannot be seen
// The object has no attribute of this name itself; false also where that cannot be said natively.
bool lacks_attribute(PyObject* object, PyObject* name) noexcept;

// The functions that CPython puts into the slots of classes that define the methods in Python.
struct SlotFunctions {
  getattrofunc getattr_hook;  // __getattr__ (or a first __getattribute__)
  getattrofunc getattribute;  // __getattribute__ only
  setattrofunc setattr;
  ternaryfunc call;
  newfunc new_;
  inquiry nb_bool;
  lenfunc len;
  getiterfunc iter;
  iternextfunc iternext;
  iternextfunc no_next;  // of a class that has no __next__
  objobjproc contains;
  binaryfunc subscript;
  objobjargproc ass_subscript;
  descrgetfunc descr_get;
  descrsetfunc descr_set;
  richcmpfunc richcompare;
  hashfunc hash;
};
const SlotFunctions& slot_functions() noexcept;

}  // namespace pijit::cpython
