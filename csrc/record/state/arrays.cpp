// Which values a call of NumPy may be given.
#include "record/state/arrays.h"

#include <algorithm>

#include "numpy/library.h"

namespace pijit {
namespace {

constexpr int kDeepestOperand = 3;

// The parts of a tuple, list or slice that the trace has made; null: it is none.
const Vals* parts_of(Recorder& recorder, Val value) {
  for (VirtualKind kind : {VirtualKind::kTuple, VirtualKind::kList, VirtualKind::kSlice})
    if (recorder.heap.is_virtual(value, kind)) return &recorder.heap.model(value).items;
  return nullptr;
}

}  // namespace

bool is_plain(Recorder& recorder, Val value, int depth) {
  if (value.is_const()) return numpy::is_plain(value.object());
  if (value.is_reg()) {
    const RegInfo& info = recorder.trace().regs[value.index()];
    PyObject* object = recorder.heap.reg_objects[value.index()];
    if (is_number(info.rep)) return true;
    return info.rep == Rep::kObject && info.type != nullptr && object != nullptr && numpy::is_plain(object);
  }
  const Vals* parts = depth < kDeepestOperand ? parts_of(recorder, value) : nullptr;
  return parts != nullptr &&
         std::all_of(parts->begin(), parts->end(), [&](Val part) { return is_plain(recorder, part, depth + 1); });
}

bool has_array(Recorder& recorder, Val value, int depth) {
  PyObject* object = value.is_virtual() ? nullptr : recorder.heap.real(value);
  if (object != nullptr) return numpy::is_array(object) || numpy::is_scalar(object);
  const Vals* parts = depth < kDeepestOperand ? parts_of(recorder, value) : nullptr;
  return parts != nullptr &&
         std::any_of(parts->begin(), parts->end(), [&](Val part) { return has_array(recorder, part, depth + 1); });
}

bool is_type_of_arrays(PyTypeObject* type) noexcept {
  return numpy::library() != nullptr && (type == numpy::library()->array || numpy::is_type_of_scalars(type));
}

bool has_truth(PyObject* object) noexcept {
  if (numpy::library() == nullptr) return false;
  if (numpy::is_scalar(object)) return true;
  if (!numpy::is_array(object)) return false;
  const numpy::Array* array = numpy::as_array(object);
  return std::all_of(array->sizes, array->sizes + array->nd, [](Py_ssize_t size) { return size == 1; });
}

}  // namespace pijit
