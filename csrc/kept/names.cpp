// Writes traces: names their objects, and says what their guards rely on.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "adapter.h"
#include "cpython/bytecode.h"
#include "cpython/classes.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "guard/proven.h"
#include "ir/adapter_slot.h"
#include "ir/text.h"
#include "kept/describe.h"
#include "kept/kept.h"

namespace pijit {
namespace {

constexpr int kLongestPath = 200;
constexpr Py_ssize_t kLargestDict = 4096;  // of which all items are written

class Names final : public KeptNames {
 public:
  Names(const Trace& trace, PyObject* owner, PyObject* arguments)
      : trace_(trace), origins_(origins_of(trace, owner, arguments)) {
    for (const Ref& object : trace.owned) owned_.insert(object.get());
  }

  std::string name(PyObject* object, bool alive) override;
  std::vector<PyObject*> more(const Guard& guard) override;
  void fail(std::string why) override {
    if (!why_.empty()) return;
    why_ = std::move(why);
    if (*what != '\0') why_ += std::string(" (") + what + " " + std::to_string(number) + ")";
  }
  const std::string& why() const { return why_; }
  // A guard compares with such a number: it may have been computed with before, as any number.
  bool guards_address() const {
    const auto is_one = [&](PyObject* object) {
      return object != nullptr && origins_.count(object) != 0 && addressed(trace_.addresses, object) != nullptr;
    };
    return std::any_of(trace_.guards.begin(), trace_.guards.end(), [&](const Guard& guard) {
      bool any = is_one(guard.expected);
      for (uint32_t i = 0; i < guard.count && !any; ++i) any = is_one(trace_.guard_items[guard.first + i]);
      return any;
    });
  }
  // The lines of all objects that were named.
  std::string lines();

 private:
  std::optional<uint32_t> add(PyObject* object, int depth = 0);
  std::optional<uint32_t> add_line(PyObject* object, KeptObject line);
  bool lead(PyObject* object, const Origin& origin, KeptObject* line, int depth);
  bool make(PyObject* object, KeptObject* line, int depth);
  bool make_tuple(PyObject* object, KeptObject* line, int depth);
  bool make_union(PyObject* object, KeptObject* line, int depth);
  std::string name_address(PyObject* number, PyObject* object);
  bool leads(const Origin& origin, PyObject* object) const;
  bool find(PyObject* object, Origin* origin);
  bool find_by_name(PyObject* object, Origin* origin);
  bool find_in_module(PyObject* name, PyObject* object, Origin* origin);
  bool find_under(PyObject* dict, PyObject* path, PyObject* object, Origin* origin);
  PyObject* dict_of_module(PyObject* given);
  std::vector<PyObject*> shared_names(const Guard& guard);
  std::vector<PyObject*> whole_dict(const Guard& guard);
  void add_conditions(uint32_t at);

  const Trace& trace_;
  Origins origins_;
  std::unordered_set<PyObject*> owned_;
  Descriptions descriptions_;
  std::vector<PyObject*> objects_;
  std::vector<KeptObject> lines_;
  std::unordered_map<PyObject*, uint32_t> indices_;
  std::vector<Ref> made_;                // tuples that are parts of others
  std::unordered_set<PyObject*> tried_;  // for the object that is being named
  std::string why_;
};

bool is_literal(PyObject* object, int depth = 0) {
  if (cpython::is_scalar(object) || object == Py_NotImplemented) return true;
  if (!PyTuple_CheckExact(object) || depth > 20) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_literal(PyTuple_GET_ITEM(object, i), depth + 1)) return false;
  return true;
}

std::string Names::name(PyObject* object, bool alive) {
  if (const auto found = indices_.find(object); found != indices_.end())
    return "known(" + std::to_string(found->second) + ")";
  const bool known = alive || origins_.count(object) != 0 || object == Py_None || object == Py_True ||
                     object == Py_False || is_static_class(object);
  if (!known) {
    return fail("an object that nothing leads to, or that is gone"), "None";
  }
  if (PyObject* target = addressed(trace_.addresses, object)) return name_address(object, target);
  if (cpython::is_scalar(object) || object == Py_NotImplemented) return "";
  const std::optional<uint32_t> index = add(object);
  if (index) return "known(" + std::to_string(*index) + ")";
  const bool is_class = PyType_Check(object) != 0;
  const std::string what = full_name(is_class ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object));
  fail((is_class ? "nothing leads to the class " : "nothing leads to an object of ") + what);
  return "None";
}

std::string Names::name_address(PyObject* number, PyObject* object) {
  // A scalar is one that there is once, such as None: a literal is that object in any process.
  const bool is_known = origins_.count(object) != 0 || cpython::is_scalar(object);
  const std::optional<uint32_t> of = is_known ? add(object) : std::nullopt;
  if (!of) return fail("the address of an object that nothing leads to"), "None";
  KeptObject line;
  line.part = Lead::kAddress;
  line.of = *of;
  return "known(" + std::to_string(*add_line(number, std::move(line))) + ")";
}

// The step leads to the object, and a path leads to where it begins.
bool Names::leads(const Origin& origin, PyObject* object) const {
  if (origin.part == Lead::kNowhere) return false;
  if (origin.part == Lead::kOwner || origin.part == Lead::kArgument) return true;
  return part_of(origin) == object;
}

// Of the step to the object, all that its line says; false: the step does not lead there.
bool Names::lead(PyObject* object, const Origin& origin, KeptObject* line, int depth) {
  if (depth > kLongestPath || !leads(origin, object)) return false;
  line->part = origin.part;
  line->number = origin.number;
  line->key = Ref::borrow(origin.key);
  if (origin.of != nullptr) {
    const std::optional<uint32_t> of = add(origin.of, depth + 1);
    if (!of) return false;
    line->of = *of;
  }
  if (row_of(origin.part).key != LeadKey::kObject) return true;
  const std::optional<uint32_t> by = add(origin.key, depth + 1);
  line->by = by.value_or(0);
  return by.has_value();
}

// A tuple of all items but the last one, and that.
bool Names::make_tuple(PyObject* object, KeptObject* line, int depth) {
  const Py_ssize_t last = PyTuple_GET_SIZE(object) - 1;
  const Ref rest = Ref::steal(PyTuple_GetSlice(object, 0, last));
  if (!rest) return PyErr_Clear(), false;
  made_.push_back(Ref::borrow(rest.get()));  // so that no other object is taken for it
  const std::optional<uint32_t> of = add(rest.get(), depth + 1);
  PyObject* item = PyTuple_GET_ITEM(object, last);
  const std::optional<uint32_t> by = of ? add(item, depth + 1) : std::nullopt;
  if (of && !by) fail("nothing leads to an object of " + full_name(Py_TYPE(item)) + ", which is in a tuple");
  line->part = Lead::kTuple;
  line->of = of.value_or(0);
  line->by = by.value_or(0);
  return by.has_value();
}

bool Names::make_union(PyObject* object, KeptObject* line, int depth) {
  const Ref types = Ref::steal(PyObject_GetAttrString(object, "__args__"));
  if (!types) return PyErr_Clear(), false;
  const std::optional<uint32_t> of = add(types.get(), depth + 1);
  line->part = Lead::kUnion;
  line->of = of.value_or(0);
  return of.has_value();
}

// An object that nothing leads to, and that can be made anew.
bool Names::make(PyObject* object, KeptObject* line, int depth) {
  if (is_literal(object)) {
    line->part = Lead::kLiteral;
    line->key = Ref::borrow(object);
    return true;
  }
  PyTypeObject* type = Py_TYPE(object);
  if (PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) > 0) return make_tuple(object, line, depth);
  if (type == cpython::union_type()) return make_union(object, line, depth);
  if (!cpython::is_value_type(type) && !PyRange_Check(object)) return false;
  line->part = Lead::kMade;
  line->key = Ref::steal(PyObject_Str(object));
  if (!line->key || !PyUnicode_CheckExact(line->key.get())) return PyErr_Clear(), false;
  const std::optional<uint32_t> of = add(reinterpret_cast<PyObject*>(type), depth + 1);
  line->of = of.value_or(0);
  return of.has_value();
}

// Ways may lead in circles: an object whose way is being looked for leads nowhere.
std::optional<uint32_t> Names::add(PyObject* object, int depth) {
  if (const auto found = indices_.find(object); found != indices_.end()) return found->second;
  if (depth == 0) tried_.clear();
  if (!tried_.insert(object).second) return std::nullopt;
  Origin origin;
  if (const auto found = origins_.find(object); found != origins_.end()) origin = found->second;
  KeptObject line;
  // A module is found by its name: a way through the globals of a function often begins in another module.
  Origin by_name;
  if (PyModule_Check(object) && find(object, &by_name) && lead(object, by_name, &line, depth))
    return add_line(object, std::move(line));
  if (lead(object, origin, &line, depth)) return add_line(object, std::move(line));
  if (find(object, &origin) && lead(object, origin, &line, depth)) return add_line(object, std::move(line));
  line = KeptObject();
  return make(object, &line, depth) ? add_line(object, std::move(line)) : std::nullopt;
}

std::optional<uint32_t> Names::add_line(PyObject* object, KeptObject line) {
  line.about = line.part == Lead::kAddress ? kAboutAddress : descriptions_.of(object);
  if (line.about.empty()) return std::nullopt;
  line.owned = owned_.count(object) != 0;
  const auto index = static_cast<uint32_t>(objects_.size());
  objects_.push_back(object);
  lines_.push_back(std::move(line));
  indices_.emplace(object, index);
  return index;
}

// A way that no guard has shown: by what an object is called.
bool Names::find(PyObject* object, Origin* origin) {
  if (PyType_Check(object) && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE)) {
    PyObject* name = PyUnicode_InternFromString(reinterpret_cast<PyTypeObject*>(object)->tp_name);
    if (name == nullptr) return PyErr_Clear(), false;
    *origin = {nullptr, Lead::kStatic, 0, name};
    if (part_of(*origin) == object) return true;
  }
  return find_by_name(object, origin);
}

PyObject* Names::dict_of_module(PyObject* given) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* name = new_reference(given);
  PyUnicode_InternInPlace(&name);  // for good, as the names of modules are
  const Origin step{modules, Lead::kValue, 0, name};
  PyObject* module = part_of(step);
  if (module == nullptr || !PyModule_Check(module)) return nullptr;
  PyObject* dict = PyModule_GetDict(module);
  origins_.emplace(modules, Origin{nullptr, Lead::kModules});
  if (Origin& known = origins_[module]; known.part == Lead::kNowhere) known = step;
  if (Origin& known = origins_[dict]; known.part == Lead::kNowhere) known = {module, Lead::kDict};
  return dict;
}

// "Linear", or "Linear.forward", from a dict on.
bool Names::find_under(PyObject* dict, PyObject* path, PyObject* object, Origin* origin) {
  const Ref dot = Ref::steal(PyUnicode_FromString("."));
  const Ref names = Ref::steal(dot ? PyUnicode_Split(path, dot.get(), -1) : nullptr);
  if (!names) return PyErr_Clear(), false;
  PyObject* at = dict;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
    PyObject* name = new_reference(PyList_GET_ITEM(names.get(), i));
    PyUnicode_InternInPlace(&name);  // for good, as the names of what a module has are
    const Origin step{at, i == 0 ? Lead::kValue : Lead::kMember, 0, name};
    PyObject* found = part_of(step);
    if (found == nullptr) return false;
    *origin = step;
    if (i + 1 < PyList_GET_SIZE(names.get()) && origins_[found].part == Lead::kNowhere) origins_[found] = step;
    at = found;
  }
  return at == object;
}

bool Names::find_in_module(PyObject* name, PyObject* object, Origin* origin) {
  PyObject* dict = name != nullptr && PyUnicode_CheckExact(name) ? dict_of_module(name) : nullptr;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (dict != nullptr && PyDict_Next(dict, &at, &key, &value))
    if (value == object && PyUnicode_CheckExact(key)) return *origin = {dict, Lead::kValue, 0, key}, true;
  return false;
}

bool Names::find_by_name(PyObject* object, Origin* origin) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const kTorch = PyUnicode_InternFromString("torch");
  if (PyFunction_Check(object)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    PyObject* dict = function->func_module == nullptr ? nullptr : dict_of_module(function->func_module);
    return dict != nullptr && find_under(dict, function->func_qualname, object, origin);
  }
  if (type == cpython::lru_cache_type()) {  // it has the names of its function
    PyObject* own = cpython::instance_dict(object);
    PyObject* module = own == nullptr ? nullptr : PyDict_GetItemString(own, "__module__");
    PyObject* path = own == nullptr ? nullptr : PyDict_GetItemString(own, "__qualname__");
    const bool are_texts =
        module != nullptr && PyUnicode_CheckExact(module) && path != nullptr && PyUnicode_Check(path);
    PyObject* dict = are_texts ? dict_of_module(module) : nullptr;
    return dict != nullptr && find_under(dict, path, object, origin);
  }
  if (PyType_Check(object)) {
    auto* its = reinterpret_cast<PyTypeObject*>(object);
    if (!PyType_HasFeature(its, Py_TPFLAGS_HEAPTYPE)) return false;
    PyObject* module = PyDict_GetItemString(cpython::type_dict(its), "__module__");
    PyObject* dict = module != nullptr && PyUnicode_CheckExact(module) ? dict_of_module(module) : nullptr;
    return dict != nullptr && find_under(dict, reinterpret_cast<PyHeapTypeObject*>(its)->ht_qualname, object, origin);
  }
  if (PyModule_Check(object)) {
    PyObject* name = PyDict_GetItemString(PyModule_GetDict(object), "__name__");
    *origin = {PyImport_GetModuleDict(), Lead::kValue, 0, name};
    return name != nullptr && part_of(*origin) == object;
  }
  if (PyDict_CheckExact(object)) {
    PyObject* name = PyDict_GetItemString(object, "__name__");
    const bool is_there = name != nullptr && PyUnicode_CheckExact(name) && dict_of_module(name) == object;
    if (is_there) *origin = {part_of({PyImport_GetModuleDict(), Lead::kValue, 0, name}), Lead::kDict};
    return is_there;
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type ||
      type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(object);
    *origin = {reinterpret_cast<PyObject*>(descriptor->d_type), Lead::kMember, 0, descriptor->d_name};
    return part_of(*origin) == object;
  }
  if (PyCFunction_Check(object) &&
      find_in_module(reinterpret_cast<PyCFunctionObject*>(object)->m_module, object, origin))
    return true;
  // The only object of its kind, or one of a few, stands where its class does.
  PyObject* module = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)
                         ? PyDict_GetItemString(cpython::type_dict(type), "__module__")
                         : nullptr;
  return find_in_module(kTorch, object, origin) || find_in_module(module, object, origin);
}

std::vector<PyObject*> Names::shared_names(const Guard& guard) {
  auto* type = reinterpret_cast<PyTypeObject*>(guard.expected);
  std::vector<PyObject*> names;
  if (origins_.count(guard.expected) == 0) return fail("a class that is gone"), names;
  const bool same = guard.op == GuardOp::kNoInlineSlot ? cpython::current_shared_keys_version(type) == guard.number
                                                       : cpython::shared_keys_id(type) == guard.number;
  if (!same) return fail("instances of " + full_name(type) + " have got other attributes since"), names;
  for (Py_ssize_t i = 0; PyObject* name = cpython::shared_key(type, i); ++i) {
    origins_.try_emplace(name);
    names.push_back(name);
  }
  return names;
}

std::vector<PyObject*> Names::whole_dict(const Guard& guard) {
  std::vector<PyObject*> items;
  PyObject* dict = guard.subject.object();
  if (dict == nullptr || origins_.count(dict) == 0 || !PyDict_Check(dict)) return fail("a dict that is gone"), items;
  if (cpython::dict_version(dict) != guard.number) return fail("a dict that has changed since"), items;
  if (PyDict_GET_SIZE(dict) > kLargestDict) return fail("a large dict as a whole"), items;
  cpython::DictCursor cursor;
  PyObject *key = nullptr, *value = nullptr;
  while (cpython::dict_next(dict, &cursor, &key, &value)) {
    for (PyObject* each : {key, value}) origins_.try_emplace(each), items.push_back(each);
  }
  return items;
}

std::vector<PyObject*> Names::more(const Guard& guard) {
  PyObject* subject = guard.subject.object();
  switch (guard.op) {
    case GuardOp::kInlineSlot:
    case GuardOp::kNoInlineSlot:
    case GuardOp::kLoadInline:
      return shared_names(guard);
    case GuardOp::kDict:
      return guard.aux == 0 ? std::vector<PyObject*>() : whole_dict(guard);
    case GuardOp::kTypeVersion:
    case GuardOp::kFunction:
      if (subject == nullptr || origins_.count(subject) == 0 || !check_guard(trace_, guard, nullptr))
        fail("a class or function that has changed since");
      return {};
    case GuardOp::kParts:
      if (subject == nullptr && guard.number != 0) fail("a method of C that differs from call to call");
      return {};
    default:
      return {};
  }
}

// Steps from the object that no guard looks at, since they lead to the same for good: where they lead to objects of the
// trace, they are conditions.
void Names::add_conditions(uint32_t at) {
  PyObject* object = objects_[at];
  const auto step = [&](const Origin& origin, PyObject* to) {
    const auto found = to == nullptr ? indices_.end() : indices_.find(to);
    if (found == indices_.end()) return;
    KeptObject& line = lines_[found->second];
    if (line.part == origin.part && line.of == at && line.number == origin.number) return;
    KeptObject other;
    other.part = origin.part;
    other.of = at;
    other.number = origin.number;
    other.key = Ref::borrow(origin.key);
    line.also.push_back(std::move(other));
  };
  for (const Lead part :
       {Lead::kClass, Lead::kCode, Lead::kGlobals, Lead::kFunctionBuiltins, Lead::kClosure, Lead::kDefaults,
        Lead::kKeywordDefaults, Lead::kConstants, Lead::kGetter, Lead::kSetter, Lead::kDeleter, Lead::kWrapped})
    step({object, part}, part_of({object, part}));
  // A literal is made with all its items: no object of the program is one of them.
  const bool is_made = lines_[at].part == Lead::kLiteral;
  for (Py_ssize_t i = 0; i < cpython::part_count(object) && !is_made; ++i)
    step({object, Lead::kItem, static_cast<uint64_t>(i)}, cpython::part(object, i));
  if (!PyType_Check(object)) return;
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  for (Py_ssize_t i = 1; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    step({object, Lead::kBase, static_cast<uint64_t>(i)}, PyTuple_GET_ITEM(type->tp_mro, i));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t place = 0;
  while (PyDict_Next(cpython::type_dict(type), &place, &key, &value))
    if (PyUnicode_CheckExact(key)) step({object, Lead::kMember, 0, key}, value);
}

std::string Names::lines() {
  for (uint32_t i = 0; i < objects_.size(); ++i) add_conditions(i);
  for (const KeptObject& line : lines_)  // one that is made is at no other place
    if ((line.part == Lead::kTuple || line.part == Lead::kUnion) && !line.also.empty())
      fail("a tuple or union that stands at another place, too");
  std::string text;
  for (size_t i = 0; i < lines_.size(); ++i) text += kept_object_text(i, lines_[i]);
  return text;
}

}  // namespace

std::string kept_text(const Trace& trace, PyObject* owner, PyObject* arguments, std::string* why) {
  if (trace.takes_inputs || !trace.heads.empty() || !trace.kept.empty() || trace.gives_way) {
    *why = "it begins in the middle of a function, or gives way to the next";
    return "";
  }
  if (trace.of_this_process) return *why = "it has an address, a hash or the order of a set as a constant", "";
  const cpython::GcPause pause;  // what is known to be alive stays so
  Names names(trace, owner, arguments);
  if (names.guards_address()) return *why = "an address stands in what the program keeps", "";
  const std::string text = kept_trace_text(trace, names);
  const std::string lines = names.lines();
  if (!names.why().empty()) return *why = names.why(), "";
  return "pijit kept 1\n" + lines + text;
}

}  // namespace pijit
