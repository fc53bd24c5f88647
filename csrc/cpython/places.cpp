// Which files are the user's own, and where frames stand in them.
#include "cpython/places.h"

#include <cstring>
#include <string_view>

namespace pijit::cpython {
namespace {

constexpr std::string_view kPackages[] = {"/site-packages/", "/dist-packages/"};

std::vector<std::string>& library() noexcept {
  static auto* directories = new std::vector<std::string>();
  return *directories;
}

bool begins(std::string_view text, std::string_view with) noexcept {
  return text.substr(0, with.size()) == with;
}

std::string text_of(PyObject* unicode) {
  const char* text = PyUnicode_AsUTF8(unicode);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "?" : text;
}

}  // namespace

void set_library(std::vector<std::string> directories) {
  library() = std::move(directories);
}

bool is_library(PyCodeObject* code, bool packages) noexcept {
  const char* name = PyUnicode_AsUTF8(code->co_filename);
  if (name == nullptr) return PyErr_Clear(), false;
  const std::string_view file(name);
  if (begins(file, "<frozen ")) return true;
  for (std::string_view part : kPackages)
    if (file.find(part) != std::string_view::npos) {
      if (packages) return true;
      break;
    }
  for (const std::string& directory : library())
    if (begins(file, directory)) return true;
  return false;
}

Place place_of(PyCodeObject* code, int instruction) {
  return {text_of(code->co_filename), text_of(code->co_qualname), line_of(code, instruction)};
}

Place user_place(Frame* frame) {
  for (; frame != nullptr; frame = previous(frame))
    if (!_PyFrame_IsIncomplete(frame) && !is_library(code(frame)))
      return place_of(code(frame), instruction_index(frame));
  return Place();
}

std::string library_words(const Place& place) {
  std::string_view file(place.file);
  for (std::string_view part : kPackages)
    if (const size_t at = file.rfind(part); at != std::string_view::npos) file.remove_prefix(at + part.size());
  for (const std::string& directory : library()) {
    if (file.size() != place.file.size() || !begins(file, directory)) continue;
    const size_t parent = std::string_view(directory).rfind('/', directory.size() - 2);
    if (parent != std::string_view::npos) file.remove_prefix(parent + 1);
  }
  return std::string(file) + ":" + std::to_string(place.line);
}

}  // namespace pijit::cpython
