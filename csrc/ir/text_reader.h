// Reads the words of a trace's text: names, numbers, literals, objects; says where a text is none.
//
// Blanks before a word are passed over; the end of a line is a word of its own. Every count and index has a bound that
// its reader is given, and brackets are at most kDeepest deep, so what is read cannot be larger than its text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"

namespace pijit {

class TextReader {
 public:
  TextReader(const std::string& text, ParsedTrace* parsed) : text_(text), parsed_(parsed) {}

  [[noreturn]] void fail(std::string_view expected) const { fail_at(place_, expected); }
  [[noreturn]] void fail_at(size_t place, std::string_view expected) const;
  size_t place();  // of the next word

  bool take(char c);
  void expect(char c);
  bool take_word(std::string_view word);
  void expect_word(std::string_view word);
  // "label=", and no other line may have it there.
  bool field(std::string_view label);
  void expect_field(std::string_view label);
  // "label:"
  bool prefix(std::string_view label);
  void end_line();
  bool at_end_line();
  void end_text();
  bool at_digit();
  bool at_quote();
  bool at_word();
  bool at_this(std::string_view word);
  // A name or nothing, marks, "=".
  bool at_label();
  // Without a blank before it.
  bool take_next(std::string_view text);

  std::string_view word(std::string_view expected);
  std::string name();  // a word, or bytes in quotes
  Ref str_name();      // a word, or a str in quotes
  std::string bytes();
  Ref str();
  uint64_t number(std::string_view expected, uint64_t most);
  int64_t signed_number();
  double real();  // as float_text gives it
  // "r5", where fewer than `below` exist.
  uint32_t indexed(char letter, size_t below);
  bool at_indexed(char letter);
  // This very one.
  void expect_indexed(char letter, size_t index);
  // "(", what `item` reads, each after the first behind a comma, ")".
  template <class Item>
  void list(Item item) {
    Nesting nesting(this);
    expect('(');
    for (bool first = true; !take(')'); first = false) {
      if (!first) expect(',');
      item();
    }
  }

  struct Object {
    PyObject* object = nullptr;  // kept by the trace; null: "-"
    bool literal = false;
  };
  Object object();
  PyCodeObject* code();
  Object known();
  void add_code(Ref code);
  size_t codes() const { return codes_.size(); }

 private:
  class Nesting {
   public:
    explicit Nesting(TextReader* reader);
    ~Nesting() { reader_->depth_ -= 1; }

   private:
    TextReader* reader_;
  };

  char peek(size_t ahead = 0) const { return place_ + ahead < text_.size() ? text_[place_ + ahead] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ') ++place_;
  }
  std::string_view next_word() const;
  bool begins_with(std::string_view word) const {
    return peek() == word[0] && text_.compare(place_, word.size(), word) == 0;
  }
  std::string_view plain_text() const;
  std::string raw_bytes(bool characters);
  Ref own_number();
  Ref literal_word(std::string_view word);
  Ref tuple();
  Object own(Ref made);
  Object stand_in(size_t start);
  void path(std::string_view kind);
  void path_content(std::string_view kind);
  void path_step();

  static constexpr int kDeepest = 100;

  const std::string& text_;
  ParsedTrace* parsed_;
  size_t place_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string, PyObject*> stand_ins_;
  std::vector<PyCodeObject*> codes_;
};

}  // namespace pijit
