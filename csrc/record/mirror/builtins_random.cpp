// Random numbers of the module random.
//
// A draw changes nothing but the generator, which no guard looks at. So the C functions of a generator are nodes that
// call them: what was known before is known behind them, and no frame has to stand. So is the function in Python that
// draws an int below a limit: it draws again until the number is small enough. A node calls what does the same in C, as
// other threads may run while Python does. Rejected: to follow it, with a trace for each number of turns.
// What draws many numbers is an opaque call: each number says which item is taken, or moved, next.
#include <algorithm>
#include <vector>

#include "common/imports.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

struct RandomFunctions {
  PyTypeObject* type = nullptr;               // random.Random
  PyObject *real = nullptr, *bits = nullptr;  // methods of C: a float, an int of so many bits
  PyObject* below = nullptr;                  // the code that draws an int below a limit
  std::vector<PyObject*> many;                // codes that draw many numbers
};

RandomFunctions& random_functions() {
  static auto* all = new RandomFunctions;
  return *all;
}

PyObject* code_of(PyObject* type, const char* name) {
  const Ref function = Ref::steal(PyObject_GetAttrString(type, name));
  if (!function) PyErr_Clear();
  return function && PyFunction_Check(function.get()) ? new_reference(PyFunction_GET_CODE(function.get())) : nullptr;
}

// Random._randbelow_with_getrandbits(self, limit)
PyObject* below(PyObject*, PyObject* const* args, Py_ssize_t) {
  static PyObject* const length = PyUnicode_InternFromString("bit_length");
  const Ref count = Ref::steal(PyObject_CallMethodNoArgs(args[1], length));
  PyObject* const given[] = {args[0], count.get()};
  while (count) {
    Ref number = Ref::steal(PyObject_Vectorcall(random_functions().bits, given, 2, nullptr));
    const int again = number ? PyObject_RichCompareBool(number.get(), args[1], Py_GE) : -1;
    if (again == 0) return number.release();
    if (again < 0) return nullptr;
  }
  return nullptr;
}

PyMethodDef below_row = {"_randbelow", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(below)),
                         METH_FASTCALL, nullptr};

void take_drawn(Recorder&, ShadowFrame& frame, PyObject*) {
  frame.pending.result = frame.pending.x;
}

Invoke draw(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, PyObject* callable, const Vals& args,
            int pops) {
  const Val drawn = call_for(recorder, type, callable, args);
  if (drawn.is_null()) return Invoke::kStopped;
  observe(frame, pops, take_drawn);
  frame.pending.x = drawn;
  frame.pending.ignores_frames = true;
  return Invoke::kStarted;
}

}  // namespace

void find_random_functions() {
  const Ref module = import_module("random");
  const Ref type = Ref::steal(module ? PyObject_GetAttrString(module.get(), "Random") : nullptr);
  if (!type || PyType_Check(type.get()) == 0) return PyErr_Clear();
  RandomFunctions& all = random_functions();
  all.type = reinterpret_cast<PyTypeObject*>(new_reference(type.get()));
  for (auto [place, name] : {std::pair{&all.real, "random"}, {&all.bits, "getrandbits"}}) {
    *place = PyObject_GetAttrString(type.get(), name);
    if (*place != nullptr && Py_TYPE(*place) != &PyMethodDescr_Type) *place = nullptr;
  }
  all.below = code_of(type.get(), "_randbelow_with_getrandbits");
  for (const char* name : {"sample", "shuffle", "choices"})
    if (PyObject* code = code_of(type.get(), name)) all.many.push_back(code);
  PyErr_Clear();
}

bool draws_many(const PyCodeObject* code) {
  const auto& many = random_functions().many;
  return std::find(many.begin(), many.end(), reinterpret_cast<const PyObject*>(code)) != many.end();
}

Invoke draw_by_method(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Arguments& args, int pops) {
  const RandomFunctions& all = random_functions();
  if (frame.drive || !args.names.empty() || callable == nullptr) return Invoke::kUnknown;
  PyObject* called = callable;
  Vals given = args.values;
  if (PyCFunction_CheckExact(callable)) {  // a method of the generator that the module has
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self == nullptr || Py_TYPE(self) != all.type) return Invoke::kUnknown;
    for (PyObject* method : {all.real, all.bits})
      if (method != nullptr && reinterpret_cast<PyMethodDescrObject*>(method)->d_method ==
                                   reinterpret_cast<PyCFunctionObject*>(callable)->m_ml)
        called = method;
    if (called == callable || !recorder.reads.guard_parts(callable)) return Invoke::kUnknown;
    given.insert(given.begin(), constant(recorder, self));
  }
  if (called == all.real && given.size() == 1) return draw(recorder, frame, &PyFloat_Type, called, given, pops);
  if (called == all.bits && given.size() == 2) return draw(recorder, frame, &PyLong_Type, called, given, pops);
  return Invoke::kUnknown;
}

Invoke draw_below(Recorder& recorder, ShadowFrame& frame, PyObject* function, const Arguments& args, int pops) {
  static PyObject* const callable = PyCFunction_New(&below_row, nullptr);
  static PyObject* const name = PyUnicode_InternFromString("getrandbits");
  const RandomFunctions& all = random_functions();
  if (all.below == nullptr || all.bits == nullptr || function == nullptr || !PyFunction_Check(function) ||
      PyFunction_GET_CODE(function) != all.below || frame.drive || !args.names.empty() || args.values.size() != 2)
    return Invoke::kUnknown;
  PyObject* self = args.values[0].object();
  if (self == nullptr || Py_TYPE(self) != all.type || recorder.heap.type_of(args.values[1]) != &PyLong_Type)
    return Invoke::kUnknown;
  PyObject *own = nullptr, *dict = nullptr;  // a function of the generator's own
  const bool known =
      cpython::attribute_storage(self) == cpython::Storage::kInline
          ? recorder.reads.guard_inline(self, name, &own)
          : guard_instance(recorder, self, &dict) && dict != nullptr && recorder.reads.read_dict(dict, name, &own);
  if (!known || own != nullptr) return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  recorder.reads.guard_type_version(all.type, self);
  if (!recorder.live() || !recorder.reads.guard_function(reinterpret_cast<PyFunctionObject*>(function)))
    return Invoke::kStopped;
  return draw(recorder, frame, &PyLong_Type, callable, args.values, pops);
}

}  // namespace pijit
