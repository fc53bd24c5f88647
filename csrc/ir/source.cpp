// Paths to what guards speak of.
#include "ir/source.h"

#include <cstdio>

#include "cpython/classes.h"
#include "cpython/objects.h"
#include "ir/print.h"

namespace pijit {
namespace {

bool is_identifier(PyObject* object) {
  return PyUnicode_CheckExact(object) && PyUnicode_IsIdentifier(object) == 1;
}

// Interned: it lives as long as the process.
PyObject* word(const char* text) {
  PyObject* made = PyUnicode_InternFromString(text);
  if (made == nullptr) PyErr_Clear();
  return made;
}

struct Words {
  PyObject* function = word("__func__");
  PyObject* self = word("__self__");
  PyObject* contents = word("cell_contents");
  PyObject* dict = word("__dict__");
  PyObject* frame = word("gi_frame");
  PyObject* count = word("count");
};

const Words& words() {
  static const Words made;
  return made;
}

}  // namespace

PyObject* input_name(PyCodeObject* code, uint32_t index) {
  const auto locals = static_cast<uint32_t>(code->co_nlocalsplus);
  if (index < locals) return PyTuple_GET_ITEM(code->co_localsplusnames, index);
  return word(("stack_" + std::to_string(index - locals)).c_str());
}

Sources::Sources(const Trace& trace, bool alive, const ObjectSet* proven)
    : trace_(trace), alive_(alive), proven_(proven) {
  for (const Ref& object : trace.owned) owned_.insert(object.get());
  auto* code = reinterpret_cast<PyCodeObject*>(trace.code.get());
  for (uint32_t i = 0; code != nullptr && i < trace.inputs; ++i)
    registers_.emplace(i, make(Step::kArgument, nullptr, input_name(code, i), i));
  if (proven_ != nullptr)
    for (PyObject* object : *proven_)
      if (PyFunction_Check(object) && reinterpret_cast<PyFunctionObject*>(object)->func_code == trace.code.get())
        name_cells(object);
  for (const Guard& guard : trace.guards) follow(guard);
}

const Source* Sources::of(PyObject* object) const {
  const auto found = constants_.find(object);
  return found == constants_.end() ? nullptr : found->second;
}

const Source* Sources::of(Val value) const {
  if (value.is_const()) return of(value.object());
  if (!value.is_reg()) return nullptr;
  const auto found = registers_.find(value.index());
  return found == registers_.end() ? nullptr : found->second;
}

bool Sources::is_known(PyObject* object) const {
  return alive_ || owned_.count(object) != 0 || object == Py_None || object == Py_True || object == Py_False ||
         object == Py_Ellipsis || (proven_ != nullptr && proven_->count(object) != 0);
}

const Source* Sources::make(Step step, const Source* of, PyObject* object, uint64_t number) {
  made_.push_back({step, of, object, number, nullptr});
  // A scalar says itself what it is.
  if (step == Step::kItem && object != nullptr && proven_ != nullptr && !(is_known(object) && prints_itself(object)))
    made_.back().key = this->of(object);
  return &made_.back();
}

// A path that begins at the subject itself if nothing leads to it.
const Source* Sources::subject(const Guard& guard) {
  if (const Source* found = of(guard.subject)) return found;
  if (guard.subject.is_reg()) return make(Step::kRegister, nullptr, nullptr, guard.subject.index());
  return make(Step::kConstant, nullptr, guard.subject.object());
}

void Sources::name(PyObject* object, const Source* source) {
  if (object == nullptr || (is_known(object) && prints_itself(object))) return;
  constants_.emplace(object, source);
}

// The variables that a function has from around it.
void Sources::name_cells(PyObject* function) {
  if (function == nullptr || proven_ == nullptr || !is_known(function) || !PyFunction_Check(function)) return;
  auto* of = reinterpret_cast<PyFunctionObject*>(function);
  if (of->func_closure == nullptr) return;
  auto* code = reinterpret_cast<PyCodeObject*>(of->func_code);
  const Py_ssize_t first = code->co_nlocalsplus - code->co_nfreevars;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(of->func_closure) && first + i < code->co_nlocalsplus; ++i)
    cells_.emplace(PyTuple_GET_ITEM(of->func_closure, i),
                   make(Step::kCell, nullptr, PyTuple_GET_ITEM(code->co_localsplusnames, first + i)));
}

// A dict that is guarded as a whole names all that it holds now.
void Sources::name_all(PyObject* dict, const Source* subject, const Source* owner) {
  if (proven_ == nullptr || dict == nullptr || !is_known(dict) || !PyDict_Check(dict)) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) continue;
    const bool attribute = owner != nullptr && is_identifier(key);
    name(value, attribute ? make(Step::kAttribute, owner, key) : make(Step::kItem, subject, key));
  }
}

void Sources::follow_dict(const Guard& guard, const Source* subject) {
  PyObject* dict = guard.subject.object();
  const auto found = owners_.find(dict);
  const Source* owner = found == owners_.end() ? nullptr : found->second;
  if (guard.count == 0 && (owner != nullptr || of(dict) != nullptr)) name_all(dict, subject, owner);
  const bool named = of(dict) != nullptr;
  for (uint32_t i = 0; i + 1 < guard.count; i += 2) {
    PyObject* key = trace_.guard_items[guard.first + i];
    PyObject* item = trace_.guard_items[guard.first + i + 1];
    if (owned_.count(key) == 0) continue;
    const bool identifier = is_identifier(key);
    if (owner != nullptr && identifier)
      name(item, make(Step::kAttribute, owner, key));
    else if (identifier && !named && guard.subject.is_const())
      name(item, make(Step::kGlobal, nullptr, key));
    else
      name(item, make(Step::kItem, subject, key));
  }
}

void Sources::follow_parts(const Guard& guard, const Source* subject) {
  const auto item = [&](uint32_t i) { return trace_.guard_items[guard.first + i]; };
  auto* const type = reinterpret_cast<PyTypeObject*>(guard.expected);
  if (type == &PyMethod_Type) {
    name(item(0), make(Step::kAttribute, subject, words().function));
    name(item(1), make(Step::kAttribute, subject, words().self));
  } else if (type == &PyTuple_Type || (alive_ && PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS))) {
    for (uint32_t i = 0; i < guard.count; ++i) name(item(i), make(Step::kItem, subject, nullptr, i));
  }
}

// By its name, if the class and its keys are still those of the guard.
const Source* Sources::inline_value(const Guard& guard, const Source* subject) {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected);
  PyObject* key = nullptr;
  if (is_known(guard.expected) && cpython::shared_keys_id(type) == guard.number)
    key = cpython::shared_key(type, static_cast<Py_ssize_t>(guard.aux));
  return key != nullptr ? make(Step::kAttribute, subject, key) : make(Step::kInline, subject, nullptr, guard.aux);
}

const Source* Sources::at_offset(const Guard& guard, const Source* subject) {
  PyTypeObject* type = nullptr;
  if (guard.subject.is_reg()) {
    const auto found = types_.find(guard.subject.index());
    if (found != types_.end()) type = found->second;
  } else if (const auto found = classes_.find(guard.subject.object()); found != classes_.end()) {
    type = found->second;
  }
  if (type == nullptr || !is_known(reinterpret_cast<PyObject*>(type)))
    return make(Step::kOffset, subject, nullptr, guard.number);
  const auto offset = static_cast<Py_ssize_t>(guard.number);
  if (cpython::dict_offset(type) == offset) return make(Step::kAttribute, subject, words().dict);
  PyObject* member = cpython::slot_name(type, offset);
  return member != nullptr ? make(Step::kAttribute, subject, member)
                           : make(Step::kOffset, subject, nullptr, guard.number);
}

// By its key, which a guard has checked before. Items of an instance's dict are its attributes.
const Source* Sources::value_at(const Guard& guard, const Source* subject) {
  const auto found = guard.subject.is_reg() ? keys_.find(guard.subject.index()) : keys_.end();
  if (found == keys_.end() || guard.number >= found->second->count)
    return make(Step::kValueAt, subject, nullptr, guard.number);
  PyObject* key = trace_.guard_items[found->second->first + guard.number];
  if (!is_known(key)) return make(Step::kValueAt, subject, nullptr, guard.number);
  const bool attribute = subject->step == Step::kAttribute && subject->object == words().dict && is_identifier(key);
  return attribute ? make(Step::kAttribute, subject->of, key) : make(Step::kItem, subject, key);
}

// What a generator has in a variable, or on its stack.
const Source* Sources::variable(const Guard& guard, const Source* subject) {
  const Source* frame = make(Step::kAttribute, subject, words().frame);
  const auto found = guard.subject.is_reg() ? generators_.find(guard.subject.index()) : generators_.end();
  if (found == generators_.end()) return make(Step::kItem, frame, nullptr, guard.number);
  return make(Step::kAttribute, frame, input_name(found->second, static_cast<uint32_t>(guard.number)));
}

// The register that a guard loads.
void Sources::load(const Guard& guard, const Source* subject) {
  const auto set = [&](Step step, PyObject* object, uint64_t number) {
    registers_.emplace(guard.out, make(step, subject, object, number));
  };
  switch (guard.op) {
    case GuardOp::kLoadSelf:
      registers_.emplace(guard.out, subject);
      break;
    case GuardOp::kLoadTupleItem:
    case GuardOp::kLoadListItem:
      return set(Step::kItem, nullptr, guard.number);
    case GuardOp::kLoadCell:
      return set(Step::kAttribute, words().contents, 0);
    case GuardOp::kLoadSlot:
      registers_.emplace(guard.out, at_offset(guard, subject));
      break;
    case GuardOp::kLoadInline:
      registers_.emplace(guard.out, inline_value(guard, subject));
      break;
    case GuardOp::kLoadSuspended:
      registers_.emplace(guard.out, variable(guard, subject));
      break;
    case GuardOp::kLoadCount:
      return set(Step::kAttribute, words().count, 0);
    case GuardOp::kLoadGeneratorFunction:
      registers_.emplace(guard.out, make(Step::kAttribute, subject, words().function));
      break;
    case GuardOp::kLoadDictItem: {
      const auto owner = owners_.find(guard.subject.object());
      if (owner == owners_.end() || !is_identifier(guard.expected)) return set(Step::kItem, guard.expected, 0);
      registers_.emplace(guard.out, make(Step::kAttribute, owner->second, guard.expected));
      break;
    }
    case GuardOp::kLoadDictKeyAt:
      return set(Step::kKeyAt, nullptr, guard.number);
    case GuardOp::kLoadDictValueAt:
      registers_.emplace(guard.out, value_at(guard, subject));
      break;
    default:
      break;
  }
}

void Sources::note_class(const Guard& guard) {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected);
  if (guard.subject.is_reg())
    types_.emplace(guard.subject.index(), type);
  else
    classes_.emplace(guard.subject.object(), type);
}

// Each container that is guarded names what was found in it.
void Sources::follow(const Guard& guard) {
  const Source* subject = this->subject(guard);
  if (guard.out != kNone) return load(guard, subject);
  const auto item = [&](uint32_t i) { return trace_.guard_items[guard.first + i]; };
  switch (guard.op) {
    case GuardOp::kInstance:
      note_class(guard);
      if (guard.number != 0) owners_.emplace(reinterpret_cast<PyObject*>(guard.number), subject);
      break;
    case GuardOp::kDict:
      follow_dict(guard, subject);
      break;
    case GuardOp::kInlineSlot:
      name(item(0), inline_value(guard, subject));
      break;
    case GuardOp::kSlot:
      name(guard.expected, at_offset(guard, subject));
      break;
    case GuardOp::kList:
      for (uint32_t i = 0; i < guard.count; ++i) name(item(i), make(Step::kItem, subject, nullptr, i));
      break;
    case GuardOp::kParts:
      follow_parts(guard, subject);
      break;
    case GuardOp::kFunction:
      name_cells(guard.subject.object());
      break;
    case GuardOp::kCell: {
      const auto cell = cells_.find(guard.subject.object());
      name(guard.expected, cell != cells_.end() ? cell->second : make(Step::kAttribute, subject, words().contents));
      break;
    }
    case GuardOp::kContextVar:
      name(guard.expected, make(Step::kGet, subject, nullptr));
      break;
    case GuardOp::kType:
      note_class(guard);
      break;
    case GuardOp::kSuspended:  // the trace owns the code
      if (guard.subject.is_reg())
        generators_.emplace(guard.subject.index(), reinterpret_cast<PyCodeObject*>(guard.expected));
      break;
    case GuardOp::kDictSize:
      if (guard.subject.is_reg()) keys_.emplace(guard.subject.index(), &guard);
      break;
    case GuardOp::kIs:
      if (guard.subject.is_reg()) name(guard.expected, subject);
      break;
    default:
      break;
  }
}

std::string Sources::object_text(PyObject* object) const {
  if (object == nullptr) return "nothing";
  if (is_known(object)) return describe(object);
  char text[48];
  snprintf(text, sizeof text, "<object at 0x%llx>",
           static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(object)));
  return text;
}

std::string Sources::text(const Source& source) const {
  const std::string before = source.of == nullptr ? "" : text(*source.of);
  const std::string number = std::to_string(source.number);
  switch (source.step) {
    case Step::kArgument:
    case Step::kGlobal:
    case Step::kCell:
      return text_of(source.object);
    case Step::kConstant:
      return object_text(source.object);
    case Step::kRegister:
      return "r" + number;
    case Step::kAttribute:
      return before + "." + text_of(source.object);
    case Step::kItem:
      if (source.object == nullptr) return before + "[" + number + "]";
      return before + "[" + (source.key != nullptr ? text(*source.key) : object_text(source.object)) + "]";
    case Step::kKeyAt:
      return "list(" + before + ")[" + number + "]";
    case Step::kValueAt:
      return "list(" + before + ".values())[" + number + "]";
    case Step::kInline:
      return before + ".<slot " + number + ">";
    case Step::kOffset:
      return before + ".<offset " + number + ">";
    case Step::kGet:
      return before + ".get()";
  }
  return before;
}

}  // namespace pijit
