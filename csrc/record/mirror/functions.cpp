// Attributes of functions: of those that existed before, and of those that are made while recording.
//
// A function that is made here has what Python may read and write of it in the fields of its model; what else is
// written to it is in its __dict__, which is its attributes.
#include "cpython/keys.h"
#include "record/calls.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/values.h"

namespace pijit {

using namespace function_field;

namespace {

// Which field an attribute is; kFields: none.
uint32_t field_of(PyObject* name) {
  static constexpr std::pair<const char*, uint32_t> kRows[] = {{"__code__", kCode},
                                                               {"__globals__", kGlobals},
                                                               {"__qualname__", kQualname},
                                                               {"__defaults__", kDefaults},
                                                               {"__kwdefaults__", kKwDefaults},
                                                               {"__annotations__", kAnnotations},
                                                               {"__closure__", kClosure},
                                                               {"__name__", kName},
                                                               {"__module__", kModule},
                                                               {"__doc__", kDoc}};
  for (const auto& [text, field] : kRows)
    if (has_name(name, text)) return field;
  return cpython::kAnnotate >= 0 && has_name(name, "__annotate__") ? kAnnotate : function_field::kFields;
}

bool is_type_parameters(PyObject* name) {
  return cpython::kTypeParameters >= 0 && has_name(name, "__type_params__");
}

Val no_type_parameters() {
  return Val::constant(Ref::steal(PyTuple_New(0)).get());  // there is one, which lives for ever
}

bool has_field(Recorder& recorder, Val function, uint32_t field) {
  const Vals& fields = recorder.heap.model(function).items;
  return field < fields.size() && !fields[field].is_null();
}

// Annotations are kept as a tuple of names and values until they are first asked for.
Val annotations_of(Recorder& recorder, Val function) {
  if (has_field(recorder, function, kAnnotate)) return Val();  // they are made by a call
  const Val kept = recorder.heap.virtual_field(function, kAnnotations);
  if (recorder.heap.type_of(kept) == &PyDict_Type) return kept;
  Vals items;
  if (recorder.heap.is_built(function) || (!kept.is_null() && !try_items(recorder, kept, &items))) return Val();
  const Val dict = new_dict(recorder);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    PyObject* key = key_of(recorder, items[i]);
    if (key == nullptr) return Val();
    dict_set(recorder, dict, key, items[i + 1]);
  }
  set_field(recorder, function, kAnnotations, dict);
  return dict;
}

// The module that a new function says it is of: what its globals said when it was made.
Val module_of(Recorder& recorder, Val function) {
  PyObject *globals = recorder.heap.virtual_field(function, kGlobals).object(), *module = nullptr;
  Val written;
  if (globals == nullptr || overlay_find(recorder, globals, names().name, &written)) return Val();
  if (!recorder.reads.read_dict(globals, names().name, &module)) return Val();
  return module == nullptr ? Val::constant(Py_None) : constant(recorder, module);
}

Val doc_of(ReadSet& reads, PyCodeObject* code) {
  PyObject* doc = cpython::docstring(code);
  return doc != nullptr ? reads.owned(doc) : Val::constant(Py_None);
}

Val new_function_attribute(Recorder& recorder, Val function, PyObject* name) {
  const uint32_t field = field_of(name);
  if (field == kAnnotations) return annotations_of(recorder, function);
  if (is_type_parameters(name)) return no_type_parameters();
  if (field == function_field::kFields) return Val();
  const Vals& fields = recorder.heap.model(function).items;
  const Val value = field < fields.size() ? fields[field] : Val();
  if (!value.is_null()) return value;
  auto* code = reinterpret_cast<PyCodeObject*>(fields[kCode].object());
  switch (field) {
    case kName:
      return recorder.reads.owned(code->co_name);
    case kModule:
      return module_of(recorder, function);
    case kDoc:
      return doc_of(recorder.reads, code);
    default:
      return Val::constant(Py_None);
  }
}

// What a function has there, or None.
Val slot_of(Recorder& recorder, PyObject* function, Py_ssize_t offset) {
  PyObject* kept = nullptr;
  if (!recorder.reads.guard_slot(function, offset, &kept)) return Val();
  return kept == nullptr ? Val::constant(Py_None) : constant(recorder, kept);
}

Invoke builtin_vars(Recorder& recorder, ShadowFrame& frame, Arguments& args, int pops) {
  Val result;
  bool missing = false;
  const Invoke outcome = get_attribute(recorder, frame, args.values[0], names().dict, pops, &result, &missing);
  if (!recorder.live()) return Invoke::kStopped;
  if (outcome != Invoke::kStarted || frame.pending.active) return outcome;
  return give(recorder, frame, pops, result);
}

}  // namespace

Val function_attribute(Recorder& recorder, Val object, PyObject* name) {
  if (object.is_virtual()) return new_function_attribute(recorder, object, name);
  auto* function = reinterpret_cast<PyFunctionObject*>(object.object());
  const auto or_none = [](PyObject* part) { return Val::constant(part == nullptr ? Py_None : part); };
  if (!recorder.reads.guard_function(function)) return Val();
  if (is_type_parameters(name)) {
    PyObject* kept = cpython::object_at(object.object(), cpython::kTypeParameters);
    if (!recorder.reads.guard_slot(object.object(), cpython::kTypeParameters, &kept)) return Val();
    return kept == nullptr || PyTuple_GET_SIZE(kept) == 0 ? no_type_parameters() : constant(recorder, kept);
  }
  switch (field_of(name)) {
    case kCode:
      return Val::constant(function->func_code);
    case kName:
    case kQualname: {  // that a name is written changes no version
      const bool qualified = field_of(name) == kQualname;
      const auto at = static_cast<Py_ssize_t>(qualified ? offsetof(PyFunctionObject, func_qualname)
                                                        : offsetof(PyFunctionObject, func_name));
      PyObject* kept = nullptr;
      return recorder.reads.guard_slot(object.object(), at, &kept) ? recorder.reads.owned(kept) : Val();
    }
    case kDefaults:
      return or_none(function->func_defaults);
    case kKwDefaults:
      return or_none(function->func_kwdefaults);
    case kAnnotations: {
      PyObject* kept = function->func_annotations;
      if (kept == nullptr || PyDict_CheckExact(kept) == 0) return Val();
      const bool guarded =
          recorder.reads.guard_slot(object.object(), offsetof(PyFunctionObject, func_annotations), &kept);
      return guarded ? Val::constant(kept) : Val();
    }
    case kAnnotate:
      return slot_of(recorder, object.object(), cpython::kAnnotate);
    case kDoc:
      return slot_of(recorder, object.object(), offsetof(PyFunctionObject, func_doc));
    case kModule:
      return slot_of(recorder, object.object(), offsetof(PyFunctionObject, func_module));
    case kGlobals:
      return Val::constant(function->func_globals);
    case kClosure:
      return or_none(function->func_closure);
    default:
      return Val();
  }
}

bool observe_function_dict(ShadowFrame& frame, Val object, PyObject* name, int pops) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object.object());
  const bool dict = has_name(name, "__dict__") && function->func_dict == nullptr;
  if (!dict && !has_name(name, "__annotations__")) return false;
  if (!dict && cpython::has_lazy_annotations(object.object())) return false;
  observe(frame, pops, [](Recorder& r, ShadowFrame& f, PyObject* result) {
    PyObject* of = f.pending.x.object();
    auto* made = reinterpret_cast<PyFunctionObject*>(of);
    const bool own = made->func_dict == result;
    const auto at = static_cast<Py_ssize_t>(own ? offsetof(PyFunctionObject, func_dict)
                                                : offsetof(PyFunctionObject, func_annotations));
    PyObject* kept = nullptr;
    if (!r.reads.guard_slot(of, at, &kept) || kept != result) return r.stop(Abort::kUnknownAttribute, "function");
    f.pending.result = Val::constant(result);
  });
  frame.pending.x = object;
  return true;
}

int write_function_attribute(Recorder& recorder, Val function, PyObject* name, Val value) {
  const uint32_t field = field_of(name);
  if (is_type_parameters(name)) return !recorder.heap.is_built(function) && value == no_type_parameters() ? 1 : -1;
  if (field == function_field::kFields && !has_name(name, "__dict__") && !has_name(name, "__builtins__")) return 0;
  PyTypeObject* type = value.is_null() ? nullptr : recorder.heap.type_of(value);
  const bool text = field == kName || field == kQualname;
  const bool dict = field == kAnnotations;
  const bool made = field == kAnnotate;
  if (dict && has_field(recorder, function, kAnnotate)) return -1;  // it goes, too
  if (made && (has_field(recorder, function, kAnnotations) || (value.object() != Py_None && type != &PyFunction_Type)))
    return -1;
  if (recorder.heap.is_built(function) || type == nullptr || (text && type != &PyUnicode_Type) ||
      (dict && type != &PyDict_Type) || (!text && !dict && !made && field != kModule && field != kDoc))
    return -1;
  set_field(recorder, function, field, value);
  return recorder.live() ? 1 : -1;
}

namespace {

constexpr KnownCallable kFunctionRows[] = {
    {"builtins", "vars", builtin_vars, 1, 1},
};

}  // namespace

constinit const KnownCalls kFunctionCalls = kFunctionRows;

}  // namespace pijit
