// In a checked build: the shadow of a frame compared with the real frame before every instruction.
#include <cstdio>
#include <cstdlib>

#include "cpython/objects.h"
#include "record/limits.h"
#include "record/recorder.h"
#include "record/step/opaque.h"

namespace pijit {
namespace {

[[noreturn]] void fail(ShadowFrame& frame, int slot, const char* what) {
  const char* name = PyUnicode_AsUTF8(frame.code->co_qualname);
  std::fprintf(stderr, "pijit: the shadow is wrong before %s in %s at unit %d, slot %d of %d+%d: %s\n",
               cpython::instruction_name(frame.code, frame.operation), name == nullptr ? "?" : name, frame.operation,
               slot, frame.locals, frame.sp, what);
  std::abort();
}

}  // namespace

std::vector<int64_t>& varying_sizes() noexcept {
  static std::vector<int64_t> value;
  return value;
}

RecordLimits& record_limits() noexcept {
  static RecordLimits limits;
  return limits;
}

void check_shadow(Recorder& recorder, ShadowFrame& frame) {
  if (cpython::stack_depth(frame.frame) != frame.sp) fail(frame, -1, "stack depth");
  for (int i = 0; i < frame.locals + frame.sp; ++i) {
    Val value = frame.slots[static_cast<size_t>(i)];
    if (frame.is_loose(i)) continue;
    PyObject* object = cpython::slot(frame.frame, i);
    if (value.is_null() != (object == nullptr))
      fail(frame, i, value.is_null() ? "empty in the shadow" : "empty in the frame");
    if (value.is_null()) continue;
    if (value.is_const() && value.object() != object && !cpython::same_scalar(value.object(), object) &&
        !(PyRange_Check(object) && Py_TYPE(value.object()) == &PyRange_Type))
      fail(frame, i, "another object");
    PyTypeObject* type = recorder.heap.type_of(value);
    const bool tensor = value.is_reg() && recorder.trace().regs[value.index()].rep == Rep::kTensor;
    const bool checked_when_used = recorder.foreign.epoch_due || (tensor && is_older(recorder, value));
    if (type != nullptr && type != Py_TYPE(object) && !checked_when_used) fail(frame, i, type->tp_name);
    if (!value.is_virtual() || recorder.heap.is_virtual(value, VirtualKind::kAddress)) continue;
    if (recorder.heap.real(value) != nullptr && recorder.heap.real(value) != object)
      fail(frame, i, "another new object");
  }
}

}  // namespace pijit
