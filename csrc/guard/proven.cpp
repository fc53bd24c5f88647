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
  // `classes`: what the classes of all objects have counts, too. No object outlives its class, and classes of C have no
  // guard.
  explicit Walk(const Trace& trace, bool classes = false) : trace_(trace), classes_(classes) {
    PyObject* builtins = PyEval_GetBuiltins();
    add(builtins, {nullptr, Lead::kBuiltins});
    add_values(builtins, Lead::kValue);
    PyObject* modules = PyImport_GetModuleDict();
    add(modules, {nullptr, Lead::kModules});
    // Its functions are what opaque calls of operators call.
    static PyObject* const name = PyUnicode_InternFromString("_operator");
    const Origin step{modules, Lead::kValue, 0, name};
    PyObject* operators = part_of(step);
    if (operators == nullptr || !PyModule_Check(operators)) return;
    add(operators, step);
    add(PyModule_GetDict(operators), {operators, Lead::kDict});
    add_values(PyModule_GetDict(operators), Lead::kValue);
  }
  void add_owned() {
    for (const Ref& object : trace_.owned) add(object.get(), {});
  }

  // The first way that leads to an object counts.
  void add(PyObject* object, Origin origin) {
    if (object == nullptr) return;
    const auto [at, added] = found_.emplace(object, origin);
    if (!added && at->second.part == Lead::kNowhere) at->second = origin;
    if (!added) return;
    if (classes_ || PyType_Check(object)) add_class_of(object);
    if (PyType_Check(object)) add_class(reinterpret_cast<PyTypeObject*>(object));
    if (PyFunction_Check(object)) add_function(reinterpret_cast<PyFunctionObject*>(object));
    if (PyCode_Check(object)) add_step(object, Lead::kConstants);
    if (PyModule_CheckExact(object)) add_step(object, Lead::kDict);
    add_parts(object);
  }
  void add_class_of(PyObject* object) { add_step(object, Lead::kClass); }

  void follow(const Guard& guard) {
    PyObject* subject = guard.subject.object();
    if (is_load(guard.op) || subject == nullptr || found_.count(subject) == 0) return;
    if (row_of(guard.op).number == column::Number::register_) return;
    if (!check_guard(trace_, guard, nullptr)) {
      if (guard.op == GuardOp::kDict) add_kept(guard, subject);
      return;
    }
    add_class_of(subject);
    // An instance by which a class was known is not looked at: it may be dead.
    if (guard.op != GuardOp::kTypeVersion) add(guard.expected, expected_of(guard, subject));
    for (uint32_t i = 0; i < guard.count; ++i) add(trace_.guard_items[guard.first + i], item_of(guard, subject, i));
    if (row_of(guard.op).number == column::Number::dict)
      add(reinterpret_cast<PyObject*>(guard.number), {subject, Lead::kDict});
    if (guard.op == GuardOp::kDict && guard.count == 0 && guard.aux != 0) add_items(guard, subject);
  }

  // The classes of arguments, of what calls give, and of what is made in the call.
  void add_classes() {
    std::unordered_set<PyObject*> classes;
    const auto want = [&](PyObject* type) {
      if (type != nullptr && found_.count(type) == 0) classes.insert(type);
    };
    for (const Guard& guard : trace_.guards) {
      if (guard.op == GuardOp::kType || guard.op == GuardOp::kInstance) want(guard.expected);
      if (guard.op == GuardOp::kTypeVersion && guard.expected == nullptr) want(guard.subject.object());
    }
    for (const RegInfo& reg : trace_.regs) want(reinterpret_cast<PyObject*>(reg.type));
    for (const Virtual& object : trace_.virtuals) want(reinterpret_cast<PyObject*>(object.type));
    for (size_t i = 0; trace_.tensors != nullptr && i < trace_.tensors->size(); ++i)
      want(reinterpret_cast<PyObject*>(trace_.tensors->facts(i).type));
    if (!classes.empty()) cpython::keep_classes(&classes);
    for (PyObject* type : classes) add(type, {});
  }

  // A guard may speak of what only a later one leads to, such as the class in the `__class__` cell of a method.
  void follow_all() {
    for (size_t before = 0; before != found_.size();) {
      before = found_.size();
      for (const Guard& guard : trace_.guards) follow(guard);
      add_classes();
    }
  }

  Origins take() { return std::move(found_); }

 private:
  // What a guard expects is found in its subject.
  static Origin expected_of(const Guard& guard, PyObject* subject) {
    switch (guard.op) {
      case GuardOp::kType:
      case GuardOp::kInstance:
      case GuardOp::kParts:
        return {subject, Lead::kClass};
      case GuardOp::kCell:
        return {subject, Lead::kContent};
      case GuardOp::kSlot:
        return {subject, Lead::kSlot, guard.number};
      default:
        return {};
    }
  }
  Origin item_of(const Guard& guard, PyObject* subject, uint32_t index) const {
    switch (guard.op) {
      case GuardOp::kDict: {
        PyObject* key = trace_.guard_items[guard.first + (index & ~1u)];
        return (index & 1) != 0 ? value_of(subject, key) : Origin{};
      }
      case GuardOp::kList:
        return {subject, Lead::kListItem, index};
      case GuardOp::kParts:
        return {subject, Lead::kItem, index};
      case GuardOp::kInlineSlot: {
        PyObject* key = cpython::shared_key(Py_TYPE(subject), static_cast<Py_ssize_t>(guard.aux));
        return key == nullptr ? Origin{} : Origin{subject, Lead::kInline, 0, key};
      }
      default:
        return {};
    }
  }
  static Origin value_of(PyObject* dict, PyObject* key) {
    return {dict, PyUnicode_CheckExact(key) ? Lead::kValue : Lead::kUnder, 0, key};
  }
  void add_step(PyObject* of, Lead part) {
    const Origin origin{of, part};
    add(part_of(origin), origin);
  }
  void add_values(PyObject* dict, Lead part, PyObject* of = nullptr) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (dict != nullptr && PyDict_Next(dict, &at, &key, &value))
      add(value, PyUnicode_CheckExact(key) ? Origin{of == nullptr ? dict : of, part, 0, key} : Origin{});
  }
  void add_class(PyTypeObject* type) {
    if (type->tp_mro == nullptr) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
      if (i > 0) add(base, {reinterpret_cast<PyObject*>(type), Lead::kBase, static_cast<uint64_t>(i)});
      add_values(cpython::type_dict(reinterpret_cast<PyTypeObject*>(base)), Lead::kMember, base);
    }
  }
  void add_function(PyFunctionObject* function) {
    for (const Lead part : {Lead::kCode, Lead::kGlobals, Lead::kFunctionBuiltins, Lead::kClosure, Lead::kDefaults,
                            Lead::kKeywordDefaults})
      add_step(reinterpret_cast<PyObject*>(function), part);
  }
  // A dict that is guarded as a whole holds what it held when the trace was recorded, if its version is the same.
  void add_items(const Guard& guard, PyObject* dict) {
    if (!PyDict_Check(dict) || cpython::dict_version(dict) != guard.number) return;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
      add(key, {});
      add(value, value_of(dict, key));
    }
  }
  // A call may write to a dict that its own guards are about, such as `self.calls += 1`: what the dict still holds
  // under the keys of the guard is alive.
  void add_kept(const Guard& guard, PyObject* dict) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Check(dict) && PyDict_Next(dict, &at, &key, &value))
      for (uint32_t i = 0; i + 1 < guard.count; i += 2)
        if (trace_.guard_items[guard.first + i] == key && trace_.guard_items[guard.first + i + 1] == value)
          add(value, value_of(dict, key));
  }
  // What cannot be replaced in them.
  void add_parts(PyObject* object) {
    if (PyTuple_CheckExact(object) || PyMethod_Check(object))
      for (Py_ssize_t i = 0; i < cpython::part_count(object); ++i)
        add(cpython::part(object, i), {object, Lead::kItem, static_cast<uint64_t>(i)});
    if (PyObject_TypeCheck(object, &PyProperty_Type)) {
      add_member(object, "fget", Lead::kGetter);
      add_member(object, "fset", Lead::kSetter);
      add_member(object, "fdel", Lead::kDeleter);
    }
    if (Py_TYPE(object) == &PyClassMethod_Type || Py_TYPE(object) == &PyStaticMethod_Type)
      add_member(object, "__func__", Lead::kWrapped);
  }
  // What a descriptor of C keeps under a name.
  void add_member(PyObject* descriptor, const char* name, Lead part) {
    const Ref kept = Ref::steal(PyObject_GetAttrString(descriptor, name));
    if (!kept) PyErr_Clear();
    add(kept.get(), {descriptor, part});
  }

  const Trace& trace_;
  const bool classes_;
  Origins found_;
};

// All containers that the garbage collector knows; null: an error.
Ref all_containers() noexcept {
  const Ref collector = Ref::steal(PyImport_ImportModule("gc"));
  return collector ? Ref::steal(PyObject_CallMethod(collector.get(), "get_objects", nullptr)) : Ref();
}

// Which argument of the call has to be the object.
Origin argument_of(const Trace& trace, PyObject* object) {
  for (const Guard& guard : trace.guards)
    if (guard.op == GuardOp::kIs && guard.expected == object && guard.subject.is_reg() &&
        guard.subject.index() < trace.inputs)
      return {nullptr, Lead::kArgument, guard.subject.index()};
  return {};
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

static Origins all_origins(const Trace& trace, PyObject* start, PyObject* arguments, bool classes) {
  Walk walk(trace, classes);
  walk.add(start, {nullptr, Lead::kOwner});
  if (start != nullptr) walk.add_class_of(start);
  for (Py_ssize_t i = 0; arguments != nullptr && i < PyList_GET_SIZE(arguments); ++i) {
    PyObject* object = PyWeakref_GET_OBJECT(PyList_GET_ITEM(arguments, i));
    if (object == Py_None) continue;
    walk.add(object, argument_of(trace, object));
    walk.add_class_of(object);
  }
  walk.follow_all();
  // What the trace itself keeps alive comes last: a way that begins there leads nowhere in another process.
  walk.add_owned();
  walk.follow_all();
  return walk.take();
}

Origins origins_of(const Trace& trace, PyObject* start, PyObject* arguments) {
  return all_origins(trace, start, arguments, true);
}

ObjectSet proven_objects(const Trace& trace, PyObject* start, PyObject* arguments) {
  ObjectSet found;
  for (const auto& [object, origin] : all_origins(trace, start, arguments, false)) found.insert(object);
  return found;
}

}  // namespace pijit
