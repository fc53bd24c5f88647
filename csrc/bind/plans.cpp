// Hands offers to the market of their root, and takes plans from it.
#include "bind/plans.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bind/data.h"
#include "cache/entry_points.h"
#include "cpython/collector.h"
#include "exec/cuts.h"
#include "exec/plans.h"
#include "exec/replay.h"
#include "guard/proven.h"
#include "hook/beside.h"
#include "hook/events.h"
#include "ir/scalars.h"
#include "plan/regions.h"

namespace py = pybind11;

namespace pijit {
namespace {

constexpr const char* kStates[] = {"offered", "in turns", "settled"};

double first_of(const std::vector<double>& times) noexcept {
  return times.empty() ? 0 : times.front();
}

// A segment under one key, for who makes plans.
class Place {
 public:
  Place(const Offer& offer, const std::shared_ptr<Root>& root, const std::shared_ptr<Trace>& trace)
      : root_(root),
        trace_(trace),
        segment_(offer.segment),
        keyed_(offer.keyed),
        offer_(offer.keyed->offers),
        asked_(offer.plan == nullptr ? std::make_shared<const char>() : nullptr) {
    if (asked_ != nullptr) keyed_->asked = asked_;
  }

  // None: the trace is gone.
  py::object data() const {
    const std::shared_ptr<Root> root = root_.lock();
    const std::shared_ptr<Trace> trace = trace_.lock();
    if (root == nullptr || trace == nullptr || root->owner.dead) return py::none();
    return trace_data(*root, *trace);
  }
  // Plans are still of use there; else the trace is gone, or another form has the place of this one.
  bool alive() const { return !trace_.expired() && !root_.expired() && keyed_->offers == offer_; }
  const Segment& segment() const { return *segment_; }
  Vec<uint32_t> written() const { return segment().effects ? segment().effects->written : Vec<uint32_t>(); }
  Vec<uint32_t> leaves() const { return segment().effects ? segment().effects->leaves : Vec<uint32_t>(); }
  bool gradients_on() const { return keyed_->key->gradients_on(); }
  std::vector<bool> trained() const { return keyed_->key->trained(); }
  // From its third form on the segment is left in pieces.
  void allow_cuts() { segment_->may_cut = !segment_->effects && !segment_->arrays && !segment_->sides; }
  bool has_sides() const { return segment().sides.has_value(); }
  // What leave_sides does, for who is kept alive by the plans there: it keeps nothing alive.
  py::cpp_function leaver() const {
    return py::cpp_function([trace = trace_, segment = std::weak_ptr<Segment>(segment_)] { end(trace, segment); });
  }
  // The segment ends at calls that choose among functions of the program; what is left of it is offered anew.
  void leave_sides() {
    end(trace_, segment_);
    keyed_->offers += 1;
  }
  // No plan is made under this key, which takes the place of none that has some.
  void decline() {
    if (!alive()) return;
    keyed_->unfit = true;
    keyed_->offered = false;
  }
  // What the market remembers of the segment, whatever the form.
  py::object memo() const {
    const std::shared_ptr<Ref>& kept = segment().memo;
    return kept == nullptr ? py::none() : py::reinterpret_borrow<py::object>(kept->get());
  }
  void set_memo(const py::object& memo) {
    const auto before = std::exchange(segment_->memo, std::make_shared<Ref>(Ref::borrow(memo.ptr())));
  }
  py::tuple nodes() const { return py::make_tuple(segment().first, segment().last); }
  std::string describe() const { return keyed_->key->describe(); }
  py::dict numbers() const {
    py::dict values;
    for (const auto& [index, number] : keyed_->given)
      values[py::int_(index)] = py::reinterpret_steal<py::object>(number_object(number));
    return values;
  }

  uint32_t operators() const { return segment().operators; }
  // How often the segment was replayed under the key.
  uint64_t runs() const {
    uint64_t all = keyed_->native_runs;
    for (const auto& plan : keyed_->plans) all += plan->runs;
    return all;
  }
  // Of the first native replay.
  double seconds() const { return first_of(keyed_->native_times); }

  // What is read of bound tensors from now on is that of these writes, or of later ones.
  std::pair<uint64_t, uint64_t> writes() const {
    const Writes& now = segment().keys.writes();
    return {now.written, now.moved};
  }

  // More contenders. `shared`: they are of free sizes; `trial`: each is compared once more before it answers.
  void install(const py::list& plans, bool turns, bool shared, bool trial) {
    const std::shared_ptr<Root> root = root_.lock();
    if (!alive() || root == nullptr) return;
    note_event(*root, Happened::kPlanned);
    keyed_->shared = shared;
    for (py::handle each : plans) {
      const auto row = py::cast<py::tuple>(each);
      auto plan = std::make_shared<Plan>();
      plan->name = py::cast<std::string>(row[0]);
      plan->call = Ref::borrow(py::object(row[1]).ptr());
      plan->rebind = Ref::borrow(py::object(row[2]).ptr());
      plan->shares = py::cast<bool>(row[3]);
      plan->knows = writes_of(row[4]);
      plan->on_trial = trial;
      keyed_->add(std::move(plan), turns);
    }
  }

  // The market goes on compiling for the key, or does no longer.
  void await() { keyed_->awaits = alive(); }
  void complete() {
    if (alive()) keyed_->complete();
  }

  // A result of the plan agreed with native replay.
  void trust(const py::object& call) {
    for (const auto& plan : keyed_->plans)
      if (plan->call.get() == call.ptr()) plan->on_trial = false;
  }

  // A result of the plan differed: it is dropped, under other keys, too. Those are offered again.
  void drop(const py::object& call, const std::string& why) {
    const auto found = std::find_if(keyed_->plans.begin(), keyed_->plans.end(),
                                    [&](const auto& plan) { return plan->call.get() == call.ptr(); });
    if (found == keyed_->plans.end()) return;
    const std::shared_ptr<Plan> wrong = *found;
    const std::vector<std::shared_ptr<Keyed>> all(segment().keys.begin(), segment().keys.end());
    for (const auto& keyed : all) drop_from(*keyed, *wrong, why);
    drop_from(*keyed_, *wrong, why);
  }

 private:
  static void end(const std::weak_ptr<Trace>& of, const std::weak_ptr<Segment>& at) {
    const std::shared_ptr<Trace> trace = of.lock();
    const std::shared_ptr<Segment> segment = at.lock();
    if (trace == nullptr || segment == nullptr || trace->segments == nullptr || !segment->sides) return;
    const auto& all = *trace->segments->all;
    if (std::find(all.begin(), all.end(), segment) == all.end()) return;
    pijit::leave_sides(*trace, *segment, trace->segments.get());
  }
  // None: of none, so that the plan is told of all before it answers.
  static Writes writes_of(py::handle known) {
    if (known.is_none()) return {UINT64_MAX, UINT64_MAX};
    const auto [written, moved] = py::cast<std::pair<uint64_t, uint64_t>>(known);
    return {written, moved};
  }
  static void drop_from(Keyed& keyed, const Plan& wrong, const std::string& why) {
    const std::vector<std::shared_ptr<Plan>> plans = keyed.plans;
    for (const auto& plan : plans)
      if (plan->rebind.get() == wrong.rebind.get()) keyed.remove(*plan, why);
    if (keyed.shared && keyed.plans.empty()) keyed.shared = keyed.offered = false;
  }

  std::weak_ptr<Root> root_;
  std::weak_ptr<Trace> trace_;
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<Keyed> keyed_;
  uint64_t offer_;
  std::shared_ptr<const void> asked_;
};

// Who is asked for plans of a segment; null: nobody.
Ref market_of(const Segment& segment, const Root& root) noexcept {
  return segment.region != nullptr ? market_of_region(segment.region) : Ref::borrow(root.asked.market.get());
}

// The call that is offered has returned: nothing that the market raises is its concern.
void take_offer(Offer offer) {
  std::vector<std::shared_ptr<Root>> roots = all_roots();
  for (const auto& entry : all_entries()) roots.push_back(entry);
  for (const auto& root : roots) {
    const auto found = std::find_if(root->traces.begin(), root->traces.end(),
                                    [&](const auto& trace) { return trace.get() == offer.trace; });
    if (found == root->traces.end()) continue;
    const Ref market = market_of(*offer.segment, *root);
    if (!market) return;
    const std::shared_ptr<Segments>& segments = (*found)->segments;
    if (segments != nullptr && !segments->arguments)
      segments->arguments = living_arguments(**found, root->owner.living());
    try {
      const py::object place = py::cast(Place(offer, root, *found));
      const py::handle asked(market.get()), inputs(offer.inputs.get()), outputs(offer.outputs.get());
      if (offer.plan == nullptr) {
        asked(place, inputs, outputs);
      } else {
        asked.attr("compare")(place, py::handle(offer.plan->call.get()), inputs, py::handle(offer.made.get()), outputs);
      }
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("pijit: an offer to compile");
    }
    return;
  }
}

py::list times(const std::vector<double>& seconds) {
  py::list made;
  for (double each : seconds) made.append(each);
  return made;
}

py::dict keyed_view(const Keyed& keyed) {
  py::list plans;
  for (const auto& plan : keyed.plans) {
    py::dict row;
    row["name"] = plan->name;
    row["runs"] = plan->runs;
    row["seconds"] = times(plan->times);
    plans.append(row);
  }
  py::list losers;
  for (const Loser& loser : keyed.losers) {
    py::dict row;
    row["name"] = loser.name;
    row["runs"] = loser.runs;
    row["seconds"] = py::make_tuple(loser.seconds);
    losers.append(row);
  }
  py::dict view;
  view["losers"] = losers;
  view["shared"] = keyed.shared;
  view["awaits"] = keyed.awaits;
  view["key"] = keyed.key->describe();
  const bool declined = keyed.unfit && keyed.state == Keyed::State::kOffered;
  view["state"] = keyed.settled_natively ? "settled natively"
                  : declined             ? "declined"
                                         : kStates[static_cast<size_t>(keyed.state)];
  view["plans"] = plans;
  view["native_runs"] = keyed.native_runs;
  view["native_seconds"] = times(keyed.native_times);
  view["dropped"] = keyed.dropped;
  return view;
}

// Roots of which calls have been recorded that were not replayed since: the next call may offer segments.
// And a number that grows with the calls that pijit has served.
std::pair<std::vector<int>, uint64_t> roots_to_offer() {
  const auto has_region = [](const std::shared_ptr<Trace>& trace) {
    return std::any_of(trace->nodes.begin(), trace->nodes.end(),
                       [](const Node& node) { return node.op == Op::kRegion; });
  };
  std::vector<int> found;
  const auto add = [&](const std::shared_ptr<Root>& root) {
    // A root that was reset keeps the mark, and has no trace that could offer anything.
    if (!root->traces.unprepared || root->traces.empty() || !root->is_live()) return;
    if (root->asked.market || std::any_of(root->traces.begin(), root->traces.end(), has_region))
      found.push_back(root->id);
  };
  for (const auto& root : all_roots()) add(root);
  for (const auto& entry : all_entries()) add(entry);
  return {found, stats().replays + stats().records + stats().aborts};
}

void set_market(int id, const py::object& market) {
  const std::shared_ptr<Root> root = find_root(id);
  if (root == nullptr) throw py::value_error("there is no such root; it was removed, or its function died");
  Ref before = std::exchange(root->asked.market, market.is_none() ? Ref() : Ref::borrow(market.ptr()));
  forget_entries_of(*root);
  for (const auto& trace : root->traces) {
    const bool had = static_cast<bool>(before);
    if (trace->prepared && (market.is_none() || !had)) find_segments(*trace, static_cast<bool>(root->asked.market));
  }
}

}  // namespace

CompileLimits& compile_limits() noexcept {
  static CompileLimits limits;
  return limits;
}

py::list segments_view(const Trace& trace) {
  py::list views;
  if (trace.segments == nullptr) return views;
  for (const auto& each : *trace.segments->all) {
    const Segment& segment = *each;
    py::list keys;
    for (const auto& keyed : segment.keys) keys.append(keyed_view(*keyed));
    py::dict view;
    view["first"] = segment.first;
    view["last"] = segment.last;
    view["effects"] = segment.effects.has_value();
    view["operators"] = segment.operators;
    view["operators_of_trace"] = trace.segments->operators;
    view["inputs"] = segment.free.size();
    view["bound"] = segment.bound.size();
    view["outputs"] = segment.outputs.size();
    view["region"] = py::reinterpret_borrow<py::object>(segment.region != nullptr ? segment.region : Py_None);
    view["keys"] = keys;
    views.append(view);
  }
  return views;
}

size_t planned_segments(const Trace& trace) noexcept {
  if (trace.segments == nullptr) return 0;
  const auto& all = *trace.segments->all;
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const auto& segment) {
    return std::any_of(segment->keys.begin(), segment->keys.end(), [](const auto& key) { return !key->plans.empty(); });
  }));
}

void add_plans(py::module_& m) {
  offer_taker() = take_offer;
  const auto list = [](const Vec<uint32_t>& registers) {
    return std::vector<uint32_t>(registers.begin(), registers.end());
  };
  py::class_<Place>(m, "Place")
      .def("data", &Place::data)
      .def("install", &Place::install, py::arg("plans"), py::arg("turns"), py::arg("shared") = false,
           py::arg("trial") = false)
      .def("await_more", &Place::await)
      .def("complete", &Place::complete)
      .def("trust", &Place::trust)
      .def("drop", &Place::drop)
      .def_property("memo", &Place::memo, &Place::set_memo)
      .def("describe", &Place::describe)
      .def("writes", &Place::writes)
      .def_property_readonly("alive", &Place::alive)
      .def_property_readonly("nodes", &Place::nodes)
      .def_property_readonly("operators", &Place::operators)
      .def_property_readonly("arrays", [](const Place& place) { return place.segment().arrays; })
      .def_property_readonly("runs", &Place::runs)
      .def_property_readonly("seconds", &Place::seconds)
      .def_property_readonly("numbers", &Place::numbers)
      .def_property_readonly("bound", [list](const Place& place) { return list(place.segment().bound); })
      .def_property_readonly("free", [list](const Place& place) { return list(place.segment().free); })
      .def_property_readonly("written", [list](const Place& place) { return list(place.written()); })
      .def_property_readonly("leaves", [list](const Place& place) { return list(place.leaves()); })
      .def_property_readonly("gradients_on", &Place::gradients_on)
      .def_property_readonly("trained", &Place::trained)
      .def("decline", &Place::decline)
      .def("allow_cuts", &Place::allow_cuts)
      .def("leave_sides", &Place::leave_sides)
      .def("leaver", &Place::leaver)
      .def_property_readonly("has_sides", &Place::has_sides)
      .def_property_readonly("passed",
                             [](const Place& place) {
                               return std::vector<bool>(place.segment().passed.begin(), place.segment().passed.end());
                             })
      .def_property_readonly("shown", [list](const Place& place) { return list(place.segment().shown); })
      .def_property_readonly("outputs", [list](const Place& place) { return list(place.segment().outputs); });
  m.def("hold_full_collections", &cpython::hold_full_collections);
  m.def("allow_full_collections", &cpython::allow_full_collections);
  m.def("join_beside", &join_beside);
  m.def("leave_beside", &leave_beside);
  m.def("begin_compiling", &begin_compiling);
  m.def("end_compiling", &end_compiling);
  m.def("hurry_compilers", &hurry_compilers, py::arg("seconds"));
  m.def("forget_beside", &forget_beside);
  m.def("roots_to_offer", &roots_to_offer);
  m.def("set_market", &set_market, py::arg("root"), py::arg("market"));
  m.def(
      "set_default_market",
      [](const py::object& market) { default_market() = market.is_none() ? Ref() : Ref::borrow(market.ptr()); },
      py::arg("market"));
  m.def(
      "market_of",
      [](int id) {
        const std::shared_ptr<Root> root = find_root(id);
        const bool none = root == nullptr || !root->asked.market;
        return none ? py::object(py::none()) : py::reinterpret_borrow<py::object>(root->asked.market.get());
      },
      py::arg("root"));
}

}  // namespace pijit
