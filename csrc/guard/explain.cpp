// Says which guard does not hold, with what was expected and what is there now.
//
// What the guards before it name is alive, since they hold. Other objects that the trace names may be dead: of these
// the class is told, if the trace knows it and it lives.
#include <iterator>

#include "cpython/objects.h"
#include "guard/check.h"
#include "guard/written.h"
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

// What is alive because guards hold.
void note_alive(const Trace& trace, const Guard& guard, ObjectSet* alive) {
  const auto add = [&](PyObject* object) {
    if (object == nullptr) return;
    alive->insert(object);
    alive->insert(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  };
  if (guard.subject.is_const()) add(guard.subject.object());
  // An instance by which a class was known may be dead.
  if (guard.op != GuardOp::kTypeVersion) add(guard.expected);
  for (uint32_t i = 0; i < guard.count; ++i) add(trace.guard_items[guard.first + i]);
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

// One guard that does not hold.
class Explanation {
 public:
  Explanation(const Trace& trace, const Guard& guard, const Reg* regs, const ObjectSet& alive)
      : trace_(trace),
        guard_(guard),
        alive_(alive),
        subject_(subject_of(guard, regs)),
        written_(trace.inputs > 0 ? written_code(trace, regs[0].object) : nullptr),
        print_(trace, false, &alive, written_),
        name_(name()) {}

  std::string text() const;

 private:
  std::string name() const;
  std::string found_at(PyObject* object, const std::string& place) const;
  std::string pair(const std::string& place, PyObject* now, PyObject* before) const;
  std::string counts(const std::string& things, uint64_t now, uint64_t before) const;
  std::string member(PyObject* now, PyObject* before) const {
    return pair(print_.sources().place(guard_), now, before);
  }
  std::string dict() const;
  std::string keys() const;
  std::string list() const;
  std::string inline_slot() const;
  std::string context_variable() const;
  PyObject* item(uint32_t i) const { return trace_.guard_items[guard_.first + i]; }

  const Trace& trace_;
  const Guard& guard_;
  const ObjectSet& alive_;
  PyObject* subject_;
  PyCodeObject* written_;
  Printer print_;
  std::string name_;
};

// A module hands `*args` and `**kwargs` on, which its users do not see.
std::string Explanation::name() const {
  const auto* called = reinterpret_cast<PyCodeObject*>(trace_.code.get());
  const auto packed = static_cast<uint32_t>(called->co_argcount + called->co_kwonlyargcount);
  if (written_ != nullptr && guard_.subject.is_reg()) {
    if (guard_.subject.index() == packed) return "positional arguments";
    if (guard_.subject.index() == packed + 1) return "keyword arguments";
  }
  return print_.source(guard_.subject);
}

// " (self.layers[0])": where else the trace has found the object.
std::string Explanation::found_at(PyObject* object, const std::string& place) const {
  if (object == nullptr || alive_.count(object) == 0 || prints_itself(object)) return "";
  const Source* source = print_.sources().of(object);
  const std::string text = source != nullptr ? print_.sources().text(*source) : place;
  return text == place || text[0] == '<' ? "" : " (" + text + ")";
}

std::string Explanation::pair(const std::string& place, PyObject* now, PyObject* before) const {
  const bool known = before == nullptr || print_.sources().is_known(before);
  const PyTypeObject* type = known ? nullptr : print_.sources().class_of(before);
  const std::string was = known             ? describe(before) + found_at(before, place)
                          : type != nullptr ? std::string("<") + type->tp_name + ">"
                                            : "another object";
  const std::string is = describe(now) + found_at(now, place);
  if (is == was) return place + ": another " + is + " than before";
  return place + ": " + is + " now, " + was + " before";
}

std::string Explanation::counts(const std::string& things, uint64_t now, uint64_t before) const {
  return name_ + ": " + std::to_string(now) + " " + things + " now, " + std::to_string(before) + " before";
}

// What the dict holds now where it held something else.
std::string Explanation::dict() const {
  for (uint32_t i = 0; i + 1 < guard_.count; i += 2) {
    PyObject* value;
    if (trace_.guard_item_scalar[guard_.first + i] == 0) continue;
    const int found = cpython::dict_lookup_exact(subject_, item(i), &value);
    if (found < 0 || !is_item(trace_, guard_.first + i + 1, value))
      return pair(print_.sources().item_place(guard_, item(i)), value, item(i + 1));
  }
  return name_ + ": a dict that has changed";
}

std::string Explanation::keys() const {
  const auto size = static_cast<uint64_t>(PyDict_GET_SIZE(subject_));
  if (size != guard_.number) return counts("keys", size, guard_.number);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  for (uint32_t i = 0; i < guard_.count && PyDict_Next(subject_, &at, &key, &value); ++i)
    if (!is_item(trace_, guard_.first + i, key)) return pair(name_ + ": key " + std::to_string(i), key, item(i));
  return name_ + ": its keys changed";
}

std::string Explanation::list() const {
  const Py_ssize_t size = PyList_GET_SIZE(subject_);
  if (size != static_cast<Py_ssize_t>(guard_.count)) return counts("items", static_cast<uint64_t>(size), guard_.count);
  for (uint32_t i = 0; i < guard_.count; ++i) {
    PyObject* now = PyList_GET_ITEM(subject_, i);
    if (!is_item(trace_, guard_.first + i, now)) return pair(name_ + "[" + std::to_string(i) + "]", now, item(i));
  }
  return name_ + ": changed";
}

std::string Explanation::inline_slot() const {
  auto* type = reinterpret_cast<PyTypeObject*>(guard_.expected);
  if (Py_TYPE(subject_) != type) return pair(name_, subject_, guard_.expected);
  if (guard_.op == GuardOp::kNoInlineSlot || cpython::inline_values(subject_) == nullptr ||
      cpython::shared_keys_id(type) != guard_.number)
    return name_ + ": its attributes are others, or in another order";
  return member(cpython::inline_value(subject_, static_cast<Py_ssize_t>(guard_.aux)), item(0));
}

std::string Explanation::context_variable() const {
  PyObject* value = nullptr;
  if (PyContextVar_Get(subject_, nullptr, &value) != 0) PyErr_Clear();
  const Ref now = Ref::steal(value);
  return pair(name_ + ".get()", value, guard_.expected);
}

std::string Explanation::text() const {
  if (subject_ == nullptr) return name_ + ": missing";
  if (is_load(guard_.op)) return print_.sources().place(guard_) + ": it is gone";
  if (!has_layout(guard_, subject_)) return name_ + ": no " + layout_word(row_of(guard_.op).subject) + " any more";
  if (is_of_derived(guard_, subject_)) {
    const std::string base = derived_from(subject_);
    return name_ + ": a " + type_name(subject_) + " is a subclass of " + base +
           ", and is taken as one object with what is in it; pass its items, or " + base + "(" + name_ + ")";
  }
  switch (guard_.op) {
    case GuardOp::kIs:
    case GuardOp::kScalar:
    case GuardOp::kEqual:
    case GuardOp::kValue:
      return pair(name_, subject_, guard_.expected);
    case GuardOp::kType:
    case GuardOp::kInstance:
      if (Py_TYPE(subject_) == reinterpret_cast<PyTypeObject*>(guard_.expected))
        return name_ + ": its __dict__ was replaced";
      return name_ + ": " + type_name(subject_) + " now, " + print_.object(guard_.expected) + " before";
    case GuardOp::kInlineSlot:
    case GuardOp::kNoInlineSlot:
      return inline_slot();
    case GuardOp::kNoAttribute:
      return print_.sources().place(guard_) + ": an attribute of the object itself now, and none before";
    case GuardOp::kTypeVersion:
      return name_ + ": the class or a base of it was changed";
    case GuardOp::kDict:
      return dict();
    case GuardOp::kList:
      return list();
    case GuardOp::kDictSize:
      return keys();
    case GuardOp::kSet: {
      const auto size = static_cast<uint64_t>(PySet_GET_SIZE(subject_));
      return size != guard_.count ? counts("items", size, guard_.count) : name_ + ": its items changed";
    }
    case GuardOp::kQuiet:
      return name_ + ": it holds what may have a finaliser";
    case GuardOp::kParts:
      return name_ + ": another " + type_name(subject_);
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
      return counts("items", static_cast<uint64_t>(PySequence_Fast_GET_SIZE(subject_)), guard_.number);
    case GuardOp::kFunction:
      return name_ + ": its code or defaults were changed";
    case GuardOp::kCell:
      return member(PyCell_GET(subject_), guard_.expected);
    case GuardOp::kSlot:
      return member(cpython::object_at(subject_, static_cast<Py_ssize_t>(guard_.number)), guard_.expected);
    case GuardOp::kContextVar:
      return context_variable();
    case GuardOp::kSame:
      return name_ + ": no longer the same object as " + print_.source(Val::reg(static_cast<uint32_t>(guard_.number)));
    case GuardOp::kNotSame:
      return name_ + ": now the same object as " + print_.source(Val::reg(static_cast<uint32_t>(guard_.number)));
    case GuardOp::kUnshared:
      return name_ + ": something else holds it, too";
    case GuardOp::kSuspended:
      return name_ + ": another generator, or it stands elsewhere";
    case GuardOp::kAbcRegistry:
      return "a class was registered with an abstract base class";
    case GuardOp::kRecursionLimit:
      return "recursion limit: " + std::to_string(Py_GetRecursionLimit()) + " now, " + std::to_string(guard_.number) +
             " before";
    default:
      break;
  }
  return name_;
}

}  // namespace

std::string explain_miss(const Trace& trace, PyObject* start, Reg* regs) {
  if (trace.state != nullptr && !trace.state->check()) return trace.state->explain();
  ObjectSet alive;
  if (start != nullptr) alive.insert(start);
  for (size_t i = 0; i < trace.entry_guards(); ++i) {
    const Guard& guard = trace.guards[i];
    if (!check_guard(trace, guard, regs)) return Explanation(trace, guard, regs, alive).text();
    note_alive(trace, guard, &alive);
  }
  if (trace.tensors == nullptr || trace.tensors->check(regs)) return "";
  Val source;
  const std::string text = trace.tensors->explain(regs, &source);
  PyCodeObject* written = trace.inputs > 0 ? written_code(trace, regs[0].object) : nullptr;
  return Printer(trace, false, &alive, written).source(source) + ": " + text;
}

}  // namespace pijit
