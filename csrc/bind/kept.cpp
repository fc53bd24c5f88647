// The cache as Python sees it: texts to write, and files that are read.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bind/data.h"
#include "bind/views.h"
#include "common/clock.h"
#include "hook/kept.h"
#include "hook/profile.h"
#include "kept/describe.h"

namespace py = pybind11;

namespace pijit {
namespace {

py::dict texts(int id) {
  const auto root = root_or_raise(id);
  const KeptTexts made = texts_of(*root);
  py::dict result;
  const KeptName name = kept_name(*root);
  result["file"] = name.file;
  result["code"] = name.code;
  result["function"] = root->written.name;
  result["texts"] = made.texts;
  result["reasons"] = made.reasons;
  result["found"] = root->kept.found;
  result["records"] = root->counts.records;
  return result;
}

std::pair<std::vector<std::string>, std::string> read(const std::string& path, const std::string& environment) {
  std::string why;
  std::vector<std::string> found = read_kept(path, environment, &why);
  return {std::move(found), std::move(why)};
}

std::pair<size_t, std::vector<std::string>> install(int id, const std::vector<std::string>& given,
                                                    const std::vector<py::object>& arguments) {
  const auto root = root_or_raise(id);
  std::vector<PyObject*> objects;
  for (const py::object& each : arguments) objects.push_back(each.ptr());
  std::vector<std::string> reasons;
  const size_t installed = install_texts(*root, given, objects, &reasons);
  return {installed, std::move(reasons)};
}

py::list asked() {
  py::list all;
  for (const Keeping::Asked& each : keeping().asked) {
    py::dict one;
    one["function"] = each.function;
    one["file"] = each.file;
    one["code"] = each.code;
    one["why"] = each.why;
    all.append(std::move(one));
  }
  return all;
}

py::object learnt(int id) {
  const auto root = root_or_raise(id);
  const std::string code = kept_name(*root).code;
  if (code.empty() || root->owner.living() == nullptr) return py::none();
  const Profiled made = learnt_by(*root);
  py::dict one;
  one["function"] = root->written.name;
  one["code"] = code;
  one["automatic"] = root->asked.automatic;
  one["records"] = root->counts.records;
  one["aborts"] = root->counts.aborts;
  one["replays"] = root->counts.replays;
  one["saved"] = root->saved().seconds;
  one["left"] = made.useless;
  one["passes"] = made.passes;
  one["inputs"] = made.inputs;
  py::list places;
  for (const ProfiledPlace& place : made.places) places.append(py::make_tuple(place.container, place.key));
  one["places"] = std::move(places);
  return one;
}

void set_profile(const std::vector<py::dict>& rows) {
  profile().clear();
  for (const py::dict& row : rows) {
    Profiled made;
    made.useless = row["useless"].cast<std::string>();
    made.passes = row["passes"].cast<bool>();
    made.inputs = row["inputs"].cast<std::vector<uint32_t>>();
    for (const auto& [container, key] : row["places"].cast<std::vector<std::pair<int, std::string>>>())
      made.places.push_back({container, key});
    profile()[row["code"].cast<std::string>()] = std::move(made);
  }
}

}  // namespace

void bind_kept(py::module_& module) {
  module.def("set_keeping", [](std::string directory, std::string environment) {
    keeping().directory = std::move(directory);
    keeping().environment = std::move(environment);
  });
  module.def(
      "set_writer",
      [](const py::object& call, double every) {
        keeping().writer = call.is_none() ? Ref() : Ref::borrow(call.ptr());
        keeping().every = every;
        keeping().pause = std::min(0.25, every);
        keeping().due = Keeping::kNever;
      },
      py::arg("call"), py::arg("every") = 0.0);
  module.attr("kept_heading") = kKeptHeading;
  module.def("set_dying",
             [](const py::object& call) { dying_root_writer() = call.is_none() ? Ref() : Ref::borrow(call.ptr()); });
  module.def("set_unpacker", [](const py::object& call) { keeping().unpacker = Ref::borrow(call.ptr()); });
  module.def("keeping", [] {
    py::dict result;
    result["directory"] = keeping().directory;
    result["environment"] = keeping().environment;
    result["hits"] = keeping().hits;
    result["misses"] = keeping().misses;
    result["asked"] = asked();
    return result;
  });
  module.def("learnt", &learnt, py::arg("root"));
  module.def("function_roots", [] {
    std::vector<int> numbers;
    for (const auto& root : all_roots())
      if (!root->is_entry()) numbers.push_back(root->id);
    return numbers;
  });
  module.def("set_profile", &set_profile, py::arg("rows"));
  module.def("kept_roots", [] {
    std::vector<std::pair<uint64_t, int>> found;
    for (const auto& root : all_roots())
      if (!root->traces.empty() && !root->is_entry()) found.emplace_back(root->counts.replays, root->id);
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& one, const auto& two) { return one.first > two.first; });
    std::vector<int> numbers;
    for (const auto& [replays, id] : found) numbers.push_back(id);
    return numbers;
  });
  module.def("look_ahead", [](int id) { look_ahead(*root_or_raise(id)); }, py::arg("root"));
  module.def("kept_texts", &texts, py::arg("root"));
  module.def("read_kept", &read, py::arg("path"), py::arg("environment"));
  module.def("install_kept", &install, py::arg("root"), py::arg("texts"), py::arg("arguments"));
  module.def(
      "check_kept", [](int id, const std::string& text) { return check_text(*root_or_raise(id), text, {}); },
      py::arg("root"), py::arg("text"));
  module.def("digest", [](const std::string& bytes) { return hex(digest_of(bytes)); }, py::arg("data"));
}

}  // namespace pijit
