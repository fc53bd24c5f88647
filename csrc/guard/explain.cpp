// Says which guard does not hold, with what was expected and what is there now.
#include <iterator>

#include "cpython/objects.h"
#include "guard/check.h"
#include "ir/print.h"

namespace pijit {

namespace {

std::string type_name(PyObject* object) {
  return object == nullptr ? "nothing" : Py_TYPE(object)->tp_name;
}

const char* layout_word(column::Layout layout) {
  static constexpr const char* words[] = {"object",      "dict",     "list", "tuple", "set",
                                          "list or set", "function", "cell", "class"};
  static_assert(std::size(words) == static_cast<size_t>(column::Layout::type) + 1);
  return words[static_cast<size_t>(layout)];
}

// What the container holds now where `key` was: only objects that are alive are looked into.
std::string dict_miss(const Trace& trace, const Guard& guard, PyObject* dict, const Printer& print) {
  for (uint32_t i = guard.first; i + 1 < guard.first + guard.count; i += 2) {
    PyObject* value;
    if (trace.guard_item_scalar[i] == 0) continue;
    const int found = cpython::dict_lookup_exact(dict, trace.guard_items[i], &value);
    PyObject* expected = trace.guard_items[i + 1];
    if (found < 0 || !is_item(trace, i + 1, value))
      return print.source(guard.subject) + "[" + print.object(trace.guard_items[i]) + "]: " + describe(value) +
             " now, " + print.object(expected) + " before";
  }
  return print.source(guard.subject) + ": a dict that has changed";
}

std::string sequence_miss(const Trace& trace, const Guard& guard, PyObject* list, const Printer& print) {
  const Py_ssize_t size = PyList_GET_SIZE(list);
  const std::string name = print.source(guard.subject);
  if (size != static_cast<Py_ssize_t>(guard.count))
    return name + ": " + std::to_string(size) + " items now, " + std::to_string(guard.count) + " before";
  for (uint32_t i = 0; i < guard.count; ++i) {
    PyObject *item = PyList_GET_ITEM(list, i), *expected = trace.guard_items[guard.first + i];
    if (!is_item(trace, guard.first + i, item))
      return name + "[" + std::to_string(i) + "]: " + describe(item) + " now, " + print.object(expected) + " before";
  }
  return name + ": changed";
}

// The built-in container whose class the object's is derived from; null: there is none. Containers are taken apart, but
// not such objects: their classes may do anything.
const char* derived_from(PyObject* object) noexcept {
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) ||
      PyAnySet_CheckExact(object))
    return nullptr;
  return PyTuple_Check(object)    ? "tuple"
         : PyList_Check(object)   ? "list"
         : PyDict_Check(object)   ? "dict"
         : PyAnySet_Check(object) ? "set"
                                  : nullptr;
}

// The guard is about such an object, or about what is in it. Where another one has taken the place of one that died, it
// is the latter that differs.
bool is_of_derived(const Guard& guard, PyObject* subject) noexcept {
  const bool whole = guard.op == GuardOp::kIs || guard.op == GuardOp::kParts || guard.op == GuardOp::kDict ||
                     guard.op == GuardOp::kDictSize || guard.op == GuardOp::kList || guard.op == GuardOp::kSet;
  return whole && derived_from(subject) != nullptr;
}

std::string miss(const Trace& trace, const Guard& guard, const Reg* regs) {
  const Printer print(trace, false);
  PyObject* subject = subject_of(guard, regs);
  const std::string name = print.source(guard.subject);
  if (subject == nullptr) return name + ": missing";
  const auto pair = [&](const std::string& is, const std::string& was) {
    return name + ": " + is + " now, " + was + " before";
  };
  if (is_load(guard.op)) return name + ": an item is gone";
  if (!has_layout(guard, subject)) return name + ": no " + layout_word(row_of(guard.op).subject) + " any more";
  if (is_of_derived(guard, subject)) {
    const std::string base = derived_from(subject);
    return name + ": a " + type_name(subject) + " is a subclass of " + base +
           ", and is taken as one object with what is in it; pass its items, or " + base + "(" + name + ")";
  }
  switch (guard.op) {
    case GuardOp::kIs:
      return pair(describe(subject), print.object(guard.expected));
    case GuardOp::kScalar:
      return pair(describe(subject), print.object(guard.expected));
    case GuardOp::kType:
    case GuardOp::kInstance:
      if (Py_TYPE(subject) == reinterpret_cast<PyTypeObject*>(guard.expected))
        return name + ": its __dict__ was replaced";
      return pair(type_name(subject), print.object(guard.expected));
    case GuardOp::kInlineSlot:
    case GuardOp::kNoInlineSlot:
      if (Py_TYPE(subject) != reinterpret_cast<PyTypeObject*>(guard.expected))
        return pair(type_name(subject), print.object(guard.expected));
      return name + ": an attribute was changed";
    case GuardOp::kNoAttribute:
      return name + ": it has got an attribute of its own";
    case GuardOp::kEqual:
    case GuardOp::kValue:
      return pair(describe(subject), print.object(guard.expected));
    case GuardOp::kTypeVersion:
      return name + ": the class or a base of it was changed";
    case GuardOp::kDict:
      return dict_miss(trace, guard, subject, print);
    case GuardOp::kList:
      return sequence_miss(trace, guard, subject, print);
    case GuardOp::kDictSize:
    case GuardOp::kSet:
      return name + ": its keys changed";
    case GuardOp::kQuiet:
      return name + ": it holds what may have a finaliser";
    case GuardOp::kParts:
      return name + ": another " + type_name(subject);
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
      return pair(std::to_string(PySequence_Fast_GET_SIZE(subject)) + " items", std::to_string(guard.number));
    case GuardOp::kFunction:
      return name + ": its code or defaults were changed";
    case GuardOp::kCell:
      return pair(describe(PyCell_GET(subject)), print.object(guard.expected));
    case GuardOp::kSlot:
      return name + ": a slot was changed";
    case GuardOp::kContextVar:
      return name + ": another value in this context";
    case GuardOp::kSame:
      return name + ": no longer the same object as " + print.source(Val::reg(static_cast<uint32_t>(guard.number)));
    case GuardOp::kNotSame:
      return name + ": now the same object as " + print.source(Val::reg(static_cast<uint32_t>(guard.number)));
    case GuardOp::kUnshared:
      return name + ": something else holds it, too";
    case GuardOp::kSuspended:
      return name + ": another generator, or it stands elsewhere";
    case GuardOp::kAbcRegistry:
      return "a class was registered with an abstract base class";
    case GuardOp::kRecursionLimit:
      return "recursion limit: " + std::to_string(Py_GetRecursionLimit()) + " now, " + std::to_string(guard.number) +
             " before";
    default:
      break;
  }
  return name;
}

}  // namespace

std::string explain_miss(const Trace& trace, Reg* regs) {
  if (trace.state != nullptr && !trace.state->check()) return trace.state->explain();
  for (size_t i = 0; i < trace.entry_guards(); ++i)
    if (!check_guard(trace, trace.guards[i], regs)) return miss(trace, trace.guards[i], regs);
  if (trace.tensors == nullptr || trace.tensors->check(regs)) return "";
  Val source;
  const std::string text = trace.tensors->explain(regs, &source);
  return Printer(trace, false).source(source) + ": " + text;
}

}  // namespace pijit
