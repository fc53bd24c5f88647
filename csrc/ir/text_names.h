// Objects as text: literals, paths, names.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/text.h"

namespace pijit {

// In quotes: printable ASCII as it is, every other byte as \xNN.
std::string quoted(const std::string& bytes);
// A str in quotes: every character that is no printable ASCII as \u{...}.
std::string quoted(PyObject* str);
// A float, such that it can be read again to the bit.
std::string float_text(double number);
// An identifier of ASCII.
bool is_plain_word(const std::string& text);
// A str as a word if it is one, else in quotes.
std::string word_text(PyObject* str);

// Gives each object of a trace its text, and each code object its number, in the order in which they are asked for.
class ObjectTexts {
 public:
  explicit ObjectTexts(const Sources& sources) : sources_(&sources) {}
  explicit ObjectTexts(const std::unordered_map<PyObject*, std::string>& names) : names_(&names) {}
  explicit ObjectTexts(KeptNames& kept) : kept_(&kept) {}

  // `alive`: it is known to be, whatever the guards say. Null: "-".
  std::string text(PyObject* object, bool alive = false);
  // False: it is no literal.
  static bool literal(PyObject* object, std::string* text, int depth = 0);
  const std::vector<PyCodeObject*>& codes() const { return codes_; }

 private:
  bool is_known(PyObject* object) const;
  std::string path(const Source& source);
  std::string described(PyObject* object) const;
  std::string kept(PyObject* object, bool alive);

  const Sources* sources_ = nullptr;
  const std::unordered_map<PyObject*, std::string>* names_ = nullptr;
  KeptNames* kept_ = nullptr;
  std::unordered_map<PyObject*, std::string> given_;
  std::unordered_map<std::string, int> times_;  // that a text was given
  std::vector<PyCodeObject*> codes_;
};

}  // namespace pijit
