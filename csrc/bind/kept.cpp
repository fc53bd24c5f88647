// The cache as Python sees it: texts to write, and files that are read.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bind/data.h"
#include "bind/views.h"
#include "hook/kept.h"
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

}  // namespace

void bind_kept(py::module_& module) {
  module.def("set_keeping", [](std::string directory, std::string environment) {
    keeping().directory = std::move(directory);
    keeping().environment = std::move(environment);
  });
  module.def("keeping", [] {
    py::dict result;
    result["directory"] = keeping().directory;
    result["environment"] = keeping().environment;
    result["hits"] = keeping().hits;
    result["misses"] = keeping().misses;
    result["asked"] = asked();
    return result;
  });
  module.def("kept_roots", [] {
    std::vector<int> numbers;
    for (const auto& root : all_roots())
      if (!root->traces.empty() && !root->is_entry()) numbers.push_back(root->id);
    return numbers;
  });
  module.def("kept_texts", &texts, py::arg("root"));
  module.def("read_kept", &read, py::arg("path"), py::arg("environment"));
  module.def("install_kept", &install, py::arg("root"), py::arg("texts"), py::arg("arguments"));
  module.def(
      "check_kept", [](int id, const std::string& text) { return check_text(*root_or_raise(id), text, {}); },
      py::arg("root"), py::arg("text"));
  module.def("digest", [](const std::string& bytes) { return hex(digest_of(bytes)); }, py::arg("data"));
}

}  // namespace pijit
