// Facts about a tensor that Python or a binding looked at: read now, checked at every replay, remembered per register.
//
// Inputs bring dtype, device, keys and number of dimensions with them (guards.h). Everything else is checked in place,
// once per register. Sizes go through size_value, the one place that decides whether a size is a guarded constant or a
// register.
#pragma once
#include "torch/recording.h"

namespace pijit::torch_adapter {

enum class Fact : uint8_t {
  kDtype,
  kDevice,
  kKeys,
  kDim,
  kSize,
  kSizes,
  kStrides,
  kOffset,
  kContiguous,
  kRequiresGrad,
  kLeaf
};

// The fact as a number (kSize: of dimension `dim`; kContiguous: in memory format `dim`; not for the lists).
int64_t read_fact(const Impl* tensor, Fact fact, int64_t dim = 0) noexcept;

// The trace relies on this fact of a tensor operand. After the call was executed only kDtype and kDevice may be asked
// for.
void require(Recording& recording, const Arg& tensor, Fact fact, int64_t dim = 0);

// The size of a dimension (0 <= dim < number of dimensions) as a value of the trace.
Val size_value(Recording& recording, const Arg& tensor, int64_t dim);

// Methods that only look: size, dim, stride, is_contiguous, ...; called before CPython executes the call.
CallFate begin_query(Recording& recording, const CallSite& site, Val* result);
// Attributes that only look: shape, dtype, device, ...
CallFate begin_attribute(Recording& recording, const CallSite& site, Val* result);
// Those of them whose result has to be seen first (device, dtype objects).
bool finish_attribute(Recording& recording, const CallSite& site, PyObject* object, Val* result);

}  // namespace pijit::torch_adapter
