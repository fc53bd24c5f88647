// Exception groups: what they hold, and how except* splits them and puts together what is left to be raised.
//
// BaseExceptionGroup.split and PREP_RERAISE_STAR are followed as C runs them, on groups that are virtual. What they
// make is virtual, too, and is compared with what CPython made when the instruction is complete.
// 1. Only groups whose class leaves `split` and `derive` as they are: else the instruction is an opaque call.
// 2. A part begins with the traceback of the group that it comes from, the very object (exception_field::kBase).
#include <algorithm>
#include <functional>

#include "cpython/exception_groups.h"
#include "cpython/keys.h"
#include "cpython/patch_releases.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"
#include "record/state/exceptions.h"
#include "record/state/instances.h"
#include "record/state/pending.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

namespace pijit {

using namespace exception_field;

bool is_exception_group(PyTypeObject* type) {
  return type != nullptr && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0;
}

namespace {

Val no_message(ReadSet& reads) {
  return reads.owned(Ref::steal(PyUnicode_FromString("")).get());
}

PyTypeObject* type_object(PyObject* type) {
  return reinterpret_cast<PyTypeObject*>(type);
}

struct GroupNames {
  PyObject *exceptions, *message, *notes, *split, *derive;
};
const GroupNames& group_names() {
  static const GroupNames table = {PyUnicode_InternFromString("exceptions"), PyUnicode_InternFromString("message"),
                                   PyUnicode_InternFromString("__notes__"), PyUnicode_InternFromString("split"),
                                   PyUnicode_InternFromString("derive")};
  return table;
}

Val held_field(Heap& heap, Val exception, size_t index) {
  const Vals& fields = heap.model(exception).items;
  return index < fields.size() ? fields[index] : Val();
}

// The C API does not have it. Found when the table of C callables is built.
PyTypeObject* plain_group() {
  static PyObject* const type = PyDict_GetItemString(PyEval_GetBuiltins(), "ExceptionGroup");
  return type_object(type);
}

// Which of Python's two classes of groups these make.
PyTypeObject* class_of_parts(Heap& heap, const Vals& parts) {
  for (Val part : parts)
    if (heap.type_of(part) == nullptr || PyType_IsSubtype(heap.type_of(part), type_object(PyExc_Exception)) == 0)
      return type_object(PyExc_BaseExceptionGroup);
  return plain_group();
}

Val new_group(Recorder& recorder, Val message, Val given, const Vals& parts) {
  const Val args[] = {message, given};
  const Val items = recorder.new_tuple(&PyTuple_Type, args, 2);
  return new_group(recorder, type_object(PyExc_BaseExceptionGroup), items, parts);
}

// The group is as it was made and raised, and all that it holds is known.
bool parts_of(Recorder& recorder, Val group, Vals* parts) {
  Val held;
  if (!recorder.heap.is_virtual(group, VirtualKind::kException) || is_foreign(recorder.heap, group)) return false;
  return attr_find(recorder.heap, group, group_names().exceptions, &held) && try_items(recorder, held, parts);
}

bool leaves_method(ReadSet& reads, PyTypeObject* type, PyObject* name) {
  return reads.lookup_type(type, name) == cpython::lookup_type(type_object(PyExc_BaseExceptionGroup), name);
}

// 1: it is to be taken out, 0: not, -1: not known.
using Matches = std::function<int(Val exception)>;

class Splitter {
 public:
  Splitter(Recorder& recorder, Matches matches, bool with_rest)
      : recorder_(recorder), matches_(std::move(matches)), with_rest_(with_rest) {}

  // What matches and what does not, each of which may be Null. False: not known.
  bool split(Val exception, Val* match, Val* rest) {
    PyTypeObject* type = recorder_.heap.type_of(exception);
    const int yes = type == nullptr ? -1 : matches_(exception);
    if (yes < 0) return false;
    if (yes > 0 || !is_exception_group(type)) {
      if (yes > 0) *match = exception;
      if (yes == 0 && with_rest_) *rest = exception;
      return true;
    }
    Vals parts, matched, left;
    if (!parts_of(recorder_, exception, &parts) || !is_splittable(exception, type)) return false;
    for (Val part : parts) {
      Val of_match, of_rest;
      if (!split(part, &of_match, &of_rest)) return false;
      if (!of_match.is_null()) matched.push_back(of_match);
      if (!of_rest.is_null()) left.push_back(of_rest);
    }
    *match = derived(exception, matched);
    *rest = derived(exception, left);
    return recorder_.live();
  }

 private:
  bool is_splittable(Val group, PyTypeObject* type) {
    Val notes;
    if (type->tp_getattro != PyObject_GenericGetAttr || !leaves_method(recorder_.reads, type, group_names().split) ||
        !leaves_method(recorder_.reads, type, group_names().derive) ||
        recorder_.reads.lookup_type(type, group_names().notes) != nullptr)
      return false;
    return !attr_find(recorder_.heap, group, group_names().notes, &notes) ||
           (recorder_.heap.is_virtual(notes, VirtualKind::kList) && !recorder_.heap.is_built(notes));
  }

  Val derived(Val group, const Vals& parts) {
    Val message, notes;
    if (parts.empty() || !attr_find(recorder_.heap, group, group_names().message, &message)) return Val();
    const Val made = new_group(recorder_, message, recorder_.new_list(parts.data(), parts.size()), parts);
    const auto& traced = recorder_.heap.model(group).get<family::Exception>().traced;
    if (!traced.empty()) {
      const Val base = traceback_of(recorder_, group);
      set_field(recorder_, made, kBase, base);
      recorder_.heap.model(made).get<family::Exception>().traced.all().assign(traced.begin(), traced.end());
    }
    if (const Val context = held_field(recorder_.heap, group, kContext); !context.is_null())
      set_field(recorder_, made, kContext, context);
    const Val cause = held_field(recorder_.heap, group, kCause);
    set_field(recorder_, made, kCause, cause.is_null() ? Val::constant(Py_None) : cause);
    if (!attr_find(recorder_.heap, group, group_names().notes, &notes)) return made;
    const Vals lines = recorder_.heap.model(notes).items;
    attr_set(recorder_, made, group_names().notes, recorder_.new_list(lines.data(), lines.size()));
    return made;
  }

  Recorder& recorder_;
  Matches matches_;
  bool with_rest_;
};

// The objects that CPython made are those of the model. False: they are not.
bool note_made(Recorder& recorder, Val made, PyObject* object) {
  if (made.is_null() || made.object() == Py_None) return object == Py_None;
  if (PyObject* known = recorder.heap.real(made)) return known == object;
  Vals parts;
  if (recorder.heap.type_of(made) != Py_TYPE(object) || !parts_of(recorder, made, &parts)) return false;
  PyObject* held = reinterpret_cast<PyBaseExceptionGroupObject*>(object)->excs;
  if (PyTuple_GET_SIZE(held) != static_cast<Py_ssize_t>(parts.size())) return false;
  recorder.heap.model(made).real = object;
  for (size_t i = 0; i < parts.size(); ++i)
    if (!note_made(recorder, parts[i], PyTuple_GET_ITEM(held, static_cast<Py_ssize_t>(i)))) return false;
  return true;
}

// By class, as `except*` does. `handled` is what the frame handles.
Matches by_class(Recorder& recorder, const std::vector<PyTypeObject*>& classes) {
  return [&recorder, classes](Val exception) {
    if (!exception.is_const() && !recorder.heap.is_virtual(exception, VirtualKind::kException)) return -1;
    if (!guard_class(recorder, exception)) return -1;
    PyTypeObject* type = recorder.heap.type_of(exception);
    return static_cast<int>(std::any_of(classes.begin(), classes.end(),
                                        [&](PyTypeObject* cls) { return PyType_IsSubtype(type, cls) != 0; }));
  };
}

// Whose traceback begins where that of `exception` does after so many entries: the exception that got the first of
// them, and how many it had then.
std::pair<Val, size_t> traceback_owner(Heap& heap, Val exception) {
  size_t length = heap.model(exception).get<family::Exception>().traced.size();
  for (;;) {
    const Val base = held_field(heap, exception, kBase);
    if (length == 0) return {};
    if (base.is_null()) return {exception, length};
    const Trace& trace = heap.trace();
    const size_t before = trace.log[trace.virtuals[base.index()].tail].index;
    if (length > before) return {exception, length};
    exception = heap.virtual_field(base, 0);
    length = before;
  }
}

// Raised again as it was caught, not raised in the clause. 1, 0, or -1: not known.
int is_as_caught(Heap& heap, Val exception, Val caught) {
  for (const uint32_t at : {kCause, kContext}) {
    Val one = held_field(heap, exception, at), other = held_field(heap, caught, at);
    if (one.is_reg() || other.is_reg()) return -1;
    if (one.is_null()) one = Val::constant(Py_None);
    if (other.is_null()) other = Val::constant(Py_None);
    if (one == other) continue;
    const bool at_entry = heap.is_virtual(one, VirtualKind::kHandled) || heap.is_virtual(other, VirtualKind::kHandled);
    return at_entry ? -1 : 0;
  }
  return traceback_owner(heap, exception) == traceback_owner(heap, caught);
}

void collect_leaves(Recorder& recorder, Val exception, Vals* leaves) {
  Vals parts;
  if (!is_exception_group(recorder.heap.type_of(exception))) return leaves->push_back(exception);
  if (parts_of(recorder, exception, &parts))
    for (Val part : parts) collect_leaves(recorder, part, leaves);
}

// What is raised after the clauses that caught a group left these exceptions. Null: not known.
Val raised_in_the_end(Recorder& recorder, Val caught, const Vals& exceptions) {
  Vals raised, leaves;
  for (Val exception : exceptions) {
    if (exception.object() == Py_None) continue;
    if (!recorder.heap.is_virtual(exception, VirtualKind::kException) || is_foreign(recorder.heap, exception))
      return Val();
    const int again = is_as_caught(recorder.heap, exception, caught);
    if (again < 0) return Val();
    if (again > 0) {
      collect_leaves(recorder, exception, &leaves);
    } else {
      raised.push_back(exception);
    }
  }
  Val rest, nothing;
  const Matches is_leaf = [&](Val exception) {
    if (is_exception_group(recorder.heap.type_of(exception))) return 0;
    return static_cast<int>(std::find(leaves.begin(), leaves.end(), exception) != leaves.end());
  };
  if (!Splitter(recorder, is_leaf, false).split(caught, &rest, &nothing)) return Val();
  if (raised.empty()) return rest.is_null() ? Val::constant(Py_None) : rest;
  if (!rest.is_null()) raised.push_back(rest);
  if (raised.size() == 1) return raised[0];
  return new_group(recorder, no_message(recorder.reads), recorder.new_list(raised.data(), raised.size()), raised);
}

}  // namespace

Val new_group(Recorder& recorder, PyTypeObject* type, Val args, const Vals& parts) {
  const Val message = recorder.heap.virtual_field(args, 0), given = recorder.heap.virtual_field(args, 1);
  const bool tuple = recorder.heap.type_of(given) == &PyTuple_Type && !given.is_reg();
  const Val held = tuple ? given : recorder.new_tuple(&PyTuple_Type, parts.data(), parts.size());
  const Val fixed[] = {message, held};
  const Val first = recorder.new_tuple(&PyTuple_Type, fixed, 2);
  if (type == type_object(PyExc_BaseExceptionGroup)) type = class_of_parts(recorder.heap, parts);
  const Val group = new_virtual(recorder, VirtualKind::kException, type);
  set_field(recorder, group, kArgs, first);
  set_field(recorder, group, kArgs, args);
  // What its members show. They are made with the group, so nothing is logged.
  auto& attributes = recorder.heap.model(group).attributes();
  attributes.names = {group_names().message, group_names().exceptions};
  attributes.values = {message, held};
  for (size_t i = 0; i < attributes.values.size(); ++i) recorder.heap.mention(group, attributes.values[i], i);
  return group;
}

bool guard_class(Recorder& recorder, Val exception) {
  PyTypeObject* type = recorder.heap.type_of(exception);
  PyObject* dict = nullptr;
  if (exception.is_const()) {
    if (!guard_instance(recorder, exception.object(), &dict)) return false;
  } else if (recorder.heap.is_built(exception) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    Node& node = emit_node(recorder, Op::kGuardType);  // foreign code may have set its class
    node.a = Val::reg(recorder.trace().virtuals[exception.index()].reg);
    node.b = recorder.reads.owned(reinterpret_cast<PyObject*>(type));
  }
  recorder.reads.guard_type_version(type);
  return recorder.live();
}

bool step_group_match(Recorder& recorder, ShadowFrame& frame, const std::vector<PyTypeObject*>& classes) {
  const Val exception = frame.top(2);
  if (exception.object() == Py_None) return done(frame, 1, Val::constant(Py_None)), true;
  if (!recorder.heap.is_virtual(exception, VirtualKind::kException)) return false;
  for (PyTypeObject* cls : classes)
    if (is_exception_group(cls)) return false;
  Val match, rest;
  const bool naked = !is_exception_group(recorder.heap.type_of(exception));
  if (!Splitter(recorder, by_class(recorder, classes), true).split(exception, &match, &rest)) return false;
  if (match.is_null() && (naked || !cpython::kUnmatchedIsCopied)) return done(frame, 1, Val::constant(Py_None)), true;
  if (naked && cpython::wrapped_have_tracebacks()) return false;
  if (match.is_null()) {
    match = Val::constant(Py_None);
  } else if (naked) {
    match = new_group(recorder, no_message(recorder.reads), recorder.new_tuple(&PyTuple_Type, &match, 1), {match});
  }
  Pending& pending = await(frame, 2, 2);
  pending.result = match;
  pending.y = rest.is_null() ? Val::constant(Py_None) : rest;
  pending.finish = [](Recorder& r, ShadowFrame& f, PyObject*) {
    if (!note_made(r, f.pending.result, r.frames.operand(1)) || !note_made(r, f.pending.y, r.frames.operand(2)))
      return r.stop(Abort::kUnknownOperand, "an exception group");
    if (f.pending.result.object() != Py_None) f.handled.back() = f.pending.result;
  };
  return recorder.live();
}

bool step_group_reraise(Recorder& recorder, ShadowFrame& frame) {
  const Val caught = frame.top(2);
  Vals exceptions;
  if (!recorder.heap.is_virtual(caught, VirtualKind::kException) || !try_items(recorder, frame.top(), &exceptions) ||
      exceptions.empty())
    return false;
  const bool group = is_exception_group(recorder.heap.type_of(caught));
  if (group && is_foreign(recorder.heap, caught)) return false;
  const Val raised = group ? raised_in_the_end(recorder, caught, exceptions) : exceptions[0];
  if (raised.is_null() || raised.is_reg()) return false;
  observe(frame, 2, [](Recorder& r, ShadowFrame& f, PyObject* result) {
    f.pending.result = f.pending.x;
    if (!note_made(r, f.pending.x, result)) r.stop(Abort::kUnknownOperand, "an exception group");
  });
  frame.pending.x = raised;
  return recorder.live();
}

void find_group_class() {
  plain_group();
}

Val exception_attribute(Recorder& recorder, Val exception, PyObject* name) {
  if (is_foreign(recorder.heap, exception)) return Val();
  const auto is = [&](const char* text) { return has_name(name, text); };
  const auto or_none = [&](size_t index) {
    const Val value = held_field(recorder.heap, exception, index);
    return value.is_null() ? Val::constant(Py_None) : value;
  };
  if (is("args")) return held_field(recorder.heap, exception, kArgs);
  if (is("__cause__")) return or_none(kCause);
  if (is("__traceback__")) return traceback_of(recorder, exception);
  if (!is("__context__")) return Val();
  const Val context = or_none(kContext);
  if (!recorder.heap.is_virtual(context, VirtualKind::kHandled)) return context;
  return nothing_handled_at_entry(recorder) ? Val::constant(Py_None) : Val();
}

}  // namespace pijit
