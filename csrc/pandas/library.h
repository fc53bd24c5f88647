// pandas as it was loaded: its classes, and which of its callables only compute.
//
// pandas is mostly Python above NumPy and Cython. To follow that would be hundreds of nodes and guards for one operation,
// and more than the operation takes. So what pandas does is one call. One that only computes of plain operands is a node
// that needs no frames and after which nothing has to be checked anew: it calls no code of the program's, and writes to
// nothing but what pandas keeps for itself (caches of an index, who shares which memory). Any other call is opaque.
//
// 1. Plain are objects of these very classes whose data are plain: numbers, dates, categories, strings; of Python's objects
//    a few that are looked at. They have no attributes that the program gave them (DataFrame.attrs is copied by its code).
// 2. Its methods are pandas' own: a program may have put one of its own into a class.
// 3. It is looked at each time: a guard of a class does not say which dtypes a frame has.
#pragma once
#include <array>

#include "common/python.h"

namespace pijit::pandas {

enum class Kind : uint8_t { kNone, kData, kDerived, kScalar };

// There, and of a version that the tables are for.
bool is_loaded() noexcept;
// Looks whether it is there by now. It imports, so not while recording.
void find_library() noexcept;

Kind kind_of(PyTypeObject* type) noexcept;
bool is_plain(PyObject* object, int depth = 0) noexcept;
// In the table, or of NumPy's.
bool is_known(PyObject* callable) noexcept;
bool is_known_attribute(PyObject* name) noexcept;
// The class, one of pandas', has the functions that it had when pandas was found: nobody has put others in their place. What it
// says holds while the version of the class does.
bool is_untouched(PyTypeObject* type) noexcept;
// The classes that whatever pandas does may come by.
std::array<PyTypeObject*, 3> main_types() noexcept;
// A class or function that gives an object of pandas whatever it is given.
bool makes_frames(PyObject* callable) noexcept;
// A function in Python, or a class, of pandas' own.
bool is_of_pandas(PyObject* callable) noexcept;
// What does the same for simpler operands, or gives NotImplemented (borrowed); null: there is none.
PyObject* shortcut_of(PyObject* callable) noexcept;

}  // namespace pijit::pandas
