// The parser of the text form: a function for each section, in the order in which they are printed.
#pragma once
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/text_reader.h"

namespace pijit {

class TextParser {
 public:
  explicit TextParser(const std::string& text)
      : parsed_(std::make_unique<ParsedTrace>()),
        trace_(parsed_->trace),
        read_(text, parsed_.get()),
        size_(text.size()) {}

  std::unique_ptr<ParsedTrace> run();
  // Null: the objects are not there.
  std::unique_ptr<ParsedTrace> run_kept(const FindKept& find);

 private:
  static constexpr uint32_t kMost = INT32_MAX;     // of times, sizes of frames and the like
  static constexpr uint64_t kMostUnits = 1 << 22;  // of all code objects together
  static constexpr uint64_t kMostOnStack = 1 << 20;
  static constexpr size_t kShortestLine = 8;   // so a text that lies about its lines gets no more memory than it has
  static constexpr size_t kUsualObject = 400;  // bytes of a text for each object that it names

  // How many of each there are, before they come.
  struct Counts {
    size_t registers, guards, epochs, virtuals, states, snapshots, frames;
  };

  uint32_t small(uint32_t most = kMost) { return static_cast<uint32_t>(read_.number("a number", most)); }
  uint32_t small_field(const char* label) { return read_.field(label) ? small() : 0; }
  uint32_t expected_field(const char* label) {
    read_.expect_field(label);
    return small();
  }
  uint32_t reg() { return read_.indexed('r', counts_.registers); }
  uint32_t index_field(const char* label, char letter, size_t below) {
    return read_.field(label) ? read_.indexed(letter, below) : kNone;
  }
  Val value();
  Val value_field(const char* label) { return label != nullptr && read_.field(label) ? value() : Val(); }
  PyObject* object_field(const char* label) {
    return label != nullptr && read_.field(label) ? read_.object().object : nullptr;
  }
  PyTypeObject* type_field() {
    const size_t start = read_.place();
    PyObject* object = object_field("type");
    if (parsed_->kept && object != nullptr && !PyType_Check(object)) read_.fail_at(start, "a class");
    return reinterpret_cast<PyTypeObject*>(object);
  }
  const char* keep(std::string word) {
    if (parsed_->kept) return for_good(word);
    return parsed_->words.emplace_back(std::move(word)).c_str();
  }
  static const char* for_good(const std::string& word);
  // One of some words, by its index. Words that are the same at each call are looked up, not gone through.
  template <class Name>
  size_t choice(const char* what, size_t count, Name name) {
    const size_t start = read_.place();
    const std::string_view word = read_.word(what);
    if constexpr (std::is_empty_v<Name>) {
      static const auto* all = words_of(count, name);
      if (const auto found = all->find(word); found != all->end()) return found->second;
    } else {
      for (size_t i = 0; i < count; ++i)
        if (word == name(i)) return i;
    }
    read_.fail_at(start, what);
  }
  template <class Name>
  static const std::unordered_map<std::string_view, size_t>* words_of(size_t count, Name name) {
    auto* all = new std::unordered_map<std::string_view, size_t>;
    for (size_t i = 0; i < count; ++i) all->emplace(name(i), i);
    return all;
  }
  std::pair<uint32_t, uint32_t> registers(Vec<uint32_t>* all);
  std::pair<uint32_t, uint32_t> values(Vals* all);

  std::vector<KeptObject> kept_objects();
  void kept_step(size_t below, KeptObject* object);
  void codes();
  void heading();
  void counts();
  void stop(StopInfo* info);
  void followed();
  void registers();
  void guard(uint32_t index);
  void guard_number(const GuardRow& row, Guard* guard);
  void tensor(InputGuards* tensors);
  bool inputs(std::unique_ptr<StateGuard>* state, std::unique_ptr<InputGuards>* tensors);
  void entry();
  void epoch(uint32_t index);
  void node(size_t index);
  void imm(column::Imm kind, Node* node);
  void aux(column::Aux kind, Node* node);
  void number(Node* node, Rep wanted);
  void at(Node* node);
  void virtual_object(uint32_t index);
  void log_entry(uint32_t owner, VirtualKind kind);
  void link_log();
  void frame_state(uint32_t index);
  void snapshot(uint32_t index);

  struct Logged {
    uint32_t owner;
    uint32_t until;
    LogEntry entry;
  };

  std::unique_ptr<ParsedTrace> parsed_;
  Trace& trace_;
  TextReader read_;
  const size_t size_;
  Counts counts_{};
  std::vector<Logged> logged_;
  uint64_t units_ = 0;
};

}  // namespace pijit
