// Places that vary: how they are read, and how a recording learns them.
#include "record/varying.h"

#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "record/recorder.h"

namespace pijit {
namespace {

constexpr size_t kMaxContainers = 256;

// A scalar type whose operations are nodes (None, True and False decide branches: they stay constants).
bool may_vary(PyTypeObject* type) noexcept {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type ||
         type == &PyComplex_Type;
}

// An int or a float, where there was another one of its type.
bool is_other_number(PyObject* now, PyObject* before) noexcept {
  return now != nullptr && before != nullptr && Py_TYPE(now) == Py_TYPE(before) &&
         (PyLong_CheckExact(now) || PyFloat_CheckExact(now));
}

// What differs in the dict, one or more items, are numbers.
bool learn_items(const Trace& trace, const Guard& guard, PyObject* dict, Varying* varying) {
  bool learned = false;
  for (uint32_t i = guard.first; i < guard.first + guard.count; i += 2) {
    PyObject* now = nullptr;
    PyObject* before = trace.guard_items[i + 1];
    if (trace.guard_item_scalar[i] == 0 || cpython::dict_lookup_exact(dict, trace.guard_items[i], &now) < 0)
      return false;
    const bool scalar = trace.guard_item_scalar[i + 1] != 0;
    if (now == before || (scalar && now != nullptr && cpython::same_scalar(now, before))) continue;
    if (!scalar || !is_other_number(now, before) || !varying->add(dict, trace.guard_items[i])) return false;
    learned = true;
  }
  return learned;
}

}  // namespace

bool learn_from_epoch(const Trace& trace, const Epoch& epoch, Reg* regs, Varying* varying) {
  bool learned = false;
  for (uint32_t i = epoch.first; i < epoch.first + epoch.count; ++i) {
    const Guard& guard = trace.guards[i];
    if (check_guard(trace, guard, regs)) continue;
    PyObject* subject = guard.subject.object();
    const bool dict = guard.op == GuardOp::kDict && subject != nullptr && PyDict_Check(subject);
    if (!dict || !learn_items(trace, guard, subject, varying)) return false;
    learned = true;
  }
  return learned;
}

bool Varying::has(const void* container, PyObject* key) const noexcept {
  if (keys_.empty()) return false;
  const auto found = keys_.find(container);
  if (found == keys_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](const Ref& other) { return cpython::keys_equal(other.get(), key); });
}

bool Varying::add(const void* container, PyObject* key) {
  if (has(container, key) || keys_.size() >= kMaxContainers) return false;
  keys_[container].push_back(Ref::borrow(key));
  return true;
}

bool Recorder::varies(PyObject* container, PyObject* key, PyObject* value) const noexcept {
  return varying_ != nullptr && value != nullptr && may_vary(Py_TYPE(value)) && varying_->has(container, key);
}

// The guard loads what is there, which the overlay has from now on.
Val Recorder::load_varying(PyObject* container, PyObject* key, PyObject* value, Guard guard) {
  const Val loaded = add_reg(Rep::kObject, Py_TYPE(value), value);
  guard.out = loaded.index();
  add_guard(guard);
  input_guard(GuardOp::kType, loaded).expected = reinterpret_cast<PyObject*>(Py_TYPE(value));
  owned(key);
  overlay_set(container, key, loaded);
  return loaded;
}

// An item of a dict that existed before. 1: *value, 0: absent, -1: not known.
int Recorder::find_item(PyObject* dict, PyObject* key, Val* value) {
  if (overlay_find(dict, key, value)) return value->is_null() ? 0 : 1;
  PyObject* found = nullptr;
  if (cpython::is_scalar(key) && cpython::dict_lookup(dict, key, &found) > 0 && varies(dict, key, found)) {
    Guard guard{};
    guard.op = GuardOp::kLoadDictItem;
    guard.subject = Val::constant(dict);
    guard.expected = owned(key).object();
    *value = load_varying(dict, guard.expected, found, guard);
    return 1;
  }
  if (!read_dict(dict, key, &found)) return -1;
  if (found == nullptr) return 0;
  *value = constant(found);
  return 1;
}

// Before the trace writes `value` where `old` is. What it puts back in the end does not vary.
void Recorder::note_write(PyObject* container, PyObject* key, PyObject* old, Val value) {
  if (varying_ == nullptr) return;
  const auto same = [&](PyObject* original) {
    return value.is_const() && cpython::same_scalar(value.object(), original);
  };
  for (auto place = changed_.begin(); place != changed_.end(); ++place) {
    if (place->container != container || !cpython::keys_equal(place->key, key)) continue;
    if (same(place->original)) changed_.erase(place);
    return;
  }
  if (old == nullptr || !may_vary(Py_TYPE(old)) || type_of(value) != Py_TYPE(old) || same(old)) return;
  changed_.push_back({container, owned(key).object(), owned(old).object()});
}

// At the end: what it changed varies. True: that was not known, so the next call is recorded in place of this one.
bool Recorder::learn_places() {
  bool learned = false;
  for (const Changed& place : changed_) learned = varying_->add(place.container, place.key) || learned;
  return learned;
}

}  // namespace pijit
