// What the instructions of except* do, as C callables.
#pragma once
#include "common/python.h"

namespace pijit::cpython {

// Where nothing of a group matches, what split() has made of it stays, and not the group itself.
inline constexpr bool kUnmatchedIsCopied = PY_VERSION_HEX >= 0x030c0000;

// A group that is made of an exception that is none has a traceback, of the frame that except* stands in.
inline constexpr bool kWrappedHaveTracebacks = PY_VERSION_HEX >= 0x030e0000;

// (exception, classes, handled) -> (rest, match, handled now), as CHECK_EG_MATCH leaves them. Where nothing
// matches, `rest` is the exception (or its copy) and `match` None.
PyObject* group_splitter() noexcept;
// (caught, raised) -> what is raised in the end, or None, as PREP_RERAISE_STAR.
PyObject* group_reraiser() noexcept;

}  // namespace pijit::cpython
