// Places that vary: how they are read, and how a recording learns them.
#include "record/state/varying.h"

#include <unordered_set>

#include "record/recorder.h"

#include "cpython/keys.h"
#include "cpython/members.h"
#include "cpython/objects.h"
#include "guard/instances.h"
#include "ir/scalars.h"
#include "record/limits.h"
#include "record/state/inputs.h"
#include "record/state/instances.h"
#include "record/state/values.h"

namespace pijit {
namespace {

// A scalar type whose operations are nodes (None, True and False decide branches: they stay constants).
bool may_vary(PyTypeObject* type) noexcept {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type ||
         type == &PyComplex_Type;
}

// What is in a place of a dict, cell or object; null: nothing, or it cannot be said.
PyObject* content_now(PyObject* container, PyObject* key) noexcept {
  PyObject* found = nullptr;
  if (PyCell_Check(container)) return PyCell_GET(container);
  if (PyDict_Check(container)) return cpython::dict_lookup(container, key, &found) > 0 ? found : nullptr;
  PyTypeObject* type = Py_TYPE(container);
  if (const PyMemberDef* member = cpython::member_of(cpython::lookup_type(type, key)))
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(container) + member->offset);
  if (cpython::attribute_storage(container) != cpython::Storage::kInline) return nullptr;
  const Py_ssize_t index = cpython::shared_key_index(type, key);
  return index < 0 ? nullptr : cpython::inline_value(container, index);
}

// Attributes in which instances of a class count, as `_num_yielded` of the iterators of a DataLoader: a trace has put
// another number there than it found. So it is with the next instance, where each would be recorded twice. By the
// address of the class and the hash of the name: one too many is only left open.
std::unordered_set<uint64_t>& counters() {
  static auto* all = new std::unordered_set<uint64_t>();
  return *all;
}

constexpr size_t kMostCounters = 4096;

uint64_t counter_of(PyObject* instance, PyObject* name) noexcept {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15ull;
  return (reinterpret_cast<uintptr_t>(Py_TYPE(instance)) * kPrime) ^ static_cast<uint64_t>(PyObject_Hash(name));
}

// Only of an instance is it known whose attribute it is: a dict may be of any.
bool has_counters(PyObject* container) noexcept {
  return PyType_HasFeature(Py_TYPE(container), Py_TPFLAGS_HEAPTYPE) && !PyDict_Check(container);
}

bool is_counter(Recorder& recorder, PyObject* container, PyObject* key, PyObject* value) {
  return (PyLong_CheckExact(value) || PyFloat_CheckExact(value)) && has_counters(container) &&
         PyUnicode_CheckExact(key) && counters().count(counter_of(container, key)) != 0 &&
         recorder.varying()->add(container, key);
}

// 0: it counts nothing.
uint64_t counter_with(PyObject* container, PyObject* key, PyObject* original) noexcept {
  const bool number = PyLong_CheckExact(original) || PyFloat_CheckExact(original);
  return number && has_counters(container) && PyUnicode_CheckExact(key) ? counter_of(container, key) : 0;
}

}  // namespace

// A place that varies. What is there is a scalar, or can be loaded.
bool varies(Recorder& recorder, PyObject* container, PyObject* key, PyObject* value) {
  if (value == nullptr) return false;
  Reg number;
  if (!record_limits().constant_propagation && number_of(value, &number)) return true;
  if (recorder.varying() == nullptr) return false;
  if (!recorder.varying()->has(container, key) && !is_counter(recorder, container, key, value)) {
    const bool tensor = PyDict_Check(container) && recorder.varying()->has(container, Varying::all_items()) &&
                        recorder.adapter() != nullptr && recorder.adapter()->is_tensor(value);
    if (!tensor) return false;
  }
  if (cpython::is_scalar(value)) return may_vary(Py_TYPE(value));
  Py_ssize_t room = kMaxAttributes;
  if (may_load(recorder, value, 0, &room)) return true;
  recorder.varying()->fix(container, key);
  return false;
}

// The guard loads what is there, which the overlay has from now on.
Val load_varying(Recorder& recorder, PyObject* container, PyObject* key, PyObject* value, Guard guard) {
  Val loaded;
  if (cpython::is_scalar(value)) {
    loaded = add_reg(recorder, Rep::kObject, Py_TYPE(value), value);
    guard.out = loaded.index();
    recorder.reads.add_guard(guard);
    vary(recorder, loaded, value);
  } else {
    loaded = take_by_kind(recorder, value, guard);
  }
  recorder.reads.owned(key);
  overlay_set(recorder, container, key, loaded);
  return loaded;
}

// Only the type of what the register holds is guarded.
Val vary(Recorder& recorder, Val reg, PyObject* value) {
  recorder.numbers.of[reg.index()].guard = static_cast<uint32_t>(recorder.trace().guards.size());
  input_guard(recorder, GuardOp::kType, reg).expected = reinterpret_cast<PyObject*>(Py_TYPE(value));
  recorder.reads.owned(value);
  return reg;
}

bool changes_size(Recorder& recorder, Val list) {
  PyObject* object = list.object();
  return object != nullptr && PyList_CheckExact(object) && recorder.varying() != nullptr &&
         recorder.varying()->has(object, Varying::sizes());
}

bool is_varying(const Recorder& recorder, Val reg) {
  const auto known = recorder.numbers.of.find(reg.index());
  if (known == recorder.numbers.of.end() || known->second.guard >= recorder.trace().guards.size()) return false;
  const Guard& guard = recorder.trace().guards[known->second.guard];
  return guard.subject == reg && (guard.op == GuardOp::kType || guard.op == GuardOp::kScalar);
}

// Code that the recording does not follow has put something else where what the overlay has was found, or written.
bool has_moved(const Recorder& recorder, PyObject* container, PyObject* key, Val loaded) {
  PyObject* seen = nullptr;
  if (loaded.is_reg()) {
    const bool known = is_varying(recorder, loaded) ||
                       (touches_tensor(recorder, loaded) && !tensor_source(recorder.loading, loaded).is_null());
    if (known) seen = recorder.heap.reg_objects[loaded.index()];
  } else if (loaded.is_virtual() && recorder.trace().virtuals[loaded.index()].is_real(0)) {
    seen = recorder.heap.real(loaded);
  } else if (loaded.is_const() && cpython::thread_switches(recorder.thread()) != recorder.foreign.switches) {
    PyObject* now = content_now(container, key);
    return now == nullptr || (now != loaded.object() && !cpython::same_scalar(now, loaded.object()));
  }
  return seen != nullptr && seen != content_now(container, key);
}

// A scalar that the trace reads anew at each call: its guard asks for its value from now on.
bool fix(Recorder& recorder, Val reg, PyObject* value) {
  if (!is_varying(recorder, reg)) return false;
  const uint32_t at = recorder.numbers.of[reg.index()].guard;
  Guard& guard = recorder.trace().guards[at];
  if (guard.op == GuardOp::kType) recorder.numbers.fixed.push_back({at, guard.expected});
  guard.op = GuardOp::kScalar;
  guard.aux = 1;
  guard.expected = recorder.reads.owned(value).object();
  return true;
}

void open_again(Recorder& recorder, size_t count) {
  auto& fixed = recorder.numbers.fixed;
  for (; fixed.size() > count; fixed.pop_back()) {
    if (fixed.back().guard >= recorder.trace().guards.size()) continue;
    Guard& guard = recorder.trace().guards[fixed.back().guard];
    if (guard.op != GuardOp::kScalar || guard.aux != 1) continue;  // it is another one by now
    guard.op = GuardOp::kType;
    guard.aux = 0;
    guard.expected = fixed.back().type;
  }
}

// An item of a dict that existed before. 1: *value, 0: absent, -1: not known.
int find_item(Recorder& recorder, PyObject* dict, PyObject* key, Val* value) {
  if (overlay_find(recorder, dict, key, value)) return value->is_null() ? 0 : 1;
  ReadItem& read = recorder.reads.item_of(dict, key);
  const uint64_t version = cpython::dict_version(dict);
  if (read.version == version && read.key == key) {
    *value = read.value;
    return value->is_null() ? 0 : 1;
  }
  PyObject* found = nullptr;
  const int there = cpython::dict_lookup(dict, key, &found);
  if (there < 0) return -1;
  if (there > 0 && cpython::is_scalar(key) && varies(recorder, dict, key, found)) {
    Guard guard{};
    guard.op = GuardOp::kLoadDictItem;
    guard.subject = Val::constant(dict);
    guard.expected = recorder.reads.owned(key).object();
    *value = load_varying(recorder, dict, guard.expected, found, guard);
    return 1;
  }
  if (!recorder.reads.guard_item(dict, key, found)) return -1;
  if (there > 0) *value = constant(recorder, found);
  if (PyUnicode_CheckExact(key)) read = {version, key, there > 0 ? *value : Val()};
  return there;
}

// Before the trace writes `value` where `old` is. What it puts back in the end does not vary.
void note_write(Recorder& recorder, PyObject* container, PyObject* key, PyObject* old, Val value) {
  if (recorder.varying() == nullptr) return;
  const auto same = [&](PyObject* original, bool scalar) {
    if (!scalar) return !value.is_const() && recorder.heap.real(value) == original;
    return value.is_const() && cpython::same_scalar(value.object(), original);
  };
  Original* const known = recorder.reads.changed.find(container, key);
  if (known != nullptr && known->object != nullptr) {
    if (same(known->object, known->scalar)) known->object = nullptr;
    return;
  }
  if (old == nullptr) return;
  Original original{nullptr, true};
  if (cpython::is_scalar(key) && changes_kind(recorder, old, value) && is_read(recorder, container, key)) {
    original = {old, false};
  } else if (may_vary(Py_TYPE(old)) && recorder.heap.type_of(value) == Py_TYPE(old) && !same(old, true)) {
    original.object = recorder.reads.owned(old).object();
    original.counter = counter_with(container, key, old);
  }
  if (original.object == nullptr) return;
  if (known != nullptr) {
    *known = original;
  } else {
    recorder.reads.changed.add(container, recorder.reads.owned(key).object(), original);
  }
}

// At the end: what it changed varies. True: that was not known, so the next call is recorded in place of this one.
bool learn_places(Recorder& recorder) {
  bool learned = false;
  for (const auto& place : recorder.reads.changed) {
    if (place.what.object == nullptr) continue;
    learned = recorder.varying()->add(place.container, place.key) || learned;
    if (place.what.counter != 0 && counters().size() < kMostCounters) counters().insert(place.what.counter);
  }
  for (const auto& content : recorder.heap.models)
    if (content != nullptr && recorder.varying() != nullptr && has_other_items(recorder, *content))
      learned = recorder.varying()->add(content->get<family::List>().home.object(), Py_None) || learned;
  for (const auto& [dict, name] : recorder.numbers.counts)
    learned = recorder.varying()->add_count(dict, name) || learned;
  return learned && recorder.varying()->learns_again();
}

}  // namespace pijit
