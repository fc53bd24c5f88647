// The one place that includes CPython's internal headers, made to compile as C++.
//
// C++17 has no <stdatomic.h>; the builtin form of pycore_atomic.h has the same layout.
#pragma once
#include "common/python.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "this source tree supports CPython 3.11 only"
#endif

#define Py_BUILD_CORE
#undef HAVE_STD_ATOMIC
#undef _PyGC_FINALIZED
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_global_objects.h>
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE
