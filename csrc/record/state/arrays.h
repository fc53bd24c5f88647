// What the recording knows of arrays of NumPy, and of what stands beside them in a call.
#pragma once
#include "record/recorder.h"

namespace pijit {

// A value of which numpy::is_plain will hold at each replay, but for the dtypes of arrays, which a node looks at.
bool is_plain(Recorder&, Val value, int depth = 0);
// An array or scalar of NumPy, or a container of such.
bool has_array(Recorder&, Val value, int depth = 0);
bool is_type_of_arrays(PyTypeObject* type) noexcept;  // or scalars
// A tensor of MindSpore that an operator has made since foreign code ran.
bool is_made_by_library(const Recorder&, Val tensor);
// An array whose rows are taken one by one; how many it has is guarded. False: it is none, or there are too many.
bool begin_rows(Recorder&, Val array);
// The row at that place as contents.h has items: 1 and *row, 0 behind the last, -1 it is no such array.
int row_at(Recorder&, Val array, size_t position, Val* row);
// Its truth is that of one number.
bool has_truth(PyObject* object) noexcept;

}  // namespace pijit
