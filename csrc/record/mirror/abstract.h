// What CPython's abstract object layer does, on shadows: calls, iteration, truth, comparison, arithmetic, items.
//
// Each function is the task of the C function that it mirrors; it runs no Python, waits for what does, and raises
// where CPython would. What is known only of CPython's own result ends the drive (Drive::unknown).
#pragma once
#include "record/mirror/drive.h"

namespace pijit {

// The shadow of a fresh plain result: immutable scalars are constants, tuples and lists virtual. Null: neither.
Val plain_shadow(Recorder& recorder, PyObject* result);
// A value whose content is known and plain all through, as an object; null: it is not.
Ref plain_object(Recorder& recorder, Val value);
// The C function computes something of plain values, this one among them (null: one that the trace makes). Another
// process may compute something else where it is a hash of text, or depends on the order of a set.
void note_hashes(Recorder& recorder, PyObject* function, PyObject* argument);

// What C code does with tensors between two calls of Python, by the adapter: a call, a binary operator (oparg), an index.
// Null: it does not know how.
Val compute_tensors(Recorder& recorder, SiteKind kind, const Vals& operands, int oparg = 0,
                    PyObject* callable = nullptr);
// callable(*args); `last`: its result is that of the instruction
Task<Val> call(Drive& drive, Val callable, Arguments args, bool last = false);
Task<Val> call_one(Drive& drive, Val callable, Val argument);
Task<Val> call_two(Drive& drive, Val callable, Val first, Val second);
// The exact class, guarded; null: not known.
PyTypeObject* guarded_type(Recorder& recorder, Val value);
// A function in Python. The first gives what became of it, the second hands on what it raises.
Task<Inner> enter_function(Drive& drive, PyObject* function, Arguments args, bool last = false);
Task<Val> call_function(Drive& drive, PyObject* function, Arguments args, bool last = false);
// The class's own method in Python for an operator; null: it has none, or the recording stopped.
PyObject* special_method(Recorder& recorder, Val object, PyObject* name);
Task<Val> call_special(Drive& drive, Val object, PyObject* name, Vals more, bool last = false);
Task<Val> special_of(Drive& drive, Arguments args);  // the same as an instruction: (object, name, *more)

// iter(iterable), next(iterator): Null at its end; all that an iterable gives.
Task<Val> get_iter(Drive& drive, Val iterable);
Task<Val> iter_next(Drive& drive, Val iterator);
// What becomes of it when it is resumed (generators.cpp).
Task<Inner> resume_generator(Drive& drive, Val generator, Val sent);
Task<Vals> collect(Drive& drive, Val iterable);
// The same by code that first asks how many there are: list(), tuple(), extend, sorted. It has done nothing else before,
// and does nothing with the items before it has all; else not `first`.
Task<Vals> collect_all(Drive& drive, Val iterable, bool first = true);
// len(value) of a class with __len__ in Python. `last`: it is the result of the instruction.
Task<Val> length(Drive& drive, Val value, bool last = false);
Task<Val> length_of(Drive& drive, Arguments args);  // the same as a call
// PyObject_LengthHint: __len__, else __length_hint__, if the class has them in Python.
Task<bool> ask_length(Drive& drive, Val iterable);
// Drawing from it may run Python, or end early: what draws must do as CPython does between two items.
bool is_drawn(Heap& heap, Val iterable);
// The class of the iterator that iter() makes of a built-in container; null: not known.
PyTypeObject* iterator_type(PyTypeObject* iterable);
PyTypeObject* range_iterator_type(PyObject* range, bool reversed);  // one of two, by its size
// What an iterator of this class does next (builtins_itertools.cpp).
Driven iterator_step(PyTypeObject* type);
void add_iterator_step(PyTypeObject* type, Driven next);
Task<Val> next_of_callable(Drive& drive, Arguments args);  // of iter(callable, sentinel)
bool is_iterator(Heap& heap, Val value);

// str(value), repr(value), format(value, spec), format % values
Task<Val> str_of(Drive& drive, Val value);
Task<Val> repr_of(Drive& drive, Val value);
Task<Val> format_of(Drive& drive, Val value, Val spec);
Task<Val> percent(Drive& drive, Val format, Val values);

// The hash of an object that existed before, whose class computes it in Python; *object: that object.
Task<Py_hash_t> hash_in_python(Drive& drive, Val value, PyObject** object);
// A key as a set compares it, where it is native or its hash is its address, so that no other object has it.
Task<PyObject*> identity_key(Drive& drive, Val value);

// container[key], as far as no code of the program decides: 1 and *item, 0: it raises, -1: not known.
int known_item(Recorder& recorder, Val container, Val key, Val* item);
// The same where that code may decide. `last`: its result is that of the instruction.
Task<Val> get_item(Drive& drive, Val container, Val key, bool last = false);
Task<Val> item_of(Drive& drive, Arguments args);  // the same as a call
bool is_item_sequence(PyTypeObject* type);        // container[key] is C code of lists or tuples

// operator.index(value)
Task<Val> index_of_value(Drive& drive, Val value);

// bool(value)
Task<bool> is_true(Drive& drive, Val value);
Task<Val> truth_of(Drive& drive, Arguments args);  // bool()

// left <op> right, op as in BINARY_OP; left <op> right, op as in COMPARE_OP; left is right or left == right.
// The methods of one binary operator (NB_...; an in-place one counts as the other), interned.
struct OperatorMethods {
  PyObject *plain, *reflected, *inplace;
};
const OperatorMethods& operator_methods(int op);
// `last`: a method of the left operand that comes first may be left to (Drive::leave), with kBinary.
Task<Val> binary(Drive& drive, int op, Val left, Val right, bool last = false);
Task<Val> binary_refused(Drive& drive, int op, Val left, Val right);  // after that method
Task<Val> compare(Drive& drive, int op, Val left, Val right);
Task<bool> equals(Drive& drive, Val left, Val right);
// 1: one object, 0: two, -1: a replay may have either.
int same_object(Recorder& recorder, Val left, Val right);

}  // namespace pijit
