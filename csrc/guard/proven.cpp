// The walk that finds living objects by the guards of a trace.
#include "guard/proven.h"

#include <unordered_set>

#include "cpython/classes.h"
#include "cpython/objects.h"
#include "guard/check.h"

namespace pijit {
namespace {

class Walk {
 public:
  explicit Walk(const Trace& trace) : trace_(trace) {
    for (const Ref& object : trace.owned) add(object.get());
    add_values(PyEval_GetBuiltins());
    // Its functions are what opaque calls of operators call.
    static PyObject* const name = PyUnicode_InternFromString("_operator");
    const Ref operators = Ref::steal(PyImport_GetModule(name));
    if (operators) add_values(PyModule_GetDict(operators.get()));
    if (!operators) PyErr_Clear();
    add(PyImport_GetModuleDict());
  }

  void add(PyObject* object) {
    if (object == nullptr || !found_.insert(object).second) return;
    if (PyType_Check(object)) add(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (PyType_Check(object)) add_class(reinterpret_cast<PyTypeObject*>(object));
    if (PyFunction_Check(object)) add_function(reinterpret_cast<PyFunctionObject*>(object));
    if (PyCode_Check(object)) add(reinterpret_cast<PyCodeObject*>(object)->co_consts);
    add_parts(object);
  }

  void follow(const Guard& guard) {
    PyObject* subject = guard.subject.object();
    if (is_load(guard.op) || subject == nullptr || found_.count(subject) == 0) return;
    if (row_of(guard.op).number == column::Number::register_) return;
    if (!check_guard(trace_, guard, nullptr)) {
      if (guard.op == GuardOp::kDict) add_kept(guard, subject);
      return;
    }
    add(reinterpret_cast<PyObject*>(Py_TYPE(subject)));
    // An instance by which a class was known is not looked at: it may be dead.
    if (guard.op != GuardOp::kTypeVersion) add(guard.expected);
    for (uint32_t i = 0; i < guard.count; ++i) add(trace_.guard_items[guard.first + i]);
    if (row_of(guard.op).number == column::Number::dict) add(reinterpret_cast<PyObject*>(guard.number));
    if (guard.op == GuardOp::kDict && guard.count == 0 && guard.aux != 0) add_items(guard, subject);
  }

  // The classes of arguments, and of what is made of such.
  void add_classes() {
    std::unordered_set<PyObject*> classes;
    const auto want = [&](PyObject* type) {
      if (type != nullptr && found_.count(type) == 0) classes.insert(type);
    };
    for (const Guard& guard : trace_.guards) {
      if (guard.op == GuardOp::kType || guard.op == GuardOp::kInstance) want(guard.expected);
      if (guard.op == GuardOp::kTypeVersion && guard.expected == nullptr) want(guard.subject.object());
    }
    for (const Virtual& object : trace_.virtuals) want(reinterpret_cast<PyObject*>(object.type));
    for (size_t i = 0; trace_.tensors != nullptr && i < trace_.tensors->size(); ++i)
      want(reinterpret_cast<PyObject*>(trace_.tensors->facts(i).type));
    if (!classes.empty()) cpython::keep_classes(&classes);
    for (PyObject* type : classes) add(type);
  }

  size_t count() const { return found_.size(); }

  ObjectSet take() { return std::move(found_); }

 private:
  void add_values(PyObject* dict) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (dict != nullptr && PyDict_Next(dict, &at, &key, &value)) add(value);
  }
  void add_class(PyTypeObject* type) {
    if (type->tp_mro == nullptr) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
      add(reinterpret_cast<PyObject*>(base));
      add_values(cpython::type_dict(base));
    }
  }
  void add_function(PyFunctionObject* function) {
    for (PyObject* part : {function->func_code, function->func_globals, function->func_builtins, function->func_closure,
                           function->func_defaults, function->func_kwdefaults})
      add(part);
  }
  // A dict that is guarded as a whole holds what it held when the trace was recorded, if its version is the same.
  void add_items(const Guard& guard, PyObject* dict) {
    if (!PyDict_Check(dict) || cpython::dict_version(dict) != guard.number) return;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
      add(key);
      add(value);
    }
  }
  // A call may write to a dict that its own guards are about, such as `self.calls += 1`: what the dict still holds
  // under the keys of the guard is alive.
  void add_kept(const Guard& guard, PyObject* dict) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Check(dict) && PyDict_Next(dict, &at, &key, &value))
      for (uint32_t i = 0; i + 1 < guard.count; i += 2)
        if (trace_.guard_items[guard.first + i] == key && trace_.guard_items[guard.first + i + 1] == value) add(value);
  }
  // What cannot be replaced in them.
  void add_parts(PyObject* object) {
    if (PyTuple_CheckExact(object))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) add(PyTuple_GET_ITEM(object, i));
    if (PyMethod_Check(object)) {
      add(PyMethod_GET_FUNCTION(object));
      add(PyMethod_GET_SELF(object));
    }
    if (PyObject_TypeCheck(object, &PyProperty_Type))
      for (const char* part : {"fget", "fset", "fdel"}) add_member(object, part);
    if (Py_TYPE(object) == &PyClassMethod_Type || Py_TYPE(object) == &PyStaticMethod_Type)
      add_member(object, "__func__");
  }
  // What a descriptor of C keeps under a name.
  void add_member(PyObject* descriptor, const char* name) {
    const Ref part = Ref::steal(PyObject_GetAttrString(descriptor, name));
    if (!part) PyErr_Clear();
    add(part.get());
  }

  const Trace& trace_;
  ObjectSet found_;
};

// All containers that the garbage collector knows; null: an error.
Ref all_containers() noexcept {
  const Ref collector = Ref::steal(PyImport_ImportModule("gc"));
  return collector ? Ref::steal(PyObject_CallMethod(collector.get(), "get_objects", nullptr)) : Ref();
}

}  // namespace

Ref living_arguments(const Trace& trace, PyObject* start) noexcept {
  std::unordered_set<PyObject*> wanted;
  for (const Guard& guard : trace.guards)
    if (guard.op == GuardOp::kIs && guard.subject.is_reg() && guard.expected != nullptr) wanted.insert(guard.expected);
  if (!wanted.empty())
    for (PyObject* object : proven_objects(trace, start)) wanted.erase(object);
  Ref found = Ref::steal(PyList_New(0));
  // The list is gone before anyone can see that it held a container that is not finished.
  const Ref all = found && !wanted.empty() ? all_containers() : Ref();
  for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i) {
    PyObject* object = PyList_GET_ITEM(all.get(), i);
    if (wanted.count(object) == 0) continue;
    const Ref weak = Ref::steal(PyWeakref_NewRef(object, nullptr));
    if (weak && PyList_Append(found.get(), weak.get()) != 0) found = Ref();
    PyErr_Clear();
  }
  PyErr_Clear();
  return found;
}

ObjectSet proven_objects(const Trace& trace, PyObject* start, PyObject* arguments) {
  Walk walk(trace);
  walk.add(start);
  if (start != nullptr) walk.add(reinterpret_cast<PyObject*>(Py_TYPE(start)));
  for (Py_ssize_t i = 0; arguments != nullptr && i < PyList_GET_SIZE(arguments); ++i) {
    PyObject* object = PyWeakref_GET_OBJECT(PyList_GET_ITEM(arguments, i));
    if (object == Py_None) continue;
    walk.add(object);
    walk.add(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  }
  // A guard may speak of what only a later one leads to, such as the class in the `__class__` cell of a method.
  for (size_t before = 0; before != walk.count();) {
    before = walk.count();
    for (const Guard& guard : trace.guards) walk.follow(guard);
    walk.add_classes();
  }
  return walk.take();
}

}  // namespace pijit
