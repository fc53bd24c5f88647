// The table of C callables whose meaning the recorder knows, and what their handlers share.
#pragma once
#include "record/mirror/abstract.h"
#include "record/shared.h"
#include "record/state/contents.h"

namespace pijit {

// C callables whose meaning is known. kUnknown: not in the table.
Invoke invoke_builtin(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments& args, int pops);
bool is_known_builtin(PyObject* callable) noexcept;
// An itemgetter or its kind.
Invoke invoke_getter(Recorder& recorder, ShadowFrame& frame, Val getter, Arguments& args, int pops);
void build_builtin_table();

using Builtin = Invoke (*)(Recorder&, ShadowFrame&, Arguments&, int pops);

// Adds a row. The callable is found by name: a function of a module, a method or wrapper of a type ("dict.get"), or a
// type itself.
void add_builtin(const char* module, const char* name, Builtin handler);

// The same for a callable that may call Python.
void add_driven(const char* module, const char* name, Driven function);

void add_object_builtins();      // builtins_objects.cpp
void add_container_builtins();   // builtins_containers.cpp
void add_iteration_builtins();   // builtins_iteration.cpp
void add_list_builtins();        // builtins_lists.cpp
void add_dict_builtins();        // builtins_dicts.cpp
void add_set_builtins();         // builtins_sets.cpp
void add_string_builtins();      // builtins_strings.cpp
void add_number_builtins();      // builtins_numbers.cpp
void add_itertools_builtins();   // builtins_itertools.cpp
void add_functional_builtins();  // builtins_functional.cpp
void add_exception_builtins();   // exceptions.cpp
void add_generator_builtins();   // generators.cpp

void add_function_builtins();    // functions.cpp
void add_collection_builtins();  // builtins_collections.cpp
void add_copy_builtins();        // builtins_copies.cpp
void add_class_builtins();       // builtins_classes.cpp

void find_opaque_functions();  // opaque.cpp
void find_group_class();       // exception_groups.cpp
// exception_groups.cpp: kMatchGroup of these classes, and kReraiseGroup. False: not known (or stopped).
bool is_exception_group(PyTypeObject* type);  // null: no
bool step_group_match(Recorder&, ShadowFrame&, const std::vector<PyTypeObject*>& classes);
bool step_group_reraise(Recorder&, ShadowFrame&);

// What C tells of a virtual generator; Null: not known.
Val generator_attribute(Recorder& recorder, Val generator, PyObject* name);
// The StopIteration of a generator that returned this.
Val new_stop(Recorder& recorder, Val returned);

// What C tells of an exception.
Val exception_attribute(Recorder& recorder, Val exception, PyObject* name);
// A group of class `type` with `args`, of which `parts` are the exceptions; see exception_groups.cpp.
Val new_group(Recorder& recorder, PyTypeObject* type, Val args, const Vals& parts);

// What C tells of a function, virtual or not.
Val function_attribute(Recorder& recorder, Val function, PyObject* name);
// Reading it makes the dict that the function then keeps. False: another attribute.
bool observe_function_dict(Recorder& recorder, ShadowFrame& frame, Val function, PyObject* name, int pops);
// Of a virtual function: 1: written, 0: no field of it, -1: not known.
int write_function_attribute(Recorder& recorder, Val function, PyObject* name, Val value);
// What a SimpleNamespace keeps its attributes in; Null: not known.
Val namespace_dict(Recorder& recorder, Val space);

PyTypeObject* partial_type();
PyTypeObject* union_type();  // of int | str
bool is_lock(PyTypeObject* type) noexcept;

// A call that only computes, of any result: an object that nobody else has, or that it only finds (opaque.cpp).
Invoke compute_object(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops);
// A function of functools.lru_cache (builtins_caches.cpp).
Invoke invoke_cached(Recorder& recorder, ShadowFrame& frame, Val function, Arguments& args, int pops);
// What a classmethod or staticmethod calls.
PyObject* classmethod_callable(PyObject* descriptor);
// list[int] and the like.
Invoke generic_alias(Recorder& recorder, ShadowFrame& frame, Val cls, Val key, int pops);

// FORMAT_VALUE. False: not known.
bool step_format(Recorder& recorder, ShadowFrame& frame, int conversion, bool with_spec);

inline Val none_value() {
  return Val::constant(Py_None);
}
inline Val truth_value(bool yes) {
  return Val::constant(yes ? Py_True : Py_False);
}
inline Val not_implemented() {
  return Val::constant(Py_NotImplemented);
}
inline Val number_value(Recorder& recorder, Py_ssize_t value) {
  return recorder.owned(Ref::steal(PyLong_FromSsize_t(value)).get());
}
// Every argument is a plain constant: CPython's own result is taken as it is.
Invoke fold(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops);
Invoke give(Recorder& recorder, ShadowFrame& frame, int pops, Val result);
bool has_virtual(const Arguments& args);
// The same where it can; what calls Python is driven, and what may give back a list that it was given. Inside a drive
// only that is of use.
template <Driven kFunction, bool kMakesText = false>
Invoke folded(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const Arguments given = args;
  const bool drives = frame.drive || (!kMakesText && has_virtual(args));
  Invoke outcome = drives ? Invoke::kUnknown : fold(recorder, frame, args, pops);
  return outcome == Invoke::kUnknown && recorder.live() ? drive(recorder, frame, kFunction, given, pops) : outcome;
}
// A C callable that only computes, when all it sees is plain.
bool only_computes(PyObject* callable);

// dict(pairs, **more)
Invoke dict_of_pairs(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, const Arguments& args, int pops);
// list.sort: the items in their new order.
Task<Vals> sort_items(Drive& drive, Vals items, Val key, bool reverse, bool in_place);

// Dicts, and instances that are dicts. 1: *value, 0: absent, -1: not known.
bool is_dict_like(Recorder& recorder, Val value);
bool may_be_mapping(Recorder& recorder, Val value);
int mapping_find(Recorder& recorder, Val dict, Val key, Val* value);

// So many times so many items are not kept as shadows.
inline bool grows_too_long(size_t items, Py_ssize_t times) noexcept {
  constexpr size_t kMost = 100'000;
  return times > 0 && items > 0 && static_cast<size_t>(times) > kMost / items;
}

// What the instructions that write items do, as methods: list[key] = value, del list[key], list += other, ...
Task<Val> list_setitem(Drive& drive, Arguments args);
Task<Val> list_delitem(Drive& drive, Arguments args);
Task<Val> list_iadd(Drive& drive, Arguments args);
Task<Val> list_imul(Drive& drive, Arguments args);
Task<Val> dict_setitem(Drive& drive, Arguments args);
Task<Val> dict_delitem(Drive& drive, Arguments args);
Task<Val> dict_update(Drive& drive, Arguments args);
Task<Val> set_update(Drive& drive, Arguments args);
Task<Val> set_inplace(Drive& drive, int op, Val set, Val other);

// Sets of native keys. False or Null: not known.
bool set_keys(Recorder& recorder, Val set, KeyList* keys);
Val new_set(Recorder& recorder, PyTypeObject* type, const KeyList& keys);
// A set that this callable makes, when there is an order that its table decides.
Val new_set(Recorder& recorder, PyTypeObject* type, const KeyList& keys, PyObject* callable, const Vals& args);
// A container that a set takes over or merges by the order of its table.
bool has_table(Recorder& recorder, Val iterable);
Val combine_containers(Recorder& recorder, int op, Val left, Val right);
Val compare_sets(Recorder& recorder, int op, Val left, Val right);

}  // namespace pijit
