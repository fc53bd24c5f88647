// What models say, and who mentions them: an object that foreign code may have changed is a register everywhere at once.
#include "record/state/heap.h"

#include "cpython/classes.h"

namespace pijit {

// Of what foreign code has seen nothing but the register is known.
Val Heap::fresh_key(PyObject* key) const {
  const auto fresh = virtual_keys.find(key);
  if (fresh == virtual_keys.end()) return Val();
  const Val known = fresh->second;
  const bool stale = known.is_virtual() && known.index() < stale_regs.size() && stale_regs[known.index()] != kNone;
  return stale ? Val::reg(stale_regs[known.index()]) : known;
}

Vec<uint32_t>& Heap::reshaped(Val source) {
  if (is_virtual(source, VirtualKind::kView)) return reshaped(model(source).items[0]);
  if (!source.is_virtual()) return reshaped_dicts[source.object()];
  const uint32_t owner = model(source).owner;
  return model(owner != kNone ? owner : source.index()).reshaped.all();
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
      if (content.suspended != nullptr) each_value(*content.suspended, one);
      return;
    }
    if (place < content.items.size() && one(content.items[place])) return;
    if (place < content.attrs.size() && one(content.attrs[place])) return;
    do_work(content.items.size() + content.attrs.size());
    for (auto* values : {&content.items, &content.attrs})
      for (Val& known : *values) one(known);
  });
  holders.move(value, by);
}

}  // namespace pijit
