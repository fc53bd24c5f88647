// Hands offers to the market of their root, and takes plans from it.
#include "bind/plans.h"

#include <pybind11/stl.h>

#include <algorithm>

#include "bind/data.h"
#include "cpython/collector.h"
#include "exec/plans.h"
#include "exec/replay.h"
#include "ir/scalars.h"
#include "opt/regions.h"

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
      : root_(root), trace_(trace), segments_(offer.segments), index_(offer.index), keyed_(offer.keyed) {}

  // None: the trace is gone.
  py::object data() const {
    const std::shared_ptr<Root> root = root_.lock();
    const std::shared_ptr<Trace> trace = trace_.lock();
    if (root == nullptr || trace == nullptr || root->dead) return py::none();
    return trace_data(*root, *trace);
  }
  bool alive() const { return !trace_.expired() && !root_.expired(); }
  const Segment& segment() const { return segments_->all[index_]; }
  Vec<uint32_t> written() const { return segment().effects ? segment().effects->written : Vec<uint32_t>(); }
  Vec<uint32_t> leaves() const { return segment().effects ? segment().effects->leaves : Vec<uint32_t>(); }
  bool gradients_on() const { return keyed_->key->gradients_on(); }
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
  std::pair<uint64_t, uint64_t> writes() const { return {keyed_->writes.written, keyed_->writes.moved}; }

  // The next native replay under the key is offered anew.
  void forget() {
    auto& keys = segments_->all[index_].keys;
    const auto found = std::find(keys.begin(), keys.end(), keyed_);
    if (found != keys.end()) keys.erase(found);
  }

  void install(const py::list& plans, bool turns) {
    std::vector<std::shared_ptr<Plan>> made;
    for (py::handle each : plans) {
      const auto row = py::cast<py::tuple>(each);
      auto plan = std::make_shared<Plan>();
      plan->name = py::cast<std::string>(row[0]);
      plan->call = Ref::borrow(py::object(row[1]).ptr());
      plan->rebind = Ref::borrow(py::object(row[2]).ptr());
      plan->shares = py::cast<bool>(row[3]);
      const auto [written, moved] = py::cast<std::pair<uint64_t, uint64_t>>(row[4]);
      plan->knows = {written, moved};
      made.push_back(std::move(plan));
    }
    keyed_->turn = 0;
    keyed_->settled_natively = false;
    keyed_->native_times.clear();
    keyed_->state = turns ? Keyed::State::kInTurns : Keyed::State::kSettled;
    std::swap(keyed_->plans, made);
  }

 private:
  std::weak_ptr<Root> root_;
  std::weak_ptr<Trace> trace_;
  std::shared_ptr<Segments> segments_;
  size_t index_;
  std::shared_ptr<Keyed> keyed_;
};

// Who is asked for plans of a segment; null: nobody.
Ref market_of(const Segment& segment, const Root& root) noexcept {
  return segment.region != nullptr ? market_of_region(segment.region) : Ref::borrow(root.market.get());
}

// The call that is offered has returned: nothing that the market raises is its concern.
void take_offer(Offer offer) {
  for (const auto& root : all_roots()) {
    const auto found = std::find_if(root->traces.begin(), root->traces.end(),
                                    [&](const auto& trace) { return trace.get() == offer.trace; });
    if (found == root->traces.end()) continue;
    const Ref market = market_of(offer.segments->all[offer.index], *root);
    if (!market) return;
    try {
      const py::object place = py::cast(Place(offer, root, *found));
      const Ref done = Ref::steal(
          PyObject_CallFunctionObjArgs(market.get(), place.ptr(), offer.inputs.get(), offer.outputs.get(), nullptr));
      if (!done) PyErr_WriteUnraisable(market.get());
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
  py::dict view;
  view["key"] = keyed.key->describe();
  view["state"] = keyed.settled_natively ? "settled natively" : kStates[static_cast<size_t>(keyed.state)];
  view["plans"] = plans;
  view["native_runs"] = keyed.native_runs;
  view["native_seconds"] = times(keyed.native_times);
  view["dropped"] = keyed.dropped;
  return view;
}

void set_market(int id, const py::object& market) {
  const std::shared_ptr<Root> root = find_root(id);
  if (root == nullptr) throw py::value_error("there is no such root; it was removed, or its function died");
  Ref before = std::exchange(root->market, market.is_none() ? Ref() : Ref::borrow(market.ptr()));
  for (const auto& trace : root->traces) {
    const bool had = static_cast<bool>(before);
    if (trace->prepared && (market.is_none() || !had)) find_segments(*trace, static_cast<bool>(root->market));
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
  for (const Segment& segment : trace.segments->all) {
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
  const auto& all = trace.segments->all;
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const Segment& segment) {
    return std::any_of(segment.keys.begin(), segment.keys.end(), [](const auto& key) { return !key->plans.empty(); });
  }));
}

void add_plans(py::module_& m) {
  offer_taker() = take_offer;
  const auto list = [](const Vec<uint32_t>& registers) {
    return std::vector<uint32_t>(registers.begin(), registers.end());
  };
  py::class_<Place>(m, "Place")
      .def("data", &Place::data)
      .def("install", &Place::install, py::arg("plans"), py::arg("turns"))
      .def("forget", &Place::forget)
      .def("describe", &Place::describe)
      .def("writes", &Place::writes)
      .def_property_readonly("alive", &Place::alive)
      .def_property_readonly("nodes", &Place::nodes)
      .def_property_readonly("operators", &Place::operators)
      .def_property_readonly("runs", &Place::runs)
      .def_property_readonly("seconds", &Place::seconds)
      .def_property_readonly("numbers", &Place::numbers)
      .def_property_readonly("bound", [list](const Place& place) { return list(place.segment().bound); })
      .def_property_readonly("free", [list](const Place& place) { return list(place.segment().free); })
      .def_property_readonly("written", [list](const Place& place) { return list(place.written()); })
      .def_property_readonly("leaves", [list](const Place& place) { return list(place.leaves()); })
      .def_property_readonly("gradients_on", &Place::gradients_on)
      .def_property_readonly("outputs", [list](const Place& place) { return list(place.segment().outputs); });
  m.def("hold_full_collections", &cpython::hold_full_collections);
  m.def("allow_full_collections", &cpython::allow_full_collections);
  m.def("set_market", &set_market, py::arg("root"), py::arg("market"));
  m.def(
      "set_default_market",
      [](const py::object& market) { default_market() = market.is_none() ? Ref() : Ref::borrow(market.ptr()); },
      py::arg("market"));
  m.def(
      "market_of",
      [](int id) {
        const std::shared_ptr<Root> root = find_root(id);
        const bool none = root == nullptr || !root->market;
        return none ? py::object(py::none()) : py::reinterpret_borrow<py::object>(root->market.get());
      },
      py::arg("root"));
}

}  // namespace pijit
