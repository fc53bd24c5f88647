// One row of elements is reduced by one call of the ufunc's loop, whose first operand and result are the same number.
//
// What that number is before the first element differs from version to version of NumPy. So it is found once for each
// ufunc: that with which the loop gives the bits of NumPy's own reduction, for rows of many lengths. There may be
// none; then NumPy is called.
#include "numpy/reductions.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "common/ref.h"
#include "numpy/errors.h"
#include "numpy/library.h"

namespace pijit::numpy {
namespace {

constexpr int kFlagsOfRows = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID;
constexpr Py_ssize_t kLongestRow = 4096;  // NumPy looks at no more than its buffer has at once
constexpr size_t kOperandsOfReduce = 7;   // array, axis, dtype, out, keepdims, initial, where

// How a row begins.
enum class Start : uint8_t { kUnknown, kZero, kNegativeZero, kFirst };

double reduced(const Ufunc& ufunc, int loop, Start start, const double* row, Py_ssize_t count) noexcept {
  double result = start == Start::kZero ? 0.0 : start == Start::kNegativeZero ? -0.0 : row[0];
  const Py_ssize_t skipped = start == Start::kFirst;
  Py_ssize_t length = count - skipped;
  char* data[] = {reinterpret_cast<char*>(&result), reinterpret_cast<char*>(const_cast<double*>(row + skipped)),
                  reinterpret_cast<char*>(&result)};
  const Py_ssize_t steps[] = {0, sizeof(double), 0};
  if (length > 0) ufunc.loops[loop](data, &length, steps, ufunc.data != nullptr ? ufunc.data[loop] : nullptr);
  return result;
}

int loop_of_doubles(const Ufunc& ufunc) noexcept {
  for (int i = 0; i < ufunc.count; ++i) {
    const char* types = ufunc.types + i * ufunc.operands;
    if (types[0] == kDouble && types[1] == kDouble && types[2] == kDouble) return ufunc.loops[i] != nullptr ? i : -1;
  }
  return -1;
}

// A row of that length: of many sizes and signs, with zeros of both signs among them.
Ref row_of(Py_ssize_t count, uint64_t seed) noexcept {
  const Library& numpy = *library();
  Ref made = Ref::steal(numpy.make(numpy.array, numpy.dtype_of(kDouble), 1, &count, nullptr, nullptr, 0, nullptr));
  auto* row = made ? reinterpret_cast<double*>(as_array(made.get())->data) : nullptr;
  for (Py_ssize_t i = 0; row != nullptr && i < count; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const double size = std::ldexp(static_cast<double>(seed >> 40) - 8388608.0, static_cast<int>(seed >> 33 & 63) - 40);
    row[i] = (seed >> 20 & 7) == 0 ? std::copysign(0.0, size) : size;
  }
  return made;
}

bool same_bits(double a, double b) noexcept {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// For rows of these lengths NumPy gives the same.
bool is_right(PyObject* object, int loop, Start start) noexcept {
  for (Py_ssize_t count :
       {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 64, 100, 127, 128, 129, 130, 200, 257, 1000, 1025, 4096})
    for (uint64_t seed : {7u, 1234567u}) {
      const Ref row = row_of(count, seed * static_cast<uint64_t>(count));
      const Ref result = row ? Ref::steal(PyObject_CallMethod(object, "reduce", "O", row.get())) : Ref();
      const double expected = result ? PyFloat_AsDouble(result.get()) : 0;
      if (!result || PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
      const auto* data = reinterpret_cast<const double*>(as_array(row.get())->data);
      if (!same_bits(reduced(*as_ufunc(object), loop, start, data, count), expected)) return false;
    }
  const double zeros[] = {-0.0, -0.0};
  const Py_ssize_t one = 1;
  const Ref row = row_of(one, 1);
  if (!row) return PyErr_Clear(), false;
  *reinterpret_cast<double*>(as_array(row.get())->data) = -0.0;
  const Ref result = Ref::steal(PyObject_CallMethod(object, "reduce", "O", row.get()));
  if (!result) return PyErr_Clear(), false;
  return same_bits(reduced(*as_ufunc(object), loop, start, zeros, one), PyFloat_AsDouble(result.get()));
}

// The same of several rows, along their last axis.
bool is_right_of_many(PyObject* object, int loop, Start start) noexcept {
  for (Py_ssize_t rows : {2, 3, 5, 64, 300})
    for (Py_ssize_t count : {1, 2, 3, 7, 8, 9, 16, 17, 100, 129, 260}) {
      const Ref all = row_of(rows * count, static_cast<uint64_t>(rows * 1000 + count));
      const Ref table = all ? Ref::steal(PyObject_CallMethod(all.get(), "reshape", "nn", rows, count)) : Ref();
      const Ref result = table ? Ref::steal(PyObject_CallMethod(object, "reduce", "Oi", table.get(), 1)) : Ref();
      if (!result || !is_array(result.get())) return PyErr_Clear(), false;
      const auto* data = reinterpret_cast<const double*>(as_array(all.get())->data);
      const auto* expected = reinterpret_cast<const double*>(as_array(result.get())->data);
      for (Py_ssize_t i = 0; i < rows; ++i)
        if (!same_bits(reduced(*as_ufunc(object), loop, start, data + i * count, count), expected[i])) return false;
    }
  return true;
}

struct RowLoop {
  int loop = -1;
  Start start = Start::kUnknown, start_of_many = Start::kUnknown;  // of one row, of each of several
};

// Of a sum, product, maximum or minimum.
RowLoop row_loop(PyObject* object) noexcept {
  static auto& known = *new std::unordered_map<PyObject*, RowLoop>;
  const auto found = known.find(object);
  if (found != known.end()) return found->second;
  RowLoop made;
  const std::string_view name = as_ufunc(object)->name;
  if (name == "add" || name == "multiply" || name == "maximum" || name == "minimum")
    made.loop = loop_of_doubles(*as_ufunc(object));
  const SavedError error;
  const NoErrors quiet;
  for (Start start : {Start::kFirst, Start::kZero, Start::kNegativeZero}) {
    if (made.loop < 0 || quiet.failed()) break;
    if (made.start == Start::kUnknown && is_right(object, made.loop, start)) made.start = start;
    if (made.start_of_many == Start::kUnknown && is_right_of_many(object, made.loop, start)) made.start_of_many = start;
  }
  std::feclearexcept(kFlagsOfRows);
  known.emplace(new_reference(object), made);
  return made;
}

// The number of elements, if they are doubles in one piece; else -1.
Py_ssize_t elements_in_row(PyObject* object) noexcept {
  if (Py_TYPE(object) != library()->array) return -1;
  const Array& array = *as_array(object);
  if (array.descr->type_num != kDouble || array.descr->byteorder == '>' || array.nd != 1 ||
      (array.flags & (kContiguous | kAligned)) != (kContiguous | kAligned))
    return -1;
  return array.sizes[0];
}

PyObject* scalar_of(void* value, int dtype) noexcept {
  PyObject* descr = library()->dtype_of(dtype);
  if (descr == nullptr) return nullptr;
  PyObject* made = library()->scalar(value, descr, nullptr);
  drop_reference(descr);
  return made;
}

// False: NumPy is to be called.
bool reduce_row(PyObject* ufunc, PyObject* array, double* out) noexcept {
  const Py_ssize_t count = elements_in_row(array);
  const RowLoop row = row_loop(ufunc);
  if (count < 1 || count > kLongestRow || row.start == Start::kUnknown) return false;
  if (std::fetestexcept(kFlagsOfRows) != 0) std::feclearexcept(kFlagsOfRows);
  *out = reduced(*as_ufunc(ufunc), row.loop, row.start, reinterpret_cast<const double*>(as_array(array)->data), count);
  const int errors = std::fetestexcept(kFlagsOfRows);
  if (errors != 0) std::feclearexcept(kFlagsOfRows);
  return errors == 0 || !tells_of(errors);
}

// Whether any, or all, of a row of truths are true. Null: it is none.
PyObject* truth_of_row(PyObject* ufunc, PyObject* object) noexcept {
  const std::string_view name = as_ufunc(ufunc)->name;
  const bool any = name == "logical_or";
  if (!any && name != "logical_and") return nullptr;
  const Array& array = *as_array(object);
  if (!is_array(object) || array.descr->type_num != kBoolean || array.nd != 1 || (array.flags & kContiguous) == 0)
    return nullptr;
  const auto is_true = [](char each) { return each != 0; };  // any byte may stand for it
  const char* end = array.data + array.sizes[0];
  char answer = static_cast<char>(any ? std::any_of(array.data, const_cast<char*>(end), is_true)
                                      : std::all_of(array.data, const_cast<char*>(end), is_true));
  return scalar_of(&answer, kBoolean);
}

// The reduction of each row along the last of several axes. Null: NumPy is to be called.
PyObject* reduce_rows(PyObject* ufunc, PyObject* object, PyObject* axis) noexcept {
  constexpr int kMost = 4;
  if (!is_array(object) || !PyLong_CheckExact(axis)) return nullptr;
  const Array& array = *as_array(object);
  const long place = PyLong_AsLong(axis);
  constexpr int kPlain = kContiguous | kAligned;
  if (array.nd < 2 || array.nd > kMost || (place != -1 && place != array.nd - 1) || array.descr->type_num != kDouble ||
      array.descr->byteorder == '>' || (array.flags & kPlain) != kPlain)
    return PyErr_Clear(), nullptr;
  const RowLoop row = row_loop(ufunc);
  const Py_ssize_t count = array.sizes[array.nd - 1];
  Py_ssize_t rows = 1;
  for (int i = 0; i + 1 < array.nd; ++i) rows *= array.sizes[i];
  // Where the rows are few and long NumPy is as quick.
  if (row.start_of_many == Start::kUnknown || count < 1 || rows < 1 || rows * count > kLongestRow) return nullptr;
  PyObject* made = library()->make(library()->array, library()->dtype_of(kDouble), array.nd - 1, array.sizes, nullptr,
                                   nullptr, 0, nullptr);
  if (made == nullptr) return PyErr_Clear(), nullptr;
  auto* out = reinterpret_cast<double*>(as_array(made)->data);
  const auto* data = reinterpret_cast<const double*>(array.data);
  if (std::fetestexcept(kFlagsOfRows) != 0) std::feclearexcept(kFlagsOfRows);
  for (Py_ssize_t i = 0; i < rows; ++i)
    out[i] = reduced(*as_ufunc(ufunc), row.loop, row.start_of_many, data + i * count, count);
  const int errors = std::fetestexcept(kFlagsOfRows);
  if (errors != 0) std::feclearexcept(kFlagsOfRows);
  if (errors == 0 || !tells_of(errors)) return made;
  drop_reference(made);
  return nullptr;
}

bool is_mean(PyObject* callable) noexcept {
  if (callable == library()->mean) return true;
  return Py_TYPE(callable) == &PyMethodDescr_Type && PyDescr_TYPE(callable) == library()->array &&
         std::string_view(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name) == "mean";
}

bool says_nothing(PyObject* operand) noexcept {
  return operand == Py_None || operand == Py_False || operand == library()->no_value;
}

bool is_named(PyObject* name, const char* text) noexcept {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

}  // namespace

Reduction::Reduction(PyObject* callable, PyObject* names, size_t operands) noexcept : names_(names), count_(operands) {
  if (operands == 0 || operands > kOperandsOfReduce + 1) return;
  if (is_mean(callable)) {
    kind_ = Kind::kMean;
  } else if (PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) != nullptr &&
             is_known_ufunc(PyCFunction_GET_SELF(callable)) &&
             std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == "reduce") {
    kind_ = Kind::kReduce;
    ufunc_ = PyCFunction_GET_SELF(callable);
  } else if (Py_TYPE(callable) == &PyMethodDescr_Type && PyDescr_TYPE(callable) == library()->ufunc &&
             std::string_view(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name) == "reduce") {
    kind_ = Kind::kReduce;
    first_ = 1;
  }
  if (first_ >= count_) kind_ = Kind::kNone;
  const std::string_view name = ufunc_ != nullptr ? as_ufunc(ufunc_)->name : "";
  if (kind_ == Kind::kReduce && (name == "logical_or" || name == "logical_and")) kind_ = Kind::kTruth;
}

// Of the operands behind the array there is none but the axis that says anything. Null: there is.
PyObject* Reduction::axis_of(PyObject* const* operands) const noexcept {
  const size_t named = names_ == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names_));
  const size_t positional = count_ - named;
  constexpr size_t kWhere = 6;
  PyObject* axis = Py_None;
  for (size_t i = first_ + 1; i < positional; ++i) {
    const size_t place = i - first_;
    const bool where = place == kWhere && operands[i] == Py_True;
    if (place == 1) axis = operands[i];
    const bool truths =
        place == 2 && is_dtype(operands[i]) && reinterpret_cast<Descr*>(operands[i])->type_num == kBoolean;
    if (place != 1 && !where && !truths && !says_nothing(operands[i])) return nullptr;
    if (truths && kind_ != Kind::kTruth) return nullptr;
  }
  for (size_t i = 0; i < named; ++i) {
    PyObject *name = PyTuple_GET_ITEM(names_, static_cast<Py_ssize_t>(i)), *operand = operands[positional + i];
    if (is_named(name, "axis")) {
      axis = operand;
    } else if (is_named(name, "where") ? operand != Py_True : !says_nothing(operand)) {
      return nullptr;
    }
  }
  return axis;
}

// What _mean of NumPy does: a sum, and in its place that divided by how many there are.
PyObject* Reduction::mean(PyObject* array, PyObject* axis) const noexcept {
  if (!is_array(array) || as_array(array)->descr->type_num != kDouble || !PyLong_CheckExact(axis)) return nullptr;
  const Array& from = *as_array(array);
  const long place = PyLong_AsLong(axis);
  const long at = place < 0 ? place + from.nd : place;
  if (from.nd < 2 || at < 0 || at >= from.nd || from.sizes[at] == 0) return PyErr_Clear(), nullptr;
  Ref sum = Ref::steal(reduce_rows(library()->add, array, axis));
  if (!sum) {
    const StrictErrors strict;
    if (!strict.failed()) sum = Ref::steal(PyObject_CallMethod(library()->add, "reduce", "OO", array, axis));
  }
  if (!sum || !is_array(sum.get())) return PyErr_Clear(), nullptr;
  const Array& made = *as_array(sum.get());
  if (made.descr->type_num != kDouble || (made.flags & (kContiguous | kColumns)) == 0) return nullptr;
  Py_ssize_t count = 1;
  for (int i = 0; i < made.nd; ++i) count *= made.sizes[i];
  auto* elements = reinterpret_cast<double*>(made.data);
  const auto divisor = static_cast<double>(from.sizes[at]);
  if (std::fetestexcept(kFlagsOfRows) != 0) std::feclearexcept(kFlagsOfRows);
  for (Py_ssize_t i = 0; i < count; ++i) elements[i] /= divisor;
  const int errors = std::fetestexcept(kFlagsOfRows);
  if (errors != 0) std::feclearexcept(kFlagsOfRows);
  return errors == 0 || !tells_of(errors) ? sum.release() : nullptr;
}

PyObject* Reduction::run(PyObject* const* operands) const noexcept {
  PyObject* axis = axis_of(operands);
  PyObject* array = operands[first_];
  PyObject* ufunc = kind_ == Kind::kMean ? library()->add : ufunc_ != nullptr ? ufunc_ : operands[0];
  if (axis == nullptr || !is_known_ufunc(ufunc)) return nullptr;
  // ufunc.reduce takes the first axis where none is said.
  double result = 0;
  const bool all = axis == Py_None || (PyLong_CheckExact(axis) && PyLong_AsLong(axis) == 0);
  if (kind_ == Kind::kTruth) return all ? truth_of_row(ufunc, array) : nullptr;
  if (!all || !reduce_row(ufunc, array, &result))
    return PyErr_Clear(), kind_ == Kind::kMean ? mean(array, axis) : reduce_rows(ufunc, array, axis);
  if (kind_ == Kind::kMean) {
    result /= static_cast<double>(as_array(array)->sizes[0]);
    const int errors = std::fetestexcept(kFlagsOfRows);
    if (errors != 0) std::feclearexcept(kFlagsOfRows);
    if (errors != 0 && tells_of(errors)) return nullptr;
  }
  PyObject* made = scalar_of(&result, kDouble);
  if (made == nullptr) PyErr_Clear();
  return made;
}

}  // namespace pijit::numpy
