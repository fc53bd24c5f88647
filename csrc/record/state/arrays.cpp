// Which values a call of NumPy may be given.
#include "record/state/arrays.h"

#include <algorithm>

#include "numpy/library.h"
#include "record/state/known_objects.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

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

bool is_made_by_library(const Recorder& recorder, Val tensor) {
  const auto& made = recorder.foreign.of_library;
  return std::find(made.begin(), made.end(), tensor.index()) != made.end() &&
         recorder.trace().regs[tensor.index()].epoch == recorder.trace().epochs.size();
}

namespace {

constexpr Py_ssize_t kMostRows = 64;

const numpy::Array* rows_of(Recorder& recorder, Val value) {
  PyObject* object = value.is_virtual() || numpy::library() == nullptr ? nullptr : recorder.heap.real(value);
  const bool rows = object != nullptr && numpy::is_array(object) && numpy::as_array(object)->nd > 0;
  return rows ? numpy::as_array(object) : nullptr;
}

Val computed(Recorder& recorder, const char* module, const char* function, const Vals& args, PyTypeObject* type,
             PyObject* observed) {
  PyObject* callable = find_object(module, function);
  return callable == nullptr ? Val() : emit_pure(recorder, recorder.reads.owned(callable), args, type, observed);
}

}  // namespace

bool begin_rows(Recorder& recorder, Val array) {
  const numpy::Array* rows = rows_of(recorder, array);
  if (rows == nullptr || rows->sizes[0] > kMostRows) return false;
  const Ref count = Ref::steal(PyLong_FromSsize_t(rows->sizes[0]));
  if (!count) return PyErr_Clear(), false;
  const Val known = recorder.reads.owned(count.get());
  const Val counted = computed(recorder, "builtins", "len", {array}, &PyLong_Type, known.object());
  const Val number = counted.is_null() ? Val() : recorder.unbox(counted, known.object());
  return !number.is_null() && !recorder.force_const(number, known.object()).is_null();
}

int row_at(Recorder& recorder, Val array, size_t position, Val* row) {
  const numpy::Array* rows = rows_of(recorder, array);
  if (rows == nullptr) return -1;
  if (position >= static_cast<size_t>(rows->sizes[0])) return 0;
  const Ref place = Ref::steal(PyLong_FromSize_t(position));
  if (!place) return PyErr_Clear(), -1;
  PyTypeObject* type = rows->nd > 1 ? numpy::library()->array : rows->descr->scalar;
  // A number is known at once; a row is known when CPython has it.
  PyObject* number = nullptr;
  if (rows->nd == 1) {
    const Ref taken = Ref::steal(PySequence_GetItem(recorder.heap.real(array), static_cast<Py_ssize_t>(position)));
    if (!taken) return PyErr_Clear(), -1;
    number = recorder.reads.owned(taken.get()).object();
  }
  *row = computed(recorder, "_operator", "getitem", {array, recorder.reads.owned(place.get())}, type, number);
  return row->is_null() ? -1 : 1;
}

bool has_truth(PyObject* object) noexcept {
  if (numpy::library() == nullptr) return false;
  if (numpy::is_scalar(object)) return true;
  if (!numpy::is_array(object)) return false;
  const numpy::Array* array = numpy::as_array(object);
  return std::all_of(array->sizes, array->sizes + array->nd, [](Py_ssize_t size) { return size == 1; });
}

}  // namespace pijit
