// The one place that includes CPython's internal headers, made to compile as C++.
//
// C++17 has no <stdatomic.h>; the builtin form of pycore_atomic.h has the same layout.
#pragma once
// 3.12 marks as deprecated what it has under a new name; both versions have the old one.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "common/python.h"

#define Py_BUILD_CORE
#undef HAVE_STD_ATOMIC
#undef _PyGC_FINALIZED
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_ceval.h>
#endif
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_global_objects.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030c0000
#include <internal/pycore_intrinsics.h>
#include <internal/pycore_long.h>
#endif
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_setobject.h>
#include <internal/pycore_unicodeobject.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_genobject.h>
#include <internal/pycore_instruments.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#endif
#undef Py_BUILD_CORE
