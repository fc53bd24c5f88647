// What a user said about a function, about all functions of a Python module, or about the methods of one object.
//
// The marked thing is held weakly: a mark goes when the thing dies. Guarded by the GIL.
//
// A module's mark is kept under its namespace, which every function of the module has as globals: also those that are
// defined later or inside others. An object's mark holds for the functions of its class and bases that get the object
// as their first argument.
#pragma once
#include <string>

#include "cpython/frame.h"

namespace pijit {

enum class Mark : uint8_t {
  kNone,
  kSkip,      // left to CPython: never a root, never followed
  kOpaque,    // as kSkip, and no root is found among what it calls
  kConstant,  // its result does not change
  kEnter,     // of pijit's own: begins a block that names its compilers, of which the object is its first argument
  kLeave,     // ends it
  kWhole,     // of pijit's own: recordings leave its calls to CPython; frames are not looked at for that
  kSides,     // as kWhole; the functions that it is given have no effect beside what they compute
};

// The code was written in the body of the class or of one of its bases: `Net.forward` belongs to `Net`.
bool is_method_of(PyCodeObject* code, PyTypeObject* type) noexcept;
// Marks a Python function, a module or an object; kNone takes the mark away. False with an error set.
bool set_mark(PyObject* thing, Mark mark, std::string reason);
// The mark of a call of the function whose first argument is `first` (null: none, or unknown). Costs nothing where
// nothing is marked. A null function: kNone.
Mark mark_of_call(PyObject* function, PyObject* first) noexcept;
// How many marks have been set so far.
inline constinit uint32_t marks_set = 0;
// Something is or was marked that frames are looked at for: kSkip or kOpaque.
bool any_left_alone() noexcept;
// As mark_of_call, of a frame that has not begun, where that is to be left alone.
inline Mark mark_of_frame(cpython::Frame* frame) noexcept {
  if (!any_left_alone()) return Mark::kNone;
  return mark_of_call(cpython::function(frame),
                      cpython::code(frame)->co_argcount > 0 ? cpython::slot(frame, 0) : nullptr);
}
// The mark that was set on this thing itself, and its reason ("" if there is none).
Mark mark_of(PyObject* thing) noexcept;
std::string mark_reason(PyObject* thing);

}  // namespace pijit
