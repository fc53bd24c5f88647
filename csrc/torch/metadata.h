// Facts about a tensor that Python or a binding looked at: read now, checked at every replay, remembered per register.
//
// Inputs bring dtype, device, keys and number of dimensions with them (guards.h). Everything else is checked in place,
// once per register. Sizes are numbers of the trace, read at every replay: what Python makes of them decides for which
// shapes a trace holds.
#pragma once
#include "ir/call.h"
#include "torch/guards.h"
#include "torch/recording.h"

namespace pijit::torch_adapter {

enum class Fact : uint8_t {
  kDtype,
  kDevice,
  kKeys,
  kDim,
  kSize,
  kNumel,
  kStrides,
  kOffset,
  kContiguous,
  kRequiresGrad,
  kLeaf,
  kNodeless  // as it stands: what `grad` looks at
};

// The fact as a number (kSize: of dimension `dim`; kContiguous: in memory format `dim`; not for strides).
int64_t read_fact(const Impl* tensor, Fact fact, int64_t dim = 0) noexcept;

// The trace relies on this fact of a tensor operand. After the call was executed only kDtype and kDevice may be asked
// for.
void require(Recording& recording, const Arg& tensor, Fact fact, int64_t dim = 0);

// The operation that checks a fact of a register's tensor, by its name in kFactNames or another.
OperatorCall check_call(uint32_t reg, const char* fact, Ref expected, Ref detail = Ref::borrow(Py_None));

// The size of a dimension (0 <= dim < number of dimensions, which is checked) as a value of the trace.
Val size_value(Recording& recording, const Arg& tensor, int64_t dim);

// The sizes of the input that was added last that are constants under the policy of the recording: its guards check
// them, and no node does.
void fix_sizes(Recording& recording, TensorInputs& inputs, const Impl* tensor, Known& known);

// Methods that only look: size, dim, stride, is_contiguous, ...; called before CPython executes the call.
CallFate begin_query(Recording& recording, const CallSite& site, Val* result);
// torch.Size(integers)
CallFate begin_sizes(Recording& recording, Val* result);
CallFate begin_product(Recording& recording, Val* result);
// Attributes that only look: shape, dtype, device, ...
CallFate begin_attribute(Recording& recording, const CallSite& site, Val* result);
// Those of them whose result has to be seen first (device, dtype objects).
bool finish_attribute(Recording& recording, const CallSite& site, PyObject* object, Val* result);

}  // namespace pijit::torch_adapter
