// Arguments that are instances, taken apart into their attributes.
#pragma once
#include <vector>

#include "ir/trace.h"

namespace pijit {

inline constexpr int kMaxLoadedDepth = 4;              // of containers in containers
inline constexpr Py_ssize_t kMaxLoadedItems = 256;     // of one container
inline constexpr Py_ssize_t kMaxAttributes = 2048;     // of the instances among the arguments, with what they hold
inline constexpr Py_ssize_t kMaxArgumentItems = 4096;  // items of all containers among the arguments

// A guard of, or the load of, an inline value; see guards.def.
Guard inline_guard(GuardOp op, Val source, PyTypeObject* type, Py_ssize_t index) noexcept;

struct Slot {
  PyObject* name;
  Py_ssize_t offset;
};

// Of a class of Python whose instances have slots and attributes only, and items, if it is derived from dict or list.
// False: it is another.
bool find_slots(PyTypeObject* type, std::vector<Slot>* slots);

// An OrderedDict, a defaultdict, or an instance of a class of Python that is derived from a dict.
bool is_derived_dict(PyObject* object) noexcept;

// Where a defaultdict keeps its factory, in bytes.
Py_ssize_t factory_offset() noexcept;

// An item of the instance's __dict__ has the name of a slot, which hides it.
bool hides_item(PyObject* object, const std::vector<Slot>& slots) noexcept;

struct Room {
  Py_ssize_t items = kMaxAttributes;  // that may be loaded
  Py_ssize_t looks = 1 << 14;         // at items, also of what turns out not to fit
};

// What is left of the arguments to be loaded. Lists and dicts are told apart by pairs, so that few of them are enough.
struct Space {
  Py_ssize_t items, containers;
};
// Whether the containers within the object, itself included, have room there.
bool has_space(PyObject* object, int depth, Space* space);

// Whether the items of the tuple or list can be loaded one by one.
bool items_fit(PyObject* sequence, int depth, Room* room);

// A list of a class of Python that does as lists do with its items.
bool is_derived_list(PyObject* object) noexcept;
// One of the two.
inline bool is_derived_container(PyObject* object) noexcept {
  return is_derived_dict(object) || is_derived_list(object);
}

// Whether the items and attributes of a derived dict or list can be loaded one by one.
bool derived_fits(PyObject* object, int depth, Room* room);

// Whether the attributes of the instance, and what they hold, can be loaded one by one. An attribute may hold another
// instance that cannot: that one is loaded as a whole, and does not count.
bool instance_fits(PyObject* object, int depth, Room* room);

}  // namespace pijit
