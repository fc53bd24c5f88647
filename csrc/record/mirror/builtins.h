// The table of C callables whose meaning the recorder knows, and what their handlers share.
#pragma once
#include <span>

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

// The function that mirrors a callable: a Driven one if it may call Python.
struct Mirror {
  constexpr Mirror(Builtin function) : builtin(function) {}
  constexpr Mirror(Driven function) : driven(function) {}
  Builtin builtin = nullptr;
  Driven driven = nullptr;
};

enum CallTrait : uint8_t {
  kNamed = 1,     // arguments may be given by name
  kOptions = 2,   // there are keyword arguments that `most` does not count
  kComputes = 4,  // of plain arguments it only computes: CPython's own result is taken
};

inline constexpr uint8_t kAny = UINT8_MAX;  // so many arguments as there are

// A row of the table. A call with other arguments than it says never gets to the function. Those of a method count the
// object.
struct KnownCallable {
  const char* module;
  const char* names;  // a function, a type, or "dict.get" of a type; several stand apart by a space
  Mirror mirror;
  uint8_t least, most;
  uint8_t traits = 0;     // of CallTrait
  Driven next = nullptr;  // of a type of iterators: what one does next
};

// The rows of a file. Their order means nothing: no callable has two rows.
using KnownCalls = std::span<const KnownCallable>;
extern const KnownCalls kObjectCalls;      // builtins_objects.cpp
extern const KnownCalls kContainerCalls;   // builtins_containers.cpp
extern const KnownCalls kIterationCalls;   // builtins_iteration.cpp
extern const KnownCalls kListCalls;        // builtins_lists.cpp
extern const KnownCalls kDictCalls;        // builtins_dicts.cpp
extern const KnownCalls kSetCalls;         // builtins_sets.cpp
extern const KnownCalls kStringCalls;      // builtins_strings.cpp
extern const KnownCalls kNumberCalls;      // builtins_numbers.cpp
extern const KnownCalls kItertoolsCalls;   // builtins_itertools.cpp
extern const KnownCalls kFunctionalCalls;  // builtins_functional.cpp
extern const KnownCalls kExceptionCalls;   // builtins_exceptions.cpp
extern const KnownCalls kGeneratorCalls;   // generators.cpp
extern const KnownCalls kFunctionCalls;    // functions.cpp
extern const KnownCalls kCollectionCalls;  // builtins_collections.cpp
extern const KnownCalls kCopyCalls;        // builtins_copies.cpp
extern const KnownCalls kClassCalls;       // builtins_classes.cpp

// A callable that no name leads to. The row lives for ever.
void add_known(PyObject* callable, const KnownCallable& row);
void add_exception_inits();  // builtins_exceptions.cpp

void find_opaque_functions();  // opaque.cpp
void find_group_class();       // exception_groups.cpp
// exception_groups.cpp: kMatchGroup of these classes, and kReraiseGroup. False: not known (or stopped).
bool is_exception_group(PyTypeObject* type);  // null: no
bool step_group_match(Recorder&, ShadowFrame&, const std::vector<PyTypeObject*>& classes);
bool step_group_reraise(Recorder&, ShadowFrame&);

// What C tells of a virtual generator; Null: not known.
Val generator_attribute(Heap& heap, Val generator, PyObject* name);
// The StopIteration of a generator that returned this.
Val new_stop(Recorder& recorder, Val returned);

// What C tells of an exception.
Val exception_attribute(Recorder& recorder, Val exception, PyObject* name);
// A group of class `type` with `args`, of which `parts` are the exceptions; see exception_groups.cpp.
Val new_group(Recorder& recorder, PyTypeObject* type, Val args, const Vals& parts);

// What C tells of a function, virtual or not.
Val function_attribute(Recorder& recorder, Val function, PyObject* name);
// Reading it makes the dict that the function then keeps. False: another attribute.
bool observe_function_dict(ShadowFrame& frame, Val function, PyObject* name, int pops);
// Of a virtual function: 1: written, 0: no field of it, -1: not known.
int write_function_attribute(Recorder& recorder, Val function, PyObject* name, Val value);
// What a SimpleNamespace keeps its attributes in; Null: not known.
Val namespace_dict(Recorder& recorder, Val space);

bool is_lock(PyTypeObject* type) noexcept;

// A call that only computes, of any result: an object that nobody else has, or that it only finds (opaque.cpp).
Invoke compute_object(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& args, int pops);
void take_object(Recorder& recorder, ShadowFrame& frame, PyObject* result);  // how such a call ends
// A function of functools.lru_cache (builtins_caches.cpp).
Invoke invoke_cached(Recorder& recorder, ShadowFrame& frame, Val function, Arguments& args, int pops);
void find_clocks();  // imports, so not while recording
// An idle call (builtins_idle.cpp).
Invoke invoke_idle(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Arguments& args, int pops);
// range() of numbers that differ from call to call (builtins_iteration.cpp).
Invoke open_range(Recorder& recorder, ShadowFrame& frame, const Arguments& args, int pops);
bool walk_open_range(Recorder& recorder, ShadowFrame& frame, Val range);  // GET_ITER of one; false: it is none
// Random numbers (builtins_random.cpp).
void find_random_functions();  // imports
bool draws_many(const PyCodeObject* code);
Invoke draw_by_method(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Arguments& args, int pops);
Invoke draw_below(Recorder& recorder, ShadowFrame& frame, PyObject* function, const Arguments& args, int pops);
// left | right, where `join` is operator.or_.
Invoke join_types(Recorder& recorder, ShadowFrame& frame, PyObject* join, Val left, Val right, int pops);
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
inline Val number_value(ReadSet& reads, Py_ssize_t value) {
  return reads.owned(Ref::steal(PyLong_FromSsize_t(value)).get());
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
bool is_dict_like(Heap& heap, Val value);
bool may_be_mapping(Recorder& recorder, Val value);
bool has_keys(Recorder& recorder, Val value);
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
Task<Val> dict_getitem(Drive& drive, Arguments args);
Task<Val> dict_setitem(Drive& drive, Arguments args);
Task<Val> merge_mapping(Drive& drive, Arguments args);
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
bool has_table(Heap& heap, Val iterable);
Val combine_containers(Recorder& recorder, int op, Val left, Val right);
Val compare_sets(Recorder& recorder, int op, Val left, Val right);

Invoke invoke_builtin_exception(Recorder&, ShadowFrame& frame, PyTypeObject* type, Arguments& args, int pops);
Val make_exception(Recorder&, PyTypeObject* type, const Vals& args);
void init_exception(Recorder&, Val exception, const Vals& args);

}  // namespace pijit
