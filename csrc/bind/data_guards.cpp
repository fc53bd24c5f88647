// The guards of a trace as tuples, lists and dicts, for what states them again outside of the engine.
//
// A row says what a guard compares, not how: instead of an offset it has the name of the attribute, and of a version
// whether it is still the one of the recording. Who states "this class is as it was" looks at the class itself.
#include "bind/data_guards.h"

#include <unordered_map>

#include "bind/views.h"
#include "cpython/classes.h"
#include "cpython/members.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "guard/proven.h"
#include "ir/print.h"

namespace py = pybind11;

namespace pijit {
namespace {

class GuardRows {
 public:
  GuardRows(const Trace& trace, const Printer& printer)
      : trace_(trace), printer_(printer), sources_(printer.sources()) {}

  py::list rows(size_t first, size_t count) {
    py::list rows;
    for (size_t i = first; i < first + count; ++i) rows.append(row(trace_.guards[i]));
    return rows;
  }

  py::list inputs(const InputGuards* inputs) {
    py::list rows;
    for (size_t i = 0; inputs != nullptr && i < inputs->size(); ++i) {
      const TensorFacts facts = inputs->facts(i);
      py::dict row;
      row["register"] = inputs->register_of(i);
      row["from"] = value(inputs->source(i));
      row["source"] = printer_.source(inputs->source(i));
      row["type"] = constant(reinterpret_cast<PyObject*>(facts.type));
      row["dtype"] = facts.dtype;
      row["device"] = facts.device;
      row["dim"] = facts.sizes.size();
      row["more"] = facts.more;
      rows.append(row);
    }
    return rows;
  }

  py::dict names() const { return names_; }

 private:
  py::tuple constant(PyObject* object) {
    if (object == nullptr) return py::make_tuple("none");
    if (!sources_.is_known(object)) return py::make_tuple("unknown", printer_.object(object));
    if (const Source* source = sources_.of(object))
      names_[py::int_(reinterpret_cast<uintptr_t>(object))] = sources_.text(*source);
    return py::make_tuple("const", object_of(object));
  }

  py::tuple value(Val value) {
    if (value.is_reg()) return py::make_tuple("reg", value.index());
    return constant(value.object());
  }

  // The class of the subject, if an earlier guard or the subject itself tells it.
  PyTypeObject* class_of(const Guard& guard) const {
    if (guard.op == GuardOp::kInlineSlot || guard.op == GuardOp::kNoInlineSlot || guard.op == GuardOp::kLoadInline)
      return reinterpret_cast<PyTypeObject*>(guard.expected);
    if (guard.subject.is_reg()) {
      const auto found = classes_.find(guard.subject.index());
      return found == classes_.end() ? nullptr : found->second;
    }
    return sources_.is_known(guard.subject.object()) ? Py_TYPE(guard.subject.object()) : nullptr;
  }

  // The name of the attribute that a guard of a place in an object is about, or None.
  py::object attribute(const Guard& guard) const {
    PyTypeObject* type = class_of(guard);
    PyObject* name = nullptr;
    if (type == nullptr || !sources_.is_known(reinterpret_cast<PyObject*>(type))) return py::none();
    const auto offset = static_cast<Py_ssize_t>(guard.number);
    if (guard.op == GuardOp::kInlineSlot || guard.op == GuardOp::kLoadInline) {
      if (cpython::shared_keys_id(type) == guard.number) name = cpython::shared_key(type, guard.aux);
    } else if (guard.op == GuardOp::kSlot || guard.op == GuardOp::kLoadSlot) {
      if (cpython::dict_offset(type) == offset) return py::str("__dict__");
      name = cpython::slot_name(type, offset);
      if (name == nullptr) return member_at(type, offset);
    }
    return name != nullptr ? object_of(name) : py::object(py::none());
  }

  // The name of a member that a class of C describes, such as `__globals__` of functions, or None.
  static py::object member_at(PyTypeObject* type, Py_ssize_t offset) {
    for (; type != nullptr; type = type->tp_base)
      for (const PyMemberDef* member = type->tp_members; member != nullptr && member->name != nullptr; ++member)
        if (member->offset == offset) return py::str(member->name);
    return py::none();
  }

  // The attributes that instances of a class may have inline.
  py::list shared_names(const Guard& guard) const {
    py::list names;
    PyTypeObject* type = class_of(guard);
    if (guard.op != GuardOp::kNoInlineSlot || type == nullptr) return names;
    if (!sources_.is_known(guard.expected) || cpython::current_shared_keys_version(type) != guard.number) return names;
    for (Py_ssize_t i = 0; PyObject* key = cpython::shared_key(type, i); ++i) names.append(object_of(key));
    return names;
  }

  py::dict row(const Guard& guard) {
    py::dict row;
    const bool known = guard.subject.is_const() && sources_.is_known(guard.subject.object()) && !is_load(guard.op) &&
                       guard.op != GuardOp::kSame && guard.op != GuardOp::kNotSame;
    row["kind"] = guard_name(guard.op);
    row["step"] = step_name(guard.op);
    row["subject"] = value(guard.subject);
    row["source"] = printer_.source(guard.subject);
    row["expected"] = constant(guard.expected);
    row["number"] = guard.number;
    row["aux"] = guard.aux;
    row["out"] = guard.out == kNone ? py::object(py::none()) : py::object(py::int_(guard.out));
    row["attribute"] = attribute(guard);
    row["names"] = shared_names(guard);
    row["holds"] = known && check_guard(trace_, guard, nullptr);
    py::list items, equal;
    for (uint32_t i = 0; i < guard.count; ++i) {
      items.append(constant(trace_.guard_items[guard.first + i]));
      equal.append(trace_.is_scalar_item(guard.first + i));
    }
    row["items"] = items;
    row["items_equal"] = equal;
    row["equal"] = guard.scalar;
    if (guard.subject.is_reg() && (guard.op == GuardOp::kType || guard.op == GuardOp::kInstance))
      classes_.emplace(guard.subject.index(), reinterpret_cast<PyTypeObject*>(guard.expected));
    return row;
  }

  const Trace& trace_;
  const Printer& printer_;
  const Sources& sources_;
  std::unordered_map<uint32_t, PyTypeObject*> classes_;  // of objects in registers
  py::dict names_;
};

}  // namespace

py::dict guard_data(const Root& root, const Trace& trace) {
  const cpython::GcPause pause;  // what is known to be alive stays so
  const ObjectSet proven = proven_objects(trace, root.owner.living());
  const Printer printer(trace, false, &proven);
  GuardRows made(trace, printer);
  py::list epochs;
  py::dict view;
  view["guards"] = made.rows(0, trace.guards.size());
  view["entry"] = trace.entry_guards();
  view["inputs"] = made.inputs(trace.tensors.get());
  for (const Epoch& epoch : trace.epochs) {
    py::dict row;
    row["first"] = epoch.first;
    row["count"] = epoch.count;
    row["inputs"] = made.inputs(epoch.tensors.get());
    row["modes"] = epoch.state != nullptr;
    epochs.append(row);
  }
  view["epochs"] = epochs;
  view["names"] = made.names();
  return view;
}

}  // namespace pijit
