// Says which guard does not hold, with what was expected and what is there now.
//
// The check itself says where it failed (`Mismatch`), and the row of the guard has the words. Nothing is compared again.
// What the guards before it name is alive, since they hold. Other objects that the trace names may be dead: of these
// the class is told, if the trace knows it and it lives.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "cpython/objects.h"
#include "guard/check.h"
#include "guard/instances.h"
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
// not such objects whose classes do something else than containers do.
const char* derived_from(PyObject* object) noexcept {
  if (cpython::is_plain_tuple(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) ||
      PyAnySet_CheckExact(object) || is_derived_container(object))
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

// What may stand in braces in the column `words` of guards.def.
enum class Part : uint8_t { kName, kPlace, kChange, kClass, kExpected, kNow, kNumber, kRegister };
constexpr std::string_view kParts[] = {"name", "place", "change", "class", "expected", "now", "number", "register"};
static_assert(std::size(kParts) == static_cast<size_t>(Part::kRegister) + 1);

constexpr size_t find_part(std::string_view name) noexcept {
  size_t at = 0;
  while (at < std::size(kParts) && kParts[at] != name) ++at;
  return at;
}

constexpr bool words_are_known() noexcept {
  for (const GuardRow& row : kGuardRows)
    for (size_t at = row.words.find('{'); at != std::string_view::npos; at = row.words.find('{', at + 1)) {
      const size_t end = row.words.find('}', at);
      if (end == std::string_view::npos) return false;
      if (find_part(row.words.substr(at + 1, end - at - 1)) == std::size(kParts)) return false;
    }
  return true;
}
static_assert(words_are_known(), "guards.def has words with a part that nobody fills in");

// One guard that does not hold.
class Explanation {
 public:
  Explanation(const Trace& trace, const Guard& guard, const Reg* regs, const ObjectSet& alive, const Mismatch& mismatch)
      : trace_(trace),
        guard_(guard),
        row_(row_of(guard.op)),
        alive_(alive),
        mismatch_(mismatch),
        subject_(subject_of(guard, regs)),
        written_(trace.inputs > 0 ? written_code(trace, regs[0].object) : nullptr),
        print_(trace, false, &alive, written_),
        name_(name()) {}

  std::string text() const;

 private:
  std::string name() const;
  std::string found_at(PyObject* object, const std::string& place) const;
  std::string change(const std::string& place, PyObject* now, PyObject* before) const;
  std::string pair(const std::string& place, PyObject* now, PyObject* before) const {
    return place + ": " + change(place, now, before);
  }
  std::string part(Part part, const std::string& before) const;
  std::string filled(std::string_view words) const;
  std::string item_place() const;
  std::string mismatch() const;
  PyObject* item(uint32_t i) const { return trace_.guard_items[guard_.first + i]; }

  const Trace& trace_;
  const Guard& guard_;
  const GuardRow& row_;
  const ObjectSet& alive_;
  const Mismatch& mismatch_;
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

// `place`: where the objects stand, as it is written before the change.
std::string Explanation::change(const std::string& place, PyObject* now, PyObject* before) const {
  const bool known = before == nullptr || print_.sources().is_known(before);
  const PyTypeObject* type = known ? nullptr : print_.sources().class_of(before);
  const std::string was = known             ? describe(before) + found_at(before, place)
                          : type != nullptr ? std::string("<") + type->tp_name + ">"
                                            : "another object";
  const std::string is = describe(now) + found_at(now, place);
  return is == was ? "another " + is + " than before" : is + " now, " + was + " before";
}

// `before`: the text that stands before it.
std::string Explanation::part(Part part, const std::string& before) const {
  switch (part) {
    case Part::kName:
      return name_;
    case Part::kPlace:
      return print_.sources().place(guard_);
    case Part::kChange: {
      const std::string place = before.substr(0, before.rfind(": "));
      return change(place, row_.step == column::Step::itself ? subject_ : mismatch_.now, guard_.expected);
    }
    case Part::kClass:
      return type_name(subject_);
    case Part::kExpected:
      return print_.object(guard_.expected);
    case Part::kNow:
      return std::to_string(mismatch_.size);
    case Part::kNumber:
      return std::to_string(guard_.number);
    case Part::kRegister:
      return print_.source(Val::reg(static_cast<uint32_t>(guard_.number)));
  }
  return "";
}

std::string Explanation::filled(std::string_view words) const {
  std::string text;
  for (size_t at = 0; at < words.size();) {
    const size_t begin = std::min(words.find('{', at), words.size());
    text += words.substr(at, begin - at);
    if (begin == words.size()) break;
    const size_t end = words.find('}', begin);
    text += part(static_cast<Part>(find_part(words.substr(begin + 1, end - begin - 1))), text);
    at = end + 1;
  }
  return text;
}

// Where the item stands that is another one.
std::string Explanation::item_place() const {
  const std::string_view items = row_.items;
  const std::string index = std::to_string(mismatch_.item);
  if (items == "pairs") return print_.sources().item_place(guard_, item(mismatch_.item - 1));
  if (items == "keys") return name_ + ": key " + index;
  return row_.step == column::Step::at ? name_ + "[" + index + "]" : print_.sources().place(guard_);
}

std::string Explanation::mismatch() const {
  switch (mismatch_.what) {
    case Mismatch::What::kRow:
      return filled(row_.words);
    case Mismatch::What::kOther:
      return pair(name_, subject_, guard_.expected);
    case Mismatch::What::kClass:
      return filled(row_of(GuardOp::kType).words);
    case Mismatch::What::kSize: {
      const std::string things = std::string_view(row_.items) == "keys" ? " keys" : " items";
      return name_ + ": " + std::to_string(mismatch_.size) + things + " now, " + std::to_string(mismatch_.before) +
             " before";
    }
    case Mismatch::What::kItem:
      return pair(item_place(), mismatch_.now, item(mismatch_.item));
  }
  return name_;
}

std::string Explanation::text() const {
  if (subject_ == nullptr) return name_ + ": missing";
  if (is_load(guard_.op)) return filled(row_.words);
  if (!has_layout(guard_, subject_)) return name_ + ": no " + layout_word(row_.subject) + " any more";
  if (is_of_derived(guard_, subject_)) {
    const std::string base = derived_from(subject_);
    return name_ + ": a " + type_name(subject_) + " is a subclass of " + base +
           ", and is taken as one object with what is in it; pass its items, or " + base + "(" + name_ + ")";
  }
  return mismatch();
}

// Of guards that are checked together.
struct Together {
  StateGuard* state;
  size_t first, count;
  InputGuards* tensors;
};

std::string explain(const Trace& trace, const Together& guards, ObjectSet* alive, Reg* regs) {
  if (guards.state != nullptr && !guards.state->check()) return guards.state->explain();
  for (size_t i = guards.first; i < guards.first + guards.count; ++i) {
    const Guard& guard = trace.guards[i];
    Mismatch mismatch;
    if (!check_guard(trace, guard, regs, &mismatch)) return Explanation(trace, guard, regs, *alive, mismatch).text();
    note_alive(trace, guard, alive);
  }
  if (guards.tensors == nullptr || guards.tensors->check(regs)) return "";
  Val source;
  const std::string text = guards.tensors->explain(regs, &source);
  PyCodeObject* written = trace.inputs > 0 ? written_code(trace, regs[0].object) : nullptr;
  return Printer(trace, false, alive, written).source(source) + ": " + text;
}

}  // namespace

std::string explain_miss(const Trace& trace, PyObject* start, Reg* regs) {
  ObjectSet alive;
  if (start != nullptr) alive.insert(start);
  return explain(trace, {trace.state.get(), 0, trace.entry_guards(), trace.tensors.get()}, &alive, regs);
}

std::string explain_miss(const Trace& trace, const Epoch& epoch, Reg* regs) {
  ObjectSet alive;
  return explain(trace, {epoch.state.get(), epoch.first, epoch.count, epoch.tensors.get()}, &alive, regs);
}

}  // namespace pijit
