// Reads traces that another process has kept: finds their objects, takes versions anew, makes operations that run.
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <unordered_set>

#include "adapter.h"
#include "cpython/classes.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "ir/adapter_slot.h"
#include "ir/text.h"
#include "ir/text_operation.h"
#include "kept/describe.h"
#include "kept/kept.h"

namespace pijit {
namespace {

constexpr const char* kCode = ": code ";

// Words for an object of the file that is another here: "function f: code 12ab in the file, 34cd here".
std::string both(const std::string& there, const std::string& here) {
  const size_t end = there.rfind(' ');
  if (end == std::string::npos || here.substr(0, end + 1) != there.substr(0, end + 1))
    return there + " in the file, " + (here.empty() ? "an object of another kind" : here) + " here";
  const char* const what = there.substr(0, 7) == "object " ? ": " : kCode;
  return there.substr(0, end) + what + there.substr(end + 1) + " in the file, " + here.substr(end + 1) + " here";
}

// "range(0, 12)", or with a step; null: it is none.
Ref range_of(PyObject* text) {
  const char* at = PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  constexpr std::string_view kWord = "range(";
  if (at == nullptr) return PyErr_Clear(), Ref();
  if (std::string_view(at).substr(0, kWord.size()) != kWord) return Ref();
  at += kWord.size();
  long long numbers[3] = {0, 0, 1};
  for (int i = 0; i < 3; ++i) {
    char* end = nullptr;
    errno = 0;
    numbers[i] = std::strtoll(at, &end, 10);
    if (end == at || errno != 0) return Ref();
    at = end;
    if (*at == ')' && i > 0) break;
    if (i == 2 || at[0] != ',' || at[1] != ' ') return Ref();
    at += 2;
  }
  if (std::string_view(at) != ")") return Ref();
  Ref made = Ref::steal(
      PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL", numbers[0], numbers[1], numbers[2]));
  if (!made) PyErr_Clear();
  return made;
}

class Finder {
 public:
  Finder(PyObject* owner, const std::vector<PyObject*>& arguments, std::string* why)
      : owner_(owner), arguments_(arguments), why_(why) {}

  bool find(const std::vector<KeptObject>& lines, std::vector<PyObject*>* objects) {
    std::unordered_set<PyObject*> found(lines.size());
    objects->reserve(lines.size());
    for (const KeptObject& line : lines) {
      PyObject* object = follow(line, *objects);
      if (object == nullptr) return fail(line, "is not here");
      if (!found.insert(object).second) return fail(line, "is another object of the trace here");
      const std::string about = line.part == Lead::kAddress ? kAboutAddress : descriptions_.of(object);
      if (about != line.about) return *why_ = both(line.about, about), false;
      objects->push_back(object);
    }
    for (size_t i = 0; i < lines.size(); ++i)
      for (const KeptObject& other : lines[i].also)
        if (follow(other, *objects) != (*objects)[i]) return fail(lines[i], "is not where it was, too");
    lines_ = &lines;
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines[i].owned) owned.push_back(Ref::borrow((*objects)[i]));
    return true;
  }

  std::vector<Ref> owned;
  Objects addresses;  // objects whose numbers the trace has

 private:
  // The class runs no Python: it is one of those whose values the adapter knows, and its constructor takes the text
  // apart.
  PyObject* make(PyObject* type, PyObject* text) {
    const bool is_range = type == reinterpret_cast<PyObject*>(&PyRange_Type);
    if (!is_range && (!PyType_Check(type) || !cpython::is_value_type(reinterpret_cast<PyTypeObject*>(type))))
      return nullptr;
    Ref made = is_range ? range_of(text) : Ref::steal(PyObject_CallOneArg(type, text));
    if (!made) return PyErr_Clear(), nullptr;
    owned.push_back(std::move(made));
    return owned.back().get();
  }
  PyObject* extended(PyObject* tuple, PyObject* item) {
    if (!PyTuple_CheckExact(tuple)) return nullptr;
    const Ref last = Ref::steal(PyTuple_Pack(1, item));
    Ref made = Ref::steal(last ? PySequence_Concat(tuple, last.get()) : nullptr);
    if (!made) return PyErr_Clear(), nullptr;
    owned.push_back(std::move(made));
    return owned.back().get();
  }
  PyObject* united(PyObject* types) {
    if (!PyTuple_CheckExact(types)) return nullptr;
    Ref made = cpython::union_of(types);
    if (!made) return PyErr_Clear(), nullptr;
    owned.push_back(std::move(made));
    return owned.back().get();
  }
  PyObject* number_of(PyObject* object) {
    if (cpython::is_scalar(object) && !cpython::is_singleton(object)) return nullptr;
    Ref made = Ref::steal(PyLong_FromVoidPtr(object));
    if (!made) return PyErr_Clear(), nullptr;
    addresses.push_back(object);
    owned.push_back(std::move(made));
    return owned.back().get();
  }
  PyObject* follow(const KeptObject& step, const std::vector<PyObject*>& objects) {
    if (step.part == Lead::kOwner) return owner_;
    if (step.part == Lead::kArgument) return step.number < arguments_.size() ? arguments_[step.number] : nullptr;
    const bool begins = row_of(step.part).begins;
    if (!begins && step.of >= objects.size()) return nullptr;
    if (step.part == Lead::kMade) return make(objects[step.of], step.key.get());
    if (step.part == Lead::kUnion) return united(objects[step.of]);
    if (step.part == Lead::kAddress) return number_of(objects[step.of]);
    const bool by_object = row_of(step.part).key == LeadKey::kObject;
    if (by_object && step.by >= objects.size()) return nullptr;
    PyObject* key = by_object ? objects[step.by] : step.key.get();
    if (step.part == Lead::kTuple) return extended(objects[step.of], key);
    return part_of({begins ? nullptr : objects[step.of], step.part, step.number, key});
  }
  bool fail(const KeptObject& line, const std::string& what) {
    *why_ = line.about + " " + what;
    return false;
  }

  PyObject* owner_;
  const std::vector<PyObject*>& arguments_;
  std::string* why_;
  const std::vector<KeptObject>* lines_ = nullptr;
  Descriptions descriptions_;
};

class Reviver {
 public:
  explicit Reviver(ParsedTrace& parsed) : parsed_(parsed), trace_(parsed.trace) {
    for (const RegInfo& reg : trace_.regs) reps_.push_back(reg.rep);
  }

  // Empty: the trace can be finished. Else why it is of no use.
  std::string run() {
    for (uint32_t i = 0; i < trace_.guards.size(); ++i)
      if (!renew(trace_.guards[i], i))
        return std::string("guard ") + guard_name(trace_.guards[i].op) + " does not hold";
    if (!make_inputs(&trace_.state, &trace_.tensors)) return "modes or tensors of another kind";
    for (Epoch& epoch : trace_.epochs)
      if (!make_inputs(&epoch.state, &epoch.tensors)) return "modes or tensors of another kind";
    if (!make_operations()) return "an operation that cannot be made here";
    // What prepare_replays fills in.
    trace_.pins.clear(), trace_.retained.clear(), trace_.releases.clear();
    for (Epoch& epoch : trace_.epochs) epoch.pins.clear(), epoch.retained.clear();
    for (Node& node : trace_.nodes) node.release_first = node.release_count = 0;
    return "";
  }

 private:
  bool renew(Guard& guard, uint32_t index);
  bool renew_names(Guard& guard, const std::vector<PyObject*>& names);
  void renew_items(Guard& guard, PyObject* dict);
  bool renew_dict(Guard& guard, const std::vector<PyObject*>& items);
  bool make_inputs(std::unique_ptr<StateGuard>* state, std::unique_ptr<InputGuards>* tensors);
  bool make_operations();
  bool names_registers(const Node& node, const Words& words) const;

  ParsedTrace& parsed_;
  Trace& trace_;
  std::vector<Rep> reps_;
};

// Names are only ever added to those that instances share, and some may have come in another order.
bool Reviver::renew_names(Guard& guard, const std::vector<PyObject*>& names) {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected);
  if (guard.op == GuardOp::kNoInlineSlot) {
    for (Py_ssize_t i = 0; PyObject* name = cpython::shared_key(type, i); ++i) {
      bool known = false;
      for (PyObject* each : names) known |= cpython::same_scalar(each, name);
      if (!known) return false;
    }
    guard.number = cpython::shared_keys_version(type);
    return guard.number != 0;
  }
  if (guard.aux >= names.size() || !PyUnicode_CheckExact(names[guard.aux])) return false;
  const Py_ssize_t index = cpython::shared_key_index(type, names[guard.aux]);
  guard.aux = static_cast<uint32_t>(index);
  guard.number = cpython::shared_keys_id(type);
  return index >= 0;
}

// The guard compares items under scalars and addresses itself. Under other keys it does not look: if all is as it was in
// the other process, the tag says from here on that nothing has changed. Else no call passes the guard.
void Reviver::renew_items(Guard& guard, PyObject* dict) {
  const auto first = trace_.guard_items.begin() + guard.first;
  bool compares = true, same = dict != nullptr && PyDict_Check(dict);
  for (uint32_t i = 0; same && i + 1 < guard.count; i += 2) {
    PyObject *key = first[i], *value = nullptr, *wanted = first[i + 1];
    const bool by_address = key != nullptr && !cpython::is_scalar(key) && cpython::is_address_key(key);
    if (by_address) trace_.address_keys.push_back(key);
    compares &= by_address || (key != nullptr && cpython::is_scalar(key));
    same = key != nullptr && cpython::dict_lookup(dict, key, &value) >= 0;
    same = same && (value == wanted || (value != nullptr && wanted != nullptr && cpython::same_scalar(value, wanted)));
  }
  if (same && !compares) guard.number = cpython::dict_version(dict);
}

// A dict that is guarded as a whole has to be the same as a whole; of another one the guard compares the items itself.
bool Reviver::renew_dict(Guard& guard, const std::vector<PyObject*>& items) {
  guard.number = 0;  // no dict has this version
  PyObject* dict = guard.subject.object();
  if (guard.aux == 0) return renew_items(guard, dict), true;
  if (dict == nullptr || !PyDict_Check(dict) || static_cast<size_t>(PyDict_GET_SIZE(dict)) * 2 != items.size())
    return false;
  cpython::DictCursor cursor;
  PyObject *key = nullptr, *value = nullptr;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i] == nullptr || items[i + 1] == nullptr || !cpython::dict_next(dict, &cursor, &key, &value))
      return false;
    if (key != items[i] && !cpython::same_key(key, items[i])) return false;
    if (value != items[i + 1] && !cpython::same_scalar(value, items[i + 1])) return false;
  }
  guard.number = cpython::dict_version(dict);
  return cpython::dict_ends(dict, cursor);
}

bool Reviver::renew(Guard& guard, uint32_t index) {
  PyObject* subject = guard.subject.object();
  const auto found = parsed_.more.find(index);
  static const std::vector<PyObject*> kNothing;
  const std::vector<PyObject*>& more = found == parsed_.more.end() ? kNothing : found->second;
  const char* expected = row_of(guard.op).expected;
  if (expected != nullptr && std::string_view(expected) == "type" && guard.expected != nullptr &&
      !PyType_Check(guard.expected))
    return false;
  if (subject != nullptr && guard.op != GuardOp::kDict && !has_layout(guard, subject)) return false;
  switch (guard.op) {
    case GuardOp::kTypeVersion:
      guard.number = subject == nullptr ? 0 : cpython::type_version(reinterpret_cast<PyTypeObject*>(subject));
      return guard.number != 0;
    case GuardOp::kFunction:
      guard.number = subject == nullptr ? 0 : cpython::function_version(subject);
      return guard.number != 0;
    case GuardOp::kInlineSlot:
    case GuardOp::kNoInlineSlot:
    case GuardOp::kLoadInline:
      return guard.expected != nullptr && renew_names(guard, more);
    case GuardOp::kDict:
      return renew_dict(guard, more);
    case GuardOp::kParts:
      guard.number = subject == nullptr ? 0 : cpython::part_definition(subject);
      return true;
    case GuardOp::kHas:
    case GuardOp::kHasNot:
      if (guard.expected == nullptr || !cpython::is_native_key(guard.expected)) return false;
      guard.number = static_cast<uint64_t>(PyObject_Hash(guard.expected));
      return true;
    case GuardOp::kAbcRegistry:
      guard.number = UINT64_MAX;  // what it says is asked again
      return true;
    default:
      return row_of(guard.op).number != column::Number::version;
  }
}

bool Reviver::make_inputs(std::unique_ptr<StateGuard>* state, std::unique_ptr<InputGuards>* tensors) {
  Adapter* adapter = current_adapter();
  if ((*state != nullptr || *tensors != nullptr) && adapter == nullptr) return false;
  if (*state != nullptr) *state = adapter->make_state(static_cast<TextState&>(**state).words);
  if (*tensors == nullptr) return true;
  std::unique_ptr<InputGuards> made = adapter->new_inputs();
  for (size_t i = 0; i < (*tensors)->size(); ++i)
    if (!adapter->add_facts(*made, (*tensors)->source(i), (*tensors)->register_of(i), (*tensors)->facts(i)))
      return false;
  *tensors = std::move(made);
  return true;
}

// The verifier has seen that registers are written before they are read, as the node names them.
bool Reviver::names_registers(const Node& node, const Words& words) const {
  for (const Word& word : words) {
    if (word.kind != Word::Kind::kRegister) continue;
    bool named = false;
    for (uint32_t i = 0; i < node.count && !named; ++i)
      named = trace_.operands[node.first + i] == Val::reg(static_cast<uint32_t>(word.number));
    for (uint32_t i = 0; i < node.outs_count && !named; ++i) named = trace_.outs[node.outs_first + i] == word.number;
    if (!named) return false;
  }
  return true;
}

bool Reviver::make_operations() {
  Adapter* adapter = current_adapter();
  size_t at = 0;
  for (Node& node : trace_.nodes) {
    if (node.adapter_op == nullptr) continue;
    std::unique_ptr<AdapterOp>& op = trace_.adapter_ops[at++];
    const Words& words = static_cast<TextOperation&>(*op).words;
    if (adapter == nullptr || !names_registers(node, words)) return false;
    for (const Word& word : words)
      if (word.object != nullptr) trace_.owned.push_back(Ref::borrow(word.object));
    std::unique_ptr<AdapterOp> made = adapter->make_operation(words, reps_);
    if (made == nullptr) return false;
    op = std::move(made);
    node.adapter_op = op.get();
  }
  return true;
}

}  // namespace

bool may_come(std::string_view why) noexcept {
  return why.ends_with("here") && why.find(kCode) == std::string_view::npos;
}

std::unique_ptr<Trace> revive(const std::string& text, PyObject* owner, const std::vector<PyObject*>& arguments,
                              std::string* why) {
  const cpython::GcPause pause;  // objects are borrowed until the trace has them
  Finder finder(owner, arguments, why);
  try {
    const std::unique_ptr<ParsedTrace> parsed =
        parse_kept(text, [&](const std::vector<KeptObject>& lines, std::vector<PyObject*>* objects) {
          return finder.find(lines, objects);
        });
    if (parsed == nullptr) return nullptr;
    *why = Reviver(*parsed).run();
    if (!why->empty()) return nullptr;
    auto trace = std::make_unique<Trace>(std::move(parsed->trace));
    for (Ref& object : finder.owned) trace->owned.push_back(std::move(object));
    trace->addresses = std::move(finder.addresses);
    return trace;
  } catch (const TextError& error) {
    *why = "line " + std::to_string(error.line) + ": " + error.what();
    return nullptr;
  }
}

}  // namespace pijit
