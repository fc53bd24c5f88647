// Attributes, calls, with blocks and imports, one instruction at a time.
#include "cpython/keys.h"
#include "cpython/members.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/shared.h"
#include "record/state/contents.h"
#include "record/state/counting.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/varying.h"
#include "record/state/writes.h"
#include "record/step/step.h"

namespace pijit {
namespace {

void describe_type(Heap& heap, Val value, std::string* out) {
  PyTypeObject* type = heap.type_of(value);
  *out += type == nullptr ? "?" : type->tp_name;
}

void stop_attribute(Recorder& recorder, Val object, PyObject* name) {
  std::string text;
  describe_type(recorder.heap, object, &text);
  const char* utf8 = PyUnicode_AsUTF8(name);
  if (utf8 == nullptr) PyErr_Clear();
  recorder.stop(Abort::kUnknownAttribute, text + "." + (utf8 == nullptr ? "?" : utf8));
}

void load_from(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, int pops, int pushes) {
  Val result;
  bool missing = false;
  Invoke outcome = get_attribute(recorder, frame, object, name, pops, &result, &missing);
  if (!recorder.live()) return;
  if (outcome == Invoke::kStarted) {
    if (!frame.pending.active) known(frame, pops, result);
    frame.pending.pushes = static_cast<uint8_t>(pushes);
  } else if (missing) {
    will_raise(recorder, frame, pops);
  } else {
    stop_attribute(recorder, object, name);
  }
}

void load(Recorder& recorder, ShadowFrame& frame, PyObject* name, int pops, int pushes) {
  load_from(recorder, frame, frame.top(), name, pops, pushes);
}

std::string callable_name(Heap& heap, Val callable) {
  PyObject* object = callable.object();
  if (callable.is_virtual() && heap.model(callable).kind == VirtualKind::kBuiltinMethod)
    object = heap.virtual_field(callable, 0).object();
  if (object != nullptr && PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (object != nullptr && PyCFunction_Check(object))
    return reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
  if (object != nullptr && (Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type)) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(object);
    const char* name = PyUnicode_AsUTF8(descriptor->d_name);
    return std::string(descriptor->d_type->tp_name) + "." + (name == nullptr ? "?" : name);
  }
  std::string text;
  describe_type(heap, callable, &text);
  return text;
}

void start_call(Recorder& recorder, ShadowFrame& frame, Val callable, Arguments& args, int pops) {
  Invoke outcome = invoke(recorder, frame, callable, args, pops);
  if (!recorder.live() || outcome == Invoke::kStarted) return;
  frame.pending.active = false;
  recorder.stop(Abort::kUnknownCall, callable_name(recorder.heap, callable) + "(...)");
}

// A data descriptor that takes the write, if the class has one. kUnknown with *plain: the write goes to the instance,
// to its slot at *offset if that is not 0.
Invoke descriptor_write(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, Val value, Then then,
                        int pops, bool* plain, Py_ssize_t* offset) {
  PyTypeObject* type = recorder.heap.type_of(object);
  PyObject *descriptor = recorder.reads.lookup_type(type, name, object.object()), *dict = nullptr;
  *plain = false;
  if (!recorder.live()) return Invoke::kStopped;
  if (descriptor != nullptr) recorder.reads.guard_type_version(Py_TYPE(descriptor));
  if (!recorder.live()) return Invoke::kStopped;
  if (descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_set == nullptr) {
    *plain = true;
    return Invoke::kUnknown;
  }
  if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return Invoke::kStopped;
  if (is_read_as_property(recorder, Py_TYPE(descriptor))) {
    Ref setter = Ref::steal(PyObject_GetAttrString(descriptor, value.is_null() ? "fdel" : "fset"));
    if (!setter || Py_TYPE(setter.get()) != &PyFunction_Type) return Invoke::kUnknown;
    Arguments args;
    args.values = {object};
    if (!value.is_null()) args.values.push_back(value);
    return invoke_function(recorder, frame, Val::constant(setter.get()), args, then, pops);
  }
  if (Py_TYPE(descriptor)->tp_descr_set == cpython::slot_functions().descr_set) {
    PyObject* method =
        python_method(recorder.reads, Py_TYPE(descriptor), value.is_null() ? names().delete_ : names().set);
    if (!recorder.live()) return Invoke::kStopped;
    if (method == nullptr) return Invoke::kUnknown;
    Arguments args;
    args.values = {Val::constant(descriptor), object};
    if (!value.is_null()) args.values.push_back(value);
    return invoke_function(recorder, frame, Val::constant(method), args, then, pops);
  }
  if (const PyMemberDef* member = cpython::member_of(descriptor)) {
    *plain = object.is_virtual() || (member->type == T_OBJECT_EX && (member->flags & READONLY) == 0);
    *offset = member->offset;
  }
  return Invoke::kUnknown;
}

}  // namespace

// The generic setattr on an object: virtual, or existing and then a node; or a frame, which `then` is for.
bool store_attribute(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, Val value, Then then,
                     int pops) {
  bool plain = false;
  Py_ssize_t slot = 0;
  if (object.is_reg()) return false;  // its class may not be known, such as of what the call itself has defined
  if (recorder.heap.is_virtual(object, VirtualKind::kFunction))
    if (const int written = write_function_attribute(recorder, object, name, value); written != 0) return written > 0;
  Invoke outcome = descriptor_write(recorder, frame, object, name, value, then, pops, &plain, &slot);
  if (outcome != Invoke::kUnknown || !plain) return outcome == Invoke::kStarted;
  if (object.is_virtual()) {
    VirtualKind kind = recorder.heap.model(object).kind;
    if (kind != VirtualKind::kInstance && kind != VirtualKind::kFunction && kind != VirtualKind::kException &&
        (kind != VirtualKind::kList || recorder.heap.type_of(object) == &PyList_Type))
      return false;
    if (value.is_null()) return attr_delete(recorder, object, name);
    attr_set(recorder, object, name, value);
    return recorder.live();
  }
  PyObject* self = object.object();
  if (self == nullptr || PyType_Check(self) || PyModule_Check(self)) return false;
  PyObject* dict = nullptr;
  if (!guard_instance(recorder, self, &dict)) return false;
  cpython::Storage storage = cpython::attribute_storage(self);
  PyObject* old = nullptr;
  if (slot != 0) {
    old = cpython::object_at(self, slot);
    if (old == nullptr && value.is_null()) return false;
    dict = nullptr;
  } else if (storage == cpython::Storage::kDict) {
    // What was there is not looked at, unless it is to be deleted: it may be another object in each call.
    Val before;
    if (dict != nullptr && value.is_null() && find_item(recorder, dict, name, &before) < 0) return false;
    if (dict != nullptr && !recorder.reads.touch_dict(dict)) return false;
    if (cpython::dict_lookup(cpython::instance_dict(self), name, &old) < 0) return false;
  } else if (storage == cpython::Storage::kInline) {
    const Py_ssize_t index = cpython::shared_key_index(Py_TYPE(self), name);
    if (index >= 0) old = cpython::inline_value(self, index);
    guard_own_dict(recorder, self);
  } else {
    return false;
  }
  if (!may_write_here(recorder)) return false;
  Val real = value.is_null() ? value : materialize(recorder, value);
  if (!recorder.live()) return false;
  note_write(recorder, dict != nullptr ? dict : self, name, old, value);
  if (dict != nullptr && (old == nullptr || value.is_null())) recorder.heap.reshape(Val::constant(dict));
  Node& node = emit_node(recorder, value.is_null() ? Op::kDelAttr : Op::kStoreAttr);
  node.a = object;
  node.b = recorder.reads.owned(name);
  node.c = real;
  overlay_set(recorder, dict != nullptr ? dict : self, name, value);
  return true;
}

// What the class of the object does in Python for it, as a frame. kUnknown with *generic: nothing.
Invoke write_by_class(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, Val value, Then then,
                      int pops, bool* generic) {
  *generic = false;
  PyTypeObject* type = recorder.heap.type_of(object);
  if (type == nullptr || object.is_reg()) return Invoke::kUnknown;
  *generic = type->tp_setattro == PyObject_GenericSetAttr;
  if (type->tp_setattro != cpython::slot_functions().setattr) return Invoke::kUnknown;
  PyObject* dict = nullptr;
  if (object.is_const() && !guard_instance(recorder, object.object(), &dict)) return Invoke::kStopped;
  PyObject* method = python_method(recorder.reads, type, value.is_null() ? names().delattr : names().setattr);
  if (!recorder.live()) return Invoke::kStopped;
  *generic = method == nullptr;  // the other one is in Python
  if (*generic) return Invoke::kUnknown;
  Arguments args;
  args.values = {object, recorder.reads.owned(name)};
  if (!value.is_null()) args.values.push_back(value);
  return invoke_function(recorder, frame, Val::constant(method), args, then, pops);
}

void after_store(Recorder& recorder, ShadowFrame& frame, PyObject*) {
  PyObject* object = frame.pending.x.object();
  PyObject* dict = object == nullptr ? nullptr : cpython::instance_dict(object);
  if (dict != nullptr) recorder.reads.written_dict(dict);
}

namespace {

void write_attribute(Recorder& recorder, ShadowFrame& frame, Val object, PyObject* name, Val value, int pops) {
  bool generic = false;
  const Invoke outcome = write_by_class(recorder, frame, object, name, value, Then::kDrop, pops, &generic);
  if (!recorder.live() || outcome == Invoke::kStarted) return;
  if (count_in_class(recorder, object, name, value)) {
    await(frame, pops, 0).finish = [](Recorder&, ShadowFrame&, PyObject*) {};
    return;
  }
  if (!generic) return stop_attribute(recorder, object, name);
  if (!store_attribute(recorder, frame, object, name, value, Then::kDrop, pops)) {
    Val old;
    const bool absent = value.is_null() && recorder.heap.is_virtual(object, VirtualKind::kInstance) &&
                        !recorder.heap.is_built(object) && !attr_find(recorder.heap, object, name, &old);
    if (recorder.live() && absent && recorder.reads.lookup_type(recorder.heap.type_of(object), name) == nullptr)
      return will_raise(recorder, frame, pops);
    if (recorder.live()) recorder.stop(Abort::kWrite, "an attribute");
    return;
  }
  if (frame.pending.active) return;
  Pending& pending = await(frame, pops, 0);
  pending.x = object;
  pending.finish = after_store;
}

}  // namespace

void step_load_attr(Recorder& recorder, ShadowFrame& frame, PyObject* name, bool for_call) {
  load(recorder, frame, name, 1, for_call ? 2 : 1);
}

// super().name, where CPython makes no object for it: below self and the class is what `super` is.
void step_load_super(Recorder& recorder, ShadowFrame& frame, PyObject* name, bool for_call) {
  const Val super = frame.top(3), type = frame.top(2), self = frame.top(1);
  if (super.object() != reinterpret_cast<PyObject*>(&PySuper_Type) || type.object() == nullptr ||
      !PyType_Check(type.object()) || recorder.heap.type_of(self) == nullptr)
    return recorder.stop(Abort::kUnknownCall, "super()");
  const Val object = new_virtual(recorder, VirtualKind::kSuper, &PySuper_Type);
  set_field(recorder, object, field::kSuper::kType, type);
  set_field(recorder, object, field::kSuper::kObject, self);
  load_from(recorder, frame, object, name, 3, for_call ? 2 : 1);
}

void step_store_attr(Recorder& recorder, ShadowFrame& frame, PyObject* name) {
  Val value = frame.top(2), object = frame.top(1);
  if (ask_about(recorder, frame, SiteKind::kSetAttr, {object, value}, 2, 0, 0, name)) return;
  write_attribute(recorder, frame, object, name, value, 2);
}

void step_delete_attr(Recorder& recorder, ShadowFrame& frame, PyObject* name) {
  write_attribute(recorder, frame, frame.top(), name, Val(), 1);
}

void step_prepare_call(Recorder& recorder, ShadowFrame& frame, int count) {
  if (frame.kwnames == nullptr) frame.call_start = frame.instruction;
  const Callee callee = frame.callee(count);
  if (!callee.self.is_null()) return;
  if (recorder.heap.is_virtual(callee.callable, VirtualKind::kBoundMethod)) {
    frame.set_callee(count, recorder.heap.virtual_field(callee.callable, field::kBoundMethod::kFunction),
                     recorder.heap.virtual_field(callee.callable, field::kBoundMethod::kSelf));
  } else if (callee.callable.is_reg()) {
    PyObject* object = cpython::callee(frame.frame, count);
    if (object != nullptr && Py_TYPE(object) == &PyMethod_Type)  // CPython takes it apart
      frame.loose.push_back(frame.locals + frame.sp - count - 2);
  } else if (PyObject* object = callee.callable.object(); object != nullptr && Py_TYPE(object) == &PyMethod_Type) {
    if (!recorder.reads.guard_parts(object)) return;
    const Val function = Val::constant(PyMethod_GET_FUNCTION(object));
    frame.set_callee(count, function, constant(recorder, PyMethod_GET_SELF(object)));
  }
}

void step_call(Recorder& recorder, ShadowFrame& frame, Instruction now) {
  const int count = now.argument, above = now.is(Operation::kCallNames) ? 1 : 0;
  Arguments& args = recorder.scratch;
  args.values.clear();
  args.names.clear();
  const Callee callee = frame.callee(count + above);
  if (!callee.self.is_null()) args.values.push_back(callee.self);
  for (int i = count; i > 0; --i) args.values.push_back(frame.top(i + above));
  PyObject* names = above != 0 ? frame.top().object() : frame.kwnames;
  frame.call_names = names;
  frame.kwnames = nullptr;
  if (names != nullptr)
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) args.names.push_back(PyTuple_GET_ITEM(names, i));
  start_call(recorder, frame, callee.callable, args, count + above + 2);
}

namespace {

// callable(*positional, **names): the values are these three, the last ones by their names.
Task<Val> call_unpacked(Drive& drive, Arguments args) {
  const Val callable = args.values[0], positional = args.values[1];
  const Vals named(args.values.begin() + 2, args.values.end());
  args.values = co_await collect_all(drive, positional);
  args.values.insert(args.values.end(), named.begin(), named.end());
  Val result = co_await call(drive, callable, args, true);
  co_return result;
}

}  // namespace

void step_call_spread(Recorder& recorder, ShadowFrame& frame, bool with_keywords) {
  Arguments& args = recorder.scratch;
  args.values.clear();
  args.names.clear();
  const int keywords = with_keywords ? 1 : 0;
  Val callable = frame.callee(keywords + 1).callable, positional = frame.top(keywords + 1);
  const bool known = try_items(recorder, positional, &args.values);
  if (!recorder.live()) return;
  if (keywords != 0 && !frame.top().is_null()) {
    Vals values;
    if (!dict_content(recorder, frame.top(), &args.names, &values)) {
      if (recorder.live()) recorder.stop(Abort::kUnknownCall, "unpacking of keyword arguments");
      return;
    }
    for (PyObject* name : args.names)
      if (!PyUnicode_CheckExact(name)) return recorder.stop(Abort::kUnknownCall, "a keyword that is not a string");
    args.values.insert(args.values.end(), values.begin(), values.end());
  }
  if (known) return start_call(recorder, frame, callable, args, keywords + 3);
  args.values.insert(args.values.begin(), {callable, positional});
  if (drive(recorder, frame, call_unpacked, args, keywords + 3) == Invoke::kUnknown)
    recorder.stop(Abort::kUnknownCall, "unpacking of arguments");
}

namespace {

// A manager of C whose __enter__ is an idle call.
void step_with_idle(Recorder& recorder, ShadowFrame& frame, Val manager, PyTypeObject* type) {
  PyObject *enter = recorder.reads.lookup_type(type, names().enter),
           *exit = recorder.reads.lookup_type(type, names().exit);
  if (!recorder.live()) return;
  Arguments args;
  args.values = {manager};
  if (enter == nullptr || exit == nullptr || Py_TYPE(exit) != &PyMethodDescr_Type ||
      invoke_idle(recorder, frame, enter, args, 1) != Invoke::kStarted) {
    if (recorder.live()) recorder.stop(Abort::kUnknownOperand, "a context manager");
    return;
  }
  frame.pending.pushes = 3;
  frame.pending.y = new_virtual(recorder, VirtualKind::kBuiltinMethod, nullptr);
  set_field(recorder, frame.pending.y, field::kBuiltinMethod::kMethod, Val::constant(exit));
  set_field(recorder, frame.pending.y, field::kBuiltinMethod::kSelf, manager);
}

}  // namespace

void step_with(Recorder& recorder, ShadowFrame& frame) {
  Val manager = frame.top();
  PyTypeObject* type = recorder.heap.type_of(manager);
  if (type == nullptr) return recorder.stop(Abort::kUnknownOperand, "a context manager");
  if (manager.is_reg()) return step_with_idle(recorder, frame, manager, type);
  PyObject* dict = nullptr;
  if (manager.is_const() && !guard_instance(recorder, manager.object(), &dict)) return;
  PyObject *enter = recorder.reads.lookup_type(type, names().enter),
           *exit = recorder.reads.lookup_type(type, names().exit);
  if (!recorder.live()) return;
  if (is_lock(type) && manager.is_const()) {
    // The lock is taken by a node, too; its __exit__ is in the table of C callables.
    Val leave = new_virtual(recorder, VirtualKind::kBuiltinMethod, &PyCFunction_Type);
    set_field(recorder, leave, field::kBuiltinMethod::kMethod, Val::constant(exit));
    set_field(recorder, leave, field::kBuiltinMethod::kSelf, manager);
    if (!call_known(recorder, enter, {manager})) return;
    known(frame, 1, Val::constant(Py_True));
    frame.pending.pushes = 3;
    frame.pending.y = leave;
    return;
  }
  if (enter == nullptr || exit == nullptr || Py_TYPE(enter) != &PyFunction_Type || Py_TYPE(exit) != &PyFunction_Type)
    return recorder.stop(Abort::kUnknownOperand, std::string("a context manager: ") + type->tp_name);
  Val method = new_virtual(recorder, VirtualKind::kBoundMethod, &PyMethod_Type);
  set_field(recorder, method, field::kBoundMethod::kFunction, Val::constant(exit));
  set_field(recorder, method, field::kBoundMethod::kSelf, manager);
  Arguments args;
  args.values = {manager};
  if (invoke_function(recorder, frame, Val::constant(enter), args, Then::kPush, 1) != Invoke::kStarted) {
    if (recorder.live()) recorder.stop(Abort::kUnknownCall, "__enter__");
    return;
  }
  frame.pending.pushes = 3;
  frame.pending.y = method;
}

// From 3.14 on __enter__ and __exit__ are found one by one, and called as anything else is.
void step_load_special(Recorder& recorder, ShadowFrame& frame, int which) {
  PyObject* const sought[] = {names().enter, names().exit};
  if (which >= 2) return recorder.stop(Abort::kUnknownOpcode, "");
  Val manager = frame.top();
  PyTypeObject* type = recorder.heap.type_of(manager);
  if (type == nullptr) return recorder.stop(Abort::kUnknownOperand, "a context manager");
  PyObject *dict = nullptr, *method = nullptr;
  if (manager.is_const() && !guard_instance(recorder, manager.object(), &dict)) return;
  method = recorder.reads.lookup_type(type, sought[which]);
  if (!recorder.live()) return;
  const bool of_c = method != nullptr && Py_TYPE(method) == &PyMethodDescr_Type;
  const bool of_python = method != nullptr && Py_TYPE(method) == &PyFunction_Type && !manager.is_reg();
  if (!of_c && !of_python)
    return recorder.stop(Abort::kUnknownOperand, std::string("a context manager: ") + type->tp_name);
  frame.sp -= 1;
  frame.push_callee(Val::constant(method), manager);
}

PyObject* read_import(ReadSet& reads, ShadowFrame& frame) {
  static PyObject* const name = PyUnicode_InternFromString("__import__");
  PyObject* import = nullptr;
  return reads.read_dict(cpython::builtins(frame.frame), name, &import) ? import : nullptr;
}

// import of a module that is loaded already.
void step_import(Recorder& recorder, ShadowFrame& frame, PyObject* name) {
  Val names_wanted = frame.top(1);
  PyObject* level = frame.top(2).object();
  PyObject* module = nullptr;
  Ref absolute = Ref::borrow(name);
  PyObject* globals = cpython::globals(frame.frame);
  if (level == nullptr || names_wanted.object() == nullptr) return recorder.stop(Abort::kUnknownOperand, "an import");
  long depth = PyLong_AsLong(level);
  if (read_import(recorder.reads, frame) != import_function() || !PyCFunction_Check(import_function()))
    return recorder.stop(Abort::kUnknownCall, "__import__");
  if (depth > 0) {
    PyObject* package = nullptr;
    if (!recorder.reads.read_dict(
            globals, recorder.reads.owned(Ref::steal(PyUnicode_InternFromString("__package__")).get()).object(),
            &package) ||
        package == nullptr || !PyUnicode_CheckExact(package))
      return recorder.stop(Abort::kUnknownOperand, "a relative import");
    Ref base = Ref::borrow(package);
    for (long i = 1; i < depth; ++i) {
      Py_ssize_t dot = PyUnicode_FindChar(base.get(), '.', 0, PyUnicode_GET_LENGTH(base.get()), -1);
      if (dot < 0) return recorder.stop(Abort::kUnknownOperand, "a relative import");
      base = Ref::steal(PyUnicode_Substring(base.get(), 0, dot));
    }
    absolute =
        PyUnicode_GET_LENGTH(name) > 0 ? Ref::steal(PyUnicode_FromFormat("%U.%U", base.get(), name)) : std::move(base);
  }
  PyObject* modules = PyImport_GetModuleDict();
  recorder.reads.owned(absolute.get());
  if (!recorder.reads.read_dict(modules, absolute.get(), &module) || module == nullptr)
    return recorder.stop(Abort::kUnknownOperand, "an import of a new module");
  bool from = names_wanted.object() != Py_None && PyObject_IsTrue(names_wanted.object()) > 0;
  Py_ssize_t dot = PyUnicode_FindChar(absolute.get(), '.', 0, PyUnicode_GET_LENGTH(absolute.get()), 1);
  if (!from && depth == 0 && dot > 0) {
    Ref top = Ref::steal(PyUnicode_Substring(absolute.get(), 0, dot));
    recorder.reads.owned(top.get());
    if (!recorder.reads.read_dict(modules, top.get(), &module) || module == nullptr)
      return recorder.stop(Abort::kUnknownOperand, "an import");
  }
  if (!recorder.live()) return;
  known(frame, 2, constant(recorder, module));
  frame.pending.ignores_frames = true;
}

void step_import_from(Recorder& recorder, ShadowFrame& frame, PyObject* name) {
  load(recorder, frame, name, 0, 1);
}

}  // namespace pijit
