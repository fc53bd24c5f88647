// What a trace that was read has of a framework: operations, modes and inputs as data. None of them can run.
#pragma once
#include <string>
#include <vector>

#include "ir/call.h"
#include "ir/executable.h"
#include "ir/text_reader.h"

namespace pijit {

// "aten::add.Tensor(self=r1, other=2) -> (r3) repeatable"; there are so many registers.
OperatorCall read_call(TextReader& reader, size_t registers);
// `(1, "aten::add.Tensor", r1, =None)`
Words read_words(TextReader& reader, size_t registers);

class TextOperation : public AdapterOp {
 public:
  explicit TextOperation(OperatorCall call) : call_(std::move(call)) {}
  explicit TextOperation(Words words) : words(std::move(words)) {}
  const Words words;  // of a kept trace
  bool run(Reg*) noexcept override { return false; }
  bool is_repeatable() const noexcept override { return call_.repeatable; }
  OperatorCall call() const override;
  bool keep(Words&) const override { return false; }

 private:
  OperatorCall call_;
};

class TextState : public StateGuard {
 public:
  explicit TextState(std::string text) : text_(std::move(text)) {}
  explicit TextState(Words words) : words(std::move(words)) {}
  const Words words;  // of a kept trace
  bool check() noexcept override { return false; }
  std::string describe() const override { return text_; }
  std::string explain() override { return "a trace that was read from a text"; }

 private:
  std::string text_;
};

class TextInputs : public InputGuards {
 public:
  void add(Val source, uint32_t reg, TensorFacts facts) {
    rows_.push_back({source, reg, std::move(facts)});
    size_ = rows_.size();
  }
  bool check(Reg*) noexcept override { return false; }
  void truncate(size_t count) override {
    rows_.resize(count);
    size_ = count;
  }
  Val source(size_t index) const override { return rows_[index].source; }
  uint32_t register_of(size_t index) const override { return rows_[index].reg; }
  TensorFacts facts(size_t index) const override { return rows_[index].facts; }
  std::string explain(Reg*, Val*) override { return "a trace that was read from a text"; }

 private:
  struct Row {
    Val source;
    uint32_t reg = 0;
    TensorFacts facts;
  };
  std::vector<Row> rows_;
};

}  // namespace pijit
