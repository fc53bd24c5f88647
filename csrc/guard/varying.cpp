// What is known to vary, and how a guard that does not hold adds to it.
#include "guard/varying.h"

#include <algorithm>
#include <unordered_map>

#include "adapter.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/check.h"
#include "guard/instances.h"
#include "ir/adapter_slot.h"
#include "ir/scalars.h"

namespace pijit {
namespace {

constexpr size_t kMaxContainers = 256, kMaxArguments = 256, kMaxMisses = 1024;
constexpr int kMaxLearned = 8;   // recordings that give way to another
constexpr int kMostNumbers = 3;  // at one instruction, with a trace for each

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

// What may be taken by kind, where a trace has seen another object. That one may be dead: it is not looked into.
bool is_other_object(PyObject* now, PyObject* before, bool scalar) noexcept {
  if (now == nullptr || before == nullptr || now == before) return false;
  if (scalar || before == Py_None || before == Py_True || before == Py_False) return false;
  const Adapter* adapter = current_adapter();
  Room room;
  return cpython::is_plain_tuple(now) || PyList_CheckExact(now) || PyDict_CheckExact(now) ||
         is_derived_container(now) || cpython::shows_memory(now) || PyMethod_Check(now) ||
         (adapter != nullptr && adapter->is_tensor(now)) || instance_fits(now, 0, &room);
}

bool is_other(PyObject* now, PyObject* before, bool scalar) noexcept {
  return scalar ? is_other_number(now, before) : is_other_object(now, before, scalar);
}

// What guards found where something else is now, and what they found in that: it may be dead, so the guards that look
// into it are passed over.
class Gone {
 public:
  bool any() const noexcept { return !objects_.empty(); }
  void add(PyObject* before, bool scalar) {
    if (!scalar && before != nullptr && before != Py_None) objects_.insert(before);
  }
  // The guard looks into such an object. What it found there is such, too.
  bool takes(const Trace& trace, const Guard& guard) {
    if (!any() || !looks_at(guard)) return false;
    for (uint32_t i = guard.first; i < guard.first + guard.count; ++i)
      add(trace.guard_items[i], trace.is_scalar_item(i));
    if (row_of(guard.op).number == column::Number::dict) objects_.insert(reinterpret_cast<PyObject*>(guard.number));
    if (guard.op == GuardOp::kCell || guard.op == GuardOp::kSlot || guard.op == GuardOp::kIs)
      add(guard.expected, guard.scalar);
    if (guard.out != kNone) registers_.insert(guard.out);
    return true;
  }

 private:
  bool has(PyObject* object) const { return object != nullptr && objects_.count(object) != 0; }
  bool looks_at(const Guard& guard) const {
    if (guard.subject.is_reg() && registers_.count(guard.subject.index()) != 0) return true;
    const bool compares = row_of(guard.op).number == column::Number::register_;
    if (compares && registers_.count(static_cast<uint32_t>(guard.number)) != 0) return true;
    return has(guard.subject.object()) || has(guard.expected);
  }

  ObjectSet objects_;
  std::unordered_set<uint32_t> registers_;
};

// What differs in the dict, one or more items, may vary, also beside an item that may not. If all of the dict is guarded,
// all of its tensors may.
Miss learn_items(const Trace& trace, const Guard& guard, PyObject* dict, Varying* varying, Gone* gone) {
  const Adapter* adapter = current_adapter();
  const bool whole = guard.aux != 0;
  bool differs = false, all = true, others = false;
  if (whole && PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(guard.count / 2)) return Miss::kOther;
  for (uint32_t i = guard.first; i < guard.first + guard.count; i += 2) {
    PyObject* now = nullptr;
    PyObject* before = trace.guard_items[i + 1];
    if (!look_up_key(trace, i, dict, &now)) return Miss::kOther;
    const bool scalar = trace.is_scalar_item(i + 1);
    if (is_item(trace, i + 1, now)) continue;
    if (!is_other(now, before, scalar)) {
      if (whole) return Miss::kOther;
      others = true;
      continue;
    }
    differs = true;
    gone->add(before, scalar);
    if (whole && adapter != nullptr && adapter->is_tensor(now)) continue;
    all = varying->miss(dict, trace.guard_items[i]) && all;
  }
  if (whole && differs) all = varying->miss(dict, Varying::all_items()) && all;
  return differs && !others ? number_miss(all) : Miss::kOther;
}

Miss learn_inline(const Trace& trace, const Guard& guard, PyObject* object, Varying* varying, Gone* gone) {
  PyTypeObject* type = Py_TYPE(object);
  const PyDictValues* values = cpython::own_values(object);
  if (type != reinterpret_cast<PyTypeObject*>(guard.expected) || values == nullptr ||
      cpython::shared_keys_id(type) != guard.number)
    return Miss::kOther;
  PyObject* name = cpython::shared_key(type, guard.aux);
  PyObject* before = trace.guard_items[guard.first];
  const bool scalar = trace.is_scalar_item(guard.first);
  if (name == nullptr || !is_other(values->values[guard.aux], before, scalar)) return Miss::kOther;
  gone->add(before, scalar);
  const bool varies = varying->miss(object, name);
  // A dict may show the values by now: the next recording looks there.
  PyObject* dict = cpython::instance_dict(object);
  return number_miss(dict != nullptr ? varying->miss(dict, name) : varies);
}

Miss learn_slot(const Guard& guard, PyObject* object, Varying* varying, Gone* gone) {
  std::vector<Slot> slots;
  if (!find_slots(Py_TYPE(object), &slots)) return Miss::kOther;
  for (const Slot& slot : slots) {
    if (static_cast<uint64_t>(slot.offset) != guard.number) continue;
    if (!is_other(cpython::object_at(object, slot.offset), guard.expected, guard.scalar)) return Miss::kOther;
    gone->add(guard.expected, guard.scalar);
    return number_miss(varying->miss(object, slot.name));
  }
  return Miss::kOther;
}

// A list of more or fewer items. Those that it had may be dead.
Miss learn_size(const Trace& trace, const Guard& guard, PyObject* list, Varying* varying, Gone* gone) {
  for (uint32_t i = 0; i < guard.count; ++i)
    if (i >= PyList_GET_SIZE(list) || !is_item(trace, guard.first + i, PyList_GET_ITEM(list, i)))
      gone->add(trace.guard_items[guard.first + i], trace.is_scalar_item(guard.first + i));
  return number_miss(varying->miss(list, Varying::sizes()));
}

// A list of as many items, some of which are others.
Miss learn_list(const Trace& trace, const Guard& guard, PyObject* list, Varying* varying, Gone* gone) {
  if (PyList_GET_SIZE(list) != static_cast<Py_ssize_t>(guard.count))
    return learn_size(trace, guard, list, varying, gone);
  for (uint32_t i = 0; i < guard.count; ++i) {
    PyObject *now = PyList_GET_ITEM(list, i), *before = trace.guard_items[guard.first + i];
    const bool scalar = trace.is_scalar_item(guard.first + i);
    if (is_item(trace, guard.first + i, now)) continue;
    if (!is_other(now, before, scalar)) return Miss::kOther;
    gone->add(before, scalar);
  }
  return number_miss(varying->miss(list, Py_None));
}

// The guard that an argument is this very object, of whose class the next one is. What is there now is of that class.
bool names_instance(const Trace& trace, const Guard& guard, Reg* regs) noexcept {
  if (guard.op != GuardOp::kIs || !guard.subject.is_reg() || &guard == &trace.guards.back()) return false;
  const Guard& next = *(&guard + 1);
  PyObject* now = regs[guard.subject.index()].object;
  return next.op == GuardOp::kType && next.subject == guard.subject && check_guard(trace, next, regs) &&
         (PyType_HasFeature(Py_TYPE(now), Py_TPFLAGS_HEAPTYPE) || cpython::shows_memory(now) ||
          cpython::is_value_type(Py_TYPE(now)));
}

// The guard that names the argument from which those before `last` led to the object, or null.
const Guard* find_argument(const Trace& trace, const Guard& last, const PyObject* object, Reg* regs) {
  std::unordered_map<const PyObject*, const PyObject*> holders;
  std::unordered_map<const PyObject*, const Guard*> arguments;
  for (const Guard* guard = trace.guards.data(); guard != &last; ++guard) {
    if (names_instance(trace, *guard, regs)) arguments.emplace(guard->expected, guard);
    const PyObject* subject = guard->subject.object();
    if (subject == nullptr) continue;
    if (row_of(guard->op).number == column::Number::dict)
      holders.emplace(reinterpret_cast<PyObject*>(guard->number), subject);
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
  PyObject* now = regs[argument->subject.index()].object;
  if (way == 0) return false;
  if (cpython::shows_memory(now) || cpython::is_value_type(Py_TYPE(now)) || instance_fits(now, 0, &room))
    return varying->miss_argument(way);
  return varying->in_the_middle && varying->take_by_type(way);
}

// The same for this guard and all inputs that others name. More guards are not looked at: what they rely on does not
// hold.
bool learn_instances(const Trace& trace, size_t first, size_t end, Reg* regs, Varying* varying) {
  bool any = false;
  const auto is_loaded_before = [&](size_t guard, uint32_t reg) {
    return std::any_of(trace.guards.begin(), trace.guards.begin() + static_cast<ptrdiff_t>(guard),
                       [&](const Guard& load) { return load.op == GuardOp::kLoadSuspended && load.out == reg; });
  };
  for (size_t i = first; i < end; ++i) {
    const Guard& is = trace.guards[i];
    if (is.op != GuardOp::kIs || !is.subject.is_reg()) continue;
    if ((i == first || is.subject.index() < trace.inputs || is_loaded_before(first, is.subject.index())) &&
        !check_guard(trace, is, regs))
      any = learn_instance(trace, is, regs, varying) || any;
  }
  return any;
}

Miss learn_guard(const Trace& trace, const Guard& guard, const Reg* regs, Varying* varying, Gone* gone) {
  if (guard.subject.is_reg()) {
    const bool size = guard.op == GuardOp::kListSize || guard.op == GuardOp::kDictSize;
    const uint64_t way = argument_way(trace, guard.subject);
    if (size && varying->in_the_middle && way != 0) return varying->take_by_type(way), Miss::kVaries;
    if (guard.op != GuardOp::kScalar || guard.aux != 0) return Miss::kOther;
    if (way != 0 && varying->in_the_middle && PyUnicode_CheckExact(guard.expected) &&
        PyUnicode_CheckExact(regs[guard.subject.index()].object))
      return varying->miss_text(way) ? Miss::kVaries : Miss::kOther;
    if (way == 0 || !is_other_number(regs[guard.subject.index()].object, guard.expected)) return Miss::kOther;
    return number_miss(varying->miss_argument(way));
  }
  PyObject* subject = guard.subject.object();
  if (!has_layout(guard, subject)) return Miss::kOther;
  switch (guard.op) {
    case GuardOp::kDict:
      return learn_items(trace, guard, subject, varying, gone);
    case GuardOp::kCell:
      if (!is_other(PyCell_GET(subject), guard.expected, guard.scalar)) return Miss::kOther;
      gone->add(guard.expected, guard.scalar);
      return number_miss(varying->miss(subject, Py_None));
    case GuardOp::kInlineSlot:
      return learn_inline(trace, guard, subject, varying, gone);
    case GuardOp::kSlot:
      return learn_slot(guard, subject, varying, gone);
    case GuardOp::kList:
      return learn_list(trace, guard, subject, varying, gone);
    case GuardOp::kIs:
    case GuardOp::kType:
    case GuardOp::kScalar:
    case GuardOp::kTypeVersion:
    case GuardOp::kInstance:
    case GuardOp::kNoInlineSlot:
    case GuardOp::kNoAttribute:
    case GuardOp::kDictSize:
    case GuardOp::kSet:
    case GuardOp::kHas:
    case GuardOp::kHasNot:
    case GuardOp::kQuiet:
    case GuardOp::kParts:
    case GuardOp::kValue:
    case GuardOp::kEqual:
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
    case GuardOp::kFunction:
    case GuardOp::kContextVar:
    case GuardOp::kLoadSelf:
    case GuardOp::kLoadTupleItem:
    case GuardOp::kLoadListItem:
    case GuardOp::kLoadCell:
    case GuardOp::kLoadSlot:
    case GuardOp::kLoadInline:
    case GuardOp::kLoadDictItem:
    case GuardOp::kLoadDictKeyAt:
    case GuardOp::kLoadDictValueAt:
    case GuardOp::kSame:
    case GuardOp::kNotSame:
    case GuardOp::kUnshared:
    case GuardOp::kOwnDict:
    case GuardOp::kSuspended:
    case GuardOp::kLoadSuspended:
    case GuardOp::kLoadCount:
    case GuardOp::kLoadGeneratorFunction:
    case GuardOp::kAbcRegistry:
    case GuardOp::kRecursionLimit:
      break;  // such a guard does not hold for other reasons: nothing is learnt
  }
  return Miss::kOther;
}

}  // namespace

namespace {

uint64_t place_of(const void* container, PyObject* key) noexcept {
  return reinterpret_cast<uintptr_t>(container) ^ (static_cast<uint64_t>(PyObject_Hash(key)) << 1);
}

}  // namespace

namespace {

uint64_t place_in(const void* code, int instruction) noexcept {
  return reinterpret_cast<uintptr_t>(code) * 31 + static_cast<uint64_t>(instruction);
}

}  // namespace

uint64_t argument_way(const Trace& trace, Val source) noexcept {
  if (source.index() < trace.inputs) return source.index() + 1;
  for (const Guard& guard : trace.guards)
    if (is_load(guard.op) && guard.out == source.index())
      return way_through(guard, guard.subject.is_reg() ? argument_way(trace, guard.subject) : 0);
  return result_way(trace, source);
}

uint64_t way_through(const Guard& load, uint64_t way) noexcept {
  if (!load.subject.is_reg()) way = reinterpret_cast<uintptr_t>(load.subject.object()) | uint64_t{1} << 62;
  const bool keyed = load.op == GuardOp::kLoadDictItem;
  const auto key = static_cast<uint64_t>(keyed ? PyObject_Hash(load.expected) : 0);
  const uint64_t which = (keyed ? key : load.number) + (uint64_t{load.aux} << 32) + 1;
  return way == 0 ? 0 : (way * 31 + static_cast<uint64_t>(load.op)) * 1000003 + which;
}

bool learn_from_guards(const Trace& trace, size_t first, size_t count, Reg* regs, Varying* varying) {
  bool misses = false, all = true;
  Gone gone;
  for (size_t i = first; i < first + count; ++i) {
    const Guard& guard = trace.guards[i];
    if (gone.takes(trace, guard) || check_guard(trace, guard, regs)) continue;
    const Miss miss = learn_guard(trace, guard, regs, varying, &gone);
    if (miss == Miss::kOther && !varying->in_the_middle)
      return !gone.any() && learn_instance(trace, guard, regs, varying);
    if (miss == Miss::kOther) return learn_instances(trace, i, first + count, regs, varying);
    misses = true;
    all = all && miss == Miss::kVaries;
  }
  return misses && all;
}

bool Varying::is_second_miss(uint64_t place) {
  if (misses_.size() >= kMaxMisses) misses_.clear();
  return misses_.emplace(place, call_).first->second != call_ && !refuses_;
}

bool Varying::miss_at(const void* code, int instruction) {
  return ++left_at_[place_in(code, instruction)] == kMostNumbers;
}

bool Varying::has_left_at(const void* code, int instruction) const noexcept {
  const auto found = left_at_.find(place_in(code, instruction));
  return found != left_at_.end() && found->second >= kMostNumbers;
}

bool Varying::learns_again() noexcept {
  return ++learned_ <= kMaxLearned;
}

bool Varying::miss_argument(uint64_t way) {
  if (has_argument(way)) return true;
  if (fixed_.count(way) != 0) return false;
  const bool learns = in_the_middle ? !refuses_ : is_second_miss(way);
  if (!learns || arguments_.size() >= kMaxArguments) return false;
  latest_.insert(way);
  return arguments_.insert(way).second;
}

bool Varying::miss_text(uint64_t way) {
  return is_taken_by_type(way) || (is_second_miss(way) && take_by_type(way));
}

void Varying::refuse_missed() {
  missed_.clear();
  if (in_the_middle && !latest_.empty()) {
    for (const uint64_t way : latest_) fix_argument(way);
    return latest_.clear();
  }
  arguments_.clear();
  refuses_ = true;
}

bool Varying::miss(const void* container, PyObject* key) {
  if (has(container, key)) return true;
  const uint64_t place = place_of(container, key);
  if (fixed_places_.count(place) != 0 || !is_second_miss(place) || missed_.size() >= kMaxContainers) return false;
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

std::vector<uint32_t> Varying::open_inputs() const {
  constexpr uint64_t kMostInputs = 1 << 16;  // ways further in are no indices
  std::vector<uint32_t> found;
  for (const auto* ways : {&arguments_, &opened_})
    for (const uint64_t way : *ways)
      if (way > 0 && way <= kMostInputs) found.push_back(static_cast<uint32_t>(way - 1));
  return found;
}

std::vector<Ref> Varying::keys_in(const void* container) const {
  std::vector<Ref> keys;
  for (const Places* places : {&changed_, &missed_})
    if (const auto found = places->find(container); found != places->end())
      for (const Ref& key : found->second) keys.push_back(Ref::borrow(key.get()));
  return keys;
}

bool Varying::has_any(const void* container) const noexcept {
  const auto holds = [&](const Places& places) {
    const auto found = places.find(container);
    return found != places.end() && !found->second.empty();
  };
  return holds(changed_) || holds(missed_);
}

void Varying::fix(const void* container, PyObject* key) {
  fixed_places_.insert(place_of(container, key));
  for (Places* places : {&changed_, &missed_})
    if (const auto found = places->find(container); found != places->end())
      std::erase_if(found->second, [&](const Ref& other) { return cpython::keys_equal(other.get(), key); });
}

void Varying::learn_from(const Varying& other) {
  for (const Places* places : {&other.changed_, &other.missed_})
    for (const auto& [container, keys] : *places)
      for (const Ref& key : keys) add(container, key.get());
  for (const auto& [place, times] : other.left_at_) left_at_[place] = std::max(left_at_[place], times);
  counts_ = counts_ || other.counts_;
}

bool Varying::add(const void* container, PyObject* key) {
  if (has(container, key) || fixed_places_.count(place_of(container, key)) != 0 || changed_.size() >= kMaxContainers)
    return false;
  changed_[container].push_back(Ref::borrow(key));
  return true;
}

}  // namespace pijit
