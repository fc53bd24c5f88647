// Known C callables on numbers, where the class of the operand may have a method in Python: abs, round, int, hash, ...
#include "cpython/keys.h"
#include "cpython/operators.h"
#include "record/calls.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/values.h"

namespace pijit {
namespace {

bool in_python(Recorder& recorder, Val value, const char* name, PyObject** interned) {
  *interned = recorder.reads.owned(Ref::steal(PyUnicode_InternFromString(name)).get()).object();
  PyTypeObject* type = value.is_reg() ? nullptr : recorder.heap.type_of(value);
  if (type == nullptr || (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  PyObject* method = recorder.reads.lookup_type(type, *interned, value.object());
  return method != nullptr && Py_TYPE(method) == &PyFunction_Type;
}

// A function of one operand that hands over to one of these methods, the first that the class has.
struct Handed {
  const char* function;
  const char* methods[3];
};
constexpr Handed kHanded[] = {{"abs", {"__abs__"}},
                              {"round", {"__round__"}},
                              {"int", {"__int__", "__index__", "__trunc__"}},
                              {"float", {"__float__", "__index__"}},
                              {"complex", {"__complex__", "__float__", "__index__"}},
                              {"hash", {"__hash__"}},
                              {"bytes", {"__bytes__"}}};

template <size_t kRow>
Task<Val> hand_over(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  if (args.values.empty() || !args.names.empty() || args.values.size() > (kRow == 1 ? 2 : 1)) co_await drive.unknown();
  for (const char* name : kHanded[kRow].methods) {
    PyObject* method = nullptr;
    if (name == nullptr || !in_python(recorder, args.values[0], name, &method)) continue;
    Vals more(args.values.begin() + 1, args.values.end());
    Val result = co_await call_special(drive, args.values[0], method, more);
    PyObject* object = result.object();
    const bool whole = object != nullptr && PyLong_CheckExact(object);
    if (kRow < 2) co_return result;
    // What the constructor takes over as it is; anything else it converts, or refuses.
    if (kRow == 2 && whole) co_return result;
    if (kRow == 3 && object != nullptr && PyFloat_CheckExact(object)) co_return result;
    if (kRow == 3 && whole)
      co_return recorder.reads.owned(Ref::steal(PyFloat_FromDouble(PyLong_AsDouble(object))).get());
    if (kRow == 4 && object != nullptr && PyComplex_CheckExact(object)) co_return result;
    if (kRow == 5 && whole && PyLong_AsSsize_t(object) == PyObject_Hash(object)) co_return result;
    if (kRow == 6 && object != nullptr && PyBytes_CheckExact(object)) co_return result;
    PyErr_Clear();
    co_await drive.unknown();
  }
  if (kRow == 6) {
    Ref content = plain_object(recorder, args.values[0]);
    Ref made = content ? Ref::steal(PyBytes_FromObject(content.get())) : Ref();
    PyErr_Clear();
    if (made) co_return recorder.reads.owned(made.get());
  }
  if (kRow == 5) {
    // The hash of an object that existed before, by its address; that of a fresh one differs from call to call.
    PyObject* object = args.values[0].object();
    PyObject* dict = nullptr;
    if (object != nullptr && cpython::is_native_key(object) && guard_instance(recorder, object, &dict)) {
      recorder.reads.guard_type_version(Py_TYPE(object));
      recorder.trace().of_this_process = true;
      co_return recorder.reads.owned(Ref::steal(PyLong_FromSsize_t(PyObject_Hash(object))).get());
    }
  }
  co_await drive.unknown();
  co_return Val();
}

// int() of an int, float() of a float: the number itself.
template <size_t kRow>
bool is_itself(Recorder& recorder, const Arguments& args) {
  constexpr Rep kGives = kRow == 2 ? Rep::kInt : kRow == 3 ? Rep::kFloat : Rep::kEmpty;
  return kGives != Rep::kEmpty && args.values.size() == 1 && args.names.empty() && args.values[0].is_reg() &&
         recorder.facts(args.values[0]).rep == kGives;
}

template <size_t kRow>
Invoke handed(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (is_itself<kRow>(recorder, args)) return give(recorder, frame, pops, args.values[0]);
  const Arguments given = args;
  Invoke outcome = frame.drive ? Invoke::kUnknown : fold(recorder, frame, args, pops);
  return outcome == Invoke::kUnknown && recorder.live() ? drive(recorder, frame, hand_over<kRow>, given, pops)
                                                        : outcome;
}

// pow(a, b), divmod(a, b): the operators; three operands only of plain numbers or by __pow__ of the first.
Task<Val> drive_pow(Drive& drive, Arguments args) {
  PyObject* name = nullptr;
  if (args.values.size() == 2 && args.names.empty()) {
    Val result = co_await binary(drive, nb::kPower, args.values[0], args.values[1]);
    co_return result;
  }
  if (args.values.size() != 3 || !in_python(drive.recorder(), args.values[0], "__pow__", &name))
    co_await drive.unknown();
  Vals more(args.values.begin() + 1, args.values.end());
  Val result = co_await call_special(drive, args.values[0], name, more);
  if (result.object() == Py_NotImplemented) co_await drive.unknown();
  co_return result;
}

Task<Val> drive_divmod(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  PyObject *name = nullptr, *reflected = nullptr;
  const bool right = in_python(recorder, args.values[1], "__rdivmod__", &reflected);
  if (in_python(recorder, args.values[0], "__divmod__", &name)) {
    Vals more(1, args.values[1]);
    Val result = co_await call_special(drive, args.values[0], name, more);
    if (result.object() != Py_NotImplemented) co_return result;
    if (!right) co_await drive.raise();
  } else if (!right || !cpython::is_scalar(args.values[0].object() == nullptr ? Py_True : args.values[0].object())) {
    co_await drive.unknown();
  }
  Vals more(1, args.values[0]);
  Val result = co_await call_special(drive, args.values[1], reflected, more);
  if (result.object() == Py_NotImplemented) co_await drive.raise();
  co_return result;
}

}  // namespace

// operator.index: an int, or what __index__ in Python gives.
Task<Val> index_of_value(Drive& drive, Val value) {
  Recorder& recorder = drive.recorder();
  PyObject* name = nullptr;
  if (value.is_reg() && !touches_tensor(recorder, value)) value = force(recorder, value);
  if (value.object() != nullptr && PyLong_Check(value.object())) co_return value;
  if (value.is_null() || !in_python(recorder, value, "__index__", &name)) co_await drive.unknown();
  Vals none;
  Val result = co_await call_special(drive, value, name, none);
  if (result.object() == nullptr || !PyLong_CheckExact(result.object())) co_await drive.unknown();
  co_return result;
}

namespace {

// Where a number stands among those of a sorted list decides what the program does next, as a comparison does.
void take_position(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  take_object(recorder, frame, result);
  Val position = recorder.unbox(frame.pending.result, result);
  if (!position.is_null()) position = recorder.force_const(position, result);
  if (!position.is_null()) frame.pending.result = position;
}

Invoke find_position(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyObject *list = args.values[0].object(), *number = args.values[1].object();
  const auto is_number = [](PyObject* object) { return PyLong_CheckExact(object) || PyFloat_CheckExact(object); };
  if (list == nullptr || !PyList_CheckExact(list)) return Invoke::kUnknown;
  if (number != nullptr ? !is_number(number) : !is_scalar_reg(recorder, args.values[1])) return Invoke::kUnknown;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
    if (!is_number(PyList_GET_ITEM(list, i))) return Invoke::kUnknown;
  if (!recorder.reads.guard_list(list)) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  const Invoke outcome = compute(recorder, frame, recorder.called, args.values, pops);
  if (outcome == Invoke::kStarted) frame.pending.finish = take_position;
  return outcome;
}

constexpr KnownCallable kNumberRows[] = {
    {"bisect", "bisect_left bisect_right", find_position, 2, 2},
    {"builtins", "abs", handed<0>, 1, 1, kComputes},
    {"builtins", "round", handed<1>, 1, 2, kNamed | kComputes},
    {"builtins", "int", handed<2>, 0, 2, kNamed | kComputes},
    {"builtins", "float", handed<3>, 0, 1, kComputes},
    {"builtins", "complex", handed<4>, 0, 2, kNamed | kComputes},
    {"builtins", "hash", handed<5>, 1, 1, kComputes},
    {"builtins", "bytes", handed<6>, 0, 3, kNamed | kComputes},
    {"builtins", "pow", folded<drive_pow>, 2, 3, kNamed | kComputes},
    {"builtins", "divmod", folded<drive_divmod>, 2, 2, kComputes},
    {"builtins", "bool", truth_of, 0, 1},
    {"builtins", "range", fold, 1, 3, kComputes},
    {"builtins", "range.index range.count", fold, 2, 2, kComputes},
    {"math",
     "sqrt floor ceil exp log log2 log10 pow sin cos tan isfinite isinf isnan prod gcd fabs trunc isclose comb perm "
     "fsum dist factorial radians degrees log1p expm1 cosh sinh erf lcm isqrt remainder ldexp tanh copysign fmod "
     "hypot atan2 atan asin acos",
     fold, 0, kAny, kOptions | kComputes},
};

}  // namespace

constinit const KnownCalls kNumberCalls = kNumberRows;

}  // namespace pijit
