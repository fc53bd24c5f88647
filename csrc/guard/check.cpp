// The checks, one case per row of guards.def.
#include "guard/check.h"

#include "adapter.h"
#include "cpython/frame.h"
#include "cpython/iterators.h"
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "ir/adapter_slot.h"

namespace pijit {

PyObject* subject_of(const Guard& guard, const Reg* regs) noexcept {
  if (!guard.subject.is_reg()) return guard.subject.object();
  const Reg& reg = regs[guard.subject.index()];
  return reg.rep == Rep::kTensor ? current_adapter()->object_of(reg.tensor) : reg.object;
}

namespace {

// The subject is a tensor without a Python object: its class and attributes are those that it was made with.
bool is_unseen(const Guard& guard, const Reg* regs) noexcept {
  return guard.subject.is_reg() && regs[guard.subject.index()].rep == Rep::kTensor;
}

// `now` is alive; `expected` is looked into only when it is known to be.
bool is_same(PyObject* now, PyObject* expected, bool scalar) noexcept {
  return now == expected || (scalar && now != nullptr && cpython::same_scalar(now, expected));
}

}  // namespace

bool is_item(const Trace& trace, uint32_t index, PyObject* now) noexcept {
  return is_same(now, trace.guard_items[index], trace.is_scalar_item(index));
}

bool look_up_key(const Trace& trace, uint32_t index, PyObject* dict, PyObject** value) noexcept {
  PyObject* key = trace.guard_items[index];
  switch (trace.item_kinds[index]) {
    case ItemKind::kScalar:
      return cpython::dict_lookup_exact(dict, key, value) >= 0;
    case ItemKind::kAddress:
      return cpython::dict_lookup_address(dict, key, value) >= 0;
    default:
      return false;
  }
}

namespace {

using What = Mismatch::What;

// False, for a check that fails; says why if somebody asks.
bool fails(Mismatch* why, What what) noexcept {
  if (why != nullptr) why->what = what;
  return false;
}

bool fails_at_item(Mismatch* why, const Guard& guard, uint32_t index, PyObject* now) noexcept {
  if (why != nullptr) why->item = index - guard.first, why->now = now;
  return fails(why, What::kItem);
}

bool is_size(uint64_t size, uint64_t before, Mismatch* why, What what = What::kSize) noexcept {
  if (size == before) return true;
  if (why != nullptr) why->size = size, why->before = before;
  return fails(why, what);
}

bool is_expected(const Guard& guard, PyObject* now, Mismatch* why) noexcept {
  if (is_same(now, guard.expected, guard.scalar)) return true;
  if (why != nullptr) why->now = now;
  return false;
}

PyTypeObject* expected_type(const Guard& guard) noexcept {
  return reinterpret_cast<PyTypeObject*>(guard.expected);
}

// A register that a load writes: borrowed, never null.
bool load(const Guard& guard, Reg* regs, PyObject* object) noexcept {
  if (object == nullptr) return false;
  regs[guard.out].object = object;
  regs[guard.out].rep = Rep::kObject;
  regs[guard.out].owned = 0;
  return true;
}

bool load_count(const Guard& guard, Reg* regs, PyObject* enumerate) noexcept {
  const cpython::Enumeration now = cpython::enumeration(enumerate);
  regs[guard.out].integer = now.count;
  regs[guard.out].rep = Rep::kInt;
  regs[guard.out].owned = 0;
  return now.plain;
}

// A dict that is guarded as a whole, with a tag that has moved: it holds the same items in the same order, as one does
// where something was put in and taken out again.
bool holds_all(const Trace& trace, const Guard& guard, PyObject* dict) noexcept {
  if (guard.count == 0 || PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(guard.count / 2)) return false;
  cpython::DictCursor cursor;
  PyObject *key, *value;
  for (uint32_t i = guard.first; i < guard.first + guard.count; i += 2)
    if (trace.item_kinds[i] == ItemKind::kOther || !cpython::dict_next(dict, &cursor, &key, &value) ||
        !is_item(trace, i, key) || !is_item(trace, i + 1, value))
      return false;
  return true;
}

// A guard that fails for its tag or for a key is looked through to the end if somebody asks: an item may say more.
bool check_dict(const Trace& trace, const Guard& guard, PyObject* dict, Mismatch* why) noexcept {
  const uint64_t version = cpython::dict_version(dict);
  if (version == guard.number) return true;
  bool holds = guard.aux == 0 || holds_all(trace, guard, dict);
  if (!holds && why == nullptr) return false;
  for (uint32_t i = guard.first; i < guard.first + guard.count; i += 2) {
    PyObject* value;
    if (trace.item_kinds[i] == ItemKind::kOther) {  // a key that may be dead
      if (why == nullptr) return false;
      holds = false;
      continue;
    }
    if (!look_up_key(trace, i, dict, &value) || !is_item(trace, i + 1, value))
      return fails_at_item(why, guard, i + 1, value);
  }
  if (holds) guard.number = version;
  return holds;
}

bool check_dict_size(const Trace& trace, const Guard& guard, PyObject* dict, Mismatch* why) noexcept {
  if (!is_size(static_cast<uint64_t>(PyDict_GET_SIZE(dict)), guard.number, why)) return false;
  cpython::DictCursor cursor;
  PyObject *key, *value;
  const bool kept = guard.subject.is_reg();  // the trace keeps the keys
  for (uint32_t i = guard.first; i < guard.first + guard.count; ++i) {
    if (!cpython::dict_next(dict, &cursor, &key, &value)) return false;
    if (!is_item(trace, i, key) && !(kept && cpython::same_key(key, trace.guard_items[i])))
      return fails_at_item(why, guard, i, key);
  }
  return cpython::dict_ends(dict, cursor);
}

bool check_list(const Trace& trace, const Guard& guard, PyObject* list, Mismatch* why) noexcept {
  if (!is_size(static_cast<uint64_t>(PyList_GET_SIZE(list)), guard.count, why)) return false;
  for (uint32_t i = 0; i < guard.count; ++i) {
    PyObject* now = PyList_GET_ITEM(list, i);
    if (!is_item(trace, guard.first + i, now)) return fails_at_item(why, guard, guard.first + i, now);
  }
  return true;
}

bool check_parts(const Trace& trace, const Guard& guard, PyObject* object) noexcept {
  if (Py_TYPE(object) != expected_type(guard) || cpython::part_definition(object) != guard.number) return false;
  if (cpython::part_count(object) != static_cast<Py_ssize_t>(guard.count)) return false;
  for (uint32_t i = 0; i < guard.count; ++i)
    if (!is_item(trace, guard.first + i, cpython::part(object, static_cast<Py_ssize_t>(i)))) return false;
  return true;
}

bool check_suspended(const Trace& trace, const Guard& guard, PyObject* object) noexcept {
  if (!PyGen_CheckExact(object) || !cpython::is_at_rest(object, static_cast<Py_ssize_t>(guard.aux))) return false;
  cpython::Frame* frame = cpython::generator_frame(object);
  const bool here = reinterpret_cast<PyObject*>(cpython::code(frame)) == guard.expected &&
                    static_cast<uint64_t>(cpython::resume_index(frame)) == guard.number &&
                    static_cast<uint32_t>(cpython::used_slots(frame)) == guard.count;
  for (uint32_t i = 0; here && i < guard.count; ++i) {
    const bool empty = cpython::slot(frame, static_cast<int>(i)) == nullptr;
    if (empty != (trace.guard_items[guard.first + i] == nullptr)) return false;
  }
  return here;
}

// Most often nothing has changed, not even the order of the table.
bool check_set(const Trace& trace, const Guard& guard, PyObject* set, Mismatch* why) noexcept {
  if (!is_size(static_cast<uint64_t>(PySet_GET_SIZE(set)), guard.count, why)) return false;
  Py_ssize_t position = 0;
  PyObject* item;
  uint32_t at = guard.first;
  while (cpython::next_set_item(set, &position, &item) && is_item(trace, at, item)) ++at;
  if (at == guard.first + guard.count) return true;
  for (uint32_t i = guard.first; i < guard.first + guard.count; ++i)
    if (!cpython::set_holds(set, trace.guard_items[i], trace.is_scalar_item(i))) return false;
  return true;
}

// Inline values. Those of one object, which no register has, may be shown by a dict, too, that nothing else has.
PyDictValues* values_of(const Guard& guard, PyObject* object) noexcept {
  return guard.subject.is_const() ? cpython::own_values(object) : cpython::inline_values(object);
}

bool check_inline(const Trace& trace, const Guard& guard, PyObject* object, Mismatch* why) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (type != expected_type(guard)) return fails(why, What::kOther);
  const PyDictValues* values = values_of(guard, object);
  if (values == nullptr) return false;
  if (guard.op == GuardOp::kNoInlineSlot) return cpython::current_shared_keys_version(type) == guard.number;
  if (cpython::shared_keys_id(type) != guard.number) return false;
  PyObject* now = values->values[guard.aux];
  return is_item(trace, guard.first, now) || fails_at_item(why, guard, guard.first, now);
}

bool load_inline(const Guard& guard, Reg* regs, PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if (type != expected_type(guard) || cpython::shared_keys_id(type) != guard.number) return false;
  const PyDictValues* values = values_of(guard, object);
  return values != nullptr && load(guard, regs, values->values[guard.aux]);
}

bool has_own_dict(PyObject* object) noexcept {
  PyObject* dict = cpython::instance_dict(object);
  return dict == nullptr || Py_REFCNT(dict) == 1;
}

bool check_instance(const Guard& guard, PyObject* object, Mismatch* why) noexcept {
  if (Py_TYPE(object) != expected_type(guard)) return fails(why, What::kClass);
  return guard.number == 0 || reinterpret_cast<uintptr_t>(cpython::instance_dict(object)) == guard.number;
}

bool check_context_var(const Guard& guard, PyObject* var, Mismatch* why) noexcept {
  PyObject* value = nullptr;
  if (PyContextVar_Get(var, nullptr, &value) < 0) {
    PyErr_Clear();
    return false;
  }
  drop_reference(value);  // the context, or the variable's default, keeps it
  return is_expected(guard, value, why);
}

// Entry number `position`, in order. An OrderedDict is walked: guards ask for one entry after the other, so the walk
// goes on where it was, if nothing has changed since.
bool find_entry(PyObject* dict, uint64_t position, PyObject** key, PyObject** value) noexcept {
  if (position >= static_cast<uint64_t>(PyDict_GET_SIZE(dict))) return false;
  if (!PyODict_Check(dict)) return cpython::dict_entry(dict, static_cast<Py_ssize_t>(position), key, value), true;
  static struct {
    uint64_t version, state, next;
    cpython::DictCursor cursor;
  } walk;
  const uint64_t version = cpython::dict_version(dict), state = cpython::odict_state(dict);
  if (walk.version != version || walk.state != state || walk.next > position) walk = {version, state, 0, {}};
  for (; walk.next <= position; ++walk.next)
    if (!cpython::dict_next(dict, &walk.cursor, key, value)) return walk.version = 0, false;
  return true;
}

bool load_from_dict(const Guard& guard, Reg* regs, PyObject* dict) noexcept {
  PyObject *key, *value = nullptr;
  if (guard.op == GuardOp::kLoadDictItem)
    return cpython::dict_lookup_exact(dict, guard.expected, &value) > 0 && load(guard, regs, value);
  if (!find_entry(dict, guard.number, &key, &value)) return false;
  return load(guard, regs, guard.op == GuardOp::kLoadDictKeyAt ? key : value);
}

// Item of a tuple or list, or null when there is none.
PyObject* item_at(PyObject* sequence, uint64_t index) noexcept {
  if (index >= static_cast<uint64_t>(PySequence_Fast_GET_SIZE(sequence))) return nullptr;
  const auto at = static_cast<Py_ssize_t>(index);
  return PyTuple_Check(sequence) ? PyTuple_GET_ITEM(sequence, at) : PyList_GET_ITEM(sequence, at);
}

// The class is proven to be alive: by an instance, or (null) by itself.
bool is_class_of(PyObject* instance, PyObject* type) noexcept {
  return instance == nullptr || Py_TYPE(instance) == reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool has_layout(const Guard& guard, PyObject* subject) noexcept {
  switch (row_of(guard.op).subject) {
    case column::Layout::any:
      return true;
    case column::Layout::type:
      return is_class_of(guard.expected, subject) && PyType_Check(subject) != 0;
    case column::Layout::dict:
      return PyDict_Check(subject) != 0;
    case column::Layout::list:
      return PyList_Check(subject) != 0;
    case column::Layout::list_or_set:
      return PyList_Check(subject) != 0 || PyAnySet_Check(subject) != 0;
    case column::Layout::set:
      return PyAnySet_Check(subject) != 0;
    case column::Layout::tuple:
      return PyTuple_Check(subject) != 0;
    case column::Layout::function:
      return PyFunction_Check(subject) != 0;
    case column::Layout::cell:
      return PyCell_Check(subject) != 0;
  }
  return false;
}

bool check_guard(const Trace& trace, const Guard& guard, Reg* regs, Mismatch* why) noexcept {
  PyObject* subject = subject_of(guard, regs);
  if (subject == nullptr) return is_unseen(guard, regs);
  if (!has_layout(guard, subject)) return false;
  switch (guard.op) {
    case GuardOp::kIs:
      return subject == guard.expected;
    case GuardOp::kType:
      return Py_TYPE(subject) == expected_type(guard);
    case GuardOp::kScalar:
      return is_expected(guard, subject, why);
    case GuardOp::kTypeVersion:
      return cpython::current_type_version(reinterpret_cast<PyTypeObject*>(subject)) == guard.number;
    case GuardOp::kInstance:
      return check_instance(guard, subject, why);
    case GuardOp::kInlineSlot:
    case GuardOp::kNoInlineSlot:
      return check_inline(trace, guard, subject, why);
    case GuardOp::kNoAttribute:
      return cpython::lacks_attribute(subject, guard.expected);
    case GuardOp::kDict:
      return check_dict(trace, guard, subject, why);
    case GuardOp::kDictSize:
      return check_dict_size(trace, guard, subject, why);
    case GuardOp::kList:
      return check_list(trace, guard, subject, why);
    case GuardOp::kSet:
      return check_set(trace, guard, subject, why);
    case GuardOp::kHas:
    case GuardOp::kHasNot: {
      PyObject* key = guard.expected;
      const bool scalar = guard.scalar || key == Py_True || key == Py_False;  // which no trace need own
      const int found = cpython::set_has(subject, key, static_cast<Py_hash_t>(guard.number), scalar);
      return found == (guard.op == GuardOp::kHas ? 1 : 0);
    }
    case GuardOp::kQuiet:
      return cpython::holds_quiet_items(subject);
    case GuardOp::kParts:
      return check_parts(trace, guard, subject);
    case GuardOp::kValue:
      return cpython::has_value(subject, guard.expected);
    case GuardOp::kEqual:
      return cpython::equal_values(subject, guard.expected);
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
      return is_size(static_cast<uint64_t>(PySequence_Fast_GET_SIZE(subject)), guard.number, why, What::kRow);
    case GuardOp::kFunction:
      return cpython::current_function_version(subject) == guard.number;
    case GuardOp::kCell:
      return is_expected(guard, PyCell_GET(subject), why);
    case GuardOp::kSlot:
      return is_expected(guard, cpython::object_at(subject, static_cast<Py_ssize_t>(guard.number)), why);
    case GuardOp::kContextVar:
      return check_context_var(guard, subject, why);
    case GuardOp::kLoadSelf:
      return load(guard, regs, subject);
    case GuardOp::kLoadTupleItem:
    case GuardOp::kLoadListItem:
      return load(guard, regs, item_at(subject, guard.number));
    case GuardOp::kLoadCell:
      return load(guard, regs, PyCell_GET(subject));
    case GuardOp::kLoadSlot:
      return load(guard, regs, cpython::object_at(subject, static_cast<Py_ssize_t>(guard.number)));
    case GuardOp::kLoadInline:
      return load_inline(guard, regs, subject);
    case GuardOp::kLoadDictItem:
    case GuardOp::kLoadDictKeyAt:
    case GuardOp::kLoadDictValueAt:
      return load_from_dict(guard, regs, subject);
    case GuardOp::kSame:
      return subject == regs[guard.number].object;
    case GuardOp::kNotSame:
      return subject != regs[guard.number].object;
    case GuardOp::kUnshared:
      return Py_REFCNT(subject) == 1;
    case GuardOp::kOwnDict:
      return has_own_dict(subject);
    case GuardOp::kSuspended:
      return check_suspended(trace, guard, subject);
    case GuardOp::kLoadSuspended:
      return load(guard, regs, cpython::slot(cpython::generator_frame(subject), static_cast<int>(guard.number)));
    case GuardOp::kLoadCount:
      return load_count(guard, regs, subject);
    case GuardOp::kLoadGeneratorFunction:
      return load(guard, regs, cpython::function(cpython::generator_frame(subject)));
    case GuardOp::kAbcRegistry:
      return cpython::abc_registrations() == guard.number;
    case GuardOp::kRecursionLimit:
      return is_size(static_cast<uint64_t>(Py_GetRecursionLimit()), guard.number, why, What::kRow);
  }
  return false;
}

namespace {

enum FastKind : uintptr_t { kRow, kFastDict, kFastInstance, kFastType, kFastFunction };
constexpr uintptr_t kKindMask = 7;
constexpr size_t kAhead = 12;  // guards between a prefetch and its use

FastKind fast_kind(const Guard& guard) noexcept {
  if (!guard.subject.is_const()) return kRow;
  switch (guard.op) {
    case GuardOp::kDict:
      return kFastDict;
    case GuardOp::kInstance:
      return guard.number == 0 || !cpython::has_managed_dict(expected_type(guard)) ? kRow : kFastInstance;
    case GuardOp::kTypeVersion:
      return kFastType;
    case GuardOp::kFunction:
      return kFastFunction;
    case GuardOp::kIs:
    case GuardOp::kType:
    case GuardOp::kScalar:
    case GuardOp::kInlineSlot:
    case GuardOp::kNoInlineSlot:
    case GuardOp::kNoAttribute:
    case GuardOp::kDictSize:
    case GuardOp::kList:
    case GuardOp::kSet:
    case GuardOp::kHas:
    case GuardOp::kHasNot:
    case GuardOp::kQuiet:
    case GuardOp::kParts:
    case GuardOp::kValue:
    case GuardOp::kEqual:
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
    case GuardOp::kCell:
    case GuardOp::kSlot:
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
      return kRow;
  }
  return kRow;
}

// A dict whose tag is another one, or no dict any more: its row decides, and may publish a new tag.
bool check_dict_row(const Trace& trace, const FastGuard& fast, Reg* regs) noexcept {
  const Guard& guard = trace.guards[fast.more];
  if (!check_guard(trace, guard, regs)) return false;
  fast.number = guard.number;
  return true;
}

bool is_plain_dict(PyObject* object) noexcept {
  return Py_TYPE(object) == &PyDict_Type || Py_TYPE(object) == &PyODict_Type;
}

bool check_fast(const Trace& trace, const FastGuard& fast, Reg* regs) noexcept {
  auto* subject = reinterpret_cast<PyObject*>(fast.subject & ~kKindMask);
  switch (static_cast<FastKind>(fast.subject & kKindMask)) {
    case kFastDict:
      return (is_plain_dict(subject) && cpython::dict_version(subject) == fast.number) ||
             check_dict_row(trace, fast, regs);
    case kFastInstance:
      return reinterpret_cast<uintptr_t>(Py_TYPE(subject)) == fast.number &&
             reinterpret_cast<uintptr_t>(cpython::instance_dict(subject)) == fast.more;
    case kFastType:
      return is_class_of(reinterpret_cast<PyObject*>(fast.more), subject) && PyType_Check(subject) &&
             cpython::current_type_version(reinterpret_cast<PyTypeObject*>(subject)) == fast.number;
    case kFastFunction:
      return PyFunction_Check(subject) && cpython::current_function_version(subject) == fast.number;
    case kRow:
      break;
  }
  return check_guard(trace, trace.guards[fast.more], regs);
}

}  // namespace

void compile_guards(Trace& trace) {
  trace.fast_guards.clear();
  trace.fast_guards.reserve(trace.guards.size());
  for (size_t i = 0; i < trace.guards.size(); ++i) {
    const Guard& guard = trace.guards[i];
    const FastKind kind = fast_kind(guard);
    FastGuard fast{reinterpret_cast<uintptr_t>(guard.subject.object()) | kind, guard.number, i};
    if (kind == kFastInstance) {
      fast.number = reinterpret_cast<uintptr_t>(guard.expected);
      fast.more = guard.number;
    }
    if (kind == kFastType) fast.more = reinterpret_cast<uintptr_t>(guard.expected);
    trace.fast_guards.push_back(fast);
    if (guard.op == GuardOp::kAbcRegistry && i < trace.entry_guards()) trace.registries = static_cast<uint32_t>(i);
  }
}

namespace {

bool check_range(const Trace& trace, size_t first, size_t count, Reg* regs) noexcept {
  const FastGuard* guards = trace.fast_guards.data() + first;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      const uintptr_t ahead = guards[i + kAhead].subject;
      const auto* subject = reinterpret_cast<const char*>(ahead & ~kKindMask);
      __builtin_prefetch(subject);
      // The pointer to an instance's dict stands before it.
      if ((ahead & kKindMask) == kFastInstance) __builtin_prefetch(subject - 3 * sizeof(void*));
    }
    if (!check_fast(trace, guards[i], regs)) return false;
  }
  return true;
}

// Without some of them, in order.
bool check_range_but(const Trace& trace, uint32_t first, uint32_t count, const Vec<uint32_t>& but, Reg* regs) noexcept {
  uint32_t at = first;
  const uint32_t end = first + count;
  for (uint32_t guard : but) {
    if (guard < at || guard >= end) continue;
    if (!check_range(trace, at, guard - at, regs)) return false;
    at = guard + 1;
  }
  return check_range(trace, at, end - at, regs);
}

}  // namespace

bool check_guards(const Trace& trace, Reg* regs) noexcept {
  return check_guards_but(trace, {}, regs);
}

bool check_guards_but(const Trace& trace, const Vec<uint32_t>& but, Reg* regs) noexcept {
  if (trace.state != nullptr && !trace.state->check()) return false;
  if (!check_range_but(trace, 0, static_cast<uint32_t>(trace.entry_guards()), but, regs)) return false;
  return trace.tensors == nullptr || trace.tensors->check(regs);
}

bool check_objects(const Trace& trace, Reg* regs) noexcept {
  return check_range(trace, 0, static_cast<uint32_t>(trace.entry_guards()), regs) &&
         (trace.tensors == nullptr || trace.tensors->check(regs));
}

bool check_epoch(const Trace& trace, const Epoch& epoch, Reg* regs) noexcept {
  return (epoch.state == nullptr || epoch.state->check()) && foresee_epoch(trace, epoch, {}, regs);
}

bool foresee_epoch(const Trace& trace, const Epoch& epoch, const Vec<uint32_t>& but, Reg* regs) noexcept {
  return check_range_but(trace, epoch.first, epoch.count, but, regs) &&
         (epoch.tensors == nullptr || epoch.tensors->check(regs));
}

bool foresee_epoch(const Trace& trace, const Epoch& epoch, const Vec<uint32_t>& but, const Vec<uint32_t>& without,
                   Reg* regs) noexcept {
  return check_range_but(trace, epoch.first, epoch.count, but, regs) &&
         (epoch.tensors == nullptr || epoch.tensors->check_but(without, regs));
}

}  // namespace pijit
