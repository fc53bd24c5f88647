// What models say, and who mentions them: an object that foreign code may have changed is a register everywhere at once.
#include "record/state/heap.h"

#include "cpython/classes.h"

namespace pijit {
namespace {

void take_family(Family& family, VirtualKind kind) {
  switch (kind) {
    case VirtualKind::kList:
      family.emplace<family::List>();
      return;
    case VirtualKind::kDeque:
      family.emplace<family::Deque>();
      return;
    case VirtualKind::kDict:
      family.emplace<family::Dict>();
      return;
    case VirtualKind::kSet:
      family.emplace<family::Set>();
      return;
    case VirtualKind::kInstance:
      family.emplace<family::Instance>();
      return;
    case VirtualKind::kFunction:
      family.emplace<family::Function>();
      return;
    case VirtualKind::kException:
      family.emplace<family::Exception>();
      return;
    case VirtualKind::kIterator:
      family.emplace<family::Iterator>();
      return;
    case VirtualKind::kZip:
      family.emplace<family::Zip>();
      return;
    case VirtualKind::kLazy:
      family.emplace<family::Lazy>();
      return;
    case VirtualKind::kGenerator:
      family.emplace<family::Generator>();
      return;
    case VirtualKind::kFrame:
      family.emplace<family::Frame>();
      return;
    case VirtualKind::kAddress:
      family.emplace<family::Address>();
      return;
    case VirtualKind::kTuple:
    case VirtualKind::kCell:
    case VirtualKind::kBoundMethod:
    case VirtualKind::kBuiltinMethod:
    case VirtualKind::kSlice:
    case VirtualKind::kSuper:
    case VirtualKind::kEnumerate:
    case VirtualKind::kView:
    case VirtualKind::kPartial:
    case VirtualKind::kTraceback:
    case VirtualKind::kHandled:
    case VirtualKind::kUnmodelled:
      return;
  }
}

}  // namespace

Model::Model(VirtualKind kind, PyTypeObject* type) : kind(kind), type(type) {
  take_family(family_, kind);
}

Val Heap::add(VirtualKind kind, PyTypeObject* type) {
  Virtual record{};
  record.kind = kind;
  record.buildable = row_of(kind).buildable;
  record.type = type;
  record.birth = ++trace().clock;
  trace().virtuals.push_back(record);
  models.push_back(std::make_unique<Model>(kind, type));
  return Val::virtual_object(static_cast<uint32_t>(models.size() - 1));
}

// An entry of an object that is not real. Its parts are noted.
void Heap::log(Val object, LogEntry entry) {
  Virtual& record = trace().virtuals[object.index()];
  const bool list = record.kind == VirtualKind::kList || record.kind == VirtualKind::kDeque;
  const bool one_place = record.kind == VirtualKind::kCell || record.kind == VirtualKind::kGenerator;
  record.rewritten |= entry.op == LogOp::kDelItem || entry.op == LogOp::kDelAttr || entry.op == LogOp::kClear ||
                      (entry.op == LogOp::kSetItem && list) || (one_place && record.head != kNone);
  entry.time = ++trace().clock;
  const auto position = static_cast<uint32_t>(trace().log.size());
  trace().log.push_back(entry);
  log_links.push_back({object.index(), record.tail});
  if (record.head == kNone) {
    record.head = position;
  } else {
    trace().log[record.tail].next = position;
  }
  record.tail = position;
  if (entry.key.is_virtual() || entry.value.is_virtual()) models[object.index()]->last_part = position;
}

void Heap::mention(Val holder, Val part, size_t place) {
  if (part.is_reg() && trace().regs[part.index()].rep != Rep::kObject) return;
  holders.note(part, holder.index(), static_cast<uint32_t>(place));
  // It is an object that foreign code has seen, though something still takes it for what it was before.
  const bool stale = part.is_virtual() && part.index() < stale_regs.size() && stale_regs[part.index()] != kNone;
  if (stale) due.push_back(part.index());
}

// The model mentions what an entry has put into it.
void Heap::note_part(Val object, const LogEntry& entry) {
  if (!entry.value.is_virtual() && !entry.value.is_reg()) return;
  const Model& content = model(object);
  const bool list = content.kind == VirtualKind::kList || content.kind == VirtualKind::kDeque;
  const bool counted = entry.op == LogOp::kField || entry.op == LogOp::kInsert || (list && entry.op == LogOp::kSetItem);
  const size_t size = entry.op == LogOp::kSetAttr ? content.attributes().values.size() : content.items.size();
  const bool told = counted || (entry.op == LogOp::kItem && entry.index != 0);
  mention(object, entry.value, told ? entry.index : std::max<size_t>(size, 1) - 1);
}

void Heap::becomes_real(Val object, uint32_t reg, uint32_t time) {
  Virtual& record = trace().virtuals[object.index()];
  record.reg = reg;
  record.reg_time = time;
  built.push_back(object.index());
  due.push_back(object.index());
}

PyObject* Heap::real(Val value) const {
  switch (value.kind()) {
    case ValueKind::kConst:
      return value.object();
    case ValueKind::kReg:
      return reg_objects[value.index()];
    case ValueKind::kVirtual:
      return models[value.index()]->real;
    case ValueKind::kNull:
      break;
  }
  return nullptr;
}

PyTypeObject* Heap::type_of(Val value) const {
  switch (value.kind()) {
    case ValueKind::kConst:
      return Py_TYPE(value.object());
    case ValueKind::kReg:
      return recording_.trace().regs[value.index()].type;
    case ValueKind::kVirtual:
      return models[value.index()]->type;
    case ValueKind::kNull:
      break;
  }
  return nullptr;
}

// An iterator was used in a way that no call of its class makes good.
void Heap::note_begun(Val iterator) {
  uint32_t& since = model(iterator).get<family::Progress>().begun;
  if (since != UINT32_MAX) return;
  since = ++trace().clock;
  begun.push_back(iterator.index());
}

// Of what foreign code has seen nothing but the register is known.
Val Heap::fresh_key(PyObject* key) const {
  const auto fresh = virtual_keys.find(key);
  if (fresh == virtual_keys.end()) return Val();
  return now(fresh->second);
}

Val Heap::now(Val value) const {
  const bool stale = value.is_virtual() && value.index() < stale_regs.size() && stale_regs[value.index()] != kNone;
  return stale ? Val::reg(stale_regs[value.index()]) : value;
}

Vals Heap::now(Vals values) const {
  for (Val& value : values) value = now(value);
  return values;
}

namespace {

// Null: it has no shape that changes.
Seldom<uint32_t>* find_reshaped(Heap& heap, Val source) {
  if (heap.is_virtual(source, VirtualKind::kView)) return find_reshaped(heap, heap.virtual_field(source, 0));
  if (!source.is_virtual()) return &heap.reshaped_dicts[source.object()];
  const uint32_t owner = heap.model(source).owner();
  auto* shape = heap.model(owner != kNone ? owner : source.index()).find<family::Shape>();
  return shape == nullptr ? nullptr : &shape->reshaped;
}

}  // namespace

Vec<uint32_t>& Heap::reshaped(Val source) {
  Seldom<uint32_t>* const times = find_reshaped(*this, source);
  if (times == nullptr) throw std::bad_variant_access();
  return times->all();
}

void Heap::reshape(Val source) {
  Vec<uint32_t>& times = reshaped(source);
  times.push_back(++trace().clock);
  while (is_virtual(source, VirtualKind::kView)) source = model(source).items[0];
  reshapes.push_back(source);
}

bool Heap::is_stale(uint32_t iterator, uint32_t time) {
  if (reshapes.empty()) return false;  // as nearly always, and each item that is iterated over asks
  const Seldom<uint32_t>* const times = find_reshaped(*this, model(iterator).items[0]);
  if (times == nullptr) return false;
  const auto next = std::upper_bound(times->begin(), times->end(), trace().virtuals[iterator].birth);
  return next != times->end() && *next <= time;
}

// Objects that escaped are what their registers hold: nothing is known of their content any more. Those that became
// real since the last epoch are looked at, and whatever mentions them.
void Heap::go_stale() {
  Trace& trace = recording_.trace();
  stale_regs.resize(models.size(), kNone);
  for (uint32_t i : std::exchange(due, {})) {
    const Virtual& object = trace.virtuals[i];
    if (object.reg == kNone || !is_mutable(object.kind)) continue;
    if (stale_regs[i] == kNone) stale.push_back({static_cast<uint32_t>(trace.nodes.size()), i, object.reg});
    stale_regs[i] = object.reg;
    if (!cpython::may_change(models[i]->type)) trace.regs[object.reg].type = models[i]->type;
    if (reg_objects[object.reg] == nullptr) reg_objects[object.reg] = models[i]->real;
    replace(Val::virtual_object(i), Val::reg(object.reg));
  }
  if (stale.empty()) return;
  frames_.each_value([&](Val& value) {
    if (value.is_virtual() && stale_regs[value.index()] != kNone) value = Val::reg(stale_regs[value.index()]);
  });
}

void Heap::replace(Val value, Val by) {
  const auto one = [&](Val& known) {
    const bool same = known == value;
    if (same) known = by;
    return same;
  };
  holders.each(value, [&](uint32_t holder, uint32_t place) {
    Model& content = *models[holder];
    do_work();
    if (place == Holders::kSuspended) {
      const auto& suspended = content.get<family::Generator>().suspended;
      if (suspended != nullptr) each_value(*suspended, one);
      return;
    }
    auto* const attributes = content.find<family::Attributes>();
    if (place < content.items.size() && one(content.items[place])) return;
    if (attributes != nullptr && place < attributes->values.size() && one(attributes->values[place])) return;
    do_work(content.items.size() + (attributes == nullptr ? 0 : attributes->values.size()));
    each_value(content, one);
  });
  holders.move(value, by);
}

}  // namespace pijit
