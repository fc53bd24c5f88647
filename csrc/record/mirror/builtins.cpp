// C callables by identity: lookup in the table, then the tensor adapter; everything else is unknown.
#include "record/mirror/builtins.h"

#include <algorithm>
#include <sstream>
#include <unordered_map>

#include "common/imports.h"
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/lru_cache.h"
#include "ir/checked.h"
#include "mindspore/library.h"
#include "numpy/library.h"
#include "pandas/library.h"
#include "record/calls.h"
#include "record/mirror/filling.h"
#include "record/shared.h"
#include "record/state/arrays.h"
#include "record/state/pending.h"
#include "record/state/scalars.h"
#include "record/state/values.h"

namespace pijit {
namespace {

std::unordered_map<const void*, const KnownCallable*>& table() {
  static auto* rows = new std::unordered_map<const void*, const KnownCallable*>();
  return *rows;
}

// What identifies a C callable: its PyMethodDef, else the object.
const void* identity(PyObject* callable) {
  if (PyCFunction_CheckExact(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyClassMethodDescr_Type)
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  return callable;
}

void take_plain(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (is_plain_const(result)) {
    frame.pending.result = recorder.reads.owned(result);
    return;
  }
  const Val shadow = plain_shadow(recorder, result);
  if (shadow.is_null()) return recorder.stop(Abort::kUnknownOperand, Py_TYPE(result)->tp_name);
  frame.pending.result = shadow;
}

// The result of a function of containers: what it gives back may be one of them, or be in one.
void take_scalar(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  if (!cpython::is_scalar(result)) return recorder.stop(Abort::kUnknownOperand, Py_TYPE(result)->tp_name);
  frame.pending.result = recorder.reads.owned(result);
}

// The names of keyword arguments as a tuple that the trace keeps; null: there are none.
PyObject* keep_names(const Kernel& recording, const Arguments& args) {
  if (args.names.empty()) return nullptr;
  Ref names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.names.size())));
  for (size_t i = 0; i < args.names.size(); ++i)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), new_reference(args.names[i]));
  recording.trace().owned.push_back(std::move(names));
  return recording.trace().owned.back().get();
}

// The call that is being looked at, on operands that differ from call to call.
Invoke compute_call(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const auto first = args.values.begin() + (recorder.called_bound ? 1 : 0);
  return compute(recorder, frame, recorder.called, {first, args.values.end()}, pops, keep_names(recorder, args));
}

Invoke ask_adapter_about_call(Recorder& recorder, ShadowFrame& frame, PyObject* callable, Arguments& args, int pops) {
  Adapter* adapter = recorder.adapter();
  if (adapter == nullptr) return Invoke::kUnknown;
  bool tensor = adapter->claims(callable);
  for (Val value : args.values) tensor = tensor || touches_tensor(recorder, value);
  if (!tensor) return Invoke::kUnknown;
  Vec<Operand>& operands = recorder.question.operands;
  operands.clear();
  for (Val value : args.values) operands.push_back({value, recorder.heap.real(value)});
  CallSite site{};
  site.kind = SiteKind::kCall;
  site.callable = callable;
  site.operands = operands.data();
  site.count = operands.size();
  site.kwnames = keep_names(recorder, args);
  if (!ask_adapter(recorder, frame, site, pops, 1)) return Invoke::kUnknown;
  return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
}

}  // namespace

bool only_computes(PyObject* callable) {
  if (Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type) {
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable)->d_type;
    if (owner == &PyUnicode_Type || owner == &PyLong_Type || owner == &PyFloat_Type || owner == &PyBytes_Type ||
        owner == &PyBool_Type || owner == &PyComplex_Type || owner == &PyTuple_Type)
      return true;
  }
  auto row = table().find(identity(callable));
  return row != table().end() && (row->second->traits & kComputes) != 0;
}

bool has_virtual(const Arguments& args) {
  return std::any_of(args.values.begin(), args.values.end(), [](Val value) { return value.is_virtual(); });
}

Invoke fold(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  bool varies = false;
  for (Val& value : args.values) {
    varies = varies || is_scalar_reg(recorder, value);
    if (is_scalar_reg(recorder, value)) continue;
    if (recorder.called != nullptr) note_hashes(recorder, recorder.called, value.object());
    if (value.object() != nullptr && is_plain_const(value.object())) continue;
    if (value.is_virtual() && plain_object(recorder, value)) continue;
    return Invoke::kUnknown;
  }
  if (varies && recorder.called == reinterpret_cast<PyObject*>(&PyRange_Type))
    return open_range(recorder, frame, args, pops);
  if (varies) return compute_call(recorder, frame, args, pops);
  observe(frame, pops, has_virtual(args) ? take_scalar : take_plain);
  frame.pending.folds = true;
  return Invoke::kStarted;
}

Invoke give(Recorder& recorder, ShadowFrame& frame, int pops, Val result) {
  if (!recorder.live()) return Invoke::kStopped;
  known(frame, pops, result);
  return Invoke::kStarted;
}

namespace {

// What a path such as "dict.get" leads to; null: this CPython has no such thing.
PyObject* find_path(const char* module, const std::string& path) {
  const size_t dot = path.find('.');
  PyObject* found = find_object(module, path.substr(0, dot).c_str());
  if (found == nullptr || dot == std::string::npos) return found;
  const Ref key = Ref::steal(PyUnicode_FromString(path.c_str() + dot + 1));
  return Ref::borrow(cpython::lookup_type(reinterpret_cast<PyTypeObject*>(found), key.get())).release();
}

void add_rows(KnownCalls rows) {
  for (const KnownCallable& row : rows) {
    std::istringstream names(row.names);
    for (std::string name; names >> name;) {
      PyObject* found = find_path(row.module, name);
      if (found == nullptr) continue;
      add_known(found, row);
      if (row.next != nullptr) add_iterator_step(reinterpret_cast<PyTypeObject*>(found), row.next);
    }
  }
}

bool takes(const KnownCallable& row, const Arguments& args) {
  const size_t counted = (row.traits & kOptions) != 0 ? args.positional() : args.values.size();
  const bool named = args.names.empty() || (row.traits & (kNamed | kOptions)) != 0;
  return named && args.positional() >= row.least && (row.most == kAny || counted <= row.most);
}

}  // namespace

void add_known(PyObject* callable, const KnownCallable& row) {
  const bool added = table().try_emplace(identity(callable), &row).second;
  if (kChecked && !added) Py_FatalError((std::string("pijit: two rows for one callable: ") + row.names).c_str());
}

bool is_known_builtin(PyObject* callable) noexcept {
  return table().count(identity(callable)) > 0;
}

void build_builtin_table() {
  numpy::find_library();  // it may have been loaded since
  pandas::find_library();
  mindspore::find_library();
  if (!table().empty()) return;
  cpython::slot_functions();  // runs Python once, so not while recording
  names();
  find_opaque_functions();
  cpython::abc_registrations();
  for (KnownCalls rows : {kObjectCalls, kContainerCalls, kIterationCalls, kListCalls, kDictCalls, kSetCalls,
                          kStringCalls, kNumberCalls, kItertoolsCalls, kFunctionalCalls, kExceptionCalls,
                          kGeneratorCalls, kFunctionCalls, kCollectionCalls, kCopyCalls, kClassCalls})
    add_rows(rows);
  find_group_class();
  add_exception_inits();
  cpython::partial_type();  // these import, so not while recording
  cpython::union_type();
  deque_iterator_type();
  cpython::default_dict_type();
  namespace_type();
  cpython::lru_cache_type();
  find_clocks();
  find_random_functions();
  for (const char* name : {"date", "timedelta"}) {  // a datetime that equals another may be of another zone
    const Ref type = Ref::steal(find_object("datetime", name));
    if (type && PyType_Check(type.get()) != 0 && cpython::dies_unnoticed(reinterpret_cast<PyTypeObject*>(type.get())))
      cpython::add_value_type(reinterpret_cast<PyTypeObject*>(type.get()));
  }
}

namespace {

// What a weak reference refers to is fixed, and proven where guards are checked, unless something may have died since.
// An opaque call without an epoch behind it writes to tensors alone.
Invoke call_known_reference(Recorder& recorder, ShadowFrame& frame, PyObject* reference, int pops) {
  PyObject* object = PyWeakref_GET_OBJECT(reference);
  bool fixed = object != Py_None;
  const Vec<Node>& nodes = recorder.trace().nodes;
  for (size_t i = nodes.size(); fixed && i-- > 0 && nodes[i].op != Op::kEpoch;)
    fixed = !may_let_die(nodes[i].op) || is_opaque(nodes[i].op);
  if (!fixed) return frame.drive ? Invoke::kUnknown : compute_object(recorder, frame, reference, {}, pops);
  if (!recorder.reads.guard_slot(reference, offsetof(PyWeakReference, wr_object), &object)) return Invoke::kStopped;
  return give(recorder, frame, pops, constant(recorder, object));
}

Invoke invoke_known(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments args, int pops) {
  PyObject* object = callable.object();
  if (object == nullptr) return Invoke::kUnknown;
  if (invoke_getter(recorder, frame, callable, args, pops) == Invoke::kStarted) return Invoke::kStarted;
  if (PyWeakref_CheckRefExact(object) && args.values.empty() && args.names.empty())
    return call_known_reference(recorder, frame, object, pops);
  if (PyObject* body = numpy::body_of(object);
      body != nullptr && !args.values.empty() && !args.values[0].is_virtual() && is_plain(recorder, args.values[0]))
    return invoke_function(recorder, frame, Val::constant(body), args, Then::kPush, pops);
  recorder.called = object;
  recorder.called_bound = false;
  const auto known = table().find(identity(object));
  if (known != table().end()) {
    const KnownCallable& row = *known->second;
    if (PyCFunction_CheckExact(object)) {
      PyObject* self = reinterpret_cast<PyCFunctionObject*>(object)->m_self;
      bool bound = self != nullptr && !PyModule_Check(self) &&
                   (reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_flags & METH_STATIC) == 0;
      recorder.called_bound = bound;
      if (bound && !recorder.reads.guard_parts(object)) return Invoke::kUnknown;
      if (bound) args.values.insert(args.values.begin(), constant(recorder, self));
    }
    const TraceMark before = recorder.here();
    const Invoke outcome = !takes(row, args)              ? Invoke::kUnknown
                           : row.mirror.driven != nullptr ? drive(recorder, frame, row.mirror.driven, args, pops)
                                                          : row.mirror.builtin(recorder, frame, args, pops);
    if (outcome != Invoke::kUnknown) return outcome;
    if (recorder.live() && !is_untouched(recorder.heap, before)) return Invoke::kUnknown;
  }
  if (!recorder.live()) return Invoke::kStopped;
  if (only_computes(object)) {
    Invoke outcome = fold(recorder, frame, args, pops);
    if (outcome != Invoke::kUnknown) return outcome;
  }
  const Invoke outcome = ask_adapter_about_call(recorder, frame, object, args, pops);
  return outcome == Invoke::kUnknown ? invoke_idle(recorder, frame, object, args, pops) : outcome;
}

}  // namespace

// What does not go with a number that varies may go with what it is now. An attempt that consumed an iterator, or
// wrote, must be taken back first: that is for whoever stops the instruction (fix_operands).
Invoke invoke_builtin(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments& args, int pops) {
  const TraceMark before = recorder.here();
  const Invoke outcome = invoke_known(recorder, frame, callable, args, pops);
  if (outcome != Invoke::kUnknown || !recorder.live() || !is_untouched(recorder.heap, before)) return outcome;
  if (!fix_numbers(recorder, &args.values)) return outcome;
  return invoke_known(recorder, frame, callable, args, pops);
}

}  // namespace pijit
