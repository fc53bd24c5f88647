// Walks back from each call of the engine as far as a tape may reach.
#include "plan/tapes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "adapter.h"
#include "ir/adapter_slot.h"
#include "ir/call.h"
#include "ir/log.h"
#include "plan/segment.h"
#include "plan/steps.h"

namespace pijit {

namespace {

constexpr size_t kTapes = 4;           // of a stretch
constexpr uint32_t kWatched = 8;       // replays of a stretch that are watched
constexpr uint64_t kLeftTooOften = 8;  // replays in which a tape was left, if they are more than those it has served

// The virtual object that a value is at this time, or was built of; null: none.
const Virtual* virtual_of(const Trace& trace, Val value, uint32_t time) {
  if (value.is_virtual()) return &trace.virtuals[value.index()];
  if (!value.is_reg()) return nullptr;
  for (const Virtual& object : trace.virtuals)
    if (object.reg == value.index() && object.reg_time <= time) return &object;
  return nullptr;
}

// The items of a tuple; false: they are not known.
bool items_of(const Trace& trace, Val value, uint32_t time, Vals* items) {
  if (value.is_const() && PyTuple_CheckExact(value.object())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value.object()); ++i)
      items->push_back(Val::constant(PyTuple_GET_ITEM(value.object(), i)));
    return true;
  }
  const Virtual* object = virtual_of(trace, value, time);
  if (object == nullptr || object->kind != VirtualKind::kTuple) return false;
  *items = content_of(trace, *object, time).items;
  return true;
}

bool is_one(Val value, PyObject* object) {
  return value.is_const() && value.object() == object;
}

// From the first of these calls to the second one functions of Python get what autograd saves.
constexpr const char* kOpensHooks = "torch::_C._autograd._push_saved_tensors_default_hooks";
constexpr const char* kClosesHooks = "torch::_C._autograd._pop_saved_tensors_default_hooks";

// run_backward(roots, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
class EngineCall {
 public:
  // False: it is not one that only adds to the gradients of leaves, or gives those of inputs, and frees the graph.
  bool read(const Trace& trace, const Node& node) {
    if (!arguments(trace, node) || given_.size() <= kInputs) return false;
    if (!is_one(given_[kKeep], Py_False) || !is_one(given_[kCreate], Py_False)) return false;
    const Val accumulates = given_.size() > kAccumulate ? given_[kAccumulate] : named("accumulate_grad");
    if (!registers(trace, node, given_[kInputs], &inputs)) return false;
    if (std::count(inputs.begin(), inputs.end(), kNone) != 0) return false;
    if (!is_one(accumulates, inputs.empty() ? Py_True : Py_False)) return false;
    return registers(trace, node, given_[kRoots], &roots) && registers(trace, node, given_[kGradients], &gradients) &&
           roots.size() == gradients.size() && std::count(roots.begin(), roots.end(), kNone) == 0 && !roots.empty();
  }
  // The node of a stretch.
  TapeNode node(const Trace& trace, uint32_t at) const {
    TapeNode made;
    made.at = at;
    made.reads = roots;
    made.gradients = gradients;
    made.inputs = inputs;
    made.out = trace.nodes[at].out;
    const Node& call = trace.nodes[at];
    const auto built = [](Val value) { return value.is_reg() ? value.index() : kNone; };
    if (call.aux == kNone) made.arguments = built(trace.operands[call.first]);
    made.given_roots = built(given_[kRoots]);
    made.given_gradients = built(given_[kGradients]);
    made.given_inputs = built(given_[kInputs]);
    return made;
  }
  Vec<uint32_t> roots, gradients, inputs;

 private:
  static constexpr size_t kRoots = 0, kGradients = 1, kKeep = 2, kCreate = 3, kInputs = 4, kAccumulate = 6;

  bool arguments(const Trace& trace, const Node& node) {
    const auto operand = [&](uint32_t i) { return trace.operands[node.first + i]; };
    if (node.aux == kNone) {
      if (node.count == 0 || !items_of(trace, operand(0), node.time, &given_)) return false;
      if (node.count < 2 || operand(1).is_null()) return true;
      const Virtual* keywords = virtual_of(trace, operand(1), node.time);
      if (keywords == nullptr || keywords->kind != VirtualKind::kDict) return false;
      named_ = content_of(trace, *keywords, node.time).pairs;
      return true;
    }
    for (uint32_t i = 0; i < node.count - node.aux; ++i) given_.push_back(operand(i));
    for (uint32_t i = 0; i < node.aux; ++i)
      named_.emplace_back(Val::constant(PyTuple_GET_ITEM(node.b.object(), static_cast<Py_ssize_t>(i))),
                          operand(node.count - node.aux + i));
    return true;
  }
  Val named(const char* name) const {
    for (const auto& [key, value] : named_)
      if (key.is_const() && PyUnicode_Check(key.object()) && PyUnicode_CompareWithASCIIString(key.object(), name) == 0)
        return value;
    return Val();
  }
  // None becomes kNone.
  static bool registers(const Trace& trace, const Node& node, Val value, Vec<uint32_t>* found) {
    Vals items;
    if (!items_of(trace, value, node.time, &items)) return false;
    for (Val item : items) {
      const bool is_tensor = item.is_reg() && trace.regs[item.index()].rep == Rep::kTensor;
      if (!is_tensor && !is_one(item, Py_None)) return false;
      found->push_back(is_tensor ? item.index() : kNone);
    }
    return true;
  }

  Vals given_;
  std::vector<std::pair<Val, Val>> named_;
};

bool is_engine(const Node& node) {
  return node.op == Op::kOpaque && node.foreign == ForeignCall::kBackward;
}

class TapeFinder {
 public:
  TapeFinder(const Trace& trace, const Vec<uint32_t>& seen) : trace_(trace), seen_(seen) {
    std::vector<Step> steps;
    if (std::none_of(trace.nodes.begin(), trace.nodes.end(), is_engine)) return;
    for (const Node& node : trace.nodes) steps.push_back(step_of(trace, node));
    levels_ = in_levels(steps);
  }

  std::shared_ptr<Tapes> run() {
    auto found = std::make_shared<Tapes>();
    uint32_t least = 0;
    for (uint32_t at = 0; at < trace_.nodes.size(); ++at) {
      if (!is_engine(trace_.nodes[at])) continue;
      if (levels_[at]) {
        least = at + 1;
        continue;
      }
      EngineCall call;
      if (call.read(trace_, trace_.nodes[at])) {
        uint32_t first = at;
        while (first > least && may_stand_within(first - 1)) --first;
        found->all.push_back(made(first, at, call));
      }
      least = at + 1;
    }
    if (found->all.empty()) return nullptr;
    found->seen = seen_;
    return found;
  }

  // From the first node on that the roots of this engine depend on, whatever engines stand between.
  void widen(TapedStretch* stretch) const {
    EngineCall call;
    if (!call.read(trace_, trace_.nodes[stretch->last])) return;
    Vec<bool> needed(trace_.regs.size());
    for (uint32_t reg : call.roots) needed[reg] = true;
    uint32_t first = stretch->last;
    for (uint32_t at = stretch->last; at-- > 0 && (is_engine(trace_.nodes[at]) || may_stand_within(at));) {
      const Node& node = trace_.nodes[at];
      if (node.op != Op::kAdapter && node.op != Op::kCheck) continue;
      const Step step = step_of(trace_, node);
      const auto is_needed = [&](uint32_t reg) { return needed[reg]; };
      if (std::none_of(step.writes.begin(), step.writes.end(), is_needed) &&
          std::none_of(step.written.begin(), step.written.end(), is_needed))
        continue;
      for (uint32_t reg : step.reads) needed[reg] = true;
      first = at;
    }
    if (first >= stretch->first) return;
    std::string why = std::move(stretch->why);
    *stretch = made(first, stretch->last, call);
    stretch->why = std::move(why);
    stretch->wanted = true;
  }

 private:
  bool may_stand_within(uint32_t at) const {
    const Node& node = trace_.nodes[at];
    if (levels_[at]) return false;
    switch (node.op) {
      case Op::kAdapter:
      case Op::kCheck:
        return !is_about_tensors(node.adapter_op->call().name);
      case Op::kBuild:
        return node.snapshot == kNone;
      case Op::kOpaque:  // no engine: the stretch before ends with one
      case Op::kStoreAttr:
      case Op::kDelAttr:
      case Op::kStoreItem:
      case Op::kDelItem:
      case Op::kStoreCell:
      case Op::kCall:
      case Op::kScalar:
      case Op::kPure:
      case Op::kBox:
      case Op::kUnbox:
      case Op::kAdvance:
      case Op::kLoadCell:
      case Op::kGuardBool:
      case Op::kGuardInt:
      case Op::kGuardFloat:
      case Op::kGuardIs:
      case Op::kGuardType:
      case Op::kEpoch:
      case Op::kRegion:
      case Op::kExitPoint:
        return true;
      default:
        return false;
    }
  }

  // It changes what a function of Python may read, or may do so.
  bool has_effect(const Node& node) const {
    switch (node.op) {
      case Op::kOpaque:
        return node.foreign != ForeignCall::kIdle;
      case Op::kStoreAttr: {
        const Virtual* object = virtual_of(trace_, node.a, node.time);
        return object == nullptr || object->type == nullptr ||
               current_adapter()->foreign_call(reinterpret_cast<PyObject*>(object->type)) != ForeignCall::kIdle;
      }
      case Op::kDelAttr:
      case Op::kStoreItem:
      case Op::kDelItem:
      case Op::kStoreCell:
      case Op::kAdvance:
        return true;
      case Op::kCall:
        return !is_cache_hit(trace_, node);
      default:
        return false;
    }
  }

  // Functions that get what autograd saves may run the same code once more in the engine, as a checkpoint does. Where it
  // could read something else by then, what was made under such functions counts as handed on.
  void mark_hooked(uint32_t engine, TapeStretch* stretch) const {
    std::vector<int> change(engine);
    int depth = 0, least = 0;  // a side trace may begin where such functions are set
    for (uint32_t at = 0; at < engine; ++at) {
      if (trace_.nodes[at].op != Op::kAdapter) continue;
      const std::string name = trace_.nodes[at].adapter_op->call().name;
      change[at] = name == kOpensHooks ? 1 : name == kClosesHooks ? -1 : 0;
      least = std::min(least, depth += change[at]);
    }
    Vec<uint32_t> hooked;
    depth = -least;
    for (uint32_t at = 0; at < engine; ++at) {
      const Node& node = trace_.nodes[at];
      depth += change[at];
      if (depth > 0 && node.op == Op::kAdapter)
        for (uint32_t reg : step_of(trace_, node).writes) hooked.push_back(reg);
      if (has_effect(node))
        for (uint32_t reg : hooked) stretch->stored[reg] = true;
    }
  }

  TapedStretch made(uint32_t first, uint32_t engine, const EngineCall& call) const {
    TapedStretch made;
    made.first = first;
    made.last = engine;
    TapeStretch& stretch = made.nodes;
    stretch.shown.resize(trace_.regs.size());
    stretch.stored.resize(trace_.regs.size());
    for (uint32_t at = first; at < engine; ++at) {
      const Node& node = trace_.nodes[at];
      if (node.op == Op::kAdapter || node.op == Op::kCheck) {
        Step step = step_of(trace_, node);
        for (uint32_t reg : step.writes) stretch.shown[reg] = seen_[reg] != kNone && seen_[reg] > engine;
        TapeNode each;
        each.at = at;
        each.op = node.adapter_op;
        each.gives_numbers = std::any_of(step.writes.begin(), step.writes.end(),
                                         [&](uint32_t reg) { return trace_.regs[reg].rep != Rep::kTensor; });
        each.reads = std::move(step.reads);
        each.writes = std::move(step.writes);
        if (node.adapter_op->call().name != "tensor::set_grad") each.written = std::move(step.written);
        if (std::any_of(each.writes.begin(), each.writes.end(),
                        [&](uint32_t reg) { return trace_.regs[reg].rep == Rep::kObject; }))
          for (uint32_t reg : each.reads) stretch.shown[reg] = true;  // an object may keep them
        stretch.nodes.push_back(std::move(each));
      } else if (node.op == Op::kBuild) {
        std::set<const Virtual*> met;
        mark_content(trace_.virtuals[node.a.index()], node.time, &stretch.shown, &met);
      } else if (node.op != Op::kScalar && node.op != Op::kGuardType) {
        for (Val value : {node.a, node.b, node.c}) mark(value, node.time, &stretch.stored);
        for (uint32_t i = 0; i < node.count; ++i) mark(trace_.operands[node.first + i], node.time, &stretch.stored);
      }
    }
    mark_hooked(engine, &stretch);
    stretch.nodes.push_back(call.node(trace_, engine));
    return made;
  }

  // All tensors that the value holds.
  void mark(Val value, uint32_t time, Vec<bool>* marks) const {
    std::set<const Virtual*> met;
    mark(value, time, marks, &met);
  }
  void mark(Val value, uint32_t time, Vec<bool>* marks, std::set<const Virtual*>* met) const {
    if (value.is_reg() && trace_.regs[value.index()].rep == Rep::kTensor) {
      (*marks)[value.index()] = true;
      return;
    }
    const Virtual* object = virtual_of(trace_, value, time);
    if (object != nullptr) mark_content(*object, time, marks, met);
  }
  void mark_content(const Virtual& object, uint32_t time, Vec<bool>* marks, std::set<const Virtual*>* met) const {
    if (!met->insert(&object).second) return;
    const Content content = content_of(trace_, object, time);
    for (Val item : content.items) mark(item, time, marks, met);
    for (Val item : content.fields) mark(item, time, marks, met);
    for (const auto& [key, item] : content.pairs) {
      mark(key, time, marks, met);
      mark(item, time, marks, met);
    }
    for (const auto& [key, item] : content.attributes) mark(item, time, marks, met);
  }

  const Trace& trace_;
  const Vec<uint32_t>& seen_;
  Vec<bool> levels_;  // by node; empty: there is no engine
};

}  // namespace

bool TapedStretch::spoils() const noexcept {
  return left > kLeftTooOften && left > runs;
}

bool TapedStretch::may_watch() const noexcept {
  return watched < kWatched && tapes.size() < kTapes && (wanted || (tapes.empty() && watched == 0));
}

bool Tapes::are_useful() const noexcept {
  return std::any_of(all.begin(), all.end(), [](const TapedStretch& stretch) {
    return !stretch.spoils() && (!stretch.tapes.empty() || stretch.may_watch());
  });
}

bool Tapes::replace(uint32_t engine) const noexcept {
  return std::any_of(all.begin(), all.end(), [engine](const TapedStretch& stretch) {
    return stretch.last == engine && !stretch.spoils() && !stretch.tapes.empty();
  });
}

void Tapes::widen(const Trace& trace) {
  if (std::none_of(all.begin(), all.end(), [](const TapedStretch& stretch) { return stretch.too_late; })) return;
  const TapeFinder finder(trace, seen);
  for (TapedStretch& stretch : all)
    if (std::exchange(stretch.too_late, false)) finder.widen(&stretch);
  std::stable_sort(all.begin(), all.end(),
                   [](const TapedStretch& a, const TapedStretch& b) { return a.first < b.first; });
}

bool Tapes::overlap(const Segment& segment) const noexcept {
  return std::any_of(all.begin(), all.end(), [&](const TapedStretch& stretch) {
    return segment.first <= stretch.last && stretch.first < segment.last;
  });
}

bool& records_tapes() noexcept {
  static bool on = true;
  return on;
}

bool computes_gradients(const Trace& trace) {
  return std::any_of(trace.nodes.begin(), trace.nodes.end(), is_engine);
}

std::shared_ptr<Tapes> find_tapes(const Trace& trace, const Vec<uint32_t>& seen) {
  return TapeFinder(trace, seen).run();
}

}  // namespace pijit
