// Known C callables about objects, classes and attributes.
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/audits.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

namespace pijit {
namespace {

// What a metaclass that asks for no more inherits.
PyObject* of_type(PyObject* name) {
  return PyDict_GetItem(cpython::type_dict(&PyType_Type), name);
}

// isinstance for one class, without running Python. 1, 0, or -1: not decidable here.
int instance_of(Recorder& recorder, Val object, PyObject* cls) {
  PyTypeObject* type = recorder.heap.type_of(object);
  if (type == nullptr || !PyType_Check(cls)) return -1;
  PyObject* dict = nullptr;
  if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return -1;
  if (type == reinterpret_cast<PyTypeObject*>(cls)) return 1;
  static PyObject* const check = PyUnicode_InternFromString("__instancecheck__");
  if (recorder.reads.lookup_type(Py_TYPE(cls), check) != of_type(check)) return -1;
  recorder.reads.guard_type_version(type);
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(cls))) return 1;
  PyObject* own = recorder.reads.lookup_type(type, names().class_);
  return own == nullptr || Py_TYPE(own) == &PyGetSetDescr_Type ? 0 : -1;
}

// function(class, object): the truth of what it gives.
Task<Val> ask_metaclass(Drive& drive, Arguments args) {
  PyObject* function = args.values[0].object();
  args.values.erase(args.values.begin());
  const Val answer = co_await call_function(drive, function, args);
  const bool yes = co_await is_true(drive, answer);
  co_return truth_value(yes);
}

Invoke builtin_isinstance(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Val object = args.values[0];
  Vals classes;
  PyObject* single = args.values[1].object();
  if (single != nullptr && PyType_Check(single)) {
    int yes = instance_of(recorder, object, single);
    if (!recorder.live()) return Invoke::kStopped;
    if (yes >= 0) return give(recorder, frame, pops, truth_value(yes > 0));
    static PyObject* const check = PyUnicode_InternFromString("__instancecheck__");
    PyObject* method = recorder.reads.lookup_type(Py_TYPE(single), check);
    if (method == nullptr || Py_TYPE(method) != &PyFunction_Type || recorder.heap.type_of(object) == nullptr)
      return Invoke::kUnknown;
    Arguments inner;
    inner.values = {Val::constant(method), args.values[1], object};
    return drive(recorder, frame, ask_metaclass, inner, pops);
  }
  if (recorder.heap.type_of(args.values[1]) != &PyTuple_Type || !try_items(recorder, args.values[1], &classes)) {
    // A union type, X | Y: its members.
    if (single == nullptr || Py_TYPE(single) != cpython::union_type()) return Invoke::kUnknown;
    Ref members = Ref::steal(PyObject_GetAttrString(single, "__args__"));
    if (!members) return Invoke::kUnknown;
    recorder.reads.owned(single);  // another union may be made at its address
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members.get()); ++i)
      classes.push_back(Val::constant(PyTuple_GET_ITEM(members.get(), i)));
  }
  for (Val cls : classes) {
    int yes = cls.object() == nullptr ? -1 : instance_of(recorder, object, cls.object());
    if (!recorder.live()) return Invoke::kStopped;
    if (yes < 0) return Invoke::kUnknown;
    if (yes > 0) return give(recorder, frame, pops, truth_value(true));
  }
  return give(recorder, frame, pops, truth_value(false));
}

// issubclass for one class, as instance_of.
int subclass_of(ReadSet& reads, PyTypeObject* type, PyObject* cls) {
  if (cls == nullptr || !PyType_Check(cls)) return -1;
  static PyObject* const check = PyUnicode_InternFromString("__subclasscheck__");
  if (reads.lookup_type(Py_TYPE(cls), check) != of_type(check)) return -1;
  reads.guard_type_version(type);
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(cls));
}

Invoke builtin_issubclass(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyObject* type = args.values[0].object();
  if (type == nullptr || !PyType_Check(type)) return Invoke::kUnknown;
  Vals classes;
  if (recorder.heap.type_of(args.values[1]) != &PyTuple_Type) {
    classes.push_back(args.values[1]);
  } else if (!try_items(recorder, args.values[1], &classes)) {
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  }
  bool found = false;
  for (size_t i = 0; i < classes.size() && !found; ++i) {
    const int yes = subclass_of(recorder.reads, reinterpret_cast<PyTypeObject*>(type), classes[i].object());
    if (!recorder.live()) return Invoke::kStopped;
    if (yes < 0) return Invoke::kUnknown;
    found = yes > 0;
  }
  return give(recorder, frame, pops, truth_value(found));
}

// type.__instancecheck__(cls, object): what isinstance does when no metaclass asks for more.
Invoke type_instancecheck(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyObject* cls = args.values[0].object();
  PyTypeObject* type = cls == nullptr || !PyType_Check(cls) ? nullptr : recorder.heap.type_of(args.values[1]);
  if (type == nullptr) return Invoke::kUnknown;
  PyObject* dict = nullptr;
  if (args.values[1].is_const() && !guard_instance(recorder, args.values[1].object(), &dict)) return Invoke::kStopped;
  PyObject* own = recorder.reads.lookup_type(type, names().class_);
  if (!recorder.live()) return Invoke::kStopped;
  if (own != nullptr && Py_TYPE(own) != &PyGetSetDescr_Type) return Invoke::kUnknown;
  return give(recorder, frame, pops, truth_value(PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(cls))));
}

// An abstract class that has said yes keeps the class in its cache and says yes for ever.
void take_abc_answer(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  take_owned(recorder, frame, result);
  if (result == Py_False) recorder.reads.note_refused(frame.pending.x.object(), frame.pending.y.object());
}

// The registries behind an abstract class `args.values[0]` decide by a class: its version and the count of
// registrations prove the answer. asked: the class, null if it is not known.
Invoke abc_check(Recorder& recorder, ShadowFrame& frame, const Arguments& args, int pops, PyTypeObject* type,
                 PyTypeObject* asked) {
  recorder.reads.guard_type_version(type);
  recorder.reads.guard_abc_registry();
  observe(frame, pops, take_abc_answer);
  frame.pending.ignores_frames = true;
  frame.pending.x = args.values[0];
  if (asked != nullptr) frame.pending.y = Val::constant(reinterpret_cast<PyObject*>(asked));
  return recorder.live() ? Invoke::kStarted : Invoke::kStopped;
}

Invoke builtin_abc_instancecheck(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(args.values[1]);
  if (type == nullptr || args.values[0].object() == nullptr) return Invoke::kUnknown;
  PyObject* own = cpython::lookup_type(type, names().class_);  // `__class__` may say another class
  const bool plain = own != nullptr && Py_TYPE(own) == &PyGetSetDescr_Type;
  return abc_check(recorder, frame, args, pops, type, plain ? type : nullptr);
}

Invoke builtin_abc_subclasscheck(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values[0].object() == nullptr) return Invoke::kUnknown;
  PyObject* cls = args.values[1].object();
  if (cls == nullptr || !PyType_Check(cls)) return Invoke::kUnknown;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  return abc_check(recorder, frame, args, pops, type, type);
}

bool names_attribute(const Arguments& args) {
  return args.values[1].object() != nullptr && PyUnicode_CheckExact(args.values[1].object());
}

// How an attribute that was looked for becomes the result of the call.
Invoke give_attribute(Recorder& recorder, ShadowFrame& frame, int pops, Invoke outcome, bool missing, Val result) {
  if (!recorder.live()) return Invoke::kStopped;
  if (outcome == Invoke::kStarted) return frame.pending.active ? outcome : give(recorder, frame, pops, result);
  if (!missing) return Invoke::kUnknown;
  will_raise(recorder, frame, pops);
  return Invoke::kStarted;
}

// getattr(object, name, default), hasattr(object, name): an AttributeError is caught.
template <bool kAsks>
Task<Val> attribute_or(Drive& drive, Arguments args) {
  if (!names_attribute(args)) co_await drive.unknown();
  const Val otherwise = kAsks ? truth_value(false) : args.values[2];
  Val result;
  bool missing = false;
  const Invoke outcome =
      get_attribute(drive.recorder(), drive.frame(), args.values[0], args.values[1].object(), 0, &result, &missing);
  if (missing) co_return otherwise;
  Pending& pending = drive.frame().pending;
  if (outcome != Invoke::kStarted || (kAsks && pending.is<Asking>())) co_await drive.unknown();
  if (kAsks && pending.active && pending.ignores_frames && pending.has_result && pending.finish == nullptr)
    pending.result = truth_value(true);  // the adapter knows what the attribute is; nobody is told
  if (!pending.active) co_return kAsks ? truth_value(true) : result;
  if (!pending.expects_frame() && drive.leave(outcome)) co_await Drive::Never();
  const Inner inner = co_await drive.wait(outcome);
  if (inner.ended) co_await drive.unknown();
  if (!inner.raised) co_return kAsks ? truth_value(true) : inner.value;
  if (!drive.is_raised(PyExc_AttributeError)) co_await drive.pass_on();
  drive.caught();
  co_return otherwise;
}

Invoke builtin_getattr(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values.size() == 3) return drive(recorder, frame, attribute_or<false>, args, pops);
  if (!names_attribute(args)) return Invoke::kUnknown;
  Val result;
  bool missing = false;
  const Invoke outcome =
      get_attribute(recorder, frame, args.values[0], args.values[1].object(), pops, &result, &missing);
  return give_attribute(recorder, frame, pops, outcome, missing, result);
}

// What is written; Null: it is deleted.
Val written_value(const Arguments& args) {
  return args.values.size() == 3 ? args.values[2] : Val();
}

// object.__setattr__(self, name, value), object.__delattr__(self, name)
Invoke generic_write(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (!names_attribute(args)) return Invoke::kUnknown;
  PyObject* const name = args.values[1].object();
  if (!store_attribute(recorder, frame, args.values[0], name, written_value(args), Then::kReplace, pops))
    return recorder.live() ? Invoke::kUnknown : Invoke::kStopped;
  if (frame.pending.active) {  // a setter in Python
    frame.pending.x = Val::constant(Py_None);
    return Invoke::kStarted;
  }
  known(frame, pops, Val::constant(Py_None));
  frame.pending.x = args.values[0];
  frame.pending.finish = [](Recorder& r, ShadowFrame& f, PyObject* result) {
    after_store(r, f, result);
    f.pending.result = Val::constant(Py_None);
  };
  return Invoke::kStarted;
}

// setattr(object, name, value), delattr(object, name)
Invoke write_call(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (!names_attribute(args)) return Invoke::kUnknown;
  bool generic = false;
  const Invoke outcome = write_by_class(recorder, frame, args.values[0], args.values[1].object(), written_value(args),
                                        Then::kReplace, pops, &generic);
  if (generic && recorder.live()) return generic_write(recorder, frame, args, pops);
  if (outcome == Invoke::kStarted) frame.pending.x = Val::constant(Py_None);
  return outcome;
}

Invoke object_getattribute(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values[1].object() == nullptr) return Invoke::kUnknown;
  Val result;
  bool missing = false;
  Invoke outcome =
      get_generic_attribute(recorder, frame, args.values[0], args.values[1].object(), pops, &result, &missing);
  return give_attribute(recorder, frame, pops, outcome, missing, result);
}

// Of a module that has no other class: what getattr() does.
Invoke module_getattribute(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyObject* module = args.values[0].object();
  if (module == nullptr || !PyModule_CheckExact(module)) return Invoke::kUnknown;
  return builtin_getattr(recorder, frame, args, pops);
}

Task<Val> tuple_of_class(Drive& drive, Arguments args) {
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[1].object());
  const Vals items = co_await collect_all(drive, args.values[2]);
  co_return drive.recorder().new_tuple(type, items.data(), items.size());
}

// tuple.__new__(cls, items) of a class that adds no slots to its instances: a named tuple.
Invoke tuple_new(Recorder& recorder, ShadowFrame& frame, PyTypeObject* type, const Arguments& args, int pops) {
  if (args.values.size() != 3 || !args.names.empty() || (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 ||
      !PyType_IsSubtype(type, &PyTuple_Type) || !cpython::holds_items_only(type) || type->tp_finalize != nullptr)
    return Invoke::kUnknown;
  recorder.reads.guard_type_version(type);
  return recorder.live() ? drive(recorder, frame, tuple_of_class, args, pops) : Invoke::kStopped;
}

// object.__new__(cls), dict.__new__(cls): one C function for all types, bound to the type that it allocates for.
Invoke object_new(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyObject *base = args.values[0].object(), *cls = args.values[1].object();
  if (base == nullptr || cls == nullptr || !PyType_Check(cls)) return Invoke::kUnknown;
  auto* of = reinterpret_cast<PyTypeObject*>(base);
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (of == &PyTuple_Type) return tuple_new(recorder, frame, type, args, pops);
  if (of != &PyBaseObject_Type && of != &PyDict_Type && of != &PyODict_Type) return Invoke::kUnknown;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || type->tp_finalize != nullptr || type->tp_del != nullptr)
    return Invoke::kUnknown;
  if (of == &PyBaseObject_Type && type->tp_base->tp_new != PyBaseObject_Type.tp_new &&
      PyType_IsSubtype(type, &PyDict_Type))
    return Invoke::kUnknown;
  recorder.reads.guard_type_version(type);
  return give(recorder, frame, pops, new_virtual(recorder, VirtualKind::kInstance, type));
}

Invoke object_init(Recorder& recorder, ShadowFrame& frame, Arguments&, int pops) {
  return give(recorder, frame, pops, Val::constant(Py_None));
}

Invoke builtin_callable(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(args.values[0]);
  if (type == nullptr) return Invoke::kUnknown;
  PyObject* dict = nullptr;
  if (args.values[0].is_const() && !guard_instance(recorder, args.values[0].object(), &dict)) return Invoke::kStopped;
  recorder.reads.guard_type_version(type);
  return give(recorder, frame, pops, truth_value(type->tp_call != nullptr));
}

Invoke give_id(Recorder& recorder, ShadowFrame& frame, int pops, Val number) {
  if (!is_audited()) return give(recorder, frame, pops, number);
  Arguments told;
  told.values = {number};
  return drive(recorder, frame, audited_id, told, pops);
}

Invoke builtin_id(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const Val value = args.values[0];
  const bool tensor = touches_tensor(recorder, value);
  PyObject* object = tensor ? tensor_source(recorder.loading, value).object() : value.object();
  if (object == nullptr && !tensor) {
    PyTypeObject* type = recorder.heap.type_of(value);
    const bool known = value.is_virtual() || (type != nullptr && cpython::is_scalar_type(type));
    return known ? give_id(recorder, frame, pops, address_of(recorder, value)) : Invoke::kUnknown;
  }
  if (object == nullptr) return Invoke::kUnknown;
  if (cpython::is_scalar(object) && !cpython::is_singleton(object))
    return give_id(recorder, frame, pops, address_of(recorder, value));
  if (!cpython::is_scalar(object)) recorder.heap.note_address(object);
  // C code that calls id() may do anything with the number.
  const bool is_seen = pops > 0 && !is_audited();
  if (is_seen) recorder.trace().addresses.push_back(object);
  recorder.trace().of_this_process |= !is_seen;
  if (is_audited())
    return give_id(recorder, frame, pops, recorder.reads.owned(Ref::steal(PyLong_FromVoidPtr(object)).get()));
  observe(frame, pops, take_owned);
  return Invoke::kStarted;
}

Invoke builtin_recursion_limit(Recorder& recorder, ShadowFrame& frame, Arguments&, int pops) {
  recorder.reads.guard_recursion_limit();
  observe(frame, pops, take_owned);
  return Invoke::kStarted;
}

Invoke type_type(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(args.values[0]);
  if (type == nullptr) return Invoke::kUnknown;
  PyObject* dict = nullptr;
  if (args.values[0].is_const() && !guard_instance(recorder, args.values[0].object(), &dict)) return Invoke::kStopped;
  return give(recorder, frame, pops, Val::constant(reinterpret_cast<PyObject*>(type)));
}

Invoke type_super(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Val type, object;
  if (args.values.size() == 2) {
    type = args.values[0];
    object = args.values[1];
  } else if (args.values.empty()) {
    PyObject* local_names = frame.code->co_localsplusnames;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(local_names); ++i) {
      if (!has_name(PyTuple_GET_ITEM(local_names, i), "__class__")) continue;
      Val cell = frame.local(static_cast<int>(i));
      if (cell.is_virtual()) {
        type = recorder.heap.virtual_field(cell, 0);
      } else if (cell.object() != nullptr) {
        PyObject* content = nullptr;
        if (!recorder.reads.guard_cell(cell.object(), &content) || content == nullptr) return Invoke::kUnknown;
        type = Val::constant(content);
      }
    }
    object = frame.local(0);
    if (recorder.heap.is_virtual(object, VirtualKind::kCell)) object = recorder.heap.virtual_field(object, 0);
  }
  if (type.object() == nullptr || !PyType_Check(type.object()) || recorder.heap.type_of(object) == nullptr)
    return Invoke::kUnknown;
  Val result = new_virtual(recorder, VirtualKind::kSuper, &PySuper_Type);
  set_field(recorder, result, field::kSuper::kType, type);
  set_field(recorder, result, field::kSuper::kObject, object);
  return give(recorder, frame, pops, result);
}

void take_token(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  recorder.foreign.set_type(frame.pending.x, Py_TYPE(result));
  frame.pending.result = frame.pending.x;
}

Invoke call_node(Recorder& recorder, ShadowFrame& frame, PyObject* callable, const Vals& values, int pops) {
  Vals real;
  for (Val value : values) {
    real.push_back(materialize(recorder, value));
    if (!recorder.live()) return Invoke::kStopped;
  }
  Val out = add_reg(recorder, Rep::kObject, nullptr, nullptr);
  Node& node = emit_node(recorder, Op::kCall);
  node.a = Val::constant(callable);
  node.out = out.index();
  Trace& trace = recorder.trace();
  node.first = static_cast<uint32_t>(trace.operands.size());
  node.count = static_cast<uint32_t>(real.size());
  trace.operands.insert(trace.operands.end(), real.begin(), real.end());
  observe(frame, pops, take_token);
  frame.pending.x = out;
  return Invoke::kStarted;
}

PyObject* context_method(const char* name) {
  return cpython::lookup_type(&PyContextVar_Type, Ref::steal(PyUnicode_InternFromString(name)).get());
}

Invoke context_set(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  if (args.values[0].object() == nullptr) return Invoke::kUnknown;
  PyObject *var = args.values[0].object(), *before = nullptr;
  Val old;
  if (!overlay_find(recorder, var, Py_None, &old)) {
    if (!recorder.reads.guard_context_var(var, &before)) return Invoke::kUnknown;
    if (before != nullptr) old = constant(recorder, before);
  }
  Invoke outcome = call_node(recorder, frame, context_method("set"), args.values, pops);
  if (outcome != Invoke::kStarted) return outcome;
  recorder.heap.tokens.push_back({frame.pending.x, {args.values[0], old}});
  overlay_set(recorder, var, Py_None, args.values[1]);
  return outcome;
}

Invoke context_reset(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  for (auto& [token, what] : recorder.heap.tokens) {
    if (!(token == args.values[1]) || !(what.first == args.values[0])) continue;
    Invoke outcome = call_node(recorder, frame, context_method("reset"), args.values, pops);
    if (outcome != Invoke::kStarted) return outcome;
    overlay_set(recorder, what.first.object(), Py_None, what.second);
    frame.pending.finish = [](Recorder&, ShadowFrame& f, PyObject*) { f.pending.result = Val::constant(Py_None); };
    return outcome;
  }
  return Invoke::kUnknown;
}

Invoke context_get(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyObject *var = args.values[0].object(), *value = nullptr;
  if (var == nullptr) return Invoke::kUnknown;
  Val changed;
  if (overlay_find(recorder, var, Py_None, &changed))
    return changed.is_null() ? Invoke::kUnknown : give(recorder, frame, pops, changed);
  if (!recorder.reads.guard_context_var(var, &value)) return Invoke::kUnknown;
  if (value != nullptr) return give(recorder, frame, pops, constant(recorder, value));
  return Invoke::kUnknown;
}

// slice.indices(length), of plain numbers.
Invoke slice_indices(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Operand fields[3];
  if (recorder.heap.type_of(args.values[0]) != &PySlice_Type ||
      !recorder.slice_fields({args.values[0], recorder.heap.real(args.values[0])}, fields))
    return Invoke::kUnknown;
  for (Val part : {fields[0].value, fields[1].value, fields[2].value, args.values[1]})
    if (part.object() == nullptr || (part.object() != Py_None && !PyLong_CheckExact(part.object())))
      return Invoke::kUnknown;
  observe(frame, pops, [](Recorder& r, ShadowFrame& f, PyObject* result) { f.pending.result = r.reads.owned(result); });
  frame.pending.folds = true;
  return Invoke::kStarted;
}

Invoke type_slice(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const size_t count = args.values.size();
  const Val none = Val::constant(Py_None);
  Val slice = new_virtual(recorder, VirtualKind::kSlice, &PySlice_Type);
  set_field(recorder, slice, field::kSlice::kStart, count == 1 ? none : args.values[0]);
  set_field(recorder, slice, field::kSlice::kStop, args.values[count == 1 ? 0 : 1]);
  set_field(recorder, slice, field::kSlice::kStep, count == 3 ? args.values[2] : none);
  return give(recorder, frame, pops, slice);
}

// A partial object of a partial object takes over what that one is made of.
Invoke type_partial(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Val function = args.values[0];
  Vals given, values;
  Objects names;
  if (recorder.heap.is_virtual(function, VirtualKind::kPartial)) {
    const Vals fields = recorder.heap.model(function).items;
    if (recorder.heap.is_built(function) || !try_items(recorder, fields[1], &given) ||
        !dict_content(recorder, fields[2], &names, &values))
      return Invoke::kUnknown;
    function = fields[0];
  } else if (PyTypeObject* type = recorder.heap.type_of(function);
             type == nullptr || type->tp_call == cpython::partial_type()->tp_call) {
    return Invoke::kUnknown;
  }
  Val result = new_virtual(recorder, VirtualKind::kPartial, cpython::partial_type());
  Val keywords = new_dict(recorder);
  for (size_t i = 0; i < names.size(); ++i) dict_set(recorder, keywords, names[i], values[i]);
  for (size_t i = 0; i < args.names.size(); ++i)
    dict_set(recorder, keywords, args.names[i], args.values[args.positional() + i]);
  given.insert(given.end(), args.values.begin() + 1, args.values.begin() + static_cast<ptrdiff_t>(args.positional()));
  set_field(recorder, result, field::kPartial::kFunction, function);
  set_field(recorder, result, field::kPartial::kArgs, recorder.new_tuple(&PyTuple_Type, given.data(), given.size()));
  set_field(recorder, result, field::kPartial::kKeywords, keywords);
  return give(recorder, frame, pops, result);
}

// MethodType(function, object), function.__get__(object[, type]): bound to an object that is known, and is not None.
Invoke bind_function(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  const Val function = args.values[0], self = args.values[1];
  const bool fits = self.object() != Py_None && recorder.heap.type_of(function) == &PyFunction_Type;
  if (!fits || function.is_reg() || self.is_reg()) return Invoke::kUnknown;
  Val method = new_virtual(recorder, VirtualKind::kBoundMethod, &PyMethod_Type);
  set_field(recorder, method, field::kBoundMethod::kFunction, function);
  set_field(recorder, method, field::kBoundMethod::kSelf, self);
  return give(recorder, frame, pops, method);
}

// The one that the object has, or a new one.
Invoke make_reference(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  return compute_object(recorder, frame, recorder.called, args.values, pops);
}

constexpr KnownCallable kObjectRows[] = {
    {"weakref", "ref", make_reference, 1, 1},
    {"builtins", "isinstance", builtin_isinstance, 2, 2},
    {"builtins", "issubclass", builtin_issubclass, 2, 2},
    {"builtins", "type.__instancecheck__", type_instancecheck, 2, 2},
    {"_abc", "_abc_instancecheck", builtin_abc_instancecheck, 2, 2},
    {"_abc", "_abc_subclasscheck", builtin_abc_subclasscheck, 2, 2},
    {"builtins", "getattr", builtin_getattr, 2, 3},
    {"builtins", "delattr", write_call, 2, 2},
    {"builtins", "hasattr", attribute_or<true>, 2, 2},
    {"builtins", "setattr", write_call, 3, 3},
    {"builtins", "callable", builtin_callable, 1, 1},
    {"builtins", "id", builtin_id, 1, 1},
    {"sys", "getrecursionlimit", builtin_recursion_limit, 0, 0},
    {"builtins", "type", type_type, 1, 1},
    {"builtins", "super", type_super, 0, 2},
    {"builtins", "object.__getattribute__", object_getattribute, 2, 2},
    {"types", "ModuleType.__getattribute__", module_getattribute, 2, 2},
    {"builtins", "object.__setattr__", generic_write, 3, 3},
    {"builtins", "object.__delattr__", generic_write, 2, 2},
    {"builtins", "object.__new__", object_new, 2, kAny, kOptions},
    {"builtins", "object.__init__", object_init, 1, 1},
    {"_contextvars", "ContextVar.set", context_set, 2, 2},
    {"_contextvars", "ContextVar.reset", context_reset, 2, 2},
    {"_contextvars", "ContextVar.get", context_get, 1, 1},  // a guard cannot tell a value from the variable's default
    {"builtins", "slice", type_slice, 1, 3},
    {"builtins", "slice.indices", slice_indices, 2, 2},
    {"functools", "partial", type_partial, 1, kAny, kOptions},
    {"types", "MethodType", bind_function, 2, 2},
    {"types", "FunctionType.__get__", bind_function, 2, 3},
};

}  // namespace

constinit const KnownCalls kObjectCalls = kObjectRows;

}  // namespace pijit
