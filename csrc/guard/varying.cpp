// What is known to vary, and how a guard that does not hold adds to it.
#include "guard/varying.h"

#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "ir/scalars.h"

namespace pijit {
namespace {

constexpr size_t kMaxContainers = 256, kMaxArguments = 256;

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

}  // namespace pijit
