// Calls of NumPy that only compute: nodes instead of opaque calls.
//
// Such a call runs no code of the program (numpy/library.h), and writes to nothing that was there before but the content
// of an array, on which nothing relies. So nothing has to be checked again behind it, and no frame has to stand. Python
// then looks at a number in a register (sizes), at a constant under a guard (dtypes), or at an object whose class the
// node has checked.
#include "record/step/array_calls.h"

#include <algorithm>

#include "cpython/objects.h"
#include "numpy/library.h"
#include "numpy/operation.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/frame_calls.h"
#include "record/step/opaque.h"

namespace pijit {
namespace {

constexpr Py_ssize_t kMostItems = 32;  // of a result that is looked into

bool is_plain_number(PyObject* object) noexcept {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) ||
         PyComplex_CheckExact(object);
}

Val number(Recorder& recorder, Val value, PyObject* observed) {
  const Val unboxed = recorder.unbox(value, observed);
  return unboxed.is_null() ? value : unboxed;
}

}  // namespace

Val items_of_result(Recorder& recorder, Val value, PyObject* object, Val (*known)(Recorder&, Val, PyObject*)) {
  static PyObject* const length = find_object("builtins", "len");
  const bool tuple = PyTuple_CheckExact(object);
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  const Ref count = Ref::steal(PyLong_FromSsize_t(size));
  if (!count) return PyErr_Clear(), Val();
  const Val kept = recorder.reads.owned(count.get());
  const Val counted = emit_pure(recorder, Val::constant(length), {value}, &PyLong_Type, kept.object());
  if (recorder.force_const(number(recorder, counted, kept.object()), kept.object()).is_null()) return Val();
  const Val item_of = Val::constant(operator_function(SiteKind::kSubscr, 0));
  Vals items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(object, i);
    const Ref place = Ref::steal(PyLong_FromSsize_t(i));
    if (!place) return PyErr_Clear(), Val();
    const Val taken = emit_pure(recorder, item_of, {value, recorder.reads.owned(place.get())}, Py_TYPE(item), item);
    items.push_back(known(recorder, taken, item));
    if (items.back().is_null()) return Val();
  }
  return new_sequence(recorder, tuple ? VirtualKind::kTuple : VirtualKind::kList, Py_TYPE(object), items.data(),
                      items.size());
}

namespace {

// What the recorder knows of a result in a register. Null: stopped.
Val shadow_of(Recorder& recorder, Val value, PyObject* object) {
  if (object == Py_None) return none_value();
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object))
    return number(recorder, value, object);
  const bool lasts = PyType_Check(object) || numpy::is_dtype(object);
  if (lasts) {  // decisions are made by it
    Node& guard = emit_node(recorder, Op::kGuardIs);
    guard.a = value;
    return guard.b = recorder.reads.owned(object);
  }
  const bool sequence = PyTuple_CheckExact(object) || PyList_CheckExact(object);
  if (!sequence || PySequence_Fast_GET_SIZE(object) > kMostItems) return value;
  return items_of_result(recorder, value, object, shadow_of);
}

}  // namespace

void take_array(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  const Node& node = recorder.trace().nodes[std::get<Computing>(frame.pending.awaited).node];
  const Val of = node.count == 0 ? Val() : recorder.trace().operands[node.first];
  const bool fixed = node.a.object() == getattr_function() && of.is_const() && numpy::is_dtype(of.object());
  take_object(recorder, frame, result);
  if (fixed && is_plain_const(result)) return take_owned(recorder, frame, result);
  const Val shadow = shadow_of(recorder, frame.pending.result, result);
  if (!recorder.live()) return;
  if (shadow.is_null()) return recorder.stop(Abort::kUnknownOperand, Py_TYPE(result)->tp_name);
  frame.pending.result = shadow;
}

bool unfold_call(Recorder& recorder, Request* wanted) {
  Vals values;
  Objects names;
  Vals given;
  if (!try_items(recorder, wanted->args[0], &values)) return false;
  if (wanted->args.size() > 1 && !dict_content(recorder, wanted->args[1], &names, &given)) return false;
  if (!std::all_of(names.begin(), names.end(), [](PyObject* name) { return PyUnicode_CheckExact(name); })) return false;
  values.insert(values.end(), given.begin(), given.end());
  wanted->args = std::move(values);
  wanted->spread = false;
  if (names.empty()) return true;
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  for (size_t i = 0; i < names.size() && tuple; ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), new_reference(names[i]));
  if (!tuple) return false;
  wanted->names = recorder.reads.owned(tuple.get()).object();
  return true;
}

namespace {

// A method that was bound, and what a function that looks for overrides calls.
bool resolve(Heap& heap, Request* wanted) {
  if (heap.is_virtual(wanted->callable, VirtualKind::kBuiltinMethod)) {
    wanted->args.insert(wanted->args.begin(), heap.virtual_field(wanted->callable, 1));
    wanted->callable = heap.virtual_field(wanted->callable, 0);
  }
  PyObject* callable = wanted->callable.object();
  if (callable == nullptr) return false;
  if (PyObject* inner = numpy::implementation_of(callable)) wanted->callable = Val::constant(inner);
  return true;
}

// The operand that is written to; -1: none. False: it is not known which are.
bool find_write(Recorder& recorder, const Request& wanted, size_t arrays, int* into) {
  const auto named = wanted.names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(wanted.names));
  const size_t positional = wanted.args.size() - named;
  *into = numpy::destination_of(wanted.callable.object(), wanted.names, wanted.args.size());
  if (*into >= 0) {
    const Val written = wanted.args[static_cast<size_t>(*into)];
    PyObject* object = written.is_virtual() ? nullptr : recorder.heap.real(written);
    if (object == nullptr || PyList_Check(object)) return false;  // a list takes in what is added
    const bool scalar = *into == 0 && (numpy::is_scalar(object) || is_plain_number(object));
    if (object == Py_None || object == Py_Ellipsis || scalar) {
      *into = -1;
    } else if (!numpy::is_array(object)) {
      return false;
    }
  }
  for (size_t i = arrays; i < positional; ++i)
    if (static_cast<int>(i) != *into && has_array(recorder, wanted.args[i])) return false;
  return true;
}

// It is known, and only computes with these operands.
bool is_known(Recorder& recorder, const Request& wanted, int* into) {
  PyObject* callable = wanted.callable.object();
  const bool draws = numpy::draws(callable);
  bool arrays = false;
  for (const Val& value : wanted.args) {
    PyObject* object = draws && &value == wanted.args.data() ? recorder.heap.real(value) : nullptr;
    if (object != nullptr && numpy::is_generator(object)) {
      arrays = true;
      continue;
    }
    if (!is_plain(recorder, value)) return false;
    arrays = arrays || has_array(recorder, value) || (value.is_const() && numpy::is_dtype(value.object()));
  }
  if (callable == getattr_function())
    return wanted.pushes == 1 && numpy::is_known_attribute(recorder.heap.real(wanted.args[0]), wanted.args[1].object());
  const numpy::Known known = numpy::known_callable(callable);
  if (known.rule == numpy::Rule::kNone || !find_write(recorder, wanted, known.arrays, into)) return false;
  return arrays || numpy::makes_arrays(callable);
}

// A constant, or a tuple or slice of such that CPython has made.
bool is_fixed(Heap& heap, Val value, int depth = 0) {
  constexpr int kDeepest = 3;
  if (value.is_const()) return true;
  if (!value.is_virtual() || depth > kDeepest) return false;
  const Model& content = heap.model(value);
  const bool lasts = content.kind == VirtualKind::kTuple || content.kind == VirtualKind::kSlice;
  return lasts && content.real != nullptr && std::all_of(content.items.begin(), content.items.end(), [&](Val item) {
           return is_fixed(heap, item, depth + 1);
         });
}

// Such a tuple or slice is a constant. What stands for an argument that is not given is one that a graph asks for.
Val settle(Recorder& recorder, Val value) {
  if (value.is_const() && value.object() == numpy::library()->no_value) return recorder.reads.owned(value.object());
  return value.is_virtual() && is_fixed(recorder.heap, value) ? recorder.reads.owned(recorder.heap.model(value).real)
                                                              : value;
}

bool start(Recorder& recorder, ShadowFrame& frame, Request wanted) {
  if (wanted.spread && !unfold_call(recorder, &wanted)) return false;
  if (!resolve(recorder.heap, &wanted) || wanted.pushes > 1) return false;
  int into = -1;
  if (!is_known(recorder, wanted, &into) || (wanted.pushes == 0 && into < 0)) return false;
  for (Val& value : wanted.args) value = settle(recorder, value);
  PyObject* callable = wanted.callable.object();
  recorder.reads.owned(callable);
  if (compute(recorder, frame, callable, wanted.args, wanted.pops, wanted.names) != Invoke::kStarted) return false;
  frame.pending.finish = take_array;
  const bool draws = numpy::draws(callable);
  if (into >= 0 || draws) {
    Node& node = recorder.trace().nodes.back();
    if (!draws) node.imm = reinterpret_cast<uintptr_t>(wanted.pushes == 0 ? Py_TYPE(Py_None) : numpy::library()->array);
    numpy::attach_write(recorder.trace(), node);
  }
  if (wanted.pushes == 0) {
    frame.pending.pushes = 0;
    frame.pending.finish = nullptr;
  }
  frame.pending.ignores_frames = true;  // functions of NumPy, which only compute
  return true;
}

}  // namespace

bool compute_arrays(Recorder& recorder, ShadowFrame& frame) {
  if (numpy::library() == nullptr || recorder.stop_final || recorder.stop_changed || frame.changed ||
      recorder.raise.unforeseen || &frame != &recorder.frames.top() || recorder.heap.lasting != frame.mark.lasting)
    return false;
  const StopInfo why = recorder.trace().stop;
  recorder.rollback(frame);
  frame.pending = Pending();
  recorder.resume();
  Request wanted;
  if (request(recorder, frame, frame.current(), &wanted) &&
      (start(recorder, frame, wanted) || start_frame_call(recorder, frame, wanted)) && recorder.live()) {
    recorder.trace().stop = StopInfo();
    return true;
  }
  if (recorder.live()) recorder.halt();
  recorder.rollback(frame);
  frame.pending = Pending();
  recorder.trace().stop = why;
  return false;
}

}  // namespace pijit
