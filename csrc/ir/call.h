// An operation of an adapter as data: which operator, on what, and what becomes of its results.
//
// Whatever looks at operations (the printer, the comparison of traces, graphs made of traces) reads this form. It is
// made when it is asked for, by AdapterOp::call(); a replay never makes it.
//
//   r7 = aten::add.Tensor(r5, r6, alpha=1)
//   name "aten::add.Tensor", arguments self: register 5, other: register 6, alpha: literal 1, one result: register 7
//
// Operations that are no ATen operators are called "tensor::getitem", "tensor::size", and so on; a function of the
// framework that is called as a whole is "torch::" and its name. Between "level::open" and "level::close" operators mean
// something else than their names say, since a transformation of the framework takes them first.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/ref.h"

namespace pijit {

struct OperatorArgument {
  enum class Kind : uint8_t { kLiteral, kRegister, kList, kTuple, kSlice };

  std::string name;  // as in the schema; empty: by position only
  Kind kind = Kind::kLiteral;
  bool written = false;  // the operation changes what it is given here
  bool usual = false;    // a literal that the schema has for a default
  bool keyword = false;  // given by its name
  uint32_t reg = 0;      // kRegister
  Ref literal;           // kLiteral: a Python object; null: it could not be made
  std::string content;   // of a literal tensor: its dtype, sizes and bytes, by which literals are compared
  std::vector<OperatorArgument> items;  // kList, kTuple; kSlice: start, stop, step

  static OperatorArgument of_register(std::string name, uint32_t reg) {
    OperatorArgument made;
    made.name = std::move(name);
    made.kind = Kind::kRegister;
    made.reg = reg;
    return made;
  }
  static OperatorArgument of_literal(std::string name, Ref literal) {
    OperatorArgument made;
    made.name = std::move(name);
    made.literal = std::move(literal);
    return made;
  }
  static OperatorArgument of_items(std::string name, Kind kind) {
    OperatorArgument made;
    made.name = std::move(name);
    made.kind = kind;
    return made;
  }
};

struct OperatorResult {
  enum class Kind : uint8_t { kDropped, kRegister, kList };
  Kind kind = Kind::kDropped;
  std::vector<uint32_t> regs;
  int shares = -1;  // the argument whose memory it may share, or that it is; -1: none, or not known
};

struct OperatorCall {
  std::string name;  // with the overload: "aten::add.Tensor"
  std::vector<OperatorArgument> arguments;
  std::vector<OperatorResult> results;
  Ref callable;             // "torch::...": the function
  bool random = false;      // draws random numbers
  bool on_device = false;   // its results lie on another device than the CPU
  bool repeatable = false;  // running it once more changes nothing but the registers that it writes

  void add(OperatorArgument argument) { arguments.push_back(std::move(argument)); }
  void give(uint32_t reg, int shares = -1) { results.push_back({OperatorResult::Kind::kRegister, {reg}, shares}); }
};

// What opens a level of a transformation, and what closes one.
inline constexpr const char* kOpensLevel = "level::open";
inline constexpr const char* kClosesLevel = "level::close";

// Both do the same to the same registers.
bool same_call(const OperatorCall& a, const OperatorCall& b) noexcept;

}  // namespace pijit
