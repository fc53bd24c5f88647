// Traces as text, and text as traces.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bind/data.h"
#include "bind/views.h"
#include "cpython/objects.h"
#include "guard/proven.h"
#include "ir/call.h"
#include "ir/text.h"

namespace py = pybind11;

namespace pijit {
namespace {

// A CacheError, with the place as attributes.
[[noreturn]] void raise(const TextError& error) {
  std::string text = "this is no text of a trace: ";
  if (error.line > 0) text = "line " + std::to_string(error.line) + ", column " + std::to_string(error.column) + ": ";
  text += std::string(error.what()) + "; print the trace anew";
  const py::object type = py::module_::import("pijit.errors").attr("CacheError");
  const py::object made = type(text);
  made.attr("line") = error.line;
  made.attr("column") = error.column;
  PyErr_SetObject(type.ptr(), made.ptr());
  throw py::error_already_set();
}

std::unique_ptr<ParsedTrace> parse(const std::string& text) {
  try {
    return parse_trace(text);
  } catch (const TextError& error) {
    raise(error);
  }
}

std::vector<std::string> operators(const ParsedTrace& parsed) {
  std::vector<std::string> names;
  for (const auto& op : parsed.trace.adapter_ops) names.push_back(op->call().name);
  return names;
}

}  // namespace

std::string text_of_trace(const Root& root, const Trace& trace) {
  const cpython::GcPause pause;  // what is known to be alive stays so
  const ObjectSet proven = proven_objects(trace, root.owner.living());
  return trace_text(trace, Sources(trace, false, &proven));
}

void bind_text(py::module_& module) {
  py::class_<ParsedTrace>(module, "ParsedTrace")
      .def("text", [](const ParsedTrace& parsed) { return trace_text(parsed); })
      .def("operators", &operators);
  module.def("parse_trace", &parse, py::arg("text"));
}

}  // namespace pijit
