// What is known to vary, and how a guard that does not hold adds to it.
#include "guard/varying.h"

#include <algorithm>
#include <unordered_map>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "guard/instances.h"
#include "ir/scalars.h"

namespace pijit {
namespace {

constexpr size_t kMaxContainers = 256, kMaxArguments = 256, kMaxMisses = 1024;
constexpr int kMaxLearned = 8;  // recordings that give way to another

// Why a guard does not hold: kOther: something else than a number, or one that has to be what it was; kNumber: a number
// that does not vary yet; kVaries: it does.
enum class Miss : uint8_t { kOther, kNumber, kVaries };

Miss number_miss(bool varies) noexcept {
  return varies ? Miss::kVaries : Miss::kNumber;
}

// An int or a float, where there was another one of its type.
bool is_other_number(PyObject* now, PyObject* before) noexcept {
  Reg a{}, b{};
  return now != nullptr && before != nullptr && Py_TYPE(now) == Py_TYPE(before) && number_of(now, &a) &&
         number_of(before, &b) && a.rep != Rep::kBool;
}

// What differs in the dict, one or more items, are numbers.
Miss learn_items(const Trace& trace, const Guard& guard, PyObject* dict, Varying* varying) {
  bool differs = false, all = true;
  for (uint32_t i = guard.first; i < guard.first + guard.count; i += 2) {
    PyObject* now = nullptr;
    PyObject* before = trace.guard_items[i + 1];
    if (trace.guard_item_scalar[i] == 0 || cpython::dict_lookup_exact(dict, trace.guard_items[i], &now) < 0)
      return Miss::kOther;
    const bool scalar = trace.guard_item_scalar[i + 1] != 0;
    if (now == before || (scalar && now != nullptr && cpython::same_scalar(now, before))) continue;
    if (!scalar || !is_other_number(now, before)) return Miss::kOther;
    differs = true;
    all = varying->miss(dict, trace.guard_items[i]) && all;
  }
  return differs ? number_miss(all) : Miss::kOther;
}

Miss learn_inline(const Trace& trace, const Guard& guard, PyObject* object, Varying* varying) {
  PyTypeObject* type = Py_TYPE(object);
  if (type != reinterpret_cast<PyTypeObject*>(guard.expected) || cpython::inline_values(object) == nullptr ||
      cpython::shared_keys_id(type) != guard.number)
    return Miss::kOther;
  PyObject* name = cpython::shared_key(type, guard.aux);
  if (name == nullptr || trace.guard_item_scalar[guard.first] == 0 ||
      !is_other_number(cpython::inline_value(object, guard.aux), trace.guard_items[guard.first]))
    return Miss::kOther;
  return number_miss(varying->miss(object, name));
}

// The guard that an argument is this very object, of whose class the next one is. What is there now is of that class.
bool names_instance(const Trace& trace, const Guard& guard, Reg* regs) noexcept {
  if (guard.op != GuardOp::kIs || !guard.subject.is_reg() || &guard == &trace.guards.back()) return false;
  const Guard& next = *(&guard + 1);
  return next.op == GuardOp::kType && next.subject == guard.subject && check_guard(trace, next, regs) &&
         PyType_HasFeature(Py_TYPE(regs[guard.subject.index()].object), Py_TPFLAGS_HEAPTYPE);
}

// The guard that names the argument from which those before `last` led to the object, or null.
const Guard* find_argument(const Trace& trace, const Guard& last, const PyObject* object, Reg* regs) {
  std::unordered_map<const PyObject*, const PyObject*> holders;
  std::unordered_map<const PyObject*, const Guard*> arguments;
  for (const Guard* guard = trace.guards.data(); guard != &last; ++guard) {
    if (names_instance(trace, *guard, regs)) arguments.emplace(guard->expected, guard);
    const PyObject* subject = guard->subject.object();
    if (subject == nullptr) continue;
    if (guard->op == GuardOp::kInstance) holders.emplace(reinterpret_cast<PyObject*>(guard->number), subject);
    if (guard->op != GuardOp::kInlineSlot && guard->op != GuardOp::kDict && guard->op != GuardOp::kList) continue;
    for (uint32_t i = guard->first; i < guard->first + guard->count; ++i)
      holders.emplace(trace.guard_items[i], subject);
  }
  constexpr int kMaxSteps = 16;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (const auto found = arguments.find(object); found != arguments.end()) return found->second;
    const auto holder = holders.find(object);
    if (holder == holders.end()) return nullptr;
    object = holder->second;
  }
  return nullptr;
}

// Names what the foreign code that an instruction calls returns. 0: the register holds no such thing.
uint64_t result_way(const Trace& trace, Val source) noexcept {
  for (const Node& node : trace.nodes)
    if (is_opaque(node.op) && node.out == source.index()) {
      const Site& site = trace.sites[node.site];
      return (reinterpret_cast<uintptr_t>(site.code) * 31 + static_cast<uint64_t>(site.instruction)) | uint64_t{1}
                                                                                                           << 63;
    }
  return 0;
}

// What fails here would not if the instance's attributes were loaded. What comes after it may be of the other one.
bool learn_instance(const Trace& trace, const Guard& guard, Reg* regs, Varying* varying) {
  if (guard.op == GuardOp::kIs && guard.subject.is_reg())
    if (const uint64_t way = result_way(trace, guard.subject); way != 0) return varying->miss_argument(way);
  const Guard* argument = names_instance(trace, guard, regs) ? &guard : nullptr;
  if (guard.subject.is_const()) argument = find_argument(trace, guard, guard.subject.object(), regs);
  if (argument == nullptr) return false;
  Room room;
  const uint64_t way = argument_way(trace, argument->subject);
  return way != 0 && instance_fits(regs[argument->subject.index()].object, 0, &room) && varying->miss_argument(way);
}

Miss learn_guard(const Trace& trace, const Guard& guard, const Reg* regs, Varying* varying) {
  if (guard.subject.is_reg()) {
    if (guard.op != GuardOp::kScalar || guard.aux != 0) return Miss::kOther;
    const uint64_t way = argument_way(trace, guard.subject);
    if (way == 0 || !is_other_number(regs[guard.subject.index()].object, guard.expected)) return Miss::kOther;
    return number_miss(varying->miss_argument(way));
  }
  PyObject* subject = guard.subject.object();
  switch (guard.op) {
    case GuardOp::kDict:
      return PyDict_Check(subject) ? learn_items(trace, guard, subject, varying) : Miss::kOther;
    case GuardOp::kCell:
      if (!PyCell_Check(subject) || !guard.scalar || !is_other_number(PyCell_GET(subject), guard.expected))
        return Miss::kOther;
      return number_miss(varying->miss(subject, Py_None));
    case GuardOp::kInlineSlot:
      return learn_inline(trace, guard, subject, varying);
    default:
      return Miss::kOther;
  }
}

}  // namespace

uint64_t argument_way(const Trace& trace, Val source) noexcept {
  if (source.index() < trace.inputs) return source.index() + 1;
  for (const Guard& guard : trace.guards)
    if (is_load(guard.op) && guard.out == source.index()) {
      const uint64_t way = guard.subject.is_reg() ? argument_way(trace, guard.subject) : 0;
      const uint64_t which = guard.number + (uint64_t{guard.aux} << 32) + 1;
      return way == 0 ? 0 : (way * 31 + static_cast<uint64_t>(guard.op)) * 1000003 + which;
    }
  return result_way(trace, source);
}

bool learn_from_guards(const Trace& trace, size_t first, size_t count, Reg* regs, Varying* varying) {
  bool misses = false, all = true;
  for (size_t i = first; i < first + count; ++i) {
    const Guard& guard = trace.guards[i];
    if (check_guard(trace, guard, regs)) continue;
    const Miss miss = learn_guard(trace, guard, regs, varying);
    if (miss == Miss::kOther) return learn_instance(trace, guard, regs, varying);
    misses = true;
    all = all && miss == Miss::kVaries;
  }
  return misses && all;
}

bool Varying::is_second_miss(uint64_t place) {
  if (misses_.size() >= kMaxMisses) misses_.clear();
  return misses_.emplace(place, call_).first->second != call_ && !refuses_;
}

bool Varying::learns_again() noexcept {
  return ++learned_ <= kMaxLearned;
}

bool Varying::miss_argument(uint64_t way) {
  if (has_argument(way)) return true;
  if (fixed_.count(way) != 0) return false;
  return is_second_miss(way) && arguments_.size() < kMaxArguments && arguments_.insert(way).second;
}

bool Varying::miss(const void* container, PyObject* key) {
  if (has(container, key)) return true;
  const auto place = reinterpret_cast<uintptr_t>(container) ^ (static_cast<uint64_t>(PyObject_Hash(key)) << 1);
  if (!is_second_miss(place) || missed_.size() >= kMaxContainers) return false;
  missed_[container].push_back(Ref::borrow(key));
  return true;
}

bool Varying::has(const void* container, PyObject* key) const noexcept {
  const auto holds = [&](const Places& places) {
    const auto found = places.find(container);
    return found != places.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Ref& other) {
             return cpython::keys_equal(other.get(), key);
           });
  };
  return holds(changed_) || holds(missed_);
}

bool Varying::add(const void* container, PyObject* key) {
  if (has(container, key) || changed_.size() >= kMaxContainers) return false;
  changed_[container].push_back(Ref::borrow(key));
  return true;
}

}  // namespace pijit
