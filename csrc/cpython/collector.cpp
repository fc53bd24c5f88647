// Holds full collections by what the collector knows of old objects.
#include "cpython/collector.h"

#include "cpython/internals.h"

namespace pijit::cpython {

namespace {

constexpr Py_ssize_t kNever = PY_SSIZE_T_MAX / 2;  // old objects: no others are a quarter of that

int g_held = 0;
Py_ssize_t g_old = 0, g_lasted = 0;  // what the collector knew before

}  // namespace

void hold_full_collections() noexcept {
  if (g_held++ > 0) return;
  auto& gc = PyInterpreterState_Get()->gc;
  g_old = gc.long_lived_total;
  g_lasted = gc.long_lived_pending;
  gc.long_lived_total = kNever;
}

void allow_full_collections() noexcept {
  if (--g_held > 0) return;
  auto& gc = PyInterpreterState_Get()->gc;
  if (gc.long_lived_total != kNever) return;  // the program has called gc.collect(), which has counted anew
  const Py_ssize_t fresh = gc.long_lived_pending > g_lasted ? gc.long_lived_pending - g_lasted : 0;
  gc.long_lived_total = g_old + fresh;
  gc.long_lived_pending -= fresh;
}

}  // namespace pijit::cpython
