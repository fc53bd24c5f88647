// The words of a trace's text.
#include "ir/text_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>

#include "ir/text_names.h"

namespace pijit {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Without an error set.
Ref made(PyObject* object) {
  if (object != nullptr) return Ref::steal(object);
  const bool memory = PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
  PyErr_Clear();
  if (memory) throw std::bad_alloc();
  return Ref();
}

}  // namespace

TextReader::Nesting::Nesting(TextReader* reader) : reader_(reader) {
  if (reader->depth_ >= kDeepest) reader->fail("at most " + std::to_string(kDeepest) + " brackets in each other");
  reader->depth_ += 1;
}

void TextReader::fail_at(size_t place, std::string_view expected) const {
  place = std::min(place, text_.size());
  const auto begin = text_.begin(), at = begin + static_cast<ptrdiff_t>(place);
  const auto line = 1 + std::count(begin, at, '\n');
  const size_t start = place == 0 ? 0 : text_.rfind('\n', place - 1) + 1;  // npos + 1 is 0
  std::string found = "the end of the text";
  if (place < text_.size()) {
    const std::string rest = text_.substr(place, std::min<size_t>(text_.find('\n', place) - place, 24));
    found = rest.empty() ? "the end of the line" : quoted(rest);
  }
  throw TextError(static_cast<int>(line), static_cast<int>(place - start + 1),
                  "expected " + std::string(expected) + ", found " + found);
}

size_t TextReader::place() {
  skip_blanks();
  return place_;
}

bool TextReader::take(char c) {
  skip_blanks();
  if (peek() != c || place_ >= text_.size()) return false;
  ++place_;
  return true;
}

void TextReader::expect(char c) {
  if (!take(c)) fail(std::string("'") + c + "'");
}

std::string_view TextReader::next_word() const {
  size_t end = place_;
  if (is_letter(peek()))
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
  return std::string_view(text_).substr(place_, end - place_);
}

bool TextReader::take_word(std::string_view word) {
  if (!at_this(word)) return false;
  place_ += word.size();
  return true;
}

bool TextReader::at_this(std::string_view word) {
  skip_blanks();
  if (!begins_with(word)) return false;
  const char next = peek(word.size());
  return !is_letter(next) && !is_digit(next);
}

void TextReader::expect_word(std::string_view word) {
  if (!take_word(word)) fail("'" + std::string(word) + "'");
}

bool TextReader::field(std::string_view label) {
  skip_blanks();
  if (peek(label.size()) != '=' || !begins_with(label)) return false;
  place_ += label.size() + 1;
  return true;
}

bool TextReader::prefix(std::string_view label) {
  skip_blanks();
  if (peek(label.size()) != ':' || !begins_with(label)) return false;
  place_ += label.size() + 1;
  return true;
}

void TextReader::expect_field(std::string_view label) {
  if (!field(label)) fail("'" + std::string(label) + "='");
}

bool TextReader::at_end_line() {
  skip_blanks();
  return peek() == '\n';
}

void TextReader::end_line() {
  if (!take('\n')) fail("the end of the line");
}

void TextReader::end_text() {
  if (place_ != text_.size()) fail("the end of the text");
}

bool TextReader::at_digit() {
  skip_blanks();
  return is_digit(peek());
}

bool TextReader::at_quote() {
  skip_blanks();
  return peek() == '"';
}

bool TextReader::at_word() {
  skip_blanks();
  return is_letter(peek());
}

bool TextReader::at_label() {
  skip_blanks();
  size_t at = place_ + next_word().size();
  if (peek() == '"') {
    for (++at; at < text_.size() && text_[at] != '"' && text_[at] != '\n'; ++at) at += text_[at] == '\\';
    ++at;
  }
  at = text_.find_first_not_of("!?*", at);
  return at != std::string::npos && text_[at] == '=';
}

bool TextReader::take_next(std::string_view text) {
  if (!begins_with(text)) return false;
  place_ += text.size();
  return true;
}

std::string_view TextReader::word(std::string_view expected) {
  skip_blanks();
  const std::string_view found = next_word();
  if (found.empty()) fail(expected);
  place_ += found.size();
  return found;
}

std::string TextReader::name() {
  skip_blanks();
  return peek() == '"' ? bytes() : std::string(word("a name"));
}

Ref TextReader::str_name() {
  skip_blanks();
  if (peek() == '"') return str();
  const std::string_view text = word("a name");
  return made(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

// Printable ASCII that stands for itself, up to what ends it or needs care.
std::string_view TextReader::plain_text() const {
  size_t end = place_;
  while (end < text_.size() && text_[end] >= ' ' && text_[end] <= '~' && text_[end] != '"' && text_[end] != '\\') ++end;
  return std::string_view(text_).substr(place_, end - place_);
}

// What stands in quotes, from here on, as bytes, or as characters of four bytes each.
std::string TextReader::raw_bytes(bool characters) {
  std::string result;
  const auto add = [&](uint32_t value) {
    if (characters)
      result.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      result += static_cast<char>(value);
  };
  const auto digits = [&](int least, int most, char end) {
    uint32_t value = 0;
    int count = 0;
    for (; count < most && hex_digit(peek()) >= 0; ++count)
      value = value * 16 + static_cast<uint32_t>(hex_digit(text_[place_++]));
    if (count < least || (end != '\0' && peek() != end)) fail("a hexadecimal number");
    place_ += end != '\0';
    return value;
  };
  while (peek() != '"') {
    const char c = peek();
    if (c < ' ' || c > '~') fail("printable ASCII, or '\"'");
    ++place_;
    if (c != '\\') {
      add(static_cast<unsigned char>(c));
    } else if (peek() == '"' || peek() == '\\') {
      add(static_cast<unsigned char>(text_[place_++]));
    } else if (!characters && peek() == 'x') {
      ++place_;
      add(digits(2, 2, '\0'));
    } else if (characters && peek() == 'u' && peek(1) == '{') {
      place_ += 2;
      const uint32_t value = digits(1, 6, '}');
      if (value > 0x10ffff) fail("a character");
      add(value);
    } else {
      fail(characters ? "'\"', '\\' or 'u{'" : "'\"', '\\' or 'x'");
    }
  }
  ++place_;
  return result;
}

std::string TextReader::bytes() {
  expect('"');
  std::string result(plain_text());
  place_ += result.size();
  if (peek() != '"') return result += raw_bytes(false);
  ++place_;
  return result;
}

Ref TextReader::str() {
  expect('"');
  const std::string_view plain = plain_text();
  if (peek(plain.size()) == '"') {
    place_ += plain.size() + 1;
    return made(PyUnicode_FromStringAndSize(plain.data(), static_cast<Py_ssize_t>(plain.size())));
  }
  const std::string raw = raw_bytes(true);
  return made(PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, raw.data(), static_cast<Py_ssize_t>(raw.size() / 4)));
}

uint64_t TextReader::number(std::string_view expected, uint64_t most) {
  skip_blanks();
  const size_t start = place_;
  uint64_t value = 0;
  while (is_digit(peek())) {
    const auto digit = static_cast<uint64_t>(text_[place_++] - '0');
    if (value > (UINT64_MAX - digit) / 10) fail_at(start, expected);
    value = value * 10 + digit;
  }
  if (place_ == start || value > most) fail_at(start, expected);
  return value;
}

int64_t TextReader::signed_number() {
  const bool negative = take('-');
  const uint64_t value = number("an int of 64 bits", static_cast<uint64_t>(INT64_MAX) + negative);
  return static_cast<int64_t>(negative ? 0 - value : value);
}

double TextReader::real() {
  skip_blanks();
  const size_t start = place_;
  if (take_word("float")) {
    uint64_t bits = 0;
    expect('(');
    if (peek() != '0' || peek(1) != 'x') fail("'0x'");
    place_ += 2;
    for (int count = 0; hex_digit(peek()) >= 0; ++count) {
      if (count == 16) fail("at most 16 digits");
      bits = bits << 4 | static_cast<uint64_t>(hex_digit(text_[place_++]));
    }
    expect(')');
    double result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
  }
  while (is_digit(peek()) || peek() == '.' || peek() == '-' || peek() == '+' || peek() == 'e') ++place_;
  const std::string digits = text_.substr(start, place_ - start);
  char* end = nullptr;
  const double result = digits.empty() ? 0 : PyOS_string_to_double(digits.c_str(), &end, nullptr);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (digits.empty() || end != digits.c_str() + digits.size()) fail_at(start, "a float");
  return result;
}

uint32_t TextReader::indexed(char letter, size_t below) {
  skip_blanks();
  const size_t start = place_;
  if (at_indexed(letter)) {
    ++place_;
    const uint64_t index = number("a number", UINT64_MAX);
    if (index < below) return static_cast<uint32_t>(index);
  }
  fail_at(start, below == 0 ? std::string("nothing: there is no '") + letter + "'"
                            : letter + std::string("0 to ") + letter + std::to_string(below - 1));
}

bool TextReader::at_indexed(char letter) {
  skip_blanks();
  const std::string_view word = next_word();
  return word.size() > 1 && word[0] == letter && std::all_of(word.begin() + 1, word.end(), is_digit);
}

void TextReader::expect_indexed(char letter, size_t index) {
  char expected[24] = {letter};
  const std::string_view word(
      expected, static_cast<size_t>(std::to_chars(expected + 1, std::end(expected), index).ptr - expected));
  if (!take_word(word)) fail("'" + std::string(word) + "'");
}

TextReader::Object TextReader::own(Ref object) {
  if (!object) throw std::bad_alloc();
  if (parsed_->kept && PyUnicode_CheckExact(object.get())) {  // as names are
    PyObject* interned = object.release();
    PyUnicode_InternInPlace(&interned);
    object = Ref::steal(interned);
  }
  parsed_->trace.owned.push_back(std::move(object));
  return {parsed_->trace.owned.back().get(), true};
}

// An int of any size, or a float.
Ref TextReader::own_number() {
  const size_t start = place_;
  const size_t digits = start + (peek() == '-');
  size_t end = digits;
  const bool hex = text_.compare(digits, 2, "0x") == 0;
  if (hex) end += 2;
  while (end < text_.size() && (hex ? hex_digit(text_[end]) >= 0 : is_digit(text_[end]))) ++end;
  if (!hex && end < text_.size() && (text_[end] == '.' || text_[end] == 'e')) return made(PyFloat_FromDouble(real()));
  constexpr size_t kLong = 64;  // of more digits in decimal CPython makes an int slowly, or not at all
  if (!hex && end - digits > kLong) fail("a longer int in hexadecimal");
  const std::string text = text_.substr(start, end - start);
  Ref result = made(PyLong_FromString(text.c_str(), nullptr, hex ? 16 : 10));
  if (!result) fail("an int");
  place_ = end;
  return result;
}

Ref TextReader::tuple() {
  std::vector<PyObject*> items;
  list([&] {
    const size_t start = place();
    const Object item = object();
    if (!item.literal) fail_at(start, "a literal");
    items.push_back(item.object);
  });
  Ref result = made(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; result && i < items.size(); ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), new_reference(items[i]));
  return result;
}

// A literal that is a word, or begins with one; null: it is none.
Ref TextReader::literal_word(std::string_view word) {
  const std::pair<std::string_view, PyObject*> kWords[] = {{"None", Py_None},
                                                           {"True", Py_True},
                                                           {"False", Py_False},
                                                           {"Ellipsis", Py_Ellipsis},
                                                           {"NotImplemented", Py_NotImplemented}};
  for (const auto& [text, object] : kWords)
    if (word == text) return place_ += word.size(), Ref::borrow(object);
  if (word == "float") return made(PyFloat_FromDouble(real()));
  if (word == "tuple") return place_ += word.size(), tuple();
  if (word != "complex") return Ref();
  place_ += word.size();
  expect('(');
  const double first = real();
  expect(',');
  const double second = real();
  expect(')');
  return made(PyComplex_FromDoubles(first, second));
}

TextReader::Object TextReader::object() {
  Nesting nesting(this);
  skip_blanks();
  const char c = peek();
  if (c == '-' && !is_digit(peek(1))) return ++place_, Object();
  if (c == '-' || is_digit(c)) return own(own_number());
  if (c == '"') return own(str());
  if (c == 'b' && peek(1) == '"') {
    ++place_;
    const std::string content = bytes();
    return own(made(PyBytes_FromStringAndSize(content.data(), static_cast<Py_ssize_t>(content.size()))));
  }
  const std::string_view word = next_word();
  if (word == "known" && parsed_->kept) return known();
  if (Ref literal = literal_word(word)) return own(std::move(literal));
  if (word == "code") return {reinterpret_cast<PyObject*>(code()), false};
  const size_t start = place_;
  path(word);
  return stand_in(start);
}

TextReader::Object TextReader::stand_in(size_t start) {
  const std::string text = text_.substr(start, place_ - start);
  if (const auto known = stand_ins_.find(text); known != stand_ins_.end()) return {known->second, false};
  PyObject* object = own(made(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)))).object;
  parsed_->names.emplace(object, text);
  stand_ins_.emplace(text, object);
  return {object, false};
}

void TextReader::path_content(std::string_view kind) {
  if (kind == "unknown") return;
  if (kind == "reg") return static_cast<void>(number("a number", UINT32_MAX));
  if (kind == "literal") {
    const size_t start = place_;
    if (!object().literal) fail_at(start, "a literal");
    return;
  }
  if (peek() == '"') return static_cast<void>(str());
  word("a name");
  while (peek() == '.') {
    ++place_;
    word("a name");
  }
}

// ".name", ".key(3)", "[0]", "#2"
void TextReader::path_step() {
  const char c = text_[place_++];
  if (c == '#') return static_cast<void>(number("a number", UINT32_MAX));
  if (c == '[') {
    object();
    return expect(']');
  }
  if (peek() == '"') return static_cast<void>(str());
  const size_t start = place_;
  const std::string_view name = word("the name of an attribute");
  if (peek() != '(') return;
  ++place_;
  if (name != "get") {
    if (name != "key" && name != "value" && name != "inline" && name != "offset")
      fail_at(start, "key, value, inline, offset or get");
    number("a number", UINT64_MAX);
  }
  expect(')');
}

void TextReader::path(std::string_view kind) {
  static constexpr std::string_view kKinds[] = {"arg",      "global",  "cell",      "reg",   "class",
                                                "function", "builtin", "module",    "value", "object",
                                                "unknown",  "literal", "descriptor"};
  if (std::find(std::begin(kKinds), std::end(kKinds), kind) == std::end(kKinds)) fail("an object");
  place_ += kind.size();
  expect('(');
  path_content(kind);
  expect(')');
  while (peek() == '.' || peek() == '[' || peek() == '#') path_step();
}

// An object that was found: "known(3)".
TextReader::Object TextReader::known() {
  expect_word("known");
  expect('(');
  const size_t start = place();
  const uint64_t index = number("a number", UINT64_MAX);
  if (index >= parsed_->objects.size())
    fail_at(start, "one of " + std::to_string(parsed_->objects.size()) + " objects");
  expect(')');
  return {parsed_->objects[index], false};
}

PyCodeObject* TextReader::code() {
  if (parsed_->kept) {
    const size_t start = place();
    PyObject* object = known().object;
    if (!PyCode_Check(object)) fail_at(start, "a code object");
    return reinterpret_cast<PyCodeObject*>(object);
  }
  expect_word("code");
  expect('(');
  const size_t start = place();
  const uint64_t index = number("a number", UINT64_MAX);
  if (index >= codes_.size()) fail_at(start, "one of " + std::to_string(codes_.size()) + " code objects");
  expect(')');
  return codes_[index];
}

void TextReader::add_code(Ref code) {
  codes_.push_back(reinterpret_cast<PyCodeObject*>(own(std::move(code)).object));
}

}  // namespace pijit
