// Runs plans, times them, and collects what is offered.
#include "exec/plans.h"

#include <algorithm>
#include <utility>

#include "adapter.h"
#include "common/clock.h"
#include "exec/cuts.h"
#include "exec/profiled.h"
#include "exec/registers.h"
#include "exec/replay.h"
#include "guard/check.h"
#include "ir/adapter_slot.h"
#include "numpy/plan_key.h"
#include "plan/pieces.h"
#include "plan/tapes.h"

namespace pijit {

namespace {

constexpr size_t kTimes = 16;  // of a plan that are kept

OfferTaker g_taker = nullptr;

// Copies of the tensors in registers; null: one cannot be copied.
Ref copies(const Vec<uint32_t>& registers, const Reg* regs) noexcept {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(registers.size())));
  for (size_t i = 0; tuple && i < registers.size(); ++i) {
    const Reg& reg = regs[registers[i]];
    Ref copy = reg.rep == Rep::kObject ? numpy::copy_of(reg.object) : current_adapter()->copy_of(reg.tensor);
    if (!copy) return Ref();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), copy.release());
  }
  if (!tuple) PyErr_Clear();
  return tuple;
}

void note_time(std::vector<double>* times, double start) {
  if (times->size() < kTimes) times->push_back(now() - start);
}

bool draws(const Segment& segment) noexcept {
  return segment.effects && segment.effects->draws;
}

// The generators are in these states now.
bool are_in(const Keyed& keyed, const DrawStates& states) noexcept {
  const std::unique_ptr<DrawStates> now = keyed.key->draw_states();
  return now != nullptr && now->same_as(states);
}

std::string error_text() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref text = Ref::steal(value != nullptr ? PyObject_Str(value) : nullptr);
  const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string found = words != nullptr ? words : "an exception";
  drop_reference(type);
  drop_reference(value);
  drop_reference(traceback);
  PyErr_Clear();
  return found;
}

}  // namespace

OfferTaker& offer_taker() noexcept {
  return g_taker;
}

void Plans::Ran::hold(uint32_t index, Reg reg) {
  current_adapter()->retain(reg.tensor);
  reg.owned = 1;
  inputs.emplace_back(index, reg);
}

Plans::~Plans() {
  drop_kept();
  for (Ran& ran : ran_)
    for (auto& [index, reg] : ran.inputs) release_register(&reg);
}

void Plans::begin(const Trace& trace, size_t from, std::shared_ptr<Tapes> tapes) noexcept {
  trace_ = &trace;
  segments_ = trace.segments == nullptr ? nullptr : trace.segments->all;
  tapes_ = std::move(tapes);
  watched_.reset();
  watched_segment_.reset();
  drop_kept();
  next_ = 0;
  look_ahead(from);
}

void Plans::look_ahead(size_t at) noexcept {
  stop_ = SIZE_MAX;
  if (segments_ == nullptr) return;
  const auto is_left = [&](const Segment& segment) {
    return segment.first < at || (tapes_ != nullptr && tapes_->overlap(segment));
  };
  while (next_ < segments_->size() && is_left(*(*segments_)[next_])) ++next_;
  if (next_ < segments_->size()) stop_ = (*segments_)[next_]->first;
}

size_t Plans::arrive(size_t at) noexcept {
  SavedError error;
  try {
    if (watched_ != nullptr) {
      if (!watch(at)) return at;
      look_ahead(at);
      if (at != stop_) return at;
    }
    return enter(at);
  } catch (const std::exception&) {  // memory is short
    PyErr_Clear();
    watched_.reset();
    look_ahead(at + 1);
    return at;
  }
}

size_t Plans::enter(size_t at) {
  const std::shared_ptr<Segment> entered = (*segments_)[next_];
  Segment& segment = *entered;
  if (segment.effects && !look(segment)) return look_ahead(at + 1), at;
  if (segment.sides && !foresee(*segment.sides)) return look_ahead(at + 1), at;
  inputs_ = Ref();  // those of a segment before that was left
  drawn_.reset();
  compared_.reset();
  suspect_.reset();
  std::shared_ptr<Keyed> keyed = segment.keys.arrive(regs_);
  fresh_ = keyed == nullptr;
  if (fresh_) keyed = remember(segment);
  if (keyed == nullptr) return look_ahead(at + 1), at;
  if (segment.keys.is_to_offer(*keyed)) {
    keyed->unfit = !copy_inputs(segment, *keyed);
  } else if (std::shared_ptr<Plan> plan = keyed->next()) {
    if (!tell_writes(segment, *plan)) return drop(*keyed, *plan), look_ahead(at + 1), at;
    const double start = now();
    if (plan->is_to_compare(compare_every_)) {
      if (copy_inputs(segment, *keyed)) compared_ = std::move(plan);
    } else if (run(entered, *keyed, plan)) {
      keyed->note(plan.get(), now() - start);
      look_ahead(segment.last);
      return segment.last;
    }
  }
  watched_ = std::move(keyed);
  watched_segment_ = entered;
  surveyed_ = fresh_ && segment.may_cut && segment.keys.size() > 0;
  if (surveyed_) begin_survey();
  started_ = now();
  return watch(at), at;
}

// True: the replay is behind the segment that is watched, and no longer within.
bool Plans::watch(size_t at) {
  const Segment& segment = *watched_segment_;
  if (at != segment.last) {
    keep_stored(at);
    if (surveyed_) segment.survey->look(static_cast<uint32_t>(at), regs_);
    const auto next = std::upper_bound(segment.stores.begin(), segment.stores.end(), at);
    stop_ = surveyed_ ? at + 1 : next != segment.stores.end() ? *next : segment.last;
    return false;
  }
  std::vector<Reg> before;
  for (const auto& [index, reg] : kept_) {
    before.push_back(std::exchange(regs_[index], reg));
    regs_[index].owned = 0;
  }
  if (surveyed_) segment.survey->look(static_cast<uint32_t>(at), regs_);
  note_native();
  for (size_t i = kept_.size(); i-- > 0;) regs_[kept_[i].first] = before[i];
  drop_kept();
  return true;
}

// The node may be the last one to read what it stores.
void Plans::keep_stored(size_t at) {
  const Segment& segment = *watched_segment_;
  if (!std::binary_search(segment.stores.begin(), segment.stores.end(), at)) return;
  const Val value = trace_->nodes[at].c;
  if (!value.is_reg() || regs_[value.index()].rep != Rep::kTensor) return;
  current_adapter()->retain(regs_[value.index()].tensor);
  kept_.emplace_back(value.index(), regs_[value.index()]);
  kept_.back().second.owned = 1;
}

void Plans::drop_kept() noexcept {
  for (auto& [index, reg] : kept_) release_register(&reg);
  kept_.clear();
}

void Plans::begin_survey() {
  std::shared_ptr<Survey>& survey = watched_segment_->survey;
  if (survey == nullptr) survey = std::make_shared<Survey>(*trace_, *watched_segment_);
  survey->begin();
}

// Under the form that is there now; null: no plan could answer, or there is no room for another form.
std::shared_ptr<Keyed> Plans::remember(const Segment& segment) {
  if (!segment.keys.has_room()) return nullptr;
  const PlanRegisters registers{segment.bound, segment.free, segment.numbers, segment.outputs,
                                segment.effects ? &*segment.effects : nullptr};
  std::unique_ptr<PlanKey> key =
      segment.arrays ? numpy::make_key(registers, regs_) : current_adapter()->make_key(registers, regs_);
  if (key == nullptr) return nullptr;
  auto keyed = std::make_shared<Keyed>();
  keyed->key = std::move(key);
  for (uint32_t reg : segment.numbers) keyed->given.emplace_back(reg, regs_[reg]);
  return keyed;
}

// False: the plan cannot follow.
bool Plans::tell_writes(const Segment& segment, Plan& plan) {
  const Writes told = segment.keys.writes();
  if (!plan.is_stale(told)) return true;
  const Ref done = Ref::steal(PyObject_CallNoArgs(plan.rebind.get()));
  if (done) plan.knows = told;
  return static_cast<bool>(done);
}

bool Plans::run(const std::shared_ptr<Segment>& entered, Keyed& keyed, const std::shared_ptr<Plan>& plan) {
  if (!draws(*entered)) return answer(entered, keyed, plan, nullptr);
  const std::unique_ptr<DrawStates> before = keyed.key->draw_states();
  if (before == nullptr) return false;
  if (answer(entered, keyed, plan, before.get())) return true;
  before->put_back();
  return false;
}

// `before`: the generators, if the segment draws; null: it does not.
bool Plans::answer(const std::shared_ptr<Segment>& entered, Keyed& keyed, const std::shared_ptr<Plan>& asked,
                   const DrawStates* before) {
  const Segment& segment = *entered;
  Plan& plan = *asked;
  const double start = now();
  std::vector<Ref> given;
  const Vec<uint32_t>& inputs = segment.given;
  std::vector<PyObject*> arguments(inputs.size() + 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    given.push_back(Ref::steal(box_register(regs_[inputs[i]])));
    if (!given.back()) return drop(keyed, plan), false;
    arguments[i + 1] = given.back().get();
  }
  Ref call = Ref::borrow(plan.call.get());
  ProfiledRange range = open_range(plan.name);
  Ref made = Ref::steal(
      PyObject_Vectorcall(call.get(), arguments.data() + 1, inputs.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  range.reset();
  if (!made) return suspect(asked), false;
  if (made.get() == Py_None) return false;
  if (before != nullptr && keyed.draws && are_in(keyed, *before))
    return keyed.remove(plan, "it draws from generators that the program has put others in the place of"), false;
  if (!take(segment, keyed, made.get())) return drop(keyed, plan), false;
  if (segment.effects) {
    if (!finish(segment, keyed, made.get())) return drop(keyed, plan), false;
  } else if (!segment.arrays) {  // of arrays, what a snapshot may read is an output
    Ran ran{trace_, entered, {}};
    if (!segment.sides) {  // else nothing is computed once more
      for (uint32_t index : segment.free) ran.hold(index, regs_[index]);
      for (uint32_t index : segment.bound)  // those that the replay holds are let go behind their last use
        if (regs_[index].owned != 0) ran.hold(index, regs_[index]);
    }
    ran_.push_back(std::move(ran));
    if (segment.sides) hold_foreseen(*segment.sides);
    if (!store(segment)) return false;
  }
  plan.runs += 1;
  note_time(&plan.times, start);
  return true;
}

bool Plans::store(const Segment& segment) noexcept {
  for (uint32_t at : segment.stores) {
    if (doer_(*trace_, trace_->nodes[at], regs_)) continue;
    for (uint32_t index : segment.outputs) release_register(&regs_[index]);
    for (auto& [index, reg] : ran_.back().inputs) release_register(&reg);
    if (segment.sides) each_foreseen(*segment.sides, [&](uint32_t index) { release_register(&regs_[index]); });
    ran_.pop_back();
    return false;
  }
  return true;
}

bool Plans::foresee(const Sides& sides) noexcept {
  return std::all_of(sides.epochs.begin(), sides.epochs.end(), [&](uint32_t index) {
    return foresee_epoch(*trace_, trace_->epochs[index], sides.within, sides.results, regs_);
  });
}

template <class F>
void Plans::each_foreseen(const Sides& sides, const F& take) const {
  for (uint32_t epoch : sides.epochs) {
    for (const auto& pin : trace_->epochs[epoch].pins) take(pin.second);
    for (uint32_t index : trace_->epochs[epoch].retained)
      if (std::find(sides.results.begin(), sides.results.end(), index) == sides.results.end()) take(index);
  }
}

void Plans::hold_foreseen(const Sides& sides) noexcept {
  for (uint32_t epoch : sides.epochs)
    for (const auto& [object, index] : trace_->epochs[epoch].pins) {
      regs_[index].object = object;
      regs_[index].rep = Rep::kObject;
      regs_[index].owned = 0;
    }
  each_foreseen(sides, [&](uint32_t index) { hold_register(&regs_[index]); });
}

// Of what a native replay is given that is offered or compared. False: there are none.
bool Plans::copy_inputs(const Segment& segment, Keyed& keyed) {
  inputs_ = Ref();
  drawn_ = draws(segment) ? keyed.key->draw_states() : nullptr;
  if (draws(segment) && drawn_ == nullptr) return false;
  keyed.key->hold(regs_);
  inputs_ = copies(segment.given, regs_);
  return static_cast<bool>(inputs_);
}

bool Plans::look(const Segment& segment) noexcept {
  for (uint32_t index : segment.effects->epochs)
    if (!foresee_epoch(*trace_, trace_->epochs[index], segment.effects->within, regs_)) return false;
  for (uint32_t at : segment.effects->questions) {
    const Node& node = trace_->nodes[at];
    const bool so = node.adapter_op->run(regs_);
    for (uint32_t i = 0; so && i < node.outs_count; ++i) release_register(&regs_[trace_->outs[node.outs_first + i]]);
    if (!so) return false;
  }
  return true;
}

// The stores come first: where one fails, the tensors are as they were, and native replay does all of it anew.
bool Plans::finish(const Segment& segment, Keyed& keyed, PyObject* made) noexcept {
  bool done = true;
  for (size_t i = 0; i < segment.effects->stores.size() && done; ++i)
    done = doer_(*trace_, trace_->nodes[segment.effects->stores[i]], regs_);
  PyObject* const* results = reinterpret_cast<PyTupleObject*>(made)->ob_item;
  if (done && keyed.key->write(results + segment.outputs.size(), regs_)) {
    for (uint32_t index : segment.effects->epochs) hold(trace_->epochs[index], regs_);
    return true;
  }
  for (uint32_t index : segment.outputs) release_register(&regs_[index]);
  return false;
}

// One that the program does not get may lie in memory that the plan keeps.
bool Plans::take_output(const Segment& segment, Keyed& keyed, size_t output, PyObject* made) noexcept {
  PlanKey* form = keyed.passed.empty() ? nullptr : keyed.passed[output].get();
  if (form == nullptr) return keyed.key->take(output, made, regs_);
  if (!current_adapter()->is_tensor(made)) return false;
  Reg& reg = regs_[segment.outputs[output]];
  reg.tensor = current_adapter()->unwrap(made);
  current_adapter()->retain(reg.tensor);
  reg.rep = Rep::kTensor;
  reg.owned = 1;
  if (form->match(regs_) != PlanKey::Match::kNo) return true;
  release_register(&reg);
  return false;
}

void Plans::note_passed(const Segment& segment, Keyed* keyed) const {
  const Vec<uint32_t> none;
  for (size_t i = 0; i < segment.passed.size(); ++i) {
    const Vec<uint32_t> one{segment.outputs[i]};
    keyed->passed.push_back(segment.passed[i] ? current_adapter()->make_key({none, one, none, none}, regs_) : nullptr);
  }
}

// All outputs, or none.
bool Plans::take(const Segment& segment, Keyed& keyed, PyObject* made) noexcept {
  size_t expected = segment.outputs.size();
  if (segment.effects) expected += segment.effects->written.size() + segment.effects->leaves.size();
  if (!PyTuple_Check(made) || static_cast<size_t>(PyTuple_GET_SIZE(made)) != expected) return false;
  for (size_t i = 0; i < segment.outputs.size(); ++i) {
    if (take_output(segment, keyed, i, PyTuple_GET_ITEM(made, static_cast<Py_ssize_t>(i)))) continue;
    for (size_t k = 0; k < i; ++k) release_register(&regs_[segment.outputs[k]]);
    return false;
  }
  for (const auto& [index, number] : keyed.numbers) regs_[index] = number;
  return true;
}

// The plan has raised. Who interrupts the program is no reason against it, and is heard when the replay is over.
void Plans::suspect(const std::shared_ptr<Plan>& plan) {
  const bool is_interrupt = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
  std::string why = reason();
  if (is_interrupt) {
    PyErr_SetInterrupt();
    return;
  }
  suspect_ = plan;
  suspicion_ = std::move(why);
}

std::string Plans::reason() {
  return PyErr_Occurred() != nullptr ? error_text() : "it gave tensors of another form";
}

// The nodes of the watched segment have been replayed.
void Plans::note_native() {
  const std::shared_ptr<Keyed> keyed = std::move(watched_);
  const std::shared_ptr<Segment> entered = std::move(watched_segment_);
  Segment& segment = *entered;
  if (suspect_ != nullptr) keyed->remove(*std::exchange(suspect_, nullptr), std::move(suspicion_));
  keyed->note(nullptr, now() - started_);
  if (fresh_) {
    keyed->key->note_outputs(regs_);
    note_passed(segment, keyed.get());
    for (uint32_t reg : segment.number_outputs) keyed->numbers.emplace_back(reg, regs_[reg]);
    segment.keys.add(keyed);
  }
  const bool cuts = std::exchange(surveyed_, false) && cut(segment);
  if (inputs_ && !cuts) offer(entered, keyed);
}

// True: pieces have the place of the segment from the next replay on, and what is made for it comes too late.
bool Plans::cut(Segment& segment) {
  if (segment.survey->replays() < Survey::kReplays || segment.keys.size() < Survey::kForms) return false;
  const std::shared_ptr<Survey> survey = std::move(segment.survey);
  segment.may_cut = false;
  const std::shared_ptr<Segments> all = trace_->segments;
  if (all == nullptr || all->all != segments_) return false;  // others were found meanwhile
  if (!cut_segments(*trace_, segment, survey->varying(), all.get())) return false;
  for (const auto& keyed : segment.keys) keyed->offers += 1;
  return true;
}

void Plans::offer(const std::shared_ptr<Segment>& entered, const std::shared_ptr<Keyed>& keyed) {
  const Segment& segment = *entered;
  Offer made{trace_, entered, keyed, std::move(inputs_), copies(segment.outputs, regs_), {}, {}};
  made.plan = std::move(compared_);
  if (segment.effects && made.outputs) {
    const Ref effects = keyed->key->effects();
    made.outputs = Ref::steal(effects ? PySequence_Concat(made.outputs.get(), effects.get()) : nullptr);
    PyErr_Clear();
  }
  if (!made.outputs) {
    keyed->unfit = made.plan == nullptr;
    return;
  }
  if (made.plan != nullptr) {
    made.plan->since_compared = 0;
    const std::unique_ptr<DrawStates> after = drawn_ != nullptr ? keyed->key->draw_states() : nullptr;
    if (drawn_ != nullptr) {
      keyed->draws = after != nullptr && !drawn_->same_as(*after);
      drawn_->put_back();
    }
    made.made = Ref::steal(PyObject_CallObject(made.plan->call.get(), made.inputs.get()));
    const bool alike = after == nullptr || are_in(*keyed, *after);
    if (after != nullptr) after->put_back();
    if (!made.made) return drop(*keyed, *made.plan);
    if (made.made.get() == Py_None) return;  // it declines
    if (!alike) return keyed->remove(*made.plan, "it draws other random numbers");
  } else {
    keyed->offered = true;
    keyed->offers += 1;
  }
  offers_.push_back(std::move(made));
}

bool Plans::restore() noexcept {
  bool done = true;
  for (Ran& ran : ran_) done = done && restore(ran);
  while (!ran_.empty()) {
    for (auto& [index, reg] : ran_.back().inputs) release_register(&reg);
    ran_.pop_back();
  }
  return done;
}

// The nodes run on copies of the registers; what an output holds stays, since the program may have seen it.
bool Plans::restore(Ran& ran) noexcept {
  try {
    const Trace& trace = *ran.trace;
    const Segment& segment = *ran.segment;
    if (segment.sides) return true;  // whatever a snapshot reads is an output
    std::vector<Reg> regs(regs_, regs_ + trace.regs.size());
    for (Reg& reg : regs) reg.owned = 0;
    for (auto [index, reg] : ran.inputs) {
      reg.owned = 0;
      regs[index] = reg;
    }
    Vec<bool> output(regs.size());
    for (uint32_t index : segment.outputs) output[index] = true;
    bool done = true;
    const auto keep = [&](uint32_t index, const Reg& before) {
      const bool is_held = output[index] && before.rep == Rep::kTensor;  // else it was let go behind its last use
      if (!is_held) return;
      release_register(&regs[index]);
      regs[index] = before;
      regs[index].owned = 0;
    };
    for (uint32_t at = segment.first; at < segment.last && done; ++at) {
      const Node& node = trace.nodes[at];
      const Reg before = node.out != kNone ? regs[node.out] : Reg{};
      std::vector<Reg> outs;
      for (uint32_t i = 0; i < node.outs_count; ++i) outs.push_back(regs[trace.outs[node.outs_first + i]]);
      const bool is_operation = node.op == Op::kAdapter || node.op == Op::kCheck;
      done = is_operation ? node.adapter_op->run(regs.data()) : compute_number(trace, node, regs.data());
      if (!done) break;
      if (node.out != kNone) keep(node.out, before);
      for (uint32_t i = 0; i < node.outs_count; ++i) keep(trace.outs[node.outs_first + i], outs[i]);
    }
    current_adapter()->forget_warnings();
    current_adapter()->warned = false;
    for (uint32_t index = 0; index < regs.size(); ++index) {
      if (regs[index].owned == 0 && !is_number(regs[index].rep)) continue;
      if (regs_[index].owned == 0) {
        regs_[index] = regs[index];
      } else {
        release_register(&regs[index]);
      }
    }
    return done;
  } catch (const std::exception&) {
    return false;
  }
}

void Plans::deliver() noexcept {
  if (offers_.empty() || g_taker == nullptr) return;
  SavedError error;
  std::vector<Offer> offers = std::move(offers_);
  for (Offer& offer : offers) g_taker(std::move(offer));
}

}  // namespace pijit
