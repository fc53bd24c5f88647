// Operations of an adapter, read from text.
#include "ir/text_operation.h"

namespace pijit {
namespace {

using Kind = OperatorArgument::Kind;

constexpr size_t kUsualWords = 24;  // of an operator

OperatorArgument copy(const OperatorArgument& given) {
  OperatorArgument made;
  made.name = given.name;
  made.kind = given.kind;
  made.written = given.written;
  made.usual = given.usual;
  made.keyword = given.keyword;
  made.reg = given.reg;
  made.literal = Ref::borrow(given.literal.get());
  made.content = given.content;
  for (const OperatorArgument& item : given.items) made.items.push_back(copy(item));
  return made;
}

class CallReader {
 public:
  CallReader(TextReader& reader, size_t registers) : reader_(reader), registers_(registers) {}

  OperatorCall read() {
    OperatorCall made;
    made.name = name();
    reader_.list([&] { made.arguments.push_back(argument()); });
    reader_.expect('-');
    reader_.expect('>');
    reader_.list([&] { made.results.push_back(result(made.arguments.size())); });
    made.random = reader_.take_word("random");
    made.repeatable = reader_.take_word("repeatable");
    if (reader_.field("callable")) made.callable = Ref::borrow(reader_.object().object);
    return made;
  }

 private:
  // "aten::add.Tensor"
  std::string name() {
    if (reader_.at_quote()) return reader_.bytes();
    std::string text(reader_.word("the name of an operator"));
    while (true) {
      if (reader_.take_next("::"))
        text += "::";
      else if (reader_.take_next("."))
        text += ".";
      else
        return text;
      text += reader_.word("the name of an operator");
    }
  }

  OperatorArgument argument() {
    OperatorArgument made;
    // "self!=", or the value itself.
    if (reader_.at_label()) {
      if (reader_.at_quote())
        made.name = reader_.bytes();
      else if (reader_.at_word())
        made.name = reader_.word("a name");
      made.written = reader_.take('!');
      made.usual = reader_.take('?');
      made.keyword = reader_.take('*');
      reader_.expect('=');
    }
    value(&made);
    return made;
  }

  void value(OperatorArgument* made) {
    if (reader_.at_indexed('r')) {
      made->kind = Kind::kRegister;
      made->reg = reader_.indexed('r', registers_);
    } else if (reader_.take_word("content")) {
      reader_.expect('(');
      made->content = reader_.bytes();
      reader_.expect(',');
      made->literal = Ref::borrow(reader_.object().object);
      reader_.expect(')');
    } else if (items(made)) {
      reader_.list([&] { made->items.push_back(argument()); });
      if (made->kind == Kind::kSlice && made->items.size() != 3) reader_.fail("a slice of three parts before this");
    } else {
      made->literal = Ref::borrow(reader_.object().object);
    }
  }

  bool items(OperatorArgument* made) {
    const bool list = reader_.take_word("list"), tuple = !list && reader_.take_word("items");
    if (!list && !tuple && !reader_.take_word("slice")) return false;
    made->kind = list ? Kind::kList : tuple ? Kind::kTuple : Kind::kSlice;
    return true;
  }

  OperatorResult result(size_t arguments) {
    OperatorResult made;
    if (reader_.take_word("list")) {
      made.kind = OperatorResult::Kind::kList;
      reader_.list([&] { made.regs.push_back(reader_.indexed('r', registers_)); });
    } else if (!reader_.take_word("_")) {
      made.kind = OperatorResult::Kind::kRegister;
      made.regs.push_back(reader_.indexed('r', registers_));
    }
    if (reader_.take('~')) {
      const size_t start = reader_.place();
      const uint64_t shares = reader_.number("the index of an argument", INT32_MAX);
      if (shares >= arguments) reader_.fail_at(start, "the index of an argument");
      made.shares = static_cast<int>(shares);
    }
    return made;
  }

  TextReader& reader_;
  const size_t registers_;
};

}  // namespace

OperatorCall TextOperation::call() const {
  OperatorCall made;
  made.name = call_.name;
  for (const OperatorArgument& argument : call_.arguments) made.arguments.push_back(copy(argument));
  made.results = call_.results;
  made.callable = Ref::borrow(call_.callable.get());
  made.random = call_.random;
  made.repeatable = call_.repeatable;
  return made;
}

OperatorCall read_call(TextReader& reader, size_t registers) {
  return CallReader(reader, registers).read();
}

Words read_words(TextReader& reader, size_t registers) {
  Words words;
  words.reserve(kUsualWords);
  reader.list([&] {
    Word& word = words.emplace_back();
    if (reader.at_quote()) {
      word.kind = Word::Kind::kText;
      word.text = reader.bytes();
    } else if (reader.at_indexed('r')) {
      word.kind = Word::Kind::kRegister;
      word.number = reader.indexed('r', registers);
    } else if (reader.take('=')) {
      word.kind = Word::Kind::kObject;
      word.object = reader.object().object;
    } else {
      word.number = reader.number("a number", UINT64_MAX);
    }
  });
  return words;
}

}  // namespace pijit
