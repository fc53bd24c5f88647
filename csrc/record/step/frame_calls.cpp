// Calls of pandas: one call each, and a node where it only computes (pandas/library.h).
#include "record/step/frame_calls.h"

#include <algorithm>

#include "cpython/objects.h"
#include "numpy/library.h"
#include "pandas/library.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/arrays.h"
#include "record/state/contents.h"
#include "record/state/values.h"
#include "record/step/array_calls.h"

namespace pijit {
namespace {

bool is_frame(Recorder& recorder, Val value) {
  if (value.is_null() || value.is_virtual()) return false;
  return pandas::kind_of(recorder.heap.type_of(value)) != pandas::Kind::kNone;
}

// The function of a method that was bound while recording.
Val function_of(Heap& heap, Val callable) {
  for (VirtualKind kind : {VirtualKind::kBoundMethod, VirtualKind::kBuiltinMethod})
    if (heap.is_virtual(callable, kind)) return heap.virtual_field(callable, 0);
  return callable;
}

bool hands_over(Recorder& recorder, const Request& wanted) {
  PyObject* callable = function_of(recorder.heap, wanted.callable).object();
  if (callable == nullptr) return false;
  if (pandas::is_of_pandas(callable)) return true;
  if (PyMethod_Check(callable)) return pandas::is_of_pandas(PyMethod_GET_FUNCTION(callable));
  PyObject* inner = numpy::implementation_of(callable);
  return pandas::is_known(inner == nullptr ? callable : inner) &&
         std::any_of(wanted.args.begin(), wanted.args.end(), [&](Val each) { return is_frame(recorder, each); });
}

// What was made by such a call of the trace itself: nobody has given it code of the program's.
bool is_own_derived(Recorder& recorder, Val value) {
  if (!value.is_reg() || pandas::kind_of(recorder.heap.type_of(value)) != pandas::Kind::kDerived) return false;
  const auto& nodes = recorder.trace().nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const Node& node) { return node.op == Op::kPure && node.out == value.index(); });
}

bool is_plain_operand(Recorder& recorder, Val value, int depth = 0) {
  constexpr int kDeepest = 3;
  if (value.is_const()) return pandas::is_plain(value.object());
  if (value.is_reg()) {
    const RegInfo& info = recorder.trace().regs[value.index()];
    if (is_number(info.rep) || is_own_derived(recorder, value)) return true;
    PyObject* object = recorder.heap.reg_objects[value.index()];
    return info.rep == Rep::kObject && info.type != nullptr && object != nullptr && pandas::is_plain(object);
  }
  if (value.is_null() || depth > kDeepest) return false;
  const auto are_plain = [&](const Vals& parts) {
    return std::all_of(parts.begin(), parts.end(),
                       [&](Val part) { return is_plain_operand(recorder, part, depth + 1); });
  };
  for (VirtualKind kind : {VirtualKind::kTuple, VirtualKind::kList, VirtualKind::kSlice})
    if (recorder.heap.is_virtual(value, kind)) {
      PyTypeObject* type = recorder.heap.type_of(value);
      const bool builtin = type == &PyTuple_Type || type == &PyList_Type || type == &PySlice_Type;
      return builtin && are_plain(recorder.heap.model(value).items);
    }
  if (!recorder.heap.is_virtual(value, VirtualKind::kDict) || recorder.heap.type_of(value) != &PyDict_Type)
    return false;
  Objects keys;
  Vals values;
  return dict_content(recorder, value, &keys, &values) && are_plain(values) &&
         std::all_of(keys.begin(), keys.end(), [](PyObject* key) { return pandas::is_plain(key); });
}

// It writes to none of its operands.
bool is_in_place(const Request& wanted) {
  if (wanted.names == nullptr) return false;
  const auto named = static_cast<size_t>(PyTuple_GET_SIZE(wanted.names));
  for (size_t i = 0; i < named; ++i) {
    const Val value = wanted.args[wanted.args.size() - named + i];
    PyObject* name = PyTuple_GET_ITEM(wanted.names, static_cast<Py_ssize_t>(i));
    if (PyUnicode_CompareWithASCIIString(name, "out") == 0) return true;
    if (PyUnicode_CompareWithASCIIString(name, "inplace") == 0 && value.object() != Py_False) return true;
  }
  return false;
}

// pandas does as it does: no class in hand has been changed, and none will have been at a replay.
bool are_untouched(Recorder& recorder, const Request& wanted) {
  const auto is_untouched = [&](PyTypeObject* type) {
    if (!pandas::is_untouched(type)) return false;
    recorder.reads.guard_type_version(type);
    return recorder.live();
  };
  for (PyTypeObject* type : pandas::main_types())
    if (!is_untouched(type)) return false;
  return std::all_of(wanted.args.begin(), wanted.args.end(),
                     [&](Val each) { return !is_frame(recorder, each) || is_untouched(recorder.heap.type_of(each)); });
}

bool is_read(Recorder& recorder, const Request& wanted) {
  if (wanted.pushes != 1 || !is_frame(recorder, wanted.args[0])) return false;
  if (pandas::is_known_attribute(wanted.args[1].object())) return true;
  PyTypeObject* type = recorder.heap.type_of(wanted.args[0]);  // the name of a column
  return recorder.reads.lookup_type(type, wanted.args[1].object()) == nullptr && recorder.live();
}

}  // namespace

namespace {

// As operator.setitem, for an object that a variable, or something else, holds beside the stack.
PyObject* set_item_of_held(PyObject*, PyObject* const* args, Py_ssize_t) {
  const Ref variable = Ref::borrow(args[0]), stack = Ref::borrow(args[0]);
  return PyObject_SetItem(args[0], args[1], args[2]) != 0 ? nullptr : new_reference(Py_None);
}
PyMethodDef set_item_row = {"setitem", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(set_item_of_held)),
                            METH_FASTCALL, nullptr};

// A result of the trace that no variable and no container names.
bool is_only_on_stack(Recorder& recorder, Val value) {
  if (!value.is_reg()) return false;
  const auto& nodes = recorder.trace().nodes;
  if (std::none_of(nodes.begin(), nodes.end(), [&](const Node& node) { return node.out == value.index(); }))
    return false;
  for (const auto& frame : recorder.frames)
    if (std::find(frame->slots.begin(), frame->slots.begin() + frame->locals, value) !=
        frame->slots.begin() + frame->locals)
      return false;
  for (const auto& model : recorder.heap.models)
    if (std::find(model->items.begin(), model->items.end(), value) != model->items.end()) return false;
  return true;
}

}  // namespace

bool keep_frame_references(Recorder& recorder, Request* wanted) {
  static PyObject* const set_item = find_object("_operator", "setitem");
  static PyObject* const set_item_held = PyCFunction_New(&set_item_row, nullptr);
  if (!pandas::is_loaded() || wanted->spread) return true;
  const Val callable = function_of(recorder.heap, wanted->callable);
  PyObject* function = callable.object();
  if (function == nullptr) return true;
  if (function == set_item && is_frame(recorder, wanted->args[0])) {
    if (!is_only_on_stack(recorder, wanted->args[0])) wanted->callable = Val::constant(set_item_held);
    return true;
  }
  if (!PyFunction_Check(function) || !pandas::is_of_pandas(function)) return true;
  const bool bound = callable != wanted->callable;
  if (!bound && wanted->args.empty()) return true;
  const Val self = bound ? recorder.heap.virtual_field(wanted->callable, 1) : wanted->args[0];
  const bool writes =
      is_in_place(*wanted) ||
      PyUnicode_CompareWithASCIIString(reinterpret_cast<PyFunctionObject*>(function)->func_name, "update") == 0;
  if (!writes || !is_frame(recorder, self) || !is_only_on_stack(recorder, self)) return true;
  recorder.stop_final = true;
  return false;
}

bool leave_to_pandas(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  if (!pandas::is_loaded()) return false;
  int operands = 0;
  switch (now.operation) {
    case Operation::kCall:
    case Operation::kCallNames:
    case Operation::kCallSpread: {
      Request wanted;
      if (!now.is(Operation::kCallSpread))
        frame.call_names = now.is(Operation::kCallNames) ? frame.top().object() : frame.kwnames;
      if (!request(recorder, frame, now, &wanted) || !hands_over(recorder, wanted)) return false;
      frame.kwnames = nullptr;
      recorder.stop(Abort::kUnknownCall, "pandas");
      return true;
    }
    case Operation::kNegative:
    case Operation::kPositive:
    case Operation::kInvert:
    case Operation::kGetIter:
    case Operation::kDeleteAttribute:
      operands = 1;
      break;
    case Operation::kBinary:
    case Operation::kCompare:
    case Operation::kContains:
    case Operation::kSubscript:
    case Operation::kDeleteSubscript:
    case Operation::kStoreAttribute:
      operands = 2;
      break;
    case Operation::kStoreSubscript:
    case Operation::kLoadSlice:
      operands = 3;
      break;
    case Operation::kStoreSlice:
      operands = 4;
      break;
    default:
      return false;
  }
  bool any = false;
  for (int i = 1; i <= operands; ++i) any = any || is_frame(recorder, frame.top(i));
  if (any) recorder.stop(Abort::kUnknownOperand, "pandas");
  return any;
}

bool start_frame_call(Recorder& recorder, ShadowFrame& frame, Request wanted) {
  if (!pandas::is_loaded() || (wanted.spread && !unfold_call(recorder, &wanted))) return false;
  const Val function = function_of(recorder.heap, wanted.callable);
  if (function != wanted.callable)
    wanted.args.insert(wanted.args.begin(), recorder.heap.virtual_field(wanted.callable, 1));
  PyObject* callable = function.object();
  if (callable == nullptr || wanted.pushes != 1 || wanted.args.empty()) return false;
  if (PyObject* inner = numpy::implementation_of(callable)) callable = inner;
  if (callable == getattr_function()) {
    if (!is_read(recorder, wanted)) return false;
  } else if (!pandas::is_known(callable) || is_in_place(wanted)) {
    return false;
  }
  const bool any = pandas::makes_frames(callable) || std::any_of(wanted.args.begin(), wanted.args.end(),
                                                                 [&](Val each) { return is_frame(recorder, each); });
  if (!any ||
      !std::all_of(wanted.args.begin(), wanted.args.end(), [&](Val each) { return is_plain_operand(recorder, each); }))
    return false;
  if (!are_untouched(recorder, wanted)) return false;
  recorder.reads.owned(callable);
  if (compute(recorder, frame, callable, wanted.args, wanted.pops, wanted.names) != Invoke::kStarted) return false;
  frame.pending.finish = take_array;
  frame.pending.ignores_frames = true;
  return true;
}

}  // namespace pijit
