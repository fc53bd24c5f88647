// Makes roots, finds them, and removes them.
#include "cache/root.h"

#include <algorithm>
#include <map>
#include <utility>

#include "adapter.h"
#include "cache/code_state.h"
#include "cache/entry_points.h"
#include "cpython/objects.h"
#include "cpython/places.h"
#include "ir/adapter_slot.h"
#include "record/marks.h"

namespace pijit {
namespace {

int g_next = 1;
bool g_keep_dead = false;
bool g_any_suspends = false;
bool g_changed = true, g_any_live = false, g_any_of_user = false, g_any_needs_frames = false;

// Who is shown dying roots finds the object as it was, though the weak reference to it is gone.
void show_dying(Root& root, PyObject* number) {
  const SavedError error;
  root.owner.dying = true;
  for (const Ref* shown : {&dead_root_keeper(), &dying_root_writer()})
    if (*shown && !Ref::steal(PyObject_CallOneArg(shown->get(), number))) PyErr_WriteUnraisable(nullptr);
  root.owner.dying = false;
}

// Called when the function or instance of a root dies; `self` is the root's number.
PyObject* on_death(PyObject* self, PyObject*) {
  const std::shared_ptr<Root> root = find_root(static_cast<int>(PyLong_AsLong(self)));
  if (root != nullptr && !root->is_entry() && (!root->traces.empty() || dying_root_writer())) show_dying(*root, self);
  remove_root(static_cast<int>(PyLong_AsLong(self)));
  Py_RETURN_NONE;
}

// The function among these names that stands first in its file; null if there is none.
PyObject* first_function(PyObject* names) noexcept {
  const auto line = [](PyObject* function) {
    return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_firstlineno;
  };
  PyObject *first = nullptr, *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(names, &at, &name, &value) != 0;)
    if (PyFunction_Check(value) && (first == nullptr || line(value) < line(first))) first = value;
  return first;
}

// The method of an object that stands for it in messages, since its `__call__` may come from a library: what its class
// has the user write, or else the first method of its own class. Null: there is none.
PyObject* written_method(PyCodeObject* code, PyTypeObject* type) noexcept {
  Adapter* adapter = current_adapter();
  const char* name = adapter == nullptr || !cpython::is_library(code) ? nullptr : adapter->written_method();
  Ref text = Ref::steal(PyUnicode_InternFromString(name == nullptr ? "__call__" : name));
  if (!text) PyErr_Clear();
  if (name != nullptr && text) return cpython::lookup_type(type, text.get());
  PyObject* names = cpython::type_dict(type);
  if (names == nullptr || (text && PyDict_Contains(names, text.get()) == 1)) return nullptr;
  return first_function(names);
}

// The code that stands for a root in messages: of the function under its decorators, or of a method of the object.
PyCodeObject* written_code(PyCodeObject* code, PyObject* function, PyObject* instance) noexcept {
  PyObject* written = function != nullptr ? function : written_method(code, Py_TYPE(instance));
  if (written == nullptr || !PyFunction_Check(written)) return code;
  return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(undecorated(written)));
}

PyMethodDef g_on_death = {"root_died", on_death, METH_O, nullptr};

}  // namespace

Limits& limits() noexcept {
  static Limits value;
  return value;
}

Stats& stats() noexcept {
  static Stats value;
  return value;
}

std::vector<std::shared_ptr<Root>>& all_roots() noexcept {
  static auto* roots = new std::vector<std::shared_ptr<Root>>();
  return *roots;
}

void roots_changed() noexcept {
  g_changed = true;
}

namespace {

void look_at_roots() noexcept {
  if (!std::exchange(g_changed, false)) return;
  g_any_live = g_any_of_user = g_any_needs_frames = false;
  for (const auto& root : all_roots()) {
    g_any_live = g_any_live || root->is_live();
    g_any_of_user = g_any_of_user || (root->is_live() && !root->asked.automatic);
    g_any_needs_frames = g_any_needs_frames || root->needs_frames();
  }
}

}  // namespace

bool any_live_root() noexcept {
  look_at_roots();
  return g_any_live;
}

bool any_live_root_of_user() noexcept {
  look_at_roots();
  return g_any_of_user;
}

bool any_root_needs_frames() noexcept {
  look_at_roots();
  return g_any_needs_frames;
}

std::vector<std::shared_ptr<Root>>& dead_roots() noexcept {
  static auto* roots = new std::vector<std::shared_ptr<Root>>();
  return *roots;
}

void keep_dead_roots() noexcept {
  g_keep_dead = true;
}

Ref& dead_root_keeper() noexcept {
  static auto* keeper = new Ref();
  return *keeper;
}

Ref& dying_root_writer() noexcept {
  static auto* writer = new Ref();
  return *writer;
}

PyObject* undecorated(PyObject* function) noexcept {
  constexpr int kMost = 16;  // a chain that leads back to itself ends
  for (int i = 0; i < kMost; ++i) {
    PyObject* names = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    PyObject* inner = names == nullptr ? nullptr : PyDict_GetItemString(names, "__wrapped__");
    if (inner == nullptr || !PyFunction_Check(inner)) break;
    function = inner;
  }
  PyErr_Clear();
  return function;
}

bool any_suspends() noexcept {
  return g_any_suspends;
}

// Immortal, so that nothing is dropped when the process ends.
Ref& default_market() noexcept {
  static auto* market = new Ref();
  return *market;
}

int add_root(PyCodeObject* code, PyObject* function, PyObject* instance, std::string name, bool strict,
             bool automatic) {
  CodeState* state = code_state(code, true);
  if (state == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  auto root = std::make_shared<Root>();
  root->id = next_root();
  Ref number = Ref::steal(PyLong_FromLong(root->id));
  Ref callback = Ref::steal(PyCFunction_New(&g_on_death, number.get()));
  if (!callback) return -1;
  root->owner.weak = Ref::steal(PyWeakref_NewRef(function != nullptr ? function : instance, callback.get()));
  if (!root->owner.weak) return -1;
  root->owner.set_code(code);
  root->owner.function = function;
  root->owner.instance = instance;
  root->written.name = std::move(name);
  PyCodeObject* written = written_code(code, function, instance);
  const char* file = PyUnicode_AsUTF8(written->co_filename);
  if (file == nullptr) PyErr_Clear();
  root->written.file = file == nullptr ? "?" : file;
  root->written.line = written->co_firstlineno;
  root->owner.suspends = (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
  g_any_suspends = g_any_suspends || root->owner.suspends;
  root->asked.strict = strict;
  root->asked.automatic = automatic;
  if (automatic) root->asked.market = Ref::borrow(default_market().get());
  state->roots.push_back(root);
  all_roots().push_back(root);
  roots_changed();
  return root->id;
}

void remove_root(int id) {
  auto root = find_root(id);
  if (root == nullptr) return;
  root->owner.dead = true;
  roots_changed();
  auto erase = [&](std::vector<std::shared_ptr<Root>>& roots) {
    roots.erase(std::remove(roots.begin(), roots.end(), root), roots.end());
  };
  erase(all_roots());
  CodeState* state = code_state(root->owner.code, false);
  if (state != nullptr) {
    erase(state->roots);
    const bool worth = root->counts.is_worth() && root->recordings.are_paid(root->counts.replays);
    if (root->asked.automatic) state->wasted = worth ? 0 : state->wasted + 1;
  }
  const Traces::All gone = root->traces.take();
  if (g_keep_dead) dead_roots().push_back(root);
}

std::shared_ptr<Root> find_root(int id) {
  for (auto& root : all_roots())
    if (root->id == id) return root;
  for (const auto& entry : all_entries())
    if (entry->id == id) return entry;
  return nullptr;
}

int next_root() noexcept {
  return g_next++;
}

int root_of(PyObject* object) noexcept {
  for (auto& root : all_roots())
    if (root->owner.function == object || root->owner.instance == object ||
        reinterpret_cast<PyObject*>(root->owner.code) == object)
      return root->id;
  return -1;
}

void reset_root(Root& root) {
  const Traces::All gone = root.traces.take();
  root.varying.clear();
  root.variants = Variants();
  root.counts = Counts();
  root.in_a_row = InARow();
  root.evictions = Evictions();
  root.last = Last();
  root.aside = Aside();
  root.standing = Standing();
  root.savings = Savings();
  root.ledger = Ledger();
  root.recordings = Recordings();
  forget_entries_of(root);
  roots_changed();
}

namespace {

// A function of Python, or the methods of an object.
class FollowedThing {
 public:
  explicit FollowedThing(PyObject* thing) : thing_(thing) {}

  // The trace was recorded through it: the trace guards the function, or has an operation of its code.
  bool is_in(const Trace& trace) {
    for (const Guard& guard : trace.guards)
      if (guard.op == GuardOp::kFunction && has(guard.subject.object())) return true;
    return std::any_of(trace.sites.begin(), trace.sites.end(), [&](const Site& site) { return has_code(site.code); });
  }

 private:
  bool has(PyObject* function) {
    if (function == thing_) return true;
    return !PyFunction_Check(thing_) && PyFunction_Check(function) &&
           has_code(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
  }
  bool has_code(PyCodeObject* code) {
    if (code == nullptr) return false;
    if (PyFunction_Check(thing_)) return PyFunction_GET_CODE(thing_) == reinterpret_cast<PyObject*>(code);
    auto [known, is_new] = methods_.try_emplace(code, false);
    if (is_new) known->second = is_method_of(code, Py_TYPE(thing_));
    return known->second;
  }

  PyObject* thing_;
  std::map<PyCodeObject*, bool> methods_;  // those that were looked for
};

}  // namespace

void forget_followed(PyObject* thing) {
  FollowedThing followed(thing);
  const auto follows_it = [&](const Root& root) {
    return std::any_of(root.traces.begin(), root.traces.end(),
                       [&](const auto& trace) { return followed.is_in(*trace); });
  };
  for (const auto& entry : all_entries())
    if (follows_it(*entry)) forget_entry(*entry);
  const std::vector<std::shared_ptr<Root>> roots = all_roots();  // what dies meanwhile takes itself off the list
  for (auto& root : roots)
    if (follows_it(*root)) reset_root(*root);
}

}  // namespace pijit
