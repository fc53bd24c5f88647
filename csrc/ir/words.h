// What an adapter keeps of an operation or of modes, to make them again in another process: words in a row.
//
// The fields of a class are named once, in a template that both Writing and Reading visit, so what is written is what
// is read:
//
//   template <class Fields> void fields(Fields& each) { each.reg(self_, Rep::kTensor), each.number(fact_); }
//
// What is read may come from a damaged file: a word of another kind, or a register that holds something else, makes the
// reader fail, and gives zeros from there on.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/value.h"

namespace pijit {

struct Word {
  enum class Kind : uint8_t { kNumber, kText, kRegister, kObject };
  Kind kind = Kind::kNumber;
  uint64_t number = 0;  // or the register
  std::string text;
  PyObject* object = nullptr;  // borrowed: the trace names it, too
};
using Words = std::vector<Word>;

class Writing {
 public:
  static constexpr bool kReads = false;
  explicit Writing(Words& words) : words_(words) {}

  void fail() { failed_ = true; }  // it cannot be kept
  bool ok() const { return !failed_; }

  template <class T>
  void number(const T& value) {
    Word word;
    static_assert(std::is_integral_v<T> || std::is_enum_v<T> || std::is_same_v<T, double>);
    if constexpr (std::is_same_v<T, double>)
      std::memcpy(&word.number, &value, sizeof value);
    else
      word.number = static_cast<uint64_t>(value);
    words_.push_back(std::move(word));
  }
  void text(const std::string& text) { add({Word::Kind::kText, 0, text, nullptr}); }
  void reg(uint32_t reg, Rep) { add({Word::Kind::kRegister, reg, "", nullptr}); }
  // Null counts.
  void object(PyObject* object) { add({Word::Kind::kObject, 0, "", object}); }
  template <class Items, class Each>
  void list(Items& items, Each each) {
    number(items.size());
    for (auto& item : items) each(item);
  }

 private:
  void add(Word word) { words_.push_back(std::move(word)); }

  Words& words_;
  bool failed_ = false;
};

class Reading {
 public:
  static constexpr bool kReads = true;
  // `reps`: what each register of the trace holds.
  Reading(const Words& words, const std::vector<Rep>& reps) : words_(words), reps_(reps) {}

  void fail() { failed_ = true; }
  bool ok() const { return !failed_; }
  bool at_end() const { return ok() && at_ == words_.size(); }

  template <class T>
  void number(T& value) {
    const Word* word = next(Word::Kind::kNumber);
    const uint64_t number = word == nullptr ? 0 : word->number;
    if constexpr (std::is_same_v<T, double>) {
      std::memcpy(&value, &number, sizeof value);
    } else {
      value = static_cast<T>(number);
      if (static_cast<uint64_t>(value) != number) failed_ = true;
    }
  }
  void text(std::string& text) {
    const Word* word = next(Word::Kind::kText);
    text = word == nullptr ? "" : word->text;
  }
  // `rep`: kEmpty: any.
  void reg(uint32_t& reg, Rep rep) {
    const Word* word = next(Word::Kind::kRegister);
    reg = word == nullptr ? 0 : static_cast<uint32_t>(word->number);
    if (word == nullptr || word->number >= reps_.size()) return fail();
    if (rep != Rep::kEmpty && reps_[reg] != rep) fail();
  }
  void object(PyObject*& object) {
    const Word* word = next(Word::Kind::kObject);
    object = word == nullptr ? nullptr : word->object;
  }
  template <class Items, class Each>
  void list(Items& items, Each each) {
    size_t count = 0;
    number(count);
    if (count > words_.size()) return fail();  // each has a word at least, or is empty
    items.resize(ok() ? count : 0);
    for (auto& item : items) each(item);
  }
  Rep rep(uint32_t reg) const { return reg < reps_.size() ? reps_[reg] : Rep::kEmpty; }

 private:
  const Word* next(Word::Kind kind) {
    if (failed_ || at_ >= words_.size() || words_[at_].kind != kind) return fail(), nullptr;
    return &words_[at_++];
  }

  const Words& words_;
  const std::vector<Rep>& reps_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace pijit
