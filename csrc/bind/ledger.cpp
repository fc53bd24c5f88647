// A ledger without a root, for tests with times of their own.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <string>

#include "bind/data.h"
#include "cache/ledger.h"

namespace py = pybind11;

namespace pijit {
namespace {

constexpr const char* kTurns[] = {"free", "timed", "plain"};
constexpr const char* kKinds[] = {"plain", "replayed", "left", "fresh", "recorded", "other"};
constexpr const char* kVerdicts[] = {"", "pays", "loses"};

std::string next(Ledger& ledger) {
  return kTurns[static_cast<size_t>(ledger.next())];
}

std::string end(Ledger& ledger, const std::string& kind, double seconds, uint64_t way, std::array<double, 2> amounts,
                bool hasty) {
  size_t index = 0;
  while (index < std::size(kKinds) && kind != kKinds[index]) ++index;
  if (index == std::size(kKinds)) throw py::value_error(kind);
  ledger.begin();
  const Ledger::Verdict verdict = ledger.end(static_cast<Ledger::Kind>(index), seconds, {way, amounts}, hasty);
  return kVerdicts[static_cast<size_t>(verdict)];
}

}  // namespace

void bind_ledger(py::module_& module) {
  py::class_<Ledger>(module, "Ledger")
      .def(py::init<>())
      .def("next", &next)
      .def("begin_soon", &Ledger::begin_soon)
      .def("end", &end, py::arg("kind"), py::arg("seconds"), py::arg("way"), py::arg("amounts"),
           py::arg("hasty") = false)
      .def_property_readonly("doubts", &Ledger::doubts)
      .def("rested", &Ledger::rested)
      .def_property_readonly("ratio", &Ledger::ratio);
}

}  // namespace pijit
