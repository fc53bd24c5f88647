// Follows what such a call is given and what it gives.
#include "plan/sides.h"

#include <algorithm>

#include "ir/log.h"

namespace pijit {

namespace {

bool has(const Vec<uint32_t>& registers, uint32_t reg) {
  return std::find(registers.begin(), registers.end(), reg) != registers.end();
}

template <class F>
void each_value(const Content& content, const F& take) {
  for (Val value : content.fields) take(value);
  for (Val value : content.items) take(value);
  for (const auto* pairs : {&content.pairs, &content.attributes})
    for (const auto& [key, value] : *pairs) take(key), take(value);
}

// The register of a virtual object that is built by then.
Val built_by(const Trace& trace, Val value, uint32_t time) {
  if (!value.is_virtual()) return value;
  const Virtual& object = trace.virtuals[value.index()];
  return object.is_real(time) ? Val::reg(object.reg) : value;
}

// What is in an object, and in objects in it that are not built yet.
class Inside {
 public:
  Inside(const Trace& trace, uint32_t time) : trace_(trace), time_(time) {}
  void look_into(uint32_t object) {
    if (has(objects_, object)) return;
    objects_.push_back(object);
    each_value(content_of(trace_, trace_.virtuals[object], time_), [&](Val each) { look(each); });
  }
  void look(Val value) {
    value = built_by(trace_, value, time_);
    if (value.is_virtual()) look_into(value.index());
    if (value.is_reg() && !has(registers, value.index())) registers.push_back(value.index());
  }
  Vec<uint32_t> registers;

 private:
  const Trace& trace_;
  uint32_t time_;
  Vec<uint32_t> objects_;
};

// Collects what a call is given.
class Given {
 public:
  Given(const Trace& trace, const Vec<uint32_t>& written_at, SidesCall* call)
      : trace_(trace), written_at_(written_at), call_(call) {}

  void take(uint32_t reg) {
    if (has(seen_, reg)) return;
    seen_.push_back(reg);
    const uint32_t maker = written_at_[reg];
    const bool built = maker != kNone && maker < call_->at &&
                       (trace_.nodes[maker].op == Op::kBuild || trace_.nodes[maker].op == Op::kBox);
    if (!built) return call_->reads.push_back(reg);
    if (has(call_->builds, maker)) return;
    call_->builds.push_back(maker);
    for (uint32_t each : built_of(trace_, trace_.nodes[maker])) take(each);
  }

 private:
  const Trace& trace_;
  const Vec<uint32_t>& written_at_;
  SidesCall* call_;
  Vec<uint32_t> seen_;
};

// What the call gave, and what the guards behind it load from there.
Vec<uint32_t> results_of(const Trace& trace, const Node& call, const Epoch& epoch) {
  Vec<uint32_t> found{call.out};
  for (uint32_t i = epoch.first; i < epoch.first + epoch.count; ++i) {
    const Guard& guard = trace.guards[i];
    if (guard.out != kNone && guard.subject.is_reg() && has(found, guard.subject.index())) found.push_back(guard.out);
  }
  for (size_t i = 0; epoch.tensors != nullptr && i < epoch.tensors->size(); ++i) {
    const Val source = epoch.tensors->source(i);
    if (source.is_reg() && has(found, source.index())) found.push_back(epoch.tensors->register_of(i));
  }
  return found;
}

}  // namespace

std::vector<SidesCall> find_sides(const Trace& trace, const Vec<uint32_t>& written_at) {
  std::vector<SidesCall> found;
  for (uint32_t i = 0; i + 1 < trace.nodes.size(); ++i) {
    const Node &node = trace.nodes[i], &next = trace.nodes[i + 1];
    if (node.op != Op::kOpaque || node.foreign != ForeignCall::kSides || next.op != Op::kEpoch) continue;
    SidesCall call;
    call.at = i;
    Given given(trace, written_at, &call);
    for (uint32_t k = 0; k < node.count; ++k)
      if (const Val value = trace.operands[node.first + k]; value.is_reg()) given.take(value.index());
    call.results = results_of(trace, node, trace.epochs[next.aux]);
    found.push_back(std::move(call));
  }
  return found;
}

bool may_foresee(const Trace& trace, const SidesCall& call, const RegisterTest& is_within, Vec<uint32_t>* within) {
  const Epoch& epoch = trace.epochs[trace.nodes[call.at + 1].aux];
  for (uint32_t i = epoch.first; i < epoch.first + epoch.count; ++i) {
    const Guard& guard = trace.guards[i];
    if (!guard.subject.is_reg() || !is_within(guard.subject.index())) continue;
    const bool lasts = guard.op == GuardOp::kType || guard.op == GuardOp::kNoAttribute;
    if (!lasts && !has(call.results, guard.subject.index())) return false;
    within->push_back(i);
  }
  for (size_t i = 0; epoch.tensors != nullptr && i < epoch.tensors->size(); ++i) {
    const Val source = epoch.tensors->source(i);
    if (source.is_reg() && is_within(source.index()) && !has(call.results, source.index())) return false;
  }
  return true;
}

Vec<uint32_t> built_of(const Trace& trace, const Node& node) {
  Inside content(trace, node.time);
  if (node.op == Op::kBox) {
    content.look(node.b);
    return std::move(content.registers);
  }
  if (node.a.is_virtual()) content.look_into(node.a.index());
  for (uint32_t i = 0; i < node.count; ++i)
    if (const Val other = trace.operands[node.first + i]; other.is_virtual()) content.look_into(other.index());
  return std::move(content.registers);
}

}  // namespace pijit
