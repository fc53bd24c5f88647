// Finds what varies in a segment, and which of the stretches between are worth a plan.
#include "plan/pieces.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "adapter.h"
#include "ir/adapter_slot.h"

namespace pijit {

namespace {

constexpr uint32_t kFewestKernels = 5;  // of a piece
constexpr uint32_t kLeastShare = 2;     // the part of the operators that pieces have at least: one of so many

// Operators that compute; others only look at memory in another way.
uint32_t kernels_of(const std::vector<Step>& steps, const Segment& segment) {
  return static_cast<uint32_t>(
      std::count_if(steps.begin() + segment.first, steps.begin() + segment.last,
                    [](const Step& step) { return step.kind == Kind::kOperator && step.shares.empty(); }));
}

std::vector<Step> steps_of(const Trace& trace, uint32_t first, uint32_t last) {
  std::vector<Step> steps;
  for (uint32_t i = first; i < last; ++i) steps.push_back(step_of(trace, trace.nodes[i]));
  return steps;
}

// By register: some register with the same memory is read by more than operators.
class Passing {
 public:
  Passing(const Trace& trace, const std::vector<Step>& steps, const Vec<uint32_t>& others)
      : base_(trace.regs.size()), is_shown_(trace.regs.size()) {
    std::iota(base_.begin(), base_.end(), 0);
    Vec<uint32_t> written_at(trace.regs.size(), kNone);
    for (uint32_t i = 0; i < steps.size(); ++i) {
      for (uint32_t reg : steps[i].writes) written_at[reg] = i;
      for (auto [reg, other] : steps[i].shares) base_[base(reg)] = base(other);
    }
    for (uint32_t reg = 0; reg < base_.size(); ++reg)
      if (written_at[reg] == kNone || (others[reg] != kNone && others[reg] != written_at[reg]))
        is_shown_[base(reg)] = true;
  }
  bool is_passed(uint32_t reg) noexcept { return !is_shown_[base(reg)]; }

 private:
  uint32_t base(uint32_t reg) noexcept {
    while (base_[reg] != reg) reg = base_[reg] = base_[base_[reg]];
    return reg;
  }
  Vec<uint32_t> base_;
  Vec<bool> is_shown_;
};

}  // namespace

Survey::Survey(const Trace& trace, const Segment& segment)
    : segment_(segment), steps_(steps_of(trace, segment.first, segment.last)) {}

void Survey::begin() {
  seen_.clear();
}

void Survey::look(uint32_t at, const Reg* regs) {
  if (at < segment_.last) {
    for (uint32_t reg : steps_[at - segment_.first].reads) look_at(reg, regs);
    return;
  }
  for (uint32_t reg : segment_.outputs) look_at(reg, regs);
  for (uint32_t reg : segment_.number_outputs) look_at(reg, regs);
  replays_ += 1;
}

void Survey::look_at(uint32_t reg, const Reg* regs) {
  const bool is_tensor = regs[reg].rep == Rep::kTensor;
  if ((!is_tensor && !is_number(regs[reg].rep)) || !seen_.insert(reg).second) return;
  const auto found = forms_.find(reg);
  if (found != forms_.end()) {
    if (found->second == nullptr || found->second->match(regs) == PlanKey::Match::kNo) varied_.insert(reg);
    return;
  }
  const Vec<uint32_t> none, one{reg};
  forms_.emplace(reg, current_adapter()->make_key({none, is_tensor ? one : none, is_tensor ? none : one, none}, regs));
}

Vec<uint32_t> Survey::varying() const {
  Vec<uint32_t> nodes;
  std::set<uint32_t> varied = varied_;
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const auto has = [&](uint32_t reg) { return varied.count(reg) != 0; };
    const bool varies = std::any_of(step.reads.begin(), step.reads.end(), has) ||
                        std::any_of(step.writes.begin(), step.writes.end(), has);
    if (!varies) continue;
    nodes.push_back(segment_.first + i);
    // An object that is made of a number has no form: it varies as the number does.
    for (uint32_t reg : step.writes)
      if (forms_.find(reg) == forms_.end()) varied.insert(reg);
  }
  return nodes;
}

Vec<bool> nodes_of_operators(const Trace& trace) {
  Vec<bool> found;
  for (const Step& step : steps_of(trace, 0, static_cast<uint32_t>(trace.nodes.size())))
    found.push_back((step.kind == Kind::kOperator || step.kind == Kind::kForm) && step.written.empty());
  return found;
}

bool keep_pieces(const Trace& trace, const Segments& before, const Segment& whole, const Vec<uint32_t>& others,
                 Segments* found) {
  const std::vector<Step> steps = steps_of(trace, 0, static_cast<uint32_t>(trace.nodes.size()));
  Passing passing(trace, steps, others);
  uint32_t operators = 0;
  auto kept = std::make_shared<Segments::List>();
  for (const std::shared_ptr<Segment>& segment : *found->all) {
    const bool within = segment->first >= whole.first && segment->last <= whole.last;
    const auto same = std::find_if(before.all->begin(), before.all->end(), [&](const auto& other) {
      return !within && other->first == segment->first && other->last == segment->last;
    });
    if (same != before.all->end()) {
      kept->push_back(*same);
    } else if (within && kernels_of(steps, *segment) >= kFewestKernels) {
      operators += segment->operators;
      for (uint32_t reg : segment->outputs) segment->passed.push_back(passing.is_passed(reg));
      kept->push_back(segment);
    }
  }
  found->all = std::move(kept);
  return operators * kLeastShare >= whole.operators;
}

}  // namespace pijit
