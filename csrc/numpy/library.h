// NumPy as it was loaded: its types, and which of its callables only compute.
//
// What such a callable does with plain operands calls no code of the program's, writes to nothing that was there before,
// and gives what NumPy made for it. Plain are arrays and scalars of numbers, of no derived class, and what Python has
// for numbers, indices and names.
#pragma once
#include "common/python.h"
#include "common/ref.h"
#include "numpy/layout.h"

namespace pijit::numpy {

// What is said of a callable in callables.def.
enum class Rule : uint8_t {
  kNone,
  kComputes,  // of plain operands
  kMoves,     // the same without arithmetic: no floating point errors, unless it is told of a dtype by name
  kFilled,    // the same, but empty arrays are not for it: it would warn
  kWrites,    // the same, but what it computes it writes to the first operand, if that is an array
  kDraws,     // random numbers, by the generator that is the first operand
  kScalars,   // the same, but neither arrays with dimensions nor complex numbers are for it: it would warn
};

struct Library {
  PyTypeObject *array, *ufunc, *generic, *complex, *dtype, *dispatcher;
  PyObject* errors;       // the context variable that says what becomes of floating point errors
  PyObject* make_errors;  // of its values
  PyObject* tell_errors;
  PyObject* truth;     // operator.truth
  PyObject* add;       // the ufunc
  PyObject* mean;      // what the method of arrays hands on to
  PyObject* no_value;  // what stands for an argument that is not given
  PyObject* (*make)(PyTypeObject*, void* dtype, int nd, const Py_ssize_t* sizes, const Py_ssize_t* strides, void* data,
                    int flags, PyObject*);                           // PyArray_NewFromDescr
  PyObject* (*dtype_of)(int type_num);                               // PyArray_DescrFromType
  int (*set_base)(PyObject* array, PyObject* base);                  // PyArray_SetBaseObject
  PyObject* (*scalar)(void* data, PyObject* dtype, PyObject* base);  // PyArray_Scalar
};

// Null: NumPy is not loaded, or is one that pijit does not know.
const Library* library() noexcept;
// Looks whether it is there by now. It runs no Python.
void find_library() noexcept;

struct Known {
  Rule rule = Rule::kNone;
  uint8_t arrays = 0;  // so many of the first operands may be arrays
};
// By what it is, whatever its operands are.
Known known_callable(PyObject* callable) noexcept;
// A ufunc of C.
bool is_known_ufunc(PyObject* object) noexcept;
Ref ufunc_named(const char* name) noexcept;
// The operand that such a call writes to, if that is an array; -1: none. `names`: of the last operands, or null.
int destination_of(PyObject* callable, PyObject* names, size_t operands) noexcept;
// A method of a generator of NumPy that draws: it changes nothing but that one's state.
bool draws(PyObject* callable) noexcept;
bool is_generator(PyObject* object) noexcept;
// Of NumPy alone, whatever it is given.
bool makes_arrays(PyObject* callable) noexcept;
bool is_array(PyObject* object) noexcept;   // plain
bool is_scalar(PyObject* object) noexcept;  // of NumPy, plain
bool is_dtype(PyObject* object) noexcept;
bool is_type_of_scalars(PyTypeObject* type) noexcept;
bool is_plain(PyObject* object, int depth = 0) noexcept;
// May an attribute of this name be read of an object of NumPy: it is computed of what that is.
bool is_known_attribute(PyObject* object, PyObject* name) noexcept;
// The operands, among them arrays, may be given to a callable of the rule, which does not warn then.
bool fit(Rule rule, PyObject* const* operands, size_t count) noexcept;
// The function of Python that a method of arrays hands on to (borrowed); null: it hands on to none.
PyObject* body_of(PyObject* method) noexcept;
// What a function that asks its arguments for overrides calls where there are none (borrowed); null: it is no such one.
PyObject* implementation_of(PyObject* callable) noexcept;
// What such a function asks, before, which of its arguments may override it (borrowed); null: that is not known.
PyObject* question_of(PyObject* callable) noexcept;

}  // namespace pijit::numpy
