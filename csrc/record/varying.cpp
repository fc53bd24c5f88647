// Places that vary: how they are read, and how a recording learns them.
#include "record/varying.h"

#include <structmember.h>

#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "ir/scalars.h"
#include "record/limits.h"
#include "record/recorder.h"

namespace pijit {
namespace {

constexpr size_t kMaxContainers = 256, kMaxArguments = 256;

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
  PyObject* member = _PyType_Lookup(type, key);
  if (member != nullptr && Py_TYPE(member) == &PyMemberDescr_Type) {
    const Py_ssize_t offset = reinterpret_cast<PyMemberDescrObject*>(member)->d_member->offset;
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(container) + offset);
  }
  if (cpython::attribute_storage(container) != cpython::Storage::kInline) return nullptr;
  const Py_ssize_t index = cpython::shared_key_index(type, key);
  return index < 0 ? nullptr : cpython::inline_value(container, index);
}

// An int or a float, where there was another one of its type.
bool is_other_number(PyObject* now, PyObject* before) noexcept {
  Reg a{}, b{};
  return now != nullptr && before != nullptr && Py_TYPE(now) == Py_TYPE(before) && number_of(now, &a) &&
         number_of(before, &b) && a.rep != Rep::kBool;
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

bool learn_guard(const Trace& trace, const Guard& guard, const Reg* regs, Varying* varying) {
  if (guard.subject.is_reg()) {
    const uint64_t way = guard.op == GuardOp::kScalar ? argument_way(trace, guard.subject) : 0;
    return way != 0 && is_other_number(regs[guard.subject.index()].object, guard.expected) &&
           varying->add_argument(way);
  }
  PyObject* subject = guard.subject.object();
  switch (guard.op) {
    case GuardOp::kDict:
      return PyDict_Check(subject) && learn_items(trace, guard, subject, varying);
    case GuardOp::kCell:
      return PyCell_Check(subject) && guard.scalar && is_other_number(PyCell_GET(subject), guard.expected) &&
             varying->add(subject, Py_None);
    case GuardOp::kInlineSlot: {
      if (Py_TYPE(subject) != reinterpret_cast<PyTypeObject*>(guard.expected) ||
          cpython::inline_values(subject) == nullptr || cpython::shared_keys_id(Py_TYPE(subject)) != guard.number)
        return false;
      PyObject* name = cpython::shared_key(Py_TYPE(subject), guard.aux);
      return trace.guard_item_scalar[guard.first] != 0 && name != nullptr &&
             is_other_number(cpython::inline_value(subject, guard.aux), trace.guard_items[guard.first]) &&
             varying->add(subject, name);
    }
    default:
      return false;
  }
}

}  // namespace

uint64_t argument_way(const Trace& trace, Val source) noexcept {
  if (source.index() < trace.inputs) return source.index() + 1;
  for (const Guard& guard : trace.guards)
    if (is_load(guard.op) && guard.out == source.index()) {
      const uint64_t way = guard.subject.is_reg() ? argument_way(trace, guard.subject) : 0;
      return way == 0 ? 0 : (way * 31 + static_cast<uint64_t>(guard.op)) * 1000003 + guard.number + 1;
    }
  return 0;
}

bool learn_from_guards(const Trace& trace, size_t first, size_t count, Reg* regs, Varying* varying) {
  bool learned = false;
  for (size_t i = first; i < first + count; ++i) {
    const Guard& guard = trace.guards[i];
    if (check_guard(trace, guard, regs)) continue;
    if (!learn_guard(trace, guard, regs, varying)) return false;
    learned = true;
  }
  return learned;
}

bool Varying::add_argument(uint64_t way) {
  return arguments_.size() < kMaxArguments && arguments_.insert(way).second;
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
  if (value == nullptr) return false;
  Reg number;
  if (!record_limits().constant_propagation && number_of(value, &number)) return true;
  return varying_ != nullptr && may_vary(Py_TYPE(value)) && varying_->has(container, key);
}

// The guard loads what is there, which the overlay has from now on.
Val Recorder::load_varying(PyObject* container, PyObject* key, PyObject* value, Guard guard) {
  const Val loaded = add_reg(Rep::kObject, Py_TYPE(value), value);
  guard.out = loaded.index();
  add_guard(guard);
  vary(loaded, value);
  owned(key);
  overlay_set(container, key, loaded);
  return loaded;
}

// Only the type of what the register holds is guarded.
Val Recorder::vary(Val reg, PyObject* value) {
  numbers_[reg.index()].guard = static_cast<uint32_t>(trace_->guards.size());
  input_guard(GuardOp::kType, reg).expected = reinterpret_cast<PyObject*>(Py_TYPE(value));
  owned(value);
  return reg;
}

bool Recorder::is_varying(Val reg) const {
  const auto known = numbers_.find(reg.index());
  if (known == numbers_.end() || known->second.guard >= trace_->guards.size()) return false;
  const Guard& guard = trace_->guards[known->second.guard];
  return guard.subject == reg && (guard.op == GuardOp::kType || guard.op == GuardOp::kScalar);
}

// Code that the recording does not follow has put something else where the register was loaded from.
bool Recorder::has_moved(PyObject* container, PyObject* key, Val loaded) const {
  return loaded.is_reg() && is_varying(loaded) && reg_objects_[loaded.index()] != content_now(container, key);
}

// A scalar that the trace reads anew at each call: its guard asks for its value from now on.
bool Recorder::fix(Val reg, PyObject* value) {
  if (!is_varying(reg)) return false;
  Guard& guard = trace_->guards[numbers_[reg.index()].guard];
  guard.op = GuardOp::kScalar;
  guard.expected = owned(value).object();
  return true;
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
