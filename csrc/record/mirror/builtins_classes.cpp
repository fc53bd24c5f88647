// Class statements. A body is a frame whose variables are a new dict, of which type() then makes the class.
//
// The class itself is an object in a register: another one each time, so what is done with it is left to CPython. Only
// classes whose making runs no Python but the body are recorded: of plain bases, which are told of nothing, with values
// that want to know nothing of it.
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// type.__new__ calls it; what it finds is object's own.
bool tells_nobody(ReadSet& reads, PyTypeObject* base) {
  static PyObject* const name = PyUnicode_InternFromString("__init_subclass__");
  PyObject* found = reads.lookup_type(base, name);
  return found != nullptr && Py_TYPE(found) == &PyClassMethodDescr_Type &&
         reinterpret_cast<PyDescrObject*>(found)->d_type == &PyBaseObject_Type;
}

bool is_plain_base(ReadSet& reads, Val base) {
  PyObject* type = base.object();
  return type != nullptr && Py_TYPE(type) == &PyType_Type && tells_nobody(reads, reinterpret_cast<PyTypeObject*>(type));
}

bool is_of_type(Heap& heap, Val names, const char* name, PyTypeObject* type, bool needed) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  Val value;
  return dict_find(heap, names, key.get(), &value) ? heap.type_of(value) == type : !needed;
}

// type.__new__ tells a value of its class where it is; a property keeps its name.
bool is_told(ReadSet& reads, PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__set_name__");
  return reads.lookup_type(type, name) != nullptr && type != &PyProperty_Type;
}

// What the body left in its namespace goes into the class as it is.
bool is_plain_namespace(Recorder& recorder, Val names) {
  Objects keys;
  Vals values;
  if (!dict_content(recorder, names, &keys, &values)) return false;
  for (size_t i = 0; i < keys.size(); ++i) {
    PyTypeObject* type = PyUnicode_CheckExact(keys[i]) ? recorder.heap.type_of(values[i]) : nullptr;
    if (type == nullptr || is_told(recorder.reads, type) || !recorder.live()) return false;
  }
  return is_of_type(recorder.heap, names, "__qualname__", &PyUnicode_Type, true) &&
         is_of_type(recorder.heap, names, "__module__", &PyUnicode_Type, true) &&
         is_of_type(recorder.heap, names, "__slots__", &PyTuple_Type, false);
}

Task<Val> build_class(Drive& drive, Arguments args) {
  Recorder& recorder = drive.recorder();
  const Vals& given = args.values;
  bool plain =
      recorder.heap.is_virtual(given[0], VirtualKind::kFunction) && recorder.heap.type_of(given[1]) == &PyUnicode_Type;
  for (size_t i = 2; plain && i < given.size(); ++i) plain = is_plain_base(recorder.reads, given[i]);
  if (!plain) co_await drive.unknown();
  const Val names = new_dict(recorder);
  const Inner body = co_await drive.wait(invoke_body(recorder, drive.frame(), given[0], names));
  if (body.raised) co_await drive.pass_on();
  if (!is_plain_namespace(recorder, names) || !may_leave(recorder)) co_await drive.unknown();
  const Val bases = recorder.new_tuple(&PyTuple_Type, given.data() + 2, given.size() - 2);
  const Val made =
      call_for(recorder, &PyType_Type, reinterpret_cast<PyObject*>(&PyType_Type), {given[1], bases, names});
  if (made.is_null()) co_await drive.unknown();
  // The body returned the cell in which its functions find the class; type() has put it there.
  if (recorder.heap.is_virtual(body.value, VirtualKind::kCell)) {
    recorder.heap.model(body.value).items[0] = made;
    recorder.heap.mention(body.value, made, 0);
  }
  co_return made;
}

// staticmethod(), classmethod() and property() of functions: they copy what functions say of themselves.
template <PyTypeObject* kType>
Invoke wrap_functions(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  bool plain = true;
  for (Val value : args.values) plain = plain && recorder.heap.type_of(value) == &PyFunction_Type;
  return plain ? compute_object(recorder, frame, reinterpret_cast<PyObject*>(kType), args.values, pops)
               : Invoke::kUnknown;
}

// Of functions: what it copies of them, and where to, runs no Python.
Invoke init_property(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  PyTypeObject* type = recorder.heap.type_of(args.values[0]);
  bool plain = args.values[0].is_reg() && type != nullptr && type->tp_setattro == PyObject_GenericSetAttr;
  for (size_t i = 1; plain && i < args.values.size(); ++i)
    plain = args.values[i] == none_value() || recorder.heap.type_of(args.values[i]) == &PyFunction_Type;
  if (!plain) return Invoke::kUnknown;
  if (!call_known(recorder, recorder.called, args.values)) return Invoke::kStopped;
  return give(recorder, frame, pops, none_value());
}

constexpr KnownCallable kClassRows[] = {
    {"builtins", "__build_class__", build_class, 2, kAny},
    {"builtins", "staticmethod", wrap_functions<&PyStaticMethod_Type>, 1, 1},
    {"builtins", "classmethod", wrap_functions<&PyClassMethod_Type>, 1, 1},
    {"builtins", "property.__init__", init_property, 2, 5},
    {"builtins", "property", wrap_functions<&PyProperty_Type>, 1, 4},
};

}  // namespace

constinit const KnownCalls kClassCalls = kClassRows;

}  // namespace pijit
