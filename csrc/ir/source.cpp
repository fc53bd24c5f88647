// Paths to what guards speak of.
#include "ir/source.h"

#include <utility>
#include <vector>

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

struct PathWords {
  PyObject* function = word("__func__");
  PyObject* self = word("__self__");
  PyObject* contents = word("cell_contents");
  PyObject* dict = word("__dict__");
  PyObject* frame = word("gi_frame");
  PyObject* count = word("count");
};

const PathWords& path_words() {
  static const PathWords made;
  return made;
}

}  // namespace

PyObject* input_name(PyCodeObject* code, uint32_t index) {
  const auto locals = static_cast<uint32_t>(code->co_nlocalsplus);
  if (index < locals) return PyTuple_GET_ITEM(code->co_localsplusnames, index);
  return word(("stack_" + std::to_string(index - locals)).c_str());
}

Sources::Sources(const Trace& trace, bool alive, const ObjectSet* proven, PyCodeObject* written)
    : trace_(trace), alive_(alive), proven_(proven), written_(written) {
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

const Source* Sources::make(Step step, const Source* of, PyObject* object, uint64_t number) const {
  made_.push_back({step, of, object, number, nullptr});
  // A scalar says itself what it is.
  if (step == Step::kItem && object != nullptr && proven_ != nullptr && !(is_known(object) && prints_itself(object)))
    made_.back().key = this->of(object);
  return &made_.back();
}

// A path that begins at the subject itself if nothing leads to it.
const Source* Sources::subject(const Guard& guard) const {
  if (const Source* found = of(guard.subject)) return found;
  if (guard.subject.is_reg()) return make(Step::kRegister, nullptr, nullptr, guard.subject.index());
  const auto owner = owners_.find(guard.subject.object());
  if (owner != owners_.end()) return make(Step::kAttribute, owner->second, path_words().dict);
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
    const bool attribute = owner != nullptr && is_identifier(key);
    const Source* found = attribute ? make(Step::kAttribute, owner, key) : make(Step::kItem, subject, key);
    // A key that is another object, such as a parameter, is written by its own path.
    if (prints_itself(key) || found->key != nullptr) name(value, found);
  }
}

void Sources::follow_dict(const Guard& guard, const Source* subject) {
  PyObject* dict = guard.subject.object();
  const auto found = owners_.find(dict);
  const Source* owner = found == owners_.end() ? nullptr : found->second;
  if (guard.count == 0 && (owner != nullptr || of(dict) != nullptr)) name_all(dict, subject, owner);
  std::vector<std::pair<PyObject*, const Source*>> found_now;  // they do not count for each other
  for (uint32_t i = 0; i + 1 < guard.count; i += 2) {
    PyObject* key = trace_.guard_items[guard.first + i];
    if (owned_.count(key) == 0) continue;
    found_now.emplace_back(trace_.guard_items[guard.first + i + 1], item(guard, subject, key));
  }
  for (const auto& [object, source] : found_now) name(object, source);
}

// An attribute of the object whose dict it is, else a global, else an item.
const Source* Sources::item(const Guard& guard, const Source* subject, PyObject* key) const {
  PyObject* dict = guard.subject.object();
  const auto owner = owners_.find(dict);
  const bool identifier = is_identifier(key);
  if (owner != owners_.end() && identifier) return make(Step::kAttribute, owner->second, key);
  if (identifier && guard.subject.is_const() && of(dict) == nullptr) return make(Step::kGlobal, nullptr, key);
  return make(Step::kItem, subject, key);
}

void Sources::follow_parts(const Guard& guard, const Source* subject) {
  const auto item = [&](uint32_t i) { return trace_.guard_items[guard.first + i]; };
  auto* const type = reinterpret_cast<PyTypeObject*>(guard.expected);
  if (type == &PyMethod_Type) {
    name(item(0), make(Step::kAttribute, subject, path_words().function));
    name(item(1), make(Step::kAttribute, subject, path_words().self));
  } else if (type == &PyTuple_Type || (alive_ && PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS))) {
    for (uint32_t i = 0; i < guard.count; ++i) name(item(i), make(Step::kItem, subject, nullptr, i));
  }
}

// By its name, if the class and its keys are still those of the guard.
const Source* Sources::inline_value(const Guard& guard, const Source* subject) const {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected);
  PyObject* key = nullptr;
  if (is_alive(type) && cpython::shared_keys_id(type) == guard.number)
    key = cpython::shared_key(type, static_cast<Py_ssize_t>(guard.aux));
  return key != nullptr ? make(Step::kAttribute, subject, key) : make(Step::kInline, subject, nullptr, guard.aux);
}

const Source* Sources::at_offset(const Guard& guard, const Source* subject) const {
  PyTypeObject* type = nullptr;
  if (guard.subject.is_reg()) {
    const auto found = types_.find(guard.subject.index());
    if (found != types_.end()) type = found->second;
  } else if (const auto found = classes_.find(guard.subject.object()); found != classes_.end()) {
    type = found->second;
  }
  if (type == nullptr || !is_alive(type)) return make(Step::kOffset, subject, nullptr, guard.number);
  const auto offset = static_cast<Py_ssize_t>(guard.number);
  if (cpython::dict_offset(type) == offset) return make(Step::kAttribute, subject, path_words().dict);
  PyObject* member = cpython::member_name(type, offset);
  return member != nullptr ? make(Step::kAttribute, subject, member)
                           : make(Step::kOffset, subject, nullptr, guard.number);
}

// By its key, which a guard has checked before. Items of an instance's dict are its attributes.
const Source* Sources::value_at(const Guard& guard, const Source* subject) const {
  const auto found = guard.subject.is_reg() ? keys_.find(guard.subject.index()) : keys_.end();
  if (found == keys_.end() || guard.number >= found->second->count)
    return make(Step::kValueAt, subject, nullptr, guard.number);
  PyObject* key = trace_.guard_items[found->second->first + guard.number];
  if (!is_known(key)) return make(Step::kValueAt, subject, nullptr, guard.number);
  const bool attribute =
      subject->step == Step::kAttribute && subject->object == path_words().dict && is_identifier(key);
  return attribute ? make(Step::kAttribute, subject->of, key) : make(Step::kItem, subject, key);
}

// What a generator has in a variable, or on its stack.
const Source* Sources::variable(const Guard& guard, const Source* subject) const {
  const Source* frame = make(Step::kAttribute, subject, path_words().frame);
  const auto found = guard.subject.is_reg() ? generators_.find(guard.subject.index()) : generators_.end();
  if (found == generators_.end()) return make(Step::kItem, frame, nullptr, guard.number);
  return make(Step::kAttribute, frame, input_name(found->second, static_cast<uint32_t>(guard.number)));
}

// An item of an instance's dict is an attribute of the instance.
const Source* Sources::entry(const Guard& guard, const Source* subject) const {
  const auto owner = owners_.find(guard.subject.object());
  if (owner == owners_.end() || !is_identifier(guard.expected)) return make(Step::kItem, subject, guard.expected);
  return make(Step::kAttribute, owner->second, guard.expected);
}

// A variable of a function, if it is known whose cell it is.
const Source* Sources::content(const Guard& guard, const Source* subject) const {
  const auto cell = is_load(guard.op) ? cells_.end() : cells_.find(guard.subject.object());
  return cell != cells_.end() ? cell->second : make(Step::kAttribute, subject, path_words().contents);
}

// The path of the one thing that a guard finds in its subject; null: that has none.
const Source* Sources::found(const Guard& guard, const Source* subject) const {
  switch (row_of(guard.op).step) {
    case column::Step::none:
      return nullptr;
    case column::Step::itself:
      return subject;
    case column::Step::at:
      return make(Step::kItem, subject, nullptr, guard.number);
    case column::Step::content:
      return content(guard, subject);
    case column::Step::slot:
      return at_offset(guard, subject);
    case column::Step::inline_:
      return inline_value(guard, subject);
    case column::Step::attribute:
      return make(Step::kAttribute, subject, guard.expected);
    case column::Step::entry:
      return entry(guard, subject);
    case column::Step::key_at:
      return make(Step::kKeyAt, subject, nullptr, guard.number);
    case column::Step::value_at:
      return value_at(guard, subject);
    case column::Step::get:
      return make(Step::kGet, subject, nullptr);
    case column::Step::variable:
      return variable(guard, subject);
    case column::Step::count:
      return make(Step::kAttribute, subject, path_words().count);
    case column::Step::function:
      return make(Step::kAttribute, subject, path_words().function);
  }
  return nullptr;
}

// The class that a guard asks for, or the one that has the layout into which it looks.
void Sources::note_class(const Guard& guard) {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected);
  switch (row_of(guard.op).subject) {
    case column::Layout::dict:
      type = &PyDict_Type;
      break;
    case column::Layout::list:
      type = &PyList_Type;
      break;
    case column::Layout::tuple:
      type = &PyTuple_Type;
      break;
    case column::Layout::set:
      type = &PySet_Type;
      break;
    case column::Layout::function:
      type = &PyFunction_Type;
      break;
    case column::Layout::cell:
      type = &PyCell_Type;
      break;
    case column::Layout::any:
    case column::Layout::type:
    case column::Layout::list_or_set:
      break;
  }
  if (guard.subject.is_const()) {
    classes_.emplace(guard.subject.object(), type);
    return;
  }
  types_.emplace(guard.subject.index(), type);
  const auto found = same_.find(guard.subject.index());
  if (found != same_.end()) classes_.emplace(found->second, type);
}

// A guard looks into its subject and finds objects there. Each gets a path: that of the subject, and one step more.
void Sources::follow(const Guard& guard) {
  const Source* subject = this->subject(guard);
  const auto item = [&](uint32_t i) { return trace_.guard_items[guard.first + i]; };
  switch (guard.op) {
    case GuardOp::kType:
    case GuardOp::kNoInlineSlot:
    case GuardOp::kSet:
    case GuardOp::kHas:
    case GuardOp::kHasNot:
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
      note_class(guard);
      break;
    case GuardOp::kInstance:
      note_class(guard);
      if (guard.number != 0) owners_.emplace(reinterpret_cast<PyObject*>(guard.number), subject);
      break;
    case GuardOp::kFunction:
      note_class(guard);
      name_cells(guard.subject.object());
      break;
    case GuardOp::kDict:
      note_class(guard);
      follow_dict(guard, subject);
      break;
    case GuardOp::kList:
      note_class(guard);
      for (uint32_t i = 0; i < guard.count; ++i) name(item(i), make(Step::kItem, subject, nullptr, i));
      break;
    case GuardOp::kParts:
      note_class(guard);
      follow_parts(guard, subject);
      break;
    case GuardOp::kInlineSlot:
      note_class(guard);
      name(item(0), found(guard, subject));
      break;
    case GuardOp::kSlot:
    case GuardOp::kCell:
    case GuardOp::kContextVar:
      name(guard.expected, found(guard, subject));
      break;
    case GuardOp::kIs:
      if (!guard.subject.is_reg()) break;
      name(guard.expected, subject);
      same_.emplace(guard.subject.index(), guard.expected);
      break;
    case GuardOp::kDictSize:
      if (guard.subject.is_reg()) keys_.emplace(guard.subject.index(), &guard);
      break;
    case GuardOp::kSuspended:  // the trace owns the code
      if (guard.subject.is_reg())
        generators_.emplace(guard.subject.index(), reinterpret_cast<PyCodeObject*>(guard.expected));
      break;
    case GuardOp::kLoadInline:
      note_class(guard);
      [[fallthrough]];
    case GuardOp::kLoadSelf:
    case GuardOp::kLoadTupleItem:
    case GuardOp::kLoadListItem:
    case GuardOp::kLoadCell:
    case GuardOp::kLoadSlot:
    case GuardOp::kLoadDictItem:
    case GuardOp::kLoadDictKeyAt:
    case GuardOp::kLoadDictValueAt:
    case GuardOp::kLoadSuspended:
    case GuardOp::kLoadCount:
    case GuardOp::kLoadGeneratorFunction:
      registers_.emplace(guard.out, found(guard, subject));
      break;
    case GuardOp::kScalar:
    case GuardOp::kTypeVersion:
    case GuardOp::kNoAttribute:
    case GuardOp::kQuiet:
    case GuardOp::kValue:
    case GuardOp::kEqual:
    case GuardOp::kSame:
    case GuardOp::kNotSame:
    case GuardOp::kUnshared:
    case GuardOp::kOwnDict:
    case GuardOp::kAbcRegistry:
    case GuardOp::kRecursionLimit:
      break;
  }
}

std::string Sources::object_text(PyObject* object) const {
  if (object == nullptr) return "nothing";
  if (is_known(object)) return describe(object);
  const PyTypeObject* type = class_of(object);
  return type != nullptr ? std::string("<") + type->tp_name + ">" : "<an object>";
}

// A class that nothing has proven is looked for among all classes.
bool Sources::is_alive(PyTypeObject* type) const {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (is_known(object)) return true;
  const auto [found, is_new] = living_.try_emplace(type, false);
  if (is_new) {
    std::unordered_set<PyObject*> asked{object};
    cpython::keep_classes(&asked);
    found->second = !asked.empty();
  }
  return found->second;
}

PyTypeObject* Sources::class_of(PyObject* object) const {
  const auto found = classes_.find(object);
  return found != classes_.end() && is_alive(found->second) ? found->second : nullptr;
}

std::string Sources::place(const Guard& guard) const {
  const Source* subject = this->subject(guard);
  switch (row_of(guard.op).step) {
    case column::Step::inline_:
    case column::Step::slot:
    case column::Step::attribute:
      return text(*found(guard, subject));
    case column::Step::content: {
      const auto cell = cells_.find(guard.subject.object());
      return text(cell != cells_.end() ? *cell->second : *subject);
    }
    case column::Step::none:
    case column::Step::itself:
    case column::Step::at:
    case column::Step::entry:
    case column::Step::key_at:
    case column::Step::value_at:
    case column::Step::get:
    case column::Step::variable:
    case column::Step::count:
    case column::Step::function:
      return text(*subject);
  }
  return text(*subject);
}

std::string Sources::item_place(const Guard& guard, PyObject* key) const {
  return text(*item(guard, subject(guard), key));
}

// What the function behind a `__call__(self, *args, **kwargs)` calls an item of these; empty: nothing.
std::string Sources::argument_name(const Source& source) const {
  if (written_ == nullptr || source.step != Step::kItem || source.of == nullptr) return "";
  const auto* called = reinterpret_cast<PyCodeObject*>(trace_.code.get());
  const auto packed = static_cast<uint64_t>(called->co_argcount + called->co_kwonlyargcount);
  if (source.of->step != Step::kArgument) return "";
  if (source.of->number == packed && source.object == nullptr) {
    const auto at = source.number + static_cast<uint64_t>(called->co_argcount);
    const auto named = static_cast<uint64_t>(written_->co_argcount);
    if (at < named) return text_of(PyTuple_GET_ITEM(written_->co_localsplusnames, static_cast<Py_ssize_t>(at)));
    if ((written_->co_flags & CO_VARARGS) == 0) return "";
    const int rest = written_->co_argcount + written_->co_kwonlyargcount;
    return text_of(PyTuple_GET_ITEM(written_->co_localsplusnames, rest)) + "[" + std::to_string(at - named) + "]";
  }
  const bool keyword = source.of->number == packed + 1 && source.object != nullptr && is_known(source.object);
  return keyword && is_identifier(source.object) ? text_of(source.object) : "";
}

std::string Sources::text(const Source& source) const {
  if (std::string name = argument_name(source); !name.empty()) return name;
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
      return before + ".<an attribute>";
    case Step::kOffset:
      return before + " (in C)";
    case Step::kGet:
      return before + ".get()";
  }
  return before;
}

}  // namespace pijit
