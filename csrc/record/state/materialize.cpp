// Virtual objects become real: a node makes them before others get them, and what they hold before that.
//
// Objects that hold each other, as a local function that calls itself and the cell that holds it, are made by one node.
// Each of them gets a register there, and none is real before. Such groups are found as Tarjan's strongly connected
// components: an object waits (`Making`) until the first one of its group has all that it holds.
#include <algorithm>

#include "cpython/objects.h"
#include "record/limits.h"
#include "record/recorder.h"
#include "record/state/exceptions.h"
#include "record/state/generators.h"
#include "record/state/scalars.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

// The instance is real, and so is its __dict__.
void share_dict(Recorder& recorder, Val instance) {
  const Val out = add_reg(recorder, Rep::kObject, &PyDict_Type, nullptr);
  Node& node = emit_node(recorder, Op::kPure);  // it makes one where there is none; nobody sees that
  node.a = Val::constant(getattr_function());
  node.imm = reinterpret_cast<uintptr_t>(&PyDict_Type);
  node.out = out.index();
  node.first = static_cast<uint32_t>(recorder.trace().operands.size());
  node.count = 2;
  recorder.trace().operands.insert(
      recorder.trace().operands.end(),
      {Val::reg(recorder.trace().virtuals[instance.index()].reg), recorder.reads.owned(names().dict)});
  recorder.heap.becomes_real(Val::virtual_object(recorder.heap.model(instance).attributes().dict), out.index(),
                             ++recorder.trace().clock);
}

}  // namespace

// The __dict__ of a fresh instance.
Val dict_of(Recorder& recorder, Val instance) {
  const uint32_t known = recorder.heap.model(instance).attributes().dict;
  if (known != kNone) return Val::virtual_object(known);
  const Val dict = new_virtual(recorder, VirtualKind::kDict, &PyDict_Type);
  recorder.heap.model(dict).get<family::Dict>().owner = instance.index();
  recorder.heap.model(instance).attributes().dict = dict.index();
  log(recorder, dict, LogOp::kField, Val(), instance);
  if (recorder.heap.is_built(instance)) share_dict(recorder, instance);
  return dict;
}

namespace {

// What a generator holds. It is CPython's from now on.
void materialize_suspended(Recorder& recorder, uint32_t generator) {
  recorder.heap.model(generator).get<family::Generator>().suspended = nullptr;
  const LogEntry state = recorder.trace().generator_state(generator, recorder.trace().clock);
  if (state.op != LogOp::kFrame) return;
  const FrameState frame = recorder.trace().frame_states[state.index];
  materialize(recorder, frame.handled);
  for (uint32_t i = 0; i < frame.locals + frame.stack && recorder.live(); ++i)
    materialize(recorder, recorder.trace().slots[frame.first + i]);
}

}  // namespace

// What the adapter is given, it may look into.
Val Recorder::materialize(Operand operand) {
  const Val value = operand.value;
  const bool real = value.is_virtual() ? heap.is_built(value) : !are_scalars(*this, {value});
  if (!heap.fillings.empty() && real) flush_fillings(heap);
  return live_ ? pijit::materialize(*this, value) : Val();
}

namespace {

// Objects that are becoming real, each behind the one that it was met in.
thread_local Vec<uint32_t> t_waiting;
// The lowest place of those that were met a second time.
thread_local uint32_t t_met = kNone;

// Where an object waits; kNone: it does not.
uint32_t place_of(const Heap& heap, uint32_t index) {
  if (!heap.models[index]->building) return kNone;
  const auto found = std::find(t_waiting.begin(), t_waiting.end(), index);
  return found == t_waiting.end() ? kNone : static_cast<uint32_t>(found - t_waiting.begin());
}

// An object waits, until its group is taken, or the recording ends.
class Waiting {
 public:
  Waiting(Heap& heap, uint32_t index) : heap_(heap), place_(static_cast<uint32_t>(t_waiting.size())) {
    t_waiting.push_back(index);
    heap.model(index).building = true;
  }
  ~Waiting() {
    if (!waits_on) take();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  uint32_t place() const noexcept { return place_; }
  // It, and those behind it.
  Vec<uint32_t> take() {
    Vec<uint32_t> taken;
    for (; t_waiting.size() > place_; t_waiting.pop_back()) {
      heap_.model(t_waiting.back()).building = false;
      taken.push_back(t_waiting.back());
    }
    std::reverse(taken.begin(), taken.end());
    return taken;
  }

  bool waits_on = false;  // for the first one of its group

 private:
  Heap& heap_;
  const uint32_t place_;
};

bool is_traced(const Model& content) {
  const auto* exception = content.find<family::Exception>();
  return exception != nullptr && !exception->traced.empty();
}

// What an object holds becomes real.
void materialize_parts(Recorder& recorder, uint32_t index) {
  Model& content = recorder.heap.model(index);
  if (content.owner() != kNone) materialize(recorder, Val::virtual_object(content.owner()));
  for (size_t i = 0; i < content.items.size() && recorder.live(); ++i)
    if (!recorder.heap.is_virtual(content.items[i], VirtualKind::kHandled)) materialize(recorder, content.items[i]);
  const auto* attributes = content.find<family::Attributes>();
  for (size_t i = 0; attributes != nullptr && i < attributes->values.size() && recorder.live(); ++i)
    materialize(recorder, attributes->values[i]);
  if (const auto* keyed = content.find<family::Keys>(); keyed != nullptr && !recorder.heap.virtual_keys.empty())
    for (size_t i = 0; i < keyed->keys.size() && recorder.live(); ++i)
      materialize(recorder, recorder.heap.fresh_key(keyed->keys[i]));
  if (content.kind == VirtualKind::kGenerator && recorder.live()) materialize_suspended(recorder, index);
  const auto* exception = content.find<family::Exception>();
  for (size_t i = 0; is_traced(content) && i < exception->traced.size() && recorder.live(); ++i)
    materialize_frame(recorder, exception->traced[i].frame);
}

// The node that makes a group; the others are made with the first one, which holds them. `cyclic`: they are what their
// logs say at the time of the node, and real behind it.
void make_real(Recorder& recorder, const Vec<uint32_t>& group, bool cyclic) {
  Trace& trace = recorder.trace();
  Vec<uint32_t> outs;
  for (uint32_t index : group) {
    const Model& content = recorder.heap.model(index);
    outs.push_back(add_reg(recorder, Rep::kObject, content.type, content.real).index());
  }
  const uint32_t time = ++trace.clock;
  const bool traced = is_traced(recorder.heap.model(group[0]));
  Node& node = emit_node(recorder, Op::kBuild);
  node.a = Val::virtual_object(group[0]);
  node.out = outs[0];
  node.time = time;
  if (traced) {
    node.snapshot = snapshot(recorder);
    recorder.raise.any_traced_built = true;
  }
  node.first = static_cast<uint32_t>(trace.operands.size());
  node.outs_first = static_cast<uint32_t>(trace.outs.size());
  node.count = node.outs_count = static_cast<uint32_t>(group.size() - 1);
  const uint32_t since = cyclic ? ++trace.clock : time;
  for (size_t i = 0; i < group.size(); ++i) {
    const Val object = Val::virtual_object(group[i]);
    if (i != 0) trace.operands.push_back(object);
    if (i != 0) trace.outs.push_back(outs[i]);
    recorder.heap.becomes_real(object, outs[i], since);
  }
}

// What shows an object that has become real.
void show_real(Recorder& recorder, uint32_t index) {
  const Model& content = recorder.heap.model(index);
  const auto* attributes = content.find<family::Attributes>();
  const bool shared = attributes != nullptr && attributes->dict != kNone &&
                      !recorder.heap.is_built(Val::virtual_object(attributes->dict));
  if (shared) share_dict(recorder, Val::virtual_object(index));
  // Its number may be needed longer than the object, which is not to live longer for it.
  if (content.address != kNone && !recorder.heap.model(content.address).building)
    materialize(recorder, Val::virtual_object(content.address));
  const auto* exception = content.find<family::Exception>();
  for (size_t i = 0; exception != nullptr && i < exception->tracebacks.size() && recorder.live(); ++i)
    if (const Val shown = exception->tracebacks[i]; !recorder.heap.model(shown).building) materialize(recorder, shown);
}

// Frames and tracebacks cannot be in a group: what they show is made by another node.
void check_group(Recorder& recorder, const Vec<uint32_t>& group) {
  for (uint32_t index : group) {
    const Model& content = recorder.heap.model(index);
    const bool of_frames = content.kind == VirtualKind::kFrame || content.kind == VirtualKind::kTraceback;
    if (of_frames || is_traced(content)) return recorder.stop(Abort::kUnbuildable, virtual_name(content.kind));
  }
}

// An object that is not real yet, with its group.
void make_with_parts(Recorder& recorder, uint32_t index) {
  Waiting waiting(recorder.heap, index);
  const uint32_t met_before = std::exchange(t_met, kNone);
  materialize_parts(recorder, index);
  const uint32_t met = std::exchange(t_met, met_before);
  waiting.waits_on = met < waiting.place() && recorder.live();
  if (waiting.waits_on) {  // one that was met before it is the first of its group
    t_met = std::min(met_before, met);
    return;
  }
  const Vec<uint32_t> group = waiting.take();
  const bool cyclic = met == waiting.place();
  if (recorder.live() && cyclic) check_group(recorder, group);
  const bool traced = recorder.live() && is_traced(recorder.heap.model(index));
  if (traced && !snapshot_usable(recorder, snapshot(recorder)))
    recorder.stop(Abort::kUnbuildable, recorder.snapshots.unusable_reason);
  if (!recorder.live()) return;
  make_real(recorder, group, cyclic);
  for (size_t i = 0; i < group.size() && recorder.live(); ++i) show_real(recorder, group[i]);
}

}  // namespace

Val materialize(Recorder& recorder, Val value) {
  if (!recorder.heap.fillings.empty() && is_filled(recorder.heap, value)) flush_fillings(recorder.heap);
  if (value.is_const() || value.is_null()) return value;
  if (value.is_reg()) {
    const RegInfo info = recorder.trace().regs[value.index()];
    if (info.rep == Rep::kObject || info.rep == Rep::kTensor) return value;
    Val boxed = add_reg(recorder, Rep::kObject, info.type, recorder.heap.reg_objects[value.index()]);
    Node& node = emit_node(recorder, Op::kBox);
    node.b = value;
    node.out = boxed.index();
    return boxed;
  }
  uint32_t index = value.index();
  Model& content = recorder.heap.model(index);
  if (recorder.trace().virtuals[index].reg != kNone) {
    if (std::exchange(content.own, false)) {  // and what it holds
      recorder.heap.due.push_back(index);
      const Vals items = content.items;
      for (Val item : items)
        if (item.is_virtual()) materialize(recorder, item);
    }
    return Val::reg(recorder.trace().virtuals[index].reg);
  }
  if (const uint32_t place = place_of(recorder.heap, index); place != kNone) {
    t_met = std::min(t_met, place);
    return Val();
  }
  if (content.owner() != kNone && place_of(recorder.heap, content.owner()) == kNone) {
    materialize(recorder, Val::virtual_object(content.owner()));
    if (recorder.live() && recorder.trace().virtuals[index].reg != kNone)
      return Val::reg(recorder.trace().virtuals[index].reg);
  }
  if (!recorder.live()) return Val();
  const Nesting nesting;
  if (nesting.too_deep()) return recorder.stop(Abort::kUnbuildable, "objects nested too deeply"), Val();
  const bool address = content.kind == VirtualKind::kAddress;
  if (address) {  // of a scalar: from now on it is this very one
    if (content.items[0].is_const()) recorder.trace().exact.push_back(content.items[0].object());
    recorder.trace().virtuals[index].buildable = true;
  }
  if (content.building || is_running(recorder.heap, value) ||
      !can_build(recorder.heap, index, recorder.trace().clock)) {
    recorder.stop(Abort::kUnbuildable, virtual_name(content.kind));
    return Val();
  }
  make_with_parts(recorder, index);
  const uint32_t built = recorder.trace().virtuals[index].reg;
  return recorder.live() && built != kNone ? Val::reg(built) : Val();
}

}  // namespace pijit
