// What the instructions of except* do, as C callables.
#pragma once
#include "common/python.h"

namespace pijit::cpython {

// (exception, classes, handled) -> (rest, match, handled now), as CHECK_EG_MATCH leaves them. `rest` is the exception
// where nothing matches.
PyObject* group_splitter() noexcept;
// (caught, raised) -> what is raised in the end, or None, as PREP_RERAISE_STAR.
PyObject* group_reraiser() noexcept;

}  // namespace pijit::cpython
