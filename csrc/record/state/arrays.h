// What the recording knows of arrays of NumPy, and of what stands beside them in a call.
#pragma once
#include "record/recorder.h"

namespace pijit {

// A value of which numpy::is_plain will hold at each replay, but for the dtypes of arrays, which a node looks at.
bool is_plain(Recorder&, Val value, int depth = 0);
// An array or scalar of NumPy, or a container of such.
bool has_array(Recorder&, Val value, int depth = 0);
bool is_type_of_arrays(PyTypeObject* type) noexcept;  // or scalars
// Its truth is that of one number.
bool has_truth(PyObject* object) noexcept;

}  // namespace pijit
